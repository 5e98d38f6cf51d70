"""Draw the examples of a step from the seed and the step alone, and bring them to the devices."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import checks
from vae_tf.data.dataset import Dataset
from vae_tf.errors import InputError
from vae_tf.typing import Array, Integers, Tensor

# A call from TensorFlow to Python makes so many batches, fewest and most, and within that so many bytes.
FETCHED, FETCHED_BYTES = (8, 64), 2**20


def draw_permutation(n: int, seed: int, epoch: int) -> Integers:
    """Return the order of n examples in an epoch, int64 [n]."""
    return np.random.default_rng([seed, epoch]).permutation(n)


def draw_indices(n: int, batch_size: int, seed: int, step: int,
                 permutation: Callable[[int, int, int], Integers] = draw_permutation) -> Integers:
    """Return which of n examples form a step, int64 [batch_size]; every epoch is a permutation of its own.

    The result depends on the arguments alone. A batch may straddle two epochs.

    Args:
        n: number of examples.
        batch_size: number of examples of a step.
        seed: the seed for the order.
        step: the number of the step, from 0.
        permutation: the function that gives the order of an epoch. For many steps, pass a cached `draw_permutation`:
            otherwise every call shuffles all n examples again.

    Raises:
        InputError: n or batch_size below 1.
    """
    checks.check_whole("n", n, 1)
    checks.check_whole("batch_size", batch_size, 1)
    return draw_successive(n, batch_size, seed, step, 1, permutation)


def draw_successive(n: int, batch_size: int, seed: int, step: int, count: int,
                    permutation: Callable[[int, int, int], Integers] = draw_permutation) -> Integers:
    """Return the examples of `count` successive steps, [count x batch_size], as `draw_indices` gives them one by one.

    Args:
        n, batch_size, seed, permutation: see `draw_indices`.
        step: the number of the first step.
        count: the number of steps.
    """
    start, stop = step * batch_size, (step + count) * batch_size
    return np.concatenate([permutation(n, seed, epoch)[max(start - epoch * n, 0):stop - epoch * n]
                           for epoch in range(start // n, (stop - 1) // n + 1)])


def make_batches(dataset: Dataset, batch_size: int, seeds: Sequence[int], start: int | Tensor, stop: int,
                 with_u: bool = False, shares: tuple[int, int, int] = (0, 1, 1),
                 failures: list[tuple[int, Exception]] | None = None) -> tf.data.Dataset:
    """Return the examples of steps start..stop-1 as a tf.data.Dataset of (step, x) or (step, x, u).

    Args:
        dataset: gives the examples.
        batch_size: B.
        seeds: S of them; x is [S B, ...], the batches of one seed after another.
        start, stop: steps.
        with_u: whether u comes too.
        shares: (first, number, total): every batch is cut into `total` shares, and each step yields `number` of
            them, from `first` on, one by one.
        failures: a list that collects what went wrong with the data; TensorFlow passes on its text alone.
    """
    columns = _list_columns(dataset, with_u)
    dtypes = [dtype for _, _, dtype in columns]
    first, per_step, of = shares
    size = batch_size // of
    remembered = functools.lru_cache(maxsize=2 * len(seeds))(draw_permutation)      # two epochs meet in a batch

    def draw_shares(steps: Integers, shares: Integers) -> Integers:
        """Return the examples of some shares of successive steps, [shares, S x size]."""
        count = int(steps[-1] - steps[0]) + 1
        drawn = np.stack([draw_successive(len(dataset), batch_size, seed, int(steps[0]), count, remembered)
                          for seed in seeds])
        chosen = drawn.reshape(len(seeds), count, of, size)[:, steps - steps[0], shares]       # [S, shares, size]
        return chosen.swapaxes(0, 1).reshape(len(steps), len(seeds) * size)

    def read_several(steps: Integers, shares: Integers) -> list[Array]:
        indices = draw_shares(steps, shares)
        try:
            return [_read(read, indices, dtype) for read, _, dtype in columns]
        except Exception as error:
            if failures is not None:
                failures.append((_find_failure(columns, steps, indices), error))
            raise

    @tf.autograph.experimental.do_not_convert
    def fetch(i: Tensor) -> tuple[Tensor, ...]:
        steps = i // per_step
        arrays = tf.numpy_function(read_several, [steps, first + i % per_step], dtypes)
        return steps, *(tf.ensure_shape(array, (None, len(seeds) * size, *shape))
                        for array, (_, shape, _) in zip(arrays, columns, strict=True))

    # Several batches at a time, because a call of Python costs more than a small batch.
    share_bytes = len(seeds) * size * sum(int(np.prod(shape)) * dtype.size for _, shape, dtype in columns)
    fetched = int(np.clip(FETCHED_BYTES // share_bytes, *FETCHED))
    numbers = tf.data.Dataset.range(start * per_step, stop * per_step).batch(fetched)
    return numbers.map(fetch, num_parallel_calls=2).prefetch(2).unbatch().prefetch(2)


def _read(read: Callable[[Integers], Array], indices: Integers, dtype: tf.DType) -> Array:
    """Return the examples of indices [shares, n] as one array [shares, n, ...]."""
    array = read(indices.reshape(-1))
    return array.reshape(*indices.shape, *array.shape[1:]).astype(dtype.as_numpy_dtype, copy=False)


def _find_failure(columns: Sequence[tuple[Any, tuple[int, ...], Any]], steps: Integers, indices: Integers) -> int:
    """Return the first of some steps whose examples cannot be read, or the first of all if they can be by now."""
    for step, rows in zip(steps, indices, strict=True):
        try:
            for read, _, _ in columns:
                read(rows)
        except Exception:
            return int(step)
    return int(steps[0])


def _list_columns(dataset: Dataset, with_u: bool) -> list[tuple[Any, tuple[int, ...], Any]]:
    """Return (function of indices, shape of an example, dtype) of x and, with u, of u."""
    columns: list[tuple[Any, tuple[int, ...], Any]] = [
        (dataset.images_at, dataset.shape, tf.uint8 if dataset.is_image else tf.float32)]
    if with_u and dataset.u_at:
        columns.append((dataset.u_at, (dataset.u_size,), tf.float32))
    return columns


def distribute_batches(strategy: tf.distribute.Strategy, batch_size: int,
                       make_shares: Callable[[tuple[int, int, int]], tf.data.Dataset]) -> Any:
    """Return an iterator over batches for every device of the strategy in scope; a process makes only its own shares.

    Args:
        strategy: the one in scope.
        batch_size: B.
        make_shares: gives the tf.data.Dataset of some shares, as `make_batches` does.

    Raises:
        InputError: B is no multiple of the number of devices.
    """
    if not tf.distribute.has_strategy():
        return iter(make_shares((0, 1, 1)))
    count = strategy.num_replicas_in_sync
    if batch_size % count:
        raise InputError(f"batch_size: {count} devices share each batch evenly; expected a multiple of {count}, "
                         f"got {batch_size}")

    def make_own(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = count // context.num_input_pipelines
        return make_shares((context.input_pipeline_id * each, each, count))

    return iter(strategy.distribute_datasets_from_function(make_own))
