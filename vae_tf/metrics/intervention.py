"""Metrics from interventions: one factor is held fixed while the others vary. They take a `samplers.Sampler`."""

import warnings
from collections.abc import Iterator
from typing import Annotated

import numpy as np

from vae_tf import activity
from vae_tf.arguments import Bins, Count, NotNegative, Seed, Share, Whole
from vae_tf.errors import InputError
from vae_tf.metrics.readout import fit_logistic
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, check_factors, discretise, find_varying
from vae_tf.metrics.samplers import Sampler, draw_alike_pairs, draw_fixed_factor

BATCH = 64
TRAIN, TEST = 10_000, 5_000
BatchSize = Annotated[int, Whole(1, 10_000)]
CHUNK = 100                 # number of batches whose codes are looked at together: few, so that caches hold them


@register(needs=("sampler",), range=(0, 1), unchanged_by=("sign", "relabelling"), nearly_unchanged_by=("permutation",),
          meaning="how often the factor that 64 pairs share is told from how little their codes differ")
def beta_vae_score(sampler: Sampler, batch_size: BatchSize = BATCH, train: Count = TRAIN, test: Count = TEST,
                   seed: Seed = 0) -> Result:
    """Can the fixed factor be told from how little codes differ? (Higgins 2017, section 3.)

    A batch's feature is the mean over pairs, alike in one factor, of |z - z'| [d]; the score is the test accuracy of
    logistic regression from feature to which factor that was. The value that the two share is drawn anew for each
    pair. The score is in [0, 1]. It is 1 if the factor can always be told; chance is 1/K, and more with few rows. A
    rotated code can reach 1 too. So can a code that misses a factor, because that factor is told by elimination. The
    regression is regularised, so the scale of the codes counts. The two rows of a pair are distinct.

    Args:
        sampler: what rows are drawn from.
        batch_size: pairs per feature.
        train, test: features to learn from, and to be scored on.
        seed: seed of the draws.

    Returns:
        Result; parts: train_accuracy, per_factor [K] (test accuracy; NaN for a factor never fixed), chance.

    Raises:
        InputError: fewer than two factors can be fixed.
    """
    sampler = _check(sampler)
    factor, pairs = draw_alike_pairs(sampler.factors, train + test, batch_size, np.random.default_rng(seed))
    features = np.concatenate([_average(np.abs(np.subtract(*_encode(sampler, np.moveaxis(chunk, -1, 0)))))
                               for chunk in _divide(pairs)])
    if len(np.unique(factor)) < 2:
        raise InputError("factors: beta_vae_score expects at least two that vary and whose values recur; got one")
    if len(np.unique(factor[:train])) < 2:
        raise InputError(f"train: expected as many batches as fix at least two factors; got {train}")
    right = fit_logistic(features[:train], factor[:train]).predict(features) == factor
    return Result("beta_vae_score", float(right[train:].mean()),
                  {"train_accuracy": np.array(right[:train].mean()), "chance": np.array(1 / len(np.unique(factor))),
                   "per_factor": _count_by_factor(right[train:], factor[train:], sampler.factors.shape[1])},
                  f"1: the factor held fixed is told every time; chance is 1 in {len(np.unique(factor))}")


@register(needs=("sampler",), active="has_a_vote", range=(0, 1), unchanged_by=("sign", "relabelling"),
          nearly_unchanged_by=("permutation",),
          meaning="how often the latent that varies least tells the factor that 64 rows share")
def factor_vae_score(sampler: Sampler, batch_size: BatchSize = BATCH, train: Count = TRAIN, test: Count = TEST,
                     threshold: NotNegative = activity.PRUNED_STDDEV, seed: Seed = 0) -> Result:
    """Does the latent that varies least tell the fixed factor? (Kim, Mnih 2018, section 4.)

    The latent with the least variance within a batch, over its variance in 10,000 examples that are drawn at random (or
    in all if there are fewer), votes for the batch's factor; the score is the test accuracy of the majority vote, in
    [0, 1]. It is 1 if each factor, when it is fixed, stills a latent of its own; chance is 1/K. Latents whose standard
    deviation in those examples is below `threshold` have no vote, because a latent that never varies would win every
    argmin. Of latents that are equally still in a batch, as those of few values may be, the first has the vote, so that
    their order counts. The threshold is absolute, so the scale of the codes counts. With no latent left the score is 0,
    with a warning. disentanglement_lib, where the usual 0.05 comes from, holds the standard deviation against it. For
    the rule that the variance be at least 0.05, pass `threshold=0.05**0.5`.

    Args:
        sampler: what rows are drawn from.
        batch_size: rows per vote.
        train, test: votes to learn from, and to be scored on.
        threshold: least standard deviation of a latent that votes, in units of z.
        seed: seed of the draws.

    Returns:
        Result; parts: train_accuracy, per_factor [K] (test accuracy), votes [d, K], variance [d], active [d].

    Raises:
        InputError: no factor can be fixed, or there is a single row.
    """
    sampler, rng = _check(sampler), np.random.default_rng(seed)
    N, K = sampler.factors.shape
    if N < 2:
        raise InputError(f"codes: expected at least 2 rows for a variance; got {N}")
    variance = _encode(sampler, rng.permutation(N)[:TRAIN]).var(0, ddof=1)
    active = np.flatnonzero(activity.has_a_vote(variance, threshold) & (variance > 0))
    factor, rows = draw_fixed_factor(sampler.factors, train + test, batch_size, rng)
    votes, right = np.zeros((len(variance), K), int), np.zeros(train + test, bool)
    if len(active):
        least = active[np.concatenate([
            (_find_variance(_encode(sampler, chunk)[..., active]) / variance[active]).argmin(1)
            for chunk in _divide(rows)])]
        np.add.at(votes, (least[:train], factor[:train]), 1)
        right = votes.argmax(1)[least] == factor
    else:
        warnings.warn(f"factor_vae_score is 0: no latent has a standard deviation of at least {threshold:g}",
                      stacklevel=2)
    return Result("factor_vae_score", float(right[train:].mean()),
                  {"train_accuracy": np.array(right[:train].mean()), "votes": votes, "variance": variance,
                   "per_factor": _count_by_factor(right[train:], factor[train:], K),
                   "active": activity.has_a_vote(variance, threshold)},
                  f"1: each factor, held fixed, stills a latent of its own; {len(active)} of {len(variance)} latents "
                  f"count, whose standard deviation is at least {threshold:g}; chance is 1 in {len(np.unique(factor))}")


