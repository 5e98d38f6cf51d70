"""Draw rows for interventional metrics: one factor is held fixed while the others vary.

A Sampler draws from the examples there are: fixing a factor means drawing rows that share its value, the other
factors as they fall among those rows. A Sampler therefore needs no complete grid, and works on any arrays.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vae_tf import arguments
from vae_tf.arguments import Bins
from vae_tf.errors import InputError
from vae_tf.metrics.result import check_arrays, find_classes


class Sampler(NamedTuple):
    """What an interventional metric draws from.

    codes_at: indices [B] -> codes [B, d], such as an encoder applied to a dataset's images.
    factors: classes int [N, K] of all examples.
    """

    codes_at: Callable[[np.ndarray], np.ndarray]
    factors: np.ndarray


@arguments.check
def make_sampler(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
            ) -> Sampler:
    """Make a Sampler of arrays: codes [N, d], factors [N, K].

    Discrete factors are classes, continuous ones are put into `bins` equal-width bins; `vae_tf.kinds.decide` has what
    `kinds` may be.

    Raises:
        InputError: shapes that disagree, NaN, or discrete factors whose values do not recur.
    """
    codes, factors = check_arrays(codes, factors)
    return Sampler(functools.partial(codes.take, axis=0), find_classes(factors, bins, kinds))


def draw_fixed_factor(factors: np.ndarray, count: int, batch_size: int, rng: np.random.Generator,
                      ) -> tuple[np.ndarray, np.ndarray]:
    """Draw `count` batches of rows that share the value of one factor.

    The factor is drawn uniformly from the factors with a value that recurs. Its value is drawn as often as it occurs in
    the data, and the rows with replacement from those that have it. A value of a single row is never fixed, because
    nothing would vary.

    Args:
        factors: int [N, K].
        count: the number T of batches.
        batch_size: the number B of rows in a batch.
        rng: numpy Generator.

    Returns:
        factor [T], rows [T, B].

    Raises:
        InputError: no factor that varies has a value that recurs.
    """
    def alike(groups: "_Groups", batches: int) -> np.ndarray:
        first, size = groups.of(rng.choice(groups.usable, (batches, 1)))
        return groups.order[first + rng.integers(0, size, (batches, batch_size))]

    return _draw(factors, count, rng, alike)


def draw_alike_pairs(factors: np.ndarray, count: int, batch_size: int, rng: np.random.Generator,
                     ) -> tuple[np.ndarray, np.ndarray]:
    """Draw `count` batches of pairs of rows; the two of a pair share the value of one factor, the same in its batch.

    The factor is drawn as by `draw_fixed_factor`. Each pair has a value of its own, as it occurs in the data, and is of
    two distinct rows, drawn uniformly from those that have it.

    Args:
        factors: int [N, K].
        count: the number T of batches.
        batch_size: the number B of pairs in a batch.
        rng: numpy Generator.

    Returns:
        factor [T], pairs [T, B, 2].

    Raises:
        InputError: no factor that varies has a value that recurs.
    """
    def alike(groups: "_Groups", batches: int) -> np.ndarray:
        first, size = groups.of(rng.choice(groups.usable, (batches, batch_size)))
        one = rng.integers(0, size)
        other = (one + rng.integers(1, size)) % size
        return groups.order[np.stack([first + one, first + other], -1)]

    return _draw(factors, count, rng, alike)


class _Groups(NamedTuple):
    """The rows of a factor by value: their order, each row's group, where groups start, their sizes, usable rows."""

    order: np.ndarray
    group: np.ndarray
    start: np.ndarray
    size: np.ndarray
    usable: np.ndarray

    def of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first position and the size of the rows' groups."""
        return self.start[self.group[rows]], self.size[self.group[rows]]


def _group(column: np.ndarray) -> _Groups:
    _, group, size = np.unique(column, return_inverse=True, return_counts=True)
    return _Groups(np.argsort(column, kind="stable"), group, np.cumsum(size) - size, size,
                   np.flatnonzero(size[group] > 1))


def _draw(factors: np.ndarray, count: int, rng: np.random.Generator, alike: Callable[[_Groups, int], np.ndarray],
          ) -> tuple[np.ndarray, np.ndarray]:
    """Draw T factors, and for each of them rows by `alike`, which takes a factor's groups and the number of batches."""
    groups = [_group(column) for column in factors.T]
    choices = [k for k, of in enumerate(groups) if len(of.usable) and len(of.size) > 1]
    if not choices:
        raise InputError("factors: expected one that varies and whose values recur, to be held fixed; none does")
    factor = rng.choice(choices, count)
    drawn = [(batches, alike(groups[k], len(batches))) for k in choices if len(batches := np.flatnonzero(factor == k))]
    rows = np.empty((count, *drawn[0][1].shape[1:]), np.int64)
    for batches, of in drawn:
        rows[batches] = of
    return factor, rows
