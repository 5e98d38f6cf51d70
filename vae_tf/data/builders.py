"""Make a dataset of images of any builder of TensorFlow Datasets, named as tfds:NAME, tfds:NAME/CONFIG or with :1.0.0.

Factors are the features that are class labels or single whole numbers, or those that are listed behind the name, as in
tfds:NAME[key,key]. A prefix `label_`, which builders of factor sets have, is left out of their names. What order their
values have is not known, so whole numbers are categorical and other numbers continuous. The class label -1 is a missing
value, as it is in TensorFlow Datasets, with a warning.
"""

import dataclasses
import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf import memory
from vae_tf.data import arrays, catalogue, functions, large, records
from vae_tf.data.columns import count_combinations
from vae_tf.data.dataset import Dataset, Factor
from vae_tf.data.in_memory import from_arrays
from vae_tf.errors import InputError
from vae_tf.typing import Array, Integers

PREFIX = "tfds:"
NAME = re.compile(r"([a-z][a-z0-9_]*(?:/[A-Za-z0-9_.+-]+)?(?::[0-9]+\.[0-9]+\.[0-9]+)?)(?:\[([^\[\]]*)\])?")


class Features(NamedTuple):
    """Which features are used: the image's name and shape, and the factors' names, those of class labels once more."""

    image: str
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    labels: tuple[str, ...]


def read_dataset(name: str, data_dir: str | None = None) -> Dataset:
    """Return the images of a builder, with its published parts if there are `train` and `test`.

    Data that are prepared as ArrayRecord stay in their shards; other data are read into memory.

    Args:
        name: PREFIX, what `tfds.builder` takes and, optionally, features that are the factors, in brackets.
        data_dir: where TFDS finds or prepares it; None for $TFDS_DATA_DIR or TFDS's default.

    Raises:
        InputError: no such builder or feature, a builder without images of one size, one that could not be prepared, or
            more images than fit into memory.
    """
    match = NAME.fullmatch(name.removeprefix(PREFIX))
    if not match:
        raise InputError(f"dataset: expected {PREFIX}NAME, {PREFIX}NAME/CONFIG or {PREFIX}NAME:1.0.0, and features "
                         f"that are factors as in {PREFIX}NAME[shape,scale]; got {name!r}")
    keys = None if match[2] is None else tuple(key.strip() for key in match[2].split(","))
    return _read(name, match[1], data_dir, keys, None)


def read_arrays(name: str, data_dir: str | None = None) -> arrays.Arrays:
    """Return what an .npz file of the same data would hold, by name; published parts are not kept.

    Raises:
        InputError: as `read_dataset`, or more images than fit into memory.
    """
    read = read_dataset(name, data_dir)
    memory.check_fits("pack", len(read) * math.prod(read.shape), f"{name} of {len(read):,} images",
                      f"train on {name} itself")
    everything = np.arange(len(read))
    made = {"images": read.images_at(everything)}
    if read.factors_at:
        made |= {"factors": read.factors_at(everything), "factor_names": np.array(read.factor_names),
                 "factor_kinds": np.array([factor.kind for factor in read.factors])}
    return made


def read_known(name: str, builder: str, factors: Mapping[str, Factor], data_dir: str | None) -> Dataset:
    """Return the set of a builder whose factors are known, {feature: factor}; see `read_dataset`."""
    return _read(name, builder, data_dir, tuple(factors), factors)


def _read(name: str, called: str, data_dir: str | None, keys: Sequence[str] | None,
          known: Mapping[str, Factor] | None) -> Dataset:
    builder = catalogue.find_builder(called, data_dir)
    features = _choose_features(name, builder.info.features, keys)
    catalogue.prepare(name if known else called, builder, records.choose_format())
    sizes = {split: info.num_examples for split, info in builder.info.splits.items() if info.num_examples}
    order = sorted(sizes, key=lambda split: (split != "train", split))
    total = sum(sizes.values())
    parts = {"train": range(sizes["train"]), "test": range(sizes["train"], total)
             } if set(sizes) == {"train", "test"} else {}
    if records.are_there(builder):
        columns = records.read_columns(name, builder, order, features.factors) if features.factors else {}
        return dataclasses.replace(_leave(name, builder, order, features, columns, known), parts=parts)
    # TensorFlow and NumPy have a copy each while it is read.
    memory.check_fits("dataset", 2 * total * int(np.prod(features.shape)), f"{name} of {total:,} images",
                      f"delete {builder.data_dir} and have it prepared again with the package {records.FORMAT} "
                      "installed, which reads images one by one")
    read = [catalogue.read_split(builder, split) for split in order]
    columns = {key: np.concatenate([part[key] for part in read]) for key in features.factors}
    images = arrays.convert_images(name, np.concatenate([part[features.image] for part in read]))
    values, factors, complete = _make_factors(name, columns, features.labels, known)
    if values is not None and values.dtype.kind in "ui":
        values = values.astype(np.int64)
    made_by = (images, values) if known and values is not None else ()      # the factors of a known set do not change
    return from_arrays(name, images, values, factors, parts=parts, complete_grid=complete, made_by=made_by)


