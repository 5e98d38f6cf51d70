"""Functions of columns of factors: u made of them, which of them lack values, and how many combinations they have."""

import math
from collections.abc import Sequence

import numpy as np

from vae_tf.typing import Array, ArrayLike, Booleans, Floats, Integers


def scale(factors: ArrayLike, low: ArrayLike, high: ArrayLike) -> Floats:
    """Return u of the iVAE: factors [B, K] scaled to [0, 1] by their global range; a constant factor gives 0.

    The public code of bonheme scales per batch, and divides by zero when a factor is constant in one.
    """
    span = np.asarray(high, np.float64) - np.asarray(low)
    factors = np.asarray(factors)
    if factors.dtype.kind in "iu":          # the difference of two integers may be beyond their type
        factors = factors.astype(np.float64)
    return ((factors - np.asarray(low)) / np.where(span == 0, 1, span)).astype(np.float32)


def one_hot(classes: Integers, size: int) -> Floats:
    """Convert integers [B] to float32 [B, size], with a 1 in the column of each class."""
    return np.eye(size, dtype=np.float32)[classes]


def count_combinations(values: Array, sizes: Sequence[int]) -> int:
    """Return how many different rows classes [N, K] have, each column k with values from 0 to sizes[k] - 1."""
    if math.prod(sizes) >= 2**63:
        return len(np.unique(values, axis=0))
    return len(np.unique(np.ravel_multi_index(tuple(values.T), tuple(sizes))))      # many times as fast


def find_lacking(values: Array) -> Booleans:
    """Return which columns of factors [N, K] lack a value, which is NaN, in some row, bool [K]."""
    return np.asarray(np.isnan(values).any(0)) if values.dtype.kind == "f" else np.zeros(values.shape[1], bool)


def take_complete(values: Array) -> Array:
    """Return the columns of factors [N, K] that lack no value."""
    lacking = find_lacking(values)
    return values[:, ~lacking] if lacking.any() else values
