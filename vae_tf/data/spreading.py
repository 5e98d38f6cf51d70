"""Which examples are looked at where looking at all of them would take too long."""

import numpy as np

from vae_tf.data.dataset import Dataset
from vae_tf.typing import Floats, Integers


def spread_evenly(size: int, most: int) -> Integers:
    """Return up to `most` indices that are spread evenly over `size` examples, the first and the last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))


def draw_to_score(size: int, most: int, seed: int) -> Integers:
    """Return up to `most` of `size` examples at random, in another order than that of any epoch of training.

    NumPy draws the same from [seed, 0], which is what the order of the first epoch is drawn from, as from seed alone.
    So a model that trains for less than an epoch would be scored on the examples that it has seen.
    """
    return np.random.default_rng([seed, 0, 0, 1]).permutation(size)[:most]


def sample_evenly(dataset: Dataset) -> Floats:
    """Return up to 2,000 images or 10,000 vectors, spread evenly over a dataset: float64 [N, n], images in [0, 1]."""
    most = 2_000 if dataset.is_image else 10_000
    x = dataset.images_at(spread_evenly(len(dataset), most))
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    return x / 255 if dataset.is_image else x
