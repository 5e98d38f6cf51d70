"""Small trainings, and what is compared of them."""

import keras
import numpy as np
from cases import build, dataset

from vae_tf import training


def fit(model, steps, run_dir=None, seed=0, shape=(3,), batch_size=16, rate=1e-2, **more):
    history = training.fit(model, dataset(shape), keras.optimizers.Adam(rate), steps=steps, batch_size=batch_size,
                           seed=seed, run_dir=run_dir, **{"log_every": 5, "checkpoint_every": 10, **more})
    return history, model.get_weights()


def small(seed=0, name="vae"):
    return build(name, "linear", (3,), "gaussian", {}, seed)


def assert_equal(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


def terms(history):
    return [{k: v for k, v in row.items() if k != "examples_per_second"} for row in history]
