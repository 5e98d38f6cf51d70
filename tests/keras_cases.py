"""Compiled models, and what the tests of Keras' loops and files share."""

import keras
import numpy as np
from cases import CASES, FACTORS, IDS, build

DENSE = [case for case in CASES if case[1] == "mlp_synthetic"]
DENSE_IDS = [IDS[CASES.index(case)] for case in DENSE]
X, U = np.zeros((8, 3), np.float32), np.zeros((8, FACTORS), np.float32)


class Batches(keras.utils.PyDataset):
    """Two batches of four examples of some arrays, which Keras sees when it asks for them."""

    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return tuple(array[4 * index:4 * index + 4] for array in self.arrays)


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