@register(needs=("sampler",), extremes=True, active="is_moving", range=(-1, 1),
          unchanged_by=("permutation", "sign"),
          meaning="whether each latent stays put while all factors but its own vary")
def irs(sampler: Sampler, quantile: Share = 0.99, examples: Count = TRAIN, bins: Bins | None = 20, seed: Seed = 0,
        ) -> Result:
    """Interventional robustness: does a latent stay put while all factors but its own vary? (Suter 2019.)

    For latent j and factor k, the 0.99 quantile of |z_j - E[z_j|v_k]| within a value of v_k is averaged over the values
    of v_k and divided by the largest |z_j - E z_j| of all examples. A latent's robustness is 1 less this ratio, for the
    factor at which it is best. The score is the mean over latents, weighted by that largest deviation, as in
    disentanglement_lib. It is at most 1. It is 1 if each latent is a function of one factor. If no factor says anything
    about a latent, it is near 0 for uniform codes, and well above 0 for normal ones, of which few are as far from the
    mean as the farthest: compare it with its chance level. It may fall below 0, because codes may be farther from the
    mean of their group than any is from the mean of all. Constant latents have no weight; if all are constant, the
    score is 0. One outlier makes its latent look robust. The weights grow with the scale of each latent.

    Args:
        sampler: what rows are drawn from.
        quantile: which quantile of the deviations within a value is taken.
        examples: largest number of rows that are drawn.
        bins: equal-width bins that the values of a factor are put into, as in disentanglement_lib's protocol: a factor
            of 32 values is held within a pair of neighbours more often than at a value. So which values are neighbours
            counts, even for classes without an order, if there are more of them than bins. None takes each value alone.
        seed: seed of the rows.

    Returns:
        Result; parts: per_latent [d], factor [d], matrix [d, K], active [d], active_latents (a count).

    Raises:
        InputError: no factor that varies.
    """
    sampler = _check(sampler)
    rows = np.random.default_rng(seed).permutation(len(sampler.factors))[:examples]
    codes, factors = _encode(sampler, rows), sampler.factors[rows]
    varies = find_varying("irs", factors)
    if bins is not None:
        factors = np.stack([discretise(column, bins) for column in factors.T], -1)
    active = activity.is_moving(codes)
    largest = np.abs(codes - codes.mean(0)).max(0)
    matrix = np.zeros((codes.shape[1], len(varies)))
    for k in np.flatnonzero(varies):
        groups = [codes[factors[:, k] == value] for value in np.unique(factors[:, k])]
        deviation = np.mean([np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups], axis=0)
        matrix[active, k] = 1 - deviation[active] / largest[active]
    per_latent = matrix[:, varies].max(1)
    score = np.average(per_latent[active], weights=largest[active]) if active.any() else 0.0
    return Result("irs", float(score),
                  {"per_latent": per_latent, "factor": np.where(varies, matrix, -np.inf).argmax(1), "matrix": matrix,
                   "active": active, "active_latents": np.array(active.sum())},
                  "0: latents move whichever factor is held; 1: each stays put while its own factor does; "
                  "it rests on the most extreme codes, so it has no interval")


def _check(sampler: Sampler) -> Sampler:
    """Return a Sampler whose factors [N, K] were checked."""
    return sampler._replace(factors=check_factors(sampler.factors))


def _encode(sampler: Sampler, rows: np.ndarray) -> np.ndarray:
    """Return the codes of rows [...] as finite float64 [..., d]."""
    codes, _ = check_arrays(sampler.codes_at(rows.reshape(-1)))
    if len(codes) != rows.size:
        raise InputError(f"codes_at: expected codes of {rows.size} rows, one for each index; got {len(codes)}")
    return codes.reshape(*rows.shape, -1)


def _average(batches: np.ndarray) -> np.ndarray:
    """Return the means [T, d] of batches [T, B, d]: sums of short rows, which a product of matrices finds soonest."""
    return (np.ones((1, batches.shape[1])) @ batches)[:, 0] / batches.shape[1]


def _find_variance(batches: np.ndarray) -> np.ndarray:
    """Return the variances [T, d] within batches [T, B, d]."""
    return _average((batches - _average(batches)[:, np.newaxis])**2)


def _divide(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[i:i + CHUNK] for i in range(0, len(rows), CHUNK))


def _count_by_factor(right: np.ndarray, factor: np.ndarray, K: int) -> np.ndarray:
    """Return the accuracy per factor [K]; NaN for a factor that was never fixed."""
    drawn = np.bincount(factor, minlength=K)
    return np.divide(np.bincount(factor, right, K), drawn, where=drawn > 0, out=np.full(K, np.nan))
