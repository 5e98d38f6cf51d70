"""Which examples form a step, and how they reach the devices: functions of the seed and the step alone."""

import functools

import numpy as np
import tensorflow as tf

from vae_tf import checks
from vae_tf.errors import InputError

FETCHED = 8         # batches per call of Python


def permutation(n, seed, epoch):
    """The order of n examples in an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(n)


def indices_of_step(n, batch_size, seed, step, permutation=permutation):
    """Which of n examples form a step, int64 [batch_size]; every epoch is a permutation of its own.

    A function of its arguments alone. A batch may straddle two epochs. Who asks for many steps passes a
    `permutation` that remembers.
    """
    checks.whole("n", n, 1)
    checks.whole("batch_size", batch_size, 1)
    start, stop = step * batch_size, (step + 1) * batch_size
    return np.concatenate([permutation(n, seed, epoch)[max(start - epoch * n, 0):stop - epoch * n]
                           for epoch in range(start // n, (stop - 1) // n + 1)])


def batches(dataset, batch_size, seeds, start, stop, with_u=False, shares=(0, 1, 1), failures=None):
    """The examples of steps start..stop-1 as a tf.data.Dataset of (step, x) or (step, x, u).

    Args:
        dataset: a data.Dataset.
        batch_size: B.
        seeds: S of them; x is [S B, ...], the batches of one seed after another.
        start, stop: steps.
        with_u: whether u comes too.
        shares: (first, how many, of how many): every batch is cut into shares, and each step yields these, one by one.
        failures: a list that collects what went wrong with the data; TensorFlow passes on its text alone.
    """
    columns = [(dataset.images_at, dataset.shape, tf.uint8 if dataset.is_image else tf.float32)]
    if with_u:
        columns.append((dataset.u_at, (dataset.u_size,), tf.float32))
    dtypes = [dtype for _, _, dtype in columns]
    first, own, of = shares
    size = batch_size // of
    remembered = functools.lru_cache(maxsize=2 * len(seeds))(permutation)      # two epochs meet in a batch

    def examples(step, share):
        try:
            rows = slice(share * size, (share + 1) * size)
            indices = np.concatenate([indices_of_step(len(dataset), batch_size, seed, step, remembered)[rows]
                                      for seed in seeds])
            return [at(indices) for at, _, _ in columns]
        except Exception as error:
            if failures is not None:
                failures.append((step, error))
            raise

    def several(steps, shares):
        rows = zip(*map(examples, steps, shares), strict=True)
        return [np.stack(each).astype(dtype.as_numpy_dtype, copy=False)
                for each, dtype in zip(rows, dtypes, strict=True)]

    def fetch(i):
        steps = i // own
        arrays = tf.numpy_function(several, [steps, first + i % own], dtypes)
        return steps, *(tf.ensure_shape(array, (None, len(seeds) * size, *shape))
                        for array, (_, shape, _) in zip(arrays, columns, strict=True))

    # Some at a time: a call of Python costs more than a small batch.
    numbers = tf.data.Dataset.range(start * own, stop * own).batch(FETCHED)
    return numbers.map(fetch, num_parallel_calls=2).prefetch(2).unbatch().prefetch(2)


def shared_out(strategy, batch_size, dataset_of_shares):
    """An iterator over batches for every device of the strategy in scope; each makes its own share alone."""
    if not tf.distribute.has_strategy():
        return iter(dataset_of_shares((0, 1, 1)))
    count = strategy.num_replicas_in_sync
    if batch_size % count:
        raise InputError(f"batch_size: {count} devices share each batch evenly; expected a multiple of {count}, "
                         f"got {batch_size}")

    def own(context):
        each = count // context.num_input_pipelines
        return dataset_of_shares((context.input_pipeline_id * each, each, count))

    return iter(strategy.distribute_datasets_from_function(own))
