"""What an export says of the examples that a model was trained on, as JSON has it, so that the model can keep it."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf.data.dataset import Dataset, Factor
from vae_tf.data.registry import is_path
from vae_tf.data.spreading import spread_evenly
from vae_tf.errors import InputError
from vae_tf.typing import Array, Floats, Integers

# The number of examples that are searched for dark images.
LOOKED_AT = 1_000


def has_dark(dataset: Dataset) -> bool:
    """Return whether one of the images, of which up to 1,000 are examined, has no pixel above 1."""
    return _is_dark(dataset.images_at(spread_evenly(len(dataset), LOOKED_AT)))


def has_dark_image(x: Array) -> bool:
    """Return the same for an array of images [N, H, W, C], uint8 or floats in [0, 1]."""
    return not len(x) or _is_dark(x[spread_evenly(len(x), LOOKED_AT)])


def _is_dark(x: Array) -> bool:
    return bool((x.reshape(len(x), -1).max(1) <= (1 if x.dtype == np.uint8 else 1 / 255)).any())


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return what an export says of a dataset: how to find it again, and what requests must be like.

    Returns:
        A dict of name, shape, examples, u_size, factors and u_range; and of where the examples are found: dataset,
        fingerprint, and the split and data_seed that made the training part. An empty text stands for what is not
        known. No example is read.
    """
    part = dataset.part if dataset.part and dataset.part.name == "train" else None
    path = str(pathlib.Path(dataset.name).absolute()) if is_path(dataset.name) else dataset.name
    u_range = dataset.u_range and [np.asarray(end, np.float64).tolist() for end in dataset.u_range]
    return {"name": dataset.name, "shape": list(dataset.shape), "examples": len(dataset), "u_size": dataset.u_size,
            "factors": [factor._asdict() for factor in dataset.factors], "u_range": u_range,
            "dataset": path, "fingerprint": dataset.fingerprint, "split": part.how if part else "",
            "data_seed": part.seed if part else 0}


def describe_examples(name: str, shape: Sequence[int], x: Array | None = None, u_size: int = 0) -> dict[str, Any]:
    """Return the same for examples that are no Dataset and cannot be found again, with the span of floats.

    Args:
        name: what they are called in the table of scores.
        shape: the shape of one example.
        x: the examples [N, *shape], uint8 or floats; None where they are not at hand.
        u_size: |u|.
    """
    span = [] if x is None or not len(x) or x.dtype == np.uint8 else [float(x.min()), float(x.max())]
    return {"name": name, "shape": list(shape), "examples": 0 if x is None else len(x), "u_size": u_size,
            "factors": [], "u_range": None, "dataset": "", "fingerprint": "", "split": "", "data_seed": 0, "span": span}


def restore(described: Mapping[str, Any]) -> Dataset:
    """Return the Dataset that `describe` has described, without its examples."""
    def refuse(indices: Integers) -> Floats:
        raise InputError(f"data: {described['name']} is described here; its examples are not at hand")

    u_range = described["u_range"]
    return Dataset(described["name"], described["examples"], tuple(described["shape"]), refuse,
                   tuple(Factor(**factor) for factor in described["factors"]), u_size=described["u_size"],
                   u_range=None if u_range is None else (np.array(u_range[0]), np.array(u_range[1])),
                   fingerprint=described["fingerprint"])
