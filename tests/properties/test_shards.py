"""Whatever bytes stand in files that Hugging Face's datasets or TensorFlow Datasets wrote: data, or one line."""

import pathlib
import shutil

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from outcomes import check_outcome
from PIL import Image
from test_archives import attempt, damage, damages

from vae_tf import data

MANY = 2 * settings().max_examples
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 4, 3), np.uint8)
KINDS = {"train": {"kind": [k % 3 for k in range(8)], "colour": ["red", "blue"] * 4, "u_day": [0.5] * 8},
         "test": {"kind": [0] * 4, "colour": ["red"] * 4, "u_day": [1.0] * 4}}


def write_splits(folder, **more):
    """Have `datasets` write two splits of images; `more` are columns of the test part alone."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    splits = {}
    for split, rows in (("train", range(8)), ("test", range(8, 12))):
        columns = {**KINDS[split], **(more if split == "test" else {})}
        splits[split] = datasets.Dataset.from_dict(
            {"image": [Image.fromarray(IMAGES[k]) for k in rows], **columns},
            features=datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b", "c"]),
                                        "colour": datasets.Value("string"), "u_day": datasets.Value("float64"),
                                        **{name: datasets.Value("int64") for name in more if split == "test"}}))
    datasets.DatasetDict(splits).save_to_disk(str(folder))
    return folder


def write_builder(folder):
    """Have TensorFlow Datasets prepare a builder of its own in both formats; return their folders."""
    import tensorflow_datasets as tfds

    class TornImages(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(
                {"image": tfds.features.Image(shape=(4, 4, 3)), "label": tfds.features.ClassLabel(num_classes=3)}))

        def _split_generators(self, manager):
            return {"train": ((k, {"image": IMAGES[k], "label": k % 3}) for k in range(12))}

        def _generate_examples(self):
            raise NotImplementedError

    for kind in ("tfrecord", "array_record"):
        TornImages(data_dir=folder / kind).download_and_prepare(file_format=kind)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folders as they were written, and a place for their damaged copies."""
    pytest.importorskip("array_record")
    folder = tmp_path_factory.mktemp("whole")
    write_splits(folder / "datasets")
    write_builder(folder)
    return folder


def read(name, data_dir=None):
    ds = data.load(str(name), data_dir=data_dir)
    rows = np.arange(len(ds))
    assert ds.images_at(rows).dtype == np.uint8 and np.isfinite(ds.factors_at(rows)).all()


@settings(max_examples=MANY)
@given(st.sampled_from(("datasets", "tfrecord", "array_record")), st.floats(0, 1), damages())
@example("datasets", 0.0, [])
@example("tfrecord", 0.0, [])
@example("array_record", 0.0, [])
@example("tfrecord", 1.0, [(0.5, 1, b"\0\0")])
@example("datasets", 0.2, [(0.62, 8, b"\xff" * 8)])       # an offset in an Arrow file, at which pyarrow crashed
def test_any_bytes_of_a_prepared_folder(whole, kind, which, changes):
    copy = whole / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole / kind, copy)
    files = sorted(path for path in pathlib.Path(copy).rglob("*") if path.is_file())
    path = files[int(which * (len(files) - 1))]
    path.write_bytes(damage(path.read_bytes(), changes))
    name = copy if kind == "datasets" else "tfds:torn_images"
    code, error = attempt(lambda: read(name, str(copy)))
    assert changes or code == 0, error
    check_outcome(code, "", error, names=(str(copy), "torn_images"))


def test_splits_of_other_columns_and_no_splits_are_one_line(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict({}).save_to_disk(str(tmp_path / "none"))
    for folder, said in ((tmp_path / "none", "at least one split"),
                         (write_splits(tmp_path / "other", size=[1] * 4), "splits of the same columns")):
        code, error = attempt(lambda folder=folder: read(folder))
        assert said in error
        check_outcome(code, "", error, names=(str(folder),))
