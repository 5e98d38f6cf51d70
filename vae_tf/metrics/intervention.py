"""Metrics from interventions: one factor is held fixed while the others vary. They take a Sampler.

A Sampler draws from the examples there are: fixing a factor means drawing rows that share its value, the other
factors as they fall among those rows. So it needs no complete grid, and works on anybody's arrays.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from vae_tf.errors import InputError
from vae_tf.metrics.result import Result, checked, classes, discretised, varying

BATCH = 64
TRAIN, TEST = 10_000, 5_000
CHUNK = 1_000               # batches whose codes are in memory at a time
PRUNED_STDDEV = 0.05


class Sampler(NamedTuple):
    """What an interventional metric draws from.

    codes_at: indices [B] -> codes [B, d], such as an encoder applied to a dataset's images.
    factors: classes int [N, K] of all examples.
    """

    codes_at: Callable[[np.ndarray], np.ndarray]
    factors: np.ndarray


def sampler(codes, factors, bins=20, kinds=None):
    """A Sampler of arrays: codes [N, d], factors [N, K].

    Discrete factors are classes, continuous ones are put into `bins` equal-width bins; `vae_tf.kinds.decided` has what
    `kinds` may be.

    Raises:
        InputError: shapes that disagree, NaN, or discrete factors whose values do not recur.
    """
    codes, factors = checked(codes, factors)
    return Sampler(codes.__getitem__, classes(factors, bins, kinds))


def fixed_factor(factors, count, batch_size, rng):
    """Draw `count` batches of rows that share the value of one factor.

    The factor is drawn uniformly from those with a value that recurs, the value as it occurs in the data, the
    rows with replacement from those that have it. Values of a single row are never fixed: nothing would vary.

    Args:
        factors: int [N, K].
        count: T.
        batch_size: B.
        rng: numpy Generator.

    Returns:
        factor [T], rows [T, B].

    Raises:
        InputError: no factor that varies has a value that recurs.
    """
    def alike(groups, batches):
        first, size = groups.of(rng.choice(groups.usable, (batches, 1)))
        return groups.order[first + rng.integers(0, size, (batches, batch_size))]

    return _drawn(factors, count, rng, alike)


def alike_pairs(factors, count, batch_size, rng):
    """Draw `count` batches of pairs of rows; the two of a pair share the value of one factor, the same in its batch.

    The factor is drawn as by `fixed_factor`. Each pair has a value of its own, as it occurs in the data, and is of two
    distinct rows, drawn uniformly from those that have it.

    Args, raises: as `fixed_factor`.

    Returns:
        factor [T], pairs [T, B, 2].
    """
    def alike(groups, batches):
        first, size = groups.of(rng.choice(groups.usable, (batches, batch_size)))
        one = rng.integers(0, size)
        other = (one + rng.integers(1, size)) % size
        return groups.order[np.stack([first + one, first + other], -1)]

    return _drawn(factors, count, rng, alike)


class _Groups(NamedTuple):
    """The rows of a factor by value: their order, each row's group, where groups start, their sizes, usable rows."""

    order: np.ndarray
    group: np.ndarray
    start: np.ndarray
    size: np.ndarray
    usable: np.ndarray

    def of(self, rows):
        """First position and size of the rows' groups."""
        return self.start[self.group[rows]], self.size[self.group[rows]]


def _groups(column):
    _, group, size = np.unique(column, return_inverse=True, return_counts=True)
    return _Groups(np.argsort(column, kind="stable"), group, np.cumsum(size) - size, size,
                   np.flatnonzero(size[group] > 1))


def _drawn(factors, count, rng, alike):
    """factor [T], and rows [T, ...] that `alike(groups of a factor, how many batches)` draws for each."""
    groups = [_groups(column) for column in factors.T]
    choices = [k for k, of in enumerate(groups) if len(of.usable) and len(of.size) > 1]
    if not choices:
        raise InputError("factors: expected one that varies and whose values recur, to be held fixed; none does")
    factor = rng.choice(choices, count)
    drawn = [(batches, alike(groups[k], len(batches))) for k in choices if len(batches := np.flatnonzero(factor == k))]
    rows = np.empty((count, *drawn[0][1].shape[1:]), np.int64)
    for batches, of in drawn:
        rows[batches] = of
    return factor, rows


