"""Which examples form a step."""

import numpy as np
import tensorflow as tf

from vae_tf import data
from vae_tf.training import batches


def test_every_epoch_is_a_permutation_of_its_own():
    n, batch_size = 12, 5
    drawn = np.concatenate([batches.draw_indices(n, batch_size, 0, step) for step in range(12)])     # 5 epochs
    epochs = drawn.reshape(5, n)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(n), (5, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 5
    np.testing.assert_array_equal(batches.draw_indices(n, batch_size, 0, 7), drawn[35:40])
    assert not np.array_equal(batches.draw_indices(n, batch_size, 1, 7), drawn[35:40])
    assert len(batches.draw_indices(3, 8, 0, 0)) == 8           # a batch larger than the data


def test_batches_start_anywhere():
    ds = data.load("dsprites")
    for (step, x, u), expected in zip(batches.make_batches(ds, 4, [5], 2, 4, with_u=True), (2, 3), strict=True):
        indices = batches.draw_indices(len(ds), 4, 5, expected)
        assert int(step) == expected and x.dtype == tf.uint8
        np.testing.assert_array_equal(x, ds.images_at(indices))
        np.testing.assert_array_equal(u, ds.u_at(indices))
