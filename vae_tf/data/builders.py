"""Make a dataset of images of any builder of TensorFlow Datasets, named as tfds:NAME, tfds:NAME/CONFIG or with :1.0.0.

Factors are the features that are class labels or single whole numbers. A prefix `label_`, which builders of factor sets
have, is left out of their names. What order their values have is not known, so they are categorical.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np

from vae_tf import memory
from vae_tf.data import arrays, catalogue
from vae_tf.data.dataset import Dataset, Factor, count_combinations, from_arrays
from vae_tf.errors import InputError

PREFIX = "tfds:"
NAME = re.compile(r"[a-z][a-z0-9_]*(/[A-Za-z0-9_.+-]+)?(:[0-9]+\.[0-9]+\.[0-9]+)?")


class Features(NamedTuple):
    """Which features are used: the image's name and shape, and the names of the factors in a builder."""

    image: str
    shape: tuple[int, ...]
    factors: tuple[str, ...]


def read_dataset(name: str, data_dir: str | None = None) -> Dataset:
    """Return the images of a builder, with its published parts if there are `train` and `test`.

    Args:
        name: PREFIX and what `tfds.builder` takes.
        data_dir: where TFDS finds or prepares it; None for $TFDS_DATA_DIR or TFDS's default.

    Raises:
        InputError: no such builder, one without images of one size, one that could not be prepared, or more images than
            fit into memory.
    """
    called = name.removeprefix(PREFIX)
    if not NAME.fullmatch(called):
        raise InputError(f"dataset: expected {PREFIX}NAME, {PREFIX}NAME/CONFIG or {PREFIX}NAME:1.0.0; got {name!r}")
    builder = catalogue.find_builder(called, data_dir)
    features = _choose_features(name, builder.info.features)
    catalogue.prepare(called, builder)
    sizes = {split: info.num_examples for split, info in builder.info.splits.items() if info.num_examples}
    # TensorFlow and NumPy have a copy each while it is read.
    memory.check_fits("dataset", 2 * sum(sizes.values()) * int(np.prod(features.shape)), f"{name} of "
                      f"{sum(sizes.values()):,} images", "there is no way yet to read it in parts")
    order = sorted(sizes, key=lambda split: (split != "train", split))
    read = [catalogue.read_split(builder, split) for split in order]
    images = arrays.convert_images(name, np.concatenate([part[features.image] for part in read]))
    parts = {"train": range(sizes["train"]), "test": range(sizes["train"], len(images))}
    return _make(name, images, read, features.factors, parts if set(sizes) == {"train", "test"} else None)


def _make(name: str, images: Any, read: list[dict[str, Any]], keys: tuple[str, ...],
          parts: dict[str, range] | None) -> Dataset:
    """Return a Dataset whose factors are numbered from 0, in the order of their values."""
    if not keys:
        return from_arrays(name, images, parts=parts)
    known = [np.unique(np.concatenate([part[key] for part in read]), return_inverse=True) for key in keys]
    factors = [Factor(key.removeprefix("label_"), len(found), "categorical")
               for key, (found, _) in zip(keys, known, strict=True)]
    values = np.stack([index for _, index in known], -1).astype(np.int64)
    sizes = [len(found) for found, _ in known]
    complete = math.prod(sizes) == len(values) == count_combinations(values, sizes)
    return from_arrays(name, images, values, factors, parts=parts, complete_grid=complete)


def _choose_features(name: str, features: Any) -> Features:
    """Return the image of fixed size, and the factors, among a builder's features."""
    shapes = {key: tuple(features[key].shape or ()) for key in features}
    images = [key for key in features if len(shapes[key]) == 3 and features[key].np_dtype == np.uint8]
    if not images:
        raise InputError(f"dataset: {name}: expected a feature that is an image; got {', '.join(features)}")
    image = "image" if "image" in images else images[0]
    if None in shapes[image]:
        raise InputError(f"dataset: {name}: expected images of one size; those of {image} have several")
    factors = tuple(sorted(key for key in features
                           if not shapes[key] and np.issubdtype(features[key].np_dtype, np.integer)))
    return Features(image, shapes[image], factors)