def beta_vae_score(sampler, batch_size=BATCH, train=TRAIN, test=TEST, seed=0):
    """Can the fixed factor be told from how little codes differ? (Higgins 2017, section 3.)

    A batch's feature is the mean over pairs, alike in one factor, of |z - z'| [d]; the score is the test accuracy of
    logistic regression from feature to which factor that was. The value that the two share is drawn anew for each
    pair. In [0, 1]. 1: always; chance is 1/K. A rotated code can reach 1 too, and so can one that misses a factor (it
    is told by elimination). The regression is regularised, so the scale of codes counts. Pairs are two distinct rows.

    Args:
        sampler: a Sampler.
        batch_size: pairs per feature.
        train, test: features to learn from, and to be scored on.
        seed: of the draws.

    Returns:
        Result; parts: train_accuracy, per_factor [K] (test accuracy; NaN for a factor never fixed), chance.

    Raises:
        InputError: fewer than two factors can be fixed.
    """
    factor, pairs = alike_pairs(sampler.factors, train + test, batch_size, np.random.default_rng(seed))
    features = np.concatenate([np.abs(np.diff(_codes(sampler, chunk), axis=2)).mean((1, 2))
                               for chunk in _chunks(pairs)])
    if len(np.unique(factor[:train])) < 2:
        raise InputError("factors: beta_vae_score expects at least two that vary and whose values recur; got one")
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        learner = LogisticRegression(max_iter=1_000).fit(features[:train], factor[:train])
    right = learner.predict(features) == factor
    return Result("beta_vae_score", float(right[train:].mean()),
                  {"train_accuracy": np.array(right[:train].mean()), "chance": np.array(1 / len(np.unique(factor))),
                   "per_factor": _by_factor(right[train:], factor[train:], sampler.factors.shape[1])},
                  f"1: the factor held fixed is told every time; chance is 1 in {len(np.unique(factor))}")


def factor_vae_score(sampler, batch_size=BATCH, train=TRAIN, test=TEST, threshold=PRUNED_STDDEV, seed=0):
    """Does the latent that varies least tell the fixed factor? (Kim, Mnih 2018, section 4.)

    The latent with the least variance within a batch, over its variance in all examples, votes for the batch's
    factor; the score is the test accuracy of the majority vote. In [0, 1]. 1: each factor, held fixed, stills a
    latent of its own; chance is 1/K. Latents whose standard deviation in all examples is below `threshold` have no
    vote: a latent that never varies would win every argmin. The threshold is absolute, so the scale of codes counts.
    With no latent left the score is 0, with a warning.

    disentanglement_lib, where the usual 0.05 comes from, holds the standard deviation against it. For the rule that
    the variance be at least 0.05, pass `threshold=0.05**0.5`.

    Args:
        sampler: a Sampler.
        batch_size: rows per vote.
        train, test: votes to learn from, and to be scored on.
        threshold: of the standard deviation, in units of z.
        seed: of the draws.

    Returns:
        Result; parts: train_accuracy, per_factor [K] (test accuracy), votes [d, K], variance [d], active [d].

    Raises:
        InputError: no factor can be fixed.
    """
    rng = np.random.default_rng(seed)
    N, K = sampler.factors.shape
    variance = _codes(sampler, rng.permutation(N)[:TRAIN]).var(0, ddof=1)
    active = np.flatnonzero(np.sqrt(variance) >= threshold)
    factor, rows = fixed_factor(sampler.factors, train + test, batch_size, rng)
    votes, right = np.zeros((len(variance), K), int), np.zeros(train + test, bool)
    if len(active):
        least = active[np.concatenate([(_codes(sampler, chunk)[..., active].var(1) / variance[active]).argmin(1)
                                       for chunk in _chunks(rows)])]
        np.add.at(votes, (least[:train], factor[:train]), 1)
        right = votes.argmax(1)[least] == factor
    else:
        warnings.warn(f"factor_vae_score is 0: no latent has a standard deviation of at least {threshold:g}",
                      stacklevel=2)
    return Result("factor_vae_score", float(right[train:].mean()),
                  {"train_accuracy": np.array(right[:train].mean()), "votes": votes, "variance": variance,
                   "per_factor": _by_factor(right[train:], factor[train:], K),
                   "active": np.sqrt(variance) >= threshold},
                  f"1: each factor, held fixed, stills a latent of its own; {len(active)} of {len(variance)} "
                  f"latents vary enough to count; chance is 1 in {len(np.unique(factor))}")


