"""Whatever bytes stand in an archive, a Parquet table or a large .npz file: data, or one line names the file."""

import gzip
import io
import tarfile
import warnings

import numpy as np
import pytest
import scipy.io
from hypothesis import example, given, settings
from hypothesis import strategies as st
from outcomes import check_outcome
from PIL import Image

from vae_tf import data
from vae_tf.data import archives, stored
from vae_tf.errors import InputError

MANY = 5 * settings().max_examples


@st.composite
def damages(draw):
    """Some (place from 0 to 1, bytes to remove, bytes to put in)."""
    return draw(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=8)), max_size=3))


def damage(content, changes):
    content = bytearray(content)
    for place, removed, new in changes:
        at = int(place * len(content))
        content[at:at + removed] = new
    return bytes(content)


def attempt(read):
    """(exit code, error) of reading something."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            read()
        except InputError as error:
            return 2, str(error)
    return 0, ""


def pack(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


IMAGES = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 1), np.uint8)
NPZ = pack(images=IMAGES, factors=np.arange(20) % 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mine")


@settings(max_examples=MANY)
@given(damages())
@example([(0.5, 0, b"\0")])
def test_any_bytes_of_a_large_file_and_any_cut_while_it_is_used(folder, changes):
    def read():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stored, "LARGE", 1)
            ds = data.load(str(folder / "large.npz"))
        (folder / "large.npz").write_bytes(damage(NPZ, changes)[:len(NPZ) // 2])
        assert ds.images_at(np.arange(len(ds))).dtype == np.uint8

    (folder / "large.npz").write_bytes(damage(NPZ, changes))
    code, error = attempt(read)
    check_outcome(code, "", error, names=("large.npz",))


@settings(max_examples=MANY)
@given(damages())
def test_any_bytes_of_an_archive_of_images(folder, changes):
    path = folder / "archive.npz"
    path.write_bytes(damage(NPZ, changes))

    def read():
        found = list(archives.read_images("prepare", path, ("images.npy",), [IMAGES.shape]))
        np.testing.assert_array_equal(np.concatenate(found), IMAGES)        # its checksum has been compared

    code, error = attempt(read)
    check_outcome(code, "", error, names=("archive.npz",))


def make_cars():
    """An archive of one car with few pixels."""
    car, content = io.BytesIO(), io.BytesIO()
    scipy.io.savemat(car, {"im": np.arange(8 * 8 * 3 * 2, dtype=np.uint8).reshape(8, 8, 3, 2, 1)})
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, file in (("data/cars/list.txt", b"car"), ("data/cars/car.mat", car.getvalue())):
            member = tarfile.TarInfo(name)
            member.size = len(file)
            archive.addfile(member, io.BytesIO(file))
    return content.getvalue()


CARS = make_cars()


@settings(max_examples=MANY)
@given(damages())
@example([])
def test_any_bytes_of_the_archive_of_cars(folder, changes):
    path = folder / "cars.tar.gz"
    path.write_bytes(damage(CARS, changes))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("CARS", 1), ("CAR_SIDE", 8), ("AZIMUTHS", 2), ("ELEVATIONS", 1)):
            patch.setattr(archives, name, value)
        code, error = attempt(lambda: archives.read_cars("prepare", path))
    assert changes or code == 0, error
    check_outcome(code, "", error, names=("cars.tar.gz", "car.mat"))


def test_a_damaged_array_of_a_car_is_found_before_scipy_reads_it(folder):
    path, whole = folder / "cars.tar.gz", bytearray(gzip.decompress(CARS))
    whole[whole.index(b"MATLAB 5.0") + 192] ^= 2        # the type of an array, at which SciPy ends the process
    path.write_bytes(gzip.compress(bytes(whole))[:-8] + CARS[-8:])      # with the checksum of the whole archive
    code, error = attempt(lambda: archives.read_cars("prepare", path))
    assert code == 2
    check_outcome(code, "", error, names=("cars.tar.gz",))


@settings(max_examples=MANY)
@given(damages())
def test_any_bytes_of_a_parquet_table(folder, changes):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa
    pictures, table = folder / "pictures", io.BytesIO()
    pictures.mkdir(exist_ok=True)
    for k in range(2):
        Image.fromarray(IMAGES[k, ..., 0]).save(pictures / f"{k}.png")
    parquet.write_table(pa.table({"file_name": ["0.png", "1.png"], "v": [1, 2], "w": [0.5, None]}), table)
    (pictures / "metadata.parquet").write_bytes(damage(table.getvalue(), changes))
    code, error = attempt(lambda: data.load(str(pictures)))
    check_outcome(code, "", error, names=("metadata.parquet", str(pictures)))
