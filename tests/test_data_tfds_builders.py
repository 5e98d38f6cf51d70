"""TensorFlow Datasets' own tests of builders, on small archives of the real layout."""

import tempfile

import pytest

pytest.importorskip("dill")         # which TFDS's tests import
import archived
import tensorflow_datasets as tfds

from vae_tf.data import tfds_builders


class BuilderTest(tfds.testing.DatasetBuilderTestCase):
    """TFDS's own tests of a builder; they prepare and read it, and look at every example."""

    MOCK_OUT_FORBIDDEN_OS_FUNCTIONS = False         # archives are opened as this package opens files

    @classmethod
    def setUpClass(cls):
        if cls is BuilderTest:
            pytest.skip("it is the base of the others")
        cls.EXAMPLE_DIR = tempfile.mkdtemp()
        cls.few = archived.use_few()
        for name in cls.NAMES:
            archived.write(name, tfds.core.Path(cls.EXAMPLE_DIR))
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.few.close()


class Cars3dTest(BuilderTest):
    DATASET_CLASS, NAMES, SPLITS = tfds_builders.Cars3d, ("cars3d",), {"train": 4 * 24 * 2}


class Mpi3dTest(BuilderTest):
    DATASET_CLASS, NAMES, SPLITS = tfds_builders.Mpi3d, ("mpi3d_toy",), {"train": 24}
    BUILDER_CONFIG_NAMES_TO_TEST = ("toy",)


class Faces3dTest(BuilderTest):
    DATASET_CLASS, NAMES, SPLITS = tfds_builders.Faces3d, ("faces3d",), {"train": 12}