def irs(sampler, quantile=0.99, examples=TRAIN, bins=20, seed=0):
    """Interventional robustness: does a latent stay put while all factors but its own vary? (Suter 2019.)

    For latent j and factor k: the 0.99 quantile of |z_j - E[z_j|v_k]| within a value of v_k, averaged over its
    values, against the largest |z_j - E z_j| of all; one less that ratio, at the best factor; mean over latents
    weighted by that largest deviation (disentanglement_lib's way). In [0, 1]. 1: each latent is a function of
    one factor. 0: no factor says anything about a latent. Constant latents weigh nothing; with none but those the
    score is 0. One outlier makes its latent look robust. The weights grow with the scale of each latent.

    Args:
        sampler: a Sampler.
        quantile: of the deviations within a value.
        examples: rows drawn, at most.
        bins: equal-width bins that the values of a factor are put into, as in disentanglement_lib's protocol: a factor
            of 32 values is held within a pair of neighbours more often than at a value. None takes each value alone.
        seed: of the rows.

    Returns:
        Result; parts: per_latent [d], factor [d], matrix [d, K], active [d], active_latents (a count).

    Raises:
        InputError: no factor that varies.
    """
    rows = np.random.default_rng(seed).permutation(len(sampler.factors))[:examples]
    codes, factors = checked(sampler.codes_at(rows), sampler.factors[rows])
    varies = varying("irs", factors)
    if bins is not None:
        factors = np.stack([discretised(column, bins) for column in factors.T], -1)
    active = (codes != codes[:1]).any(0)
    largest = np.abs(codes - codes.mean(0)).max(0)
    matrix = np.zeros((codes.shape[1], len(varies)))
    for k in np.flatnonzero(varies):
        groups = [codes[factors[:, k] == value] for value in np.unique(factors[:, k])]
        deviation = np.mean([np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups], axis=0)
        matrix[active, k] = 1 - deviation[active] / largest[active]
    per_latent = matrix[:, varies].max(1)
    score = np.average(per_latent[active], weights=largest[active]) if active.any() else 0.0
    return Result("irs", float(score),
                  {"per_latent": per_latent, "factor": matrix.argmax(1), "matrix": matrix, "active": active,
                   "active_latents": np.array(active.sum())},
                  "0: latents move whichever factor is held; 1: each stays put while its own factor does; "
                  "it rests on the most extreme codes, so it has no interval")


def _codes(sampler, rows):
    """Codes of rows [...] as finite float64 [..., d]."""
    codes, _ = checked(sampler.codes_at(rows.reshape(-1)))
    return codes.reshape(*rows.shape, -1)


def _chunks(rows):
    return (rows[i:i + CHUNK] for i in range(0, len(rows), CHUNK))


def _by_factor(right, factor, K):
    """Accuracy per factor [K]; NaN for a factor that was never fixed."""
    drawn = np.bincount(factor, minlength=K)
    return np.divide(np.bincount(factor, right, K), drawn, where=drawn > 0, out=np.full(K, np.nan))
