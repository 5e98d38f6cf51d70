"""Builders of TensorFlow Datasets for sets of factors that it does not have: cars3d, mpi3d and faces3d.

Importing this module registers them, so that `tfds.builder("cars3d")` finds them. Each needs an archive that a person
must download; `factor_sets` says which and from where.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from vae_tf.data import archives
from vae_tf.data.factor_sets import FACTOR_SETS, FactorSet
from vae_tf.typing import Integers

INSTRUCTIONS = "Put the file that vae_tf.data.factor_sets names into this folder; docs/data.md has the addresses."


class _FactorSetBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):     # type: ignore[call-arg]
    """What the builders share: an example is an image, and a class for each factor, in the order of the archive."""

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = INSTRUCTIONS

    @property
    def known(self) -> FactorSet:
        """What is known of the set."""
        return FACTOR_SETS[self.name]

    def _info(self) -> Any:
        labels = {feature: tfds.features.ClassLabel(num_classes=factor.size)
                  for feature, factor in self.known.factors.items()}
        image = tfds.features.Image(shape=self.known.shape)
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"image": image, **labels}),
                                     description=self.__doc__, license=self.known.licence, disable_shuffling=True)

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples(dl_manager.manual_dir / self.known.archive)}

    def _generate_examples(self, path: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        sizes = [factor.size or 1 for factor in self.known.factors.values()]
        number = 0
        for images in self._read_images(path):
            for image in images:
                classes = np.unravel_index(number, sizes)
                yield number, {"image": image, **dict(zip(self.known.factors, map(int, classes), strict=True))}
                number += 1

    def _read_images(self, path: Any) -> Iterator[Integers]:
        """Yield the images of the archive, some at a time, in the order of its grid of factors."""
        shape = (self.known.examples, *self.known.shape)
        grid = tuple(factor.size or 1 for factor in self.known.factors.values())
        shapes = [begin + end for begin in (shape[:1], grid) for end in (shape[1:], shape[1:3])
                  if end == shape[1:] or shape[3] == 1]
        return archives.read_images("prepare", path, ("images.npy",), shapes)


class Cars3d(_FactorSetBuilder):
    """Renders of 183 cars from 4 elevations and 24 azimuths (Reed et al. 2015), with half the pixels of the archive."""

    def _read_images(self, path: Any) -> Iterator[Integers]:
        yield archives.read_cars("prepare", path).reshape(-1, *self.known.shape)


class Mpi3d(_FactorSetBuilder):
    """Images of a robot's arm that holds an object, drawn or photographed (Gondal et al. 2019)."""

    BUILDER_CONFIGS: ClassVar[list[Any]] = [tfds.core.BuilderConfig(name=name, description=words) for name, words in (
        ("toy", "simple renders"), ("realistic", "realistic renders"), ("real", "photographs"),
        ("real_complex", "photographs of things of daily life"))]

    @property
    def known(self) -> FactorSet:
        """What is known of the set."""
        return FACTOR_SETS[f"mpi3d_{self.builder_config.name}"]


class Faces3d(_FactorSetBuilder):
    """Renders of the Basel Face Model: 50 faces, turned and lit (Paysan et al. 2009, as in Chen et al. 2018)."""
