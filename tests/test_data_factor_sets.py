"""The field's sets of factors, prepared from small archives of the real layout; and what becomes of damaged ones.

None of the real archives has been read.
"""

import gzip
import math
import zipfile

import numpy as np
import pytest
import tensorflow_datasets as tfds
from archived import FEW, SMALL, draw, draw_cars, use_few, write
from PIL import Image

from vae_tf import data
from vae_tf.data import factor_sets
from vae_tf.errors import InputError


@pytest.fixture(autouse=True, scope="module")
def few():
    """Sets with fewer values of factors, for all tests of this module."""
    with use_few():
        yield


@pytest.fixture(params=sorted(FEW))
def name(request):
    return request.param


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sets_are_prepared_and_read_in_the_order_of_their_grid(name, tmp_path):
    write(name, tmp_path / "downloads" / "manual")
    ds = data.load(name, data_dir=str(tmp_path))
    i = np.arange(len(ds))
    assert (ds.name, ds.shape, len(ds)) == (name, SMALL[name].shape, math.prod(FEW[name])) and ds.complete_grid
    assert ds.factors == tuple(SMALL[name].factors.values())
    np.testing.assert_array_equal(ds.factors_at(i), np.indices(FEW[name]).reshape(len(FEW[name]), -1).T)
    if name != "cars3d":
        np.testing.assert_array_equal(ds.images_at(i), draw(name))
        return
    for k, images in enumerate(draw_cars().values()):           # numbered in the order of the list
        for elevation, azimuth in ((0, 0), (3, 5), (1, 23)):
            whole = Image.fromarray(np.ascontiguousarray(images[..., azimuth, elevation]))
            index = np.ravel_multi_index((elevation, azimuth, k), FEW[name])
            halved = np.asarray(whole, float).reshape(64, 2, 64, 2, 3).mean((1, 3))
            # Lanczos' filter and the mean of four pixels agree where an image is smooth, which it is but at edges.
            assert np.median(np.abs(ds.images_at(np.array([index]))[0] - halved)) <= 1


SPOIL = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-path.stat().st_size // 3]),
    "corrupt": lambda path: path.write_bytes(flip(path.read_bytes())),
    "no archive": lambda path: path.write_bytes(b"these are words"),
    "missing": lambda path: path.unlink(),
}


def find_files(folder):
    """All files in a folder, but for what TFDS notes of the names of configurations."""
    return {path for path in folder.rglob("*") if path.is_file() and path.parent.name != ".config"}


def flip(content):
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 255]) + content[half + 1:]


@pytest.mark.parametrize("how", SPOIL)
@pytest.mark.parametrize("name", ["cars3d", "mpi3d_toy"])
def test_a_damaged_archive_is_one_line_and_leaves_nothing(name, how, tmp_path):
    path = write(name, tmp_path / "downloads" / "manual")
    SPOIL[how](path)
    with pytest.raises(InputError, match=rf"^dataset: {name} is not prepared.*{path.name}") as error:
        data.load(name, data_dir=str(tmp_path))
    assert "\n" not in str(error.value)
    assert find_files(tmp_path) <= {path}


def test_a_wrong_checksum_is_one_line(tmp_path):
    cars, toy = write("cars3d", tmp_path / "downloads" / "manual"), write("mpi3d_toy", tmp_path / "downloads/manual")
    content = bytearray(cars.read_bytes())
    content[-8] ^= 1                                            # the checksum of gzip
    cars.write_bytes(content)
    whole = toy.read_bytes()
    with zipfile.ZipFile(toy) as archive:
        checksum = archive.infolist()[0].CRC
    toy.write_bytes(whole.replace(checksum.to_bytes(4, "little"), (checksum ^ 1).to_bytes(4, "little")))
    for name, path in (("cars3d", cars), ("mpi3d_toy", toy)):
        with pytest.raises(InputError, match=rf"^dataset: {name} is not prepared: {path} cannot be read"):
            data.load(name, data_dir=str(tmp_path))
    assert find_files(tmp_path) == {cars, toy}


def test_an_archive_of_other_images_is_one_line(tmp_path):
    folder = tmp_path / "downloads" / "manual"
    folder.mkdir(parents=True)
    np.savez(folder / "faces3d.npz", images=np.zeros((7, 64, 64), np.uint8))
    with pytest.raises(InputError, match=r"expected uint8 images of shape \(12, 64, 64, 1\) in .*; got uint8 of shape"):
        data.load("faces3d", data_dir=str(tmp_path))
    (folder / "nips2015-analogy-data.tar.gz").write_bytes(gzip.compress(bytes(2_000)))
    with pytest.raises(InputError, match=r"expected 2 cars in .*; got 0, of 0 in its list"):
        data.load("cars3d", data_dir=str(tmp_path))


def test_what_is_known_of_sets_that_tfds_prepares_is_what_their_builders_declare(tmp_path):
    for name in ("dsprites_archive", "shapes3d", "smallnorb"):
        known = factor_sets.FACTOR_SETS[name]
        features = tfds.builder(known.builder, data_dir=tmp_path).info.features
        assert features["image"].shape == known.shape
        assert {key: features[key].num_classes for key in known.factors} == {
            key: factor.size for key, factor in known.factors.items()}
    assert [data.DATASETS[name].prepared.examples for name in ("dsprites_archive", "shapes3d", "smallnorb")] == [
        737_280, 480_000, 48_600]
