"""Bhowal, Soni, Rambhatla 2024: what images lose when they are rebuilt from some of their principal axes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vae_tf import data
from vae_tf.experiments.measured import number

EXAMPLES = 20_000       # of dSprites, at random: five times as many as there are axes
BATCH = 2_000
RANGES = {"first_1500": (0, 1500), "first_2000": (0, 2000), "first_2500": (0, 2500), "first_3000": (0, 3000),
          "from_2000_to_3000": (2000, 3000), "from_2500_to_3000": (2500, 3000)}


def table7(dataset: data.Dataset | None = None, examples: int = EXAMPLES, ranges: Mapping[str, tuple[int,
           int]] | None = None) -> dict[str, Any]:
    """The squared error of dSprites images rebuilt from ranges of principal axes, summed over an image's pixels.

    Axes are in the order of their variance on the images that they were fitted to, so the error is the variance along
    the axes left out (as `metrics.principal_axes` finds by rebuilding).

    Args:
        dataset: a dataset of images; dsprites by default.
        examples: the number of images, drawn at random.
        ranges: {name: (first, last)}, ranges of axes as in a slice; those of Table 7 by default.
    """
    dataset = dataset or data.load(data.DEFAULT)
    indices = np.random.default_rng(0).permutation(len(dataset))[:examples]
    total, products = np.zeros(()), np.zeros(())
    for start in range(0, examples, BATCH):
        x = dataset.images_at(indices[start:start + BATCH]).reshape(-1, np.prod(dataset.shape)) / 255
        total, products = total + x.sum(0), products + x.T @ x
    mean = total / examples
    variances = np.linalg.eigvalsh(products / examples - np.outer(mean, mean))[::-1]
    return {name: number(variances.sum() - variances[first:last].sum())
            for name, (first, last) in (ranges or RANGES).items()}
