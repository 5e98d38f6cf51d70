"""Builders of TensorFlow Datasets as datasets: one that is defined, prepared and read here, without a download."""

import functools
import json
import sys
import time

import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import __main__ as program
from vae_tf.data import batches, builders, catalogue, records
from vae_tf.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 6, 3), np.uint8)


@functools.cache
def define():
    """Define four builders, which TensorFlow Datasets then knows by name; returns the first."""
    import tensorflow_datasets as tfds

    class TinyFactors(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        SIDES = (4, 6, 3)

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(shape=self.SIDES), "label_shape": tfds.features.ClassLabel(num_classes=5),
                "label_angle": np.int32, "value_angle": np.float32, "words": np.str_}))

        def _split_generators(self, manager):
            return {"test": self._generate_examples(8, 12), "train": self._generate_examples(0, 8)}

        def _generate_examples(self, start, stop):
            for k in range(start, stop):
                yield k, {"image": IMAGES[k], "label_shape": k % 3, "label_angle": 10 * (k // 3), "value_angle": k / 3,
                          "words": "word"}

    class TinySizes(TinyFactors):
        SIDES = (None, None, 3)

    class TinyBroken(TinyFactors):
        def _generate_examples(self, start, stop):
            yield from list(super()._generate_examples(start, stop))[:2]
            raise ValueError("the archive is torn\nand has two lines")

    class TinyUnlabelled(TinyFactors):
        def _generate_examples(self, start, stop):
            for k, example in super()._generate_examples(start, stop):
                yield k, {**example, "label_shape": -1 if k > 9 else k % 3, "label_angle": -1 if k > 9 else 7}

    assert (TinySizes.name, TinyBroken.name) == ("tiny_sizes", "tiny_broken")
    return TinyFactors


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def prepared(request, tmp_path_factory):
    """A folder where a builder of images of one size, with factors, is prepared in a format."""
    if request.param == "array_record":
        pytest.importorskip("array_record")
    folder = tmp_path_factory.mktemp("tfds")
    define()(data_dir=folder).download_and_prepare(file_format=request.param)
    return str(folder)


def test_a_builders_images_factors_and_parts(prepared):
    ds = data.load("tfds:tiny_factors", data_dir=prepared)
    assert (len(ds), ds.shape, ds.name) == (12, (4, 6, 3), "tfds:tiny_factors")
    assert ds.parts == {"train": range(8), "test": range(8, 12)}
    assert ds.complete_grid             # 4 x 3 combinations, each once
    assert ds.factors == (data.Factor("angle", 4, "categorical"), data.Factor("shape", 3, "categorical"))
    order = [int(np.flatnonzero((image == IMAGES).all((1, 2, 3)))[0]) for image in ds.images_at(np.arange(12))]
    assert sorted(order) == list(range(12)) and sorted(order[:8]) == list(range(8))     # TFDS shuffles within a part
    np.testing.assert_array_equal(ds.factors_at(np.arange(12)), [[k // 3, k % 3] for k in order])
    assert data.load("tfds:tiny_factors:1.0.0", data_dir=prepared).fingerprint == ds.fingerprint


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_a_class_label_of_minus_1_is_a_missing_value(tmp_path, file_format):
    """As for the unlabelled images of stl10; -1 of a feature that is no class label is a value."""
    import tensorflow_datasets as tfds

    if file_format == "array_record":
        pytest.importorskip("array_record")
    define()
    tfds.builder("tiny_unlabelled", data_dir=tmp_path).download_and_prepare(file_format=file_format)
    with pytest.warns(UserWarning, match=r"factor shape has no value \(label -1\) in 2 examples"):
        ds = data.load("tfds:tiny_unlabelled", data_dir=str(tmp_path))
    assert ds.factors == (data.Factor("angle", 2, "categorical"), data.Factor("shape", 3, "categorical", True))
    k = [int(np.flatnonzero((image == IMAGES).all((1, 2, 3)))[0]) for image in ds.images_at(np.arange(12))]
    np.testing.assert_array_equal(ds.factors_at(np.arange(12)),
                                  [(0, np.nan) if i > 9 else (1, i % 3) for i in k])
    assert ds.u_size == 1 and not ds.complete_grid


def test_labels_that_are_all_minus_1_are_no_factor():
    with pytest.warns(UserWarning, match="factor kind is left out: it has no value"):
        assert builders._make_factors("tfds:x", {"kind": np.full(3, -1)}, ("kind",), None) == (None, [], False)


def test_a_builders_images_are_packed(prepared, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["data", "pack", "tfds:tiny_factors", str(tmp_path / "tiny.npz"),
                                     f"--data_dir={prepared}"])
    program.main()
    assert "12 images of shape 4x6x3" in capsys.readouterr().out
    ds, packed = data.load("tfds:tiny_factors", data_dir=prepared), data.load(str(tmp_path / "tiny.npz"))
    np.testing.assert_array_equal(packed.images_at(np.arange(12)), ds.images_at(np.arange(12)))
    np.testing.assert_array_equal(packed.factors_at(np.arange(12)), ds.factors_at(np.arange(12)))
    assert packed.factors == ds.factors
    monkeypatch.setattr("sys.argv", [*sys.argv, "--resize=4"])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    assert capsys.readouterr().err.endswith("--resize: expected a folder of images to pack; got tfds:tiny_factors\n")


@pytest.mark.parametrize(("name", "said"), [
    ("tfds:", "expected tfds:NAME"), ("tfds:../x", "expected tfds:NAME"), ("tfds:a b", "expected tfds:NAME"),
    ("tfds:no_such_builder", "TensorFlow Datasets knows no no_such_builder"),
    ("tfds:tiny_factors:9.9.9", "TensorFlow Datasets knows no tiny_factors:9.9.9"),
    ("tfds:tiny_sizes", "expected images of one size; those of image have several")])
def test_what_is_no_dataset_of_images_is_one_line(prepared, name, said):
    with pytest.raises(InputError, match=f"^dataset: .*{said}") as error:
        data.load(name, data_dir=prepared)
    assert "\n" not in str(error.value)


def test_a_builder_that_fails_leaves_nothing(prepared, tmp_path):
    with pytest.raises(InputError, match=r"tiny_broken is not prepared at .* and could not be downloaded") as error:
        data.load("tfds:tiny_broken", data_dir=str(tmp_path))
    assert "\n" not in str(error.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_factors_that_are_named(prepared):
    ds = data.load("tfds:tiny_factors[value_angle,label_shape]", data_dir=prepared)
    assert ds.factors == (data.Factor("value_angle", None, "continuous"), data.Factor("shape", 3, "categorical"))
    whole = data.load("tfds:tiny_factors", data_dir=prepared)
    np.testing.assert_array_equal(ds.factors_at(np.arange(12))[:, 1], whole.factors_at(np.arange(12))[:, 1])
    assert ds.fingerprint != whole.fingerprint and not ds.complete_grid
    for wrong in ("words", "no_such", "image", ""):
        with pytest.raises(InputError, match=r"expected factors that are features of single numbers, of label_shape, "):
            data.load(f"tfds:tiny_factors[{wrong}]", data_dir=prepared)


def test_images_of_records_are_read_one_by_one_and_their_factors_kept(tmp_path):
    pytest.importorskip("array_record")
    import tensorflow_datasets as tfds

    builder = define()(data_dir=tmp_path)
    builder.download_and_prepare(file_format="array_record", download_config=tfds.download.DownloadConfig(num_shards=3))
    ds = data.load("tfds:tiny_factors", data_dir=str(tmp_path))
    expected = [example["image"] for split in ("train", "test") for example in builder.as_data_source(split)]
    np.testing.assert_array_equal(ds.images_at(np.arange(12)), expected)
    kept = next(tmp_path.rglob(records.KEPT))
    shards = {path: path.read_bytes() for path in tmp_path.rglob("*.array_record*")}
    i = np.array([11, 0, 5, 5])
    before = ds.images_at(i)
    _, x = next(iter(batches.make_batches(ds, 4, [0], 0, 1)))
    np.testing.assert_array_equal(x, ds.images_at(batches.draw_indices(12, 4, 0, 0)))
    for spoilt in (b"", kept.read_bytes()[:-9]):
        kept.write_bytes(spoilt)                # is made anew
        again = data.load("tfds:tiny_factors", data_dir=str(tmp_path))
        assert again.fingerprint == ds.fingerprint
        np.testing.assert_array_equal(again.factors_at(i), ds.factors_at(i))
        np.testing.assert_array_equal(again.images_at(i), before)
    for path, content in shards.items():
        path.write_bytes(content[:len(content) // 2])
    with pytest.raises(InputError, match=r"^dataset: tfds:tiny_factors: .* cannot be read") as error:
        data.load("tfds:tiny_factors", data_dir=str(tmp_path))
    assert "\n" not in str(error.value)


def test_reading_an_example_takes_no_longer_in_a_large_shard(tmp_path):
    """Reading by a list of numbers goes through the index of the whole shard, and takes memory for it, each time.

    It took 15 times as long in the large shard. Reading by ranges takes as long in either, up to the noise of about a
    millisecond of work, which was twofold on a busy machine.
    """
    module = pytest.importorskip("array_record.python.array_record_module")
    builder = define()(data_dir=tmp_path)
    builder.download_and_prepare(file_format="array_record")
    path, info = str(builder.info.splits["train"].filepaths[0]), builder.data_path / "dataset_info.json"
    record = module.ArrayRecordReader(path).read(0, 1)[0]
    known, seconds = json.loads(info.read_text()), []
    for count in (100, 200_000):
        writer = module.ArrayRecordWriter(path, "group_size:1")
        for _ in range(count):
            writer.write(record)
        writer.close()
        next(split for split in known["splits"] if split["name"] == "train")["shardLengths"] = [str(count)]
        info.write_text(json.dumps(known))
        read = records._open("tiny", define()(data_dir=tmp_path), ["train"], ["label_angle"])
        for _ in range(3):
            started = time.process_time()
            for index in np.arange(0, count, count // 50):
                assert read(np.array([index]))[0]["label_angle"] in (0, 10, 20)
            seconds.append(time.process_time() - started)
    assert min(seconds[3:]) < 6 * min(seconds[:3]), seconds


def test_records_without_their_package_are_one_line(tmp_path, monkeypatch):
    pytest.importorskip("array_record")
    define()(data_dir=tmp_path).download_and_prepare(file_format="array_record")
    monkeypatch.setattr(records, "choose_format", lambda: None)
    with pytest.raises(InputError, match=r"holds array_record files, and the package array_record is not installed"):
        data.load("tfds:tiny_factors", data_dir=str(tmp_path))


def test_a_split_is_the_same_in_either_format(prepared):
    builder = define()(data_dir=prepared)
    for split, count in (("test", 4), ("train[:3]", 3)):
        read = catalogue.read_split(builder, split)
        assert read["image"].shape == (count, 4, 6, 3) and read["image"].dtype == np.uint8
        which = [int(np.flatnonzero((image == IMAGES).all((1, 2, 3)))[0]) for image in read["image"]]
        np.testing.assert_array_equal(read["label_shape"], np.array(which) % 3)
        assert all((k >= 8) == (split == "test") for k in which)
