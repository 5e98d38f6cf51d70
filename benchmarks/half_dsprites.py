"""dSprites at half its size, 32x32 pixels, for experiments that need long trainings on images.

It is an extension: `PYTHONPATH=benchmarks VAE_TF_EXTENSIONS=half_dsprites` adds the dataset `half_dsprites` and the
network `mlp_half_dsprites`. A pixel is the mean of four pixels of dSprites. Every second position is left out, so that
a position is about a pixel from the next.
"""

import numpy as np

from vae_tf import data, networks
from vae_tf.data import dsprites
from vae_tf.typing import Integers

STEP = np.array([1, 1, 1, 2, 2])                # every second x and y
SIZES = tuple(int(size) for size in np.array(dsprites.SIZES) // STEP)
FACTORS = tuple(data.Factor(factor.name, size, factor.kind)
                for factor, size in zip(dsprites.FACTORS, SIZES, strict=True))
GRID = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), -1)


def render(indices: Integers) -> Integers:
    """Return the images of indices [B]: uint8 [B, 32, 32, 1]."""
    large = dsprites.render(GRID[indices] * STEP).reshape(-1, 32, 2, 32, 2)
    return large.mean((2, 4), dtype=np.float32).astype(np.uint8)[..., np.newaxis]


def load() -> data.Dataset:
    """Return the dataset; an image is rendered when it is asked for."""
    return data.from_function("half_dsprites", render, size=len(GRID), values=GRID, factors=FACTORS,
                              complete_grid=True, made_by=("half_dsprites", 1))


data.register("half_dsprites", lambda data_dir, seed: load())
networks.register("mlp_half_dsprites", networks.Dense((256,), "relu", (256, 256), "tanh", wide=True))
