"""Compiled models, and what the tests of Keras' loops and files share."""

import keras
import numpy as np
from cases import CASES, FACTORS, IDS, build

DENSE = [case for case in CASES if case[1] == "mlp_synthetic"]
DENSE_IDS = [IDS[CASES.index(case)] for case in DENSE]
X, U = np.zeros((8, 3), np.float32), np.zeros((8, FACTORS), np.float32)


def compiled(case, seed=0, **options):
    model = build(*case)
    model.compile(keras.optimizers.Adam(1e-3), seed=seed, **options)
    return model


def inputs(model, ds):
    """What Keras takes of a dataset: x, or [x, u]."""
    rows = np.arange(len(ds))
    return [ds.images_at(rows), ds.u_at(rows)] if model.u_size else ds.images_at(rows)


def assert_same_weights(a, b, **tolerance):
    for one, other in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, **{"rtol": 0, "atol": 0, **tolerance})
