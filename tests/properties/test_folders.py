"""Whatever stands in a folder of images and in its table: they are data, or one line names the file."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from outcomes import check_outcome
from PIL import Image

from vae_tf import data
from vae_tf.errors import InputError

MANY = 10 * settings().max_examples
WORDS = ("file_name", "0.png", "1.png", "v", "u_a", "1", "0.5", "-3e400", "nan", "inf", "", " ", ",", "\n", "\r\n", '"',
         "\ufeff", "\0", "star", "../0.png", "9" * 400)


def encode(kind):
    file = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(file, kind)
    return file.getvalue()


IMAGES = {kind: encode(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")}


@st.composite
def damaged_images(draw):
    """An image file with some bytes changed, cut off or put in."""
    content = bytearray(IMAGES[draw(st.sampled_from(sorted(IMAGES)))])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        content[at:at + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(content)


def load(folder):
    """(exit code, error) of loading a folder; what is loaded is finite and has a row for each image."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            ds = data.load(str(folder))
        except InputError as error:
            return 2, str(error)
    i = np.arange(len(ds))
    assert ds.images_at(i).dtype == np.uint8 and ds.images_at(i).shape == (len(ds), *ds.shape)
    for read in (ds.factors_at, ds.u_at):
        assert read is None or (len(read(i)) == len(ds) and np.isfinite(read(i)).all())
    return 0, ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mine")


@settings(max_examples=MANY)
@given(damaged_images(), st.sampled_from((".png", ".jpg", ".gif", ".tif")))
@example(IMAGES["PNG"][:40] + b"\0" * 9, ".png")
def test_any_bytes_of_an_image(folder, content, suffix):
    for path in folder.iterdir():
        path.unlink()
    (folder / "0.png").write_bytes(IMAGES["PNG"])
    (folder / f"1{suffix}").write_bytes(content)
    code, error = load(folder)
    check_outcome(code, "", error, names=(f"1{suffix}",))


@settings(max_examples=MANY)
@given(st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(WORDS), max_size=16).map(
    lambda words: "".join(words).encode()), st.lists(st.tuples(*[st.sampled_from(WORDS)] * 2), max_size=3).map(
    lambda rows: "\n".join(["file_name,v", *map(",".join, rows)]).encode())))
@example(b"file_name,v\n0.png,1\n1.png,2\n")
@example(b"file_name,u_a\n0.png," + b"9" * 400 + b"\n1.png,2\n")
def test_any_bytes_of_a_table(folder, content):
    for path in folder.iterdir():
        path.unlink()
    for name in ("0.png", "1.png"):
        (folder / name).write_bytes(IMAGES["PNG"])
    (folder / "metadata.csv").write_bytes(content)
    code, error = load(folder)
    check_outcome(code, "", error, names=("metadata.csv", str(folder)))
