"""Which examples form a step."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from vae_tf import data
from vae_tf.data import batches


def test_every_epoch_is_a_permutation_of_its_own():
    n, batch_size = 12, 5
    drawn = np.concatenate([batches.draw_indices(n, batch_size, 0, step) for step in range(12)])     # 5 epochs
    epochs = drawn.reshape(5, n)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(n), (5, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 5
    np.testing.assert_array_equal(batches.draw_indices(n, batch_size, 0, 7), drawn[35:40])
    assert not np.array_equal(batches.draw_indices(n, batch_size, 1, 7), drawn[35:40])
    assert len(batches.draw_indices(3, 8, 0, 0)) == 8           # a batch larger than the data


@pytest.mark.parametrize("n, batch_size", [(12, 5), (3, 8), (100, 4)])
def test_successive_steps_are_those_drawn_one_by_one(n, batch_size):
    for step, count in ((0, 1), (7, 3), (2, 20)):
        wanted = np.concatenate([batches.draw_indices(n, batch_size, 3, step + i) for i in range(count)])
        np.testing.assert_array_equal(batches.draw_successive(n, batch_size, 3, step, count), wanted)


def test_many_small_batches_of_shares_and_seeds_are_drawn_as_one_by_one():
    """Enough for several calls from TensorFlow to Python, of which one ends amid the shares of a step."""
    ds, seeds, of = data.load("synthetic_linear"), [4, 9], 4
    made = list(batches.make_batches(ds, 8, seeds, 5, 400, shares=(1, 3, of)))
    assert len(made) == 3 * 395
    for i in (0, 1, 2, 62, 63, 64, 65, 127, 128, 770, 1184):
        step, share = 5 + i // 3, 1 + i % 3
        indices = np.concatenate([batches.draw_indices(len(ds), 8, seed, step)[2 * share:2 * share + 2]
                                  for seed in seeds])
        assert int(made[i][0]) == step
        np.testing.assert_array_equal(made[i][1], ds.images_at(indices))


def test_a_failure_names_the_first_step_whose_examples_cannot_be_read():
    ds, failures = data.load("synthetic_linear"), []
    bad = batches.draw_indices(len(ds), 4, 0, 33)[2]

    def read(indices):
        if bad in indices:
            raise OSError("gone")
        return ds.images_at(indices)

    broken = dataclasses.replace(ds, images_at=read)
    with pytest.raises(tf.errors.UnknownError):
        list(batches.make_batches(broken, 4, [0], 0, 200, failures=failures))
    assert failures[0][0] == 33 and str(failures[0][1]) == "gone"


def test_batches_start_anywhere():
    ds = data.load("dsprites")
    for (step, x, u), expected in zip(batches.make_batches(ds, 4, [5], 2, 4, with_u=True), (2, 3), strict=True):
        indices = batches.draw_indices(len(ds), 4, 5, expected)
        assert int(step) == expected and x.dtype == tf.uint8
        np.testing.assert_array_equal(x, ds.images_at(indices))
        np.testing.assert_array_equal(u, ds.u_at(indices))