def _leave(name: str, builder: Any, order: Sequence[str], features: Features, columns: Mapping[str, Array],
           known: Mapping[str, Factor] | None) -> Dataset:
    """Return a Dataset whose images stay in their shards; it is known by the shards' sizes, and by some examples."""
    read = records.make_images_at(name, builder, order, features.image)
    size = sum(builder.info.splits[split].num_examples for split in order)
    looked_at = read(large.spread(size, math.prod(features.shape)))
    masks = bool(looked_at.max() <= 1)

    def images_at(indices: Integers) -> Array:
        return arrays.convert_images(name, read(indices), masks)

    values, factors, complete = _make_factors(name, columns, features.labels, known)
    shards = [(split, builder.info.splits[split].shard_lengths, builder.info.splits[split].num_bytes)
              for split in order]
    made_by = [repr(shards), looked_at, *([] if values is None else [values])]
    return functions.from_function(name, images_at, size, values, factors, made_by=made_by,
                                   complete_grid=complete)


def _make_factors(data: str, columns: Mapping[str, Array], labels: Collection[str],
                  known: Mapping[str, Factor] | None) -> tuple[Array | None, list[Factor], bool]:
    """Return the factors [N, K], what they are, and whether the examples are every combination of them, each once.

    Classes are as small as their numbers allow. Those that are not known are numbered from 0, in their order. Of the
    features that are class labels, -1 becomes NaN, and one that is -1 throughout is no factor; warnings name both.
    """
    factors, values, counts = [], [], []
    for key, column in columns.items():
        name = key.removeprefix("label_")
        if column.dtype.kind == "f":
            factors.append(Factor(name, None, "continuous"))
            values.append(column)
            continue
        found, numbers = np.unique(column, return_inverse=True)
        if key in labels and found[0] == -1:
            what = (f"has no value (label -1) in {np.count_nonzero(column == -1):,} examples, which scores leave out, "
                    "and it is no part of u" if len(found) > 1 else "is left out: it has no value (label -1 in all)")
            warnings.warn(f"dataset: {data}: factor {name} {what}", stacklevel=3)
            found, numbers = found[1:], np.where(column == -1, np.nan, numbers - 1.0)
        if not len(found):
            continue
        counts.append(len(found))
        factors.append(Factor(name, len(found), "categorical") if known is None else known[key])
        values.append(records.make_small(numbers if known is None else column))
    if not factors:
        return None, [], False
    stacked = np.stack(values, -1)
    if stacked.dtype.kind == "f":
        return stacked.astype(np.float32), factors, False
    sizes = [factor.size or 1 for factor in factors]
    complete = counts == sizes and math.prod(sizes) == len(stacked) == count_combinations(stacked, sizes)
    return stacked, factors, complete


def _choose_features(name: str, features: Any, keys: Sequence[str] | None) -> Features:
    """Return the image of fixed size, and the factors, among a builder's features; keys are factors that are named."""
    shapes = {key: tuple(features[key].shape or ()) for key in features}
    images = [key for key in features if len(shapes[key]) == 3 and features[key].np_dtype == np.uint8]
    if not images:
        raise InputError(f"dataset: {name}: expected a feature that is an image; got {', '.join(features)}")
    image = "image" if "image" in images else images[0]
    if None in shapes[image]:
        raise InputError(f"dataset: {name}: expected images of one size; those of {image} have several")
    numbers = [key for key in features if not shapes[key] and np.dtype(features[key].np_dtype).kind in "biuf"]
    wrong = [key for key in keys or () if key not in numbers]
    if wrong:
        raise InputError(f"dataset: {name}: expected factors that are features of single numbers, of "
                         f"{', '.join(numbers) or 'which there are none'}; got {wrong[0]!r}")
    if keys is None:
        keys = sorted(key for key in numbers if np.dtype(features[key].np_dtype).kind in "iu")
    import tensorflow_datasets as tfds

    labels = tuple(key for key in keys if isinstance(features[key], tfds.features.ClassLabel))
    return Features(image, shapes[image], tuple(dict.fromkeys(keys)), labels)
