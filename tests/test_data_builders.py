"""Builders of TensorFlow Datasets as datasets: one that is defined, prepared and read here, without a download."""

import numpy as np
import pytest

from vae_tf import data
from vae_tf.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 6, 3), np.uint8)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder where two builders are prepared: of images of one size, with factors, and of several sizes."""
    tfds = pytest.importorskip("tensorflow_datasets")

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

    folder = tmp_path_factory.mktemp("tfds")
    TinyFactors(data_dir=folder).download_and_prepare()
    assert TinySizes.name == "tiny_sizes"
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


@pytest.mark.parametrize(("name", "said"), [
    ("tfds:", "expected tfds:NAME"), ("tfds:../x", "expected tfds:NAME"), ("tfds:a b", "expected tfds:NAME"),
    ("tfds:no_such_builder", "TensorFlow Datasets knows no no_such_builder"),
    ("tfds:tiny_factors:9.9.9", "TensorFlow Datasets knows no tiny_factors:9.9.9"),
    ("tfds:tiny_sizes", "expected images of one size; those of image have several")])
def test_what_is_no_dataset_of_images_is_one_line(prepared, name, said):
    with pytest.raises(InputError, match=f"^dataset: .*{said}") as error:
        data.load(name, data_dir=prepared)
    assert "\n" not in str(error.value)


def test_a_builder_that_is_not_prepared_and_has_nothing_to_download(prepared, tmp_path):
    with pytest.raises(InputError, match=r"tiny_factors is not prepared at .* and could not be downloaded"):
        data.load("tfds:tiny_factors", data_dir=str(tmp_path))
    assert not list(tmp_path.rglob("*.tfrecord*"))
