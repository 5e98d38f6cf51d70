"""Metrics of how well single latents predict a factor: disentanglement_score and sap."""

import math
from collections.abc import Sequence

import numpy as np

from vae_tf.arguments import Count, Seed
from vae_tf.errors import InputError
from vae_tf.kinds import decide
from vae_tf.metrics.information import gaps
from vae_tf.metrics.one_latent_svm import predict_classes
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, check_recurring, find_classes, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows

SVM_COST = 0.01         # of sap, as in disentanglement_lib


@register(needs=("codes", "factors"), learns=True, range=(0, math.inf), unchanged_by=("permutation",),
          nearly_unchanged_by=("sign", "scale"), by_factor=True,
          meaning="the gap in how well the two best latents, each alone, predict a factor from its nearest neighbours")
def disentanglement_score(codes: np.ndarray, factors: np.ndarray, kinds: tuple[str, ...] | str | None = None,
                          neighbours: Count = 5, seed: Seed = 0) -> Result:
    """rolinek's Disentanglement score (S65-S71): the gap in how well single latents predict a factor.

    The score is the mean over factors i of (A_im - A_is) / M_i, where m and s are the two latents that predict v_i
    best, each by k nearest neighbours in that latent alone. For regression, A = std - rmse and M = std of v_i. For
    classification, A is the accuracy and M that of the best constant, the commonest class.

    The score is 0 or more, and 0 if for each factor two latents predict equally well. With regression it is 1 if one
    latent predicts each factor perfectly and no other does better than a constant. The paper calls it a number between
    0 and 1; as printed it is not: a useless latent's kNN is worse than a constant (rmse = std sqrt(1 + 1/k)), so that a
    perfect code scores 1.095 at k = 5; and accuracy over the accuracy of a constant reaches the number of classes. The
    part `bounded` is in [0, 1]: A no worse than the best constant's, over what is to be gained on that. With one
    latent, its rival is the constant. A constant factor is left out, with a warning. If more rows share a value of a
    latent than there are neighbours, those among them are drawn at random.

    Args:
        codes: [N, d].
        factors: [N, K].
        kinds: kinds of the factors, see `vae_tf.kinds.decide`. The categorical ones are classified, all others
            regressed, as rolinek did for positions.
        neighbours: the number k of nearest neighbours.
        seed: seed of the split, 80/20, and of the order of equal codes.

    Returns:
        Result; parts: gap [K], latent [K] (m), performance A [d, K], normaliser M [K], kinds [K], bounded.

    Raises:
        InputError: shapes that disagree, NaN, too few rows, no factor that varies, or a categorical one most of whose
            values occur once.
    """
    from sklearn.neighbors import NearestNeighbors

    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    check_recurring(factors, kinds, [kind == "categorical" for kind in kinds])
    train, test = split_rows(len(codes), 0.2, seed)
    if neighbours > len(train):
        raise InputError(f"neighbours: expected at most {len(train)}, the training rows; got {neighbours}")
    varies = find_varying("disentanglement_score", factors, test)
    # of each latent [test rows, neighbours], for all factors
    nearest = [train[NearestNeighbors(n_neighbors=neighbours).fit(z[train]).kneighbors(z[test], return_distance=False)]
               for z in _tell_apart(codes, neighbours, seed).T[..., np.newaxis]]
    performance = np.zeros((codes.shape[1], len(varies)))
    normaliser, constant, perfect = np.ones((3, len(varies)))
    for k in np.flatnonzero(varies):
        performance[:, k], normaliser[k], constant[k], perfect[k] = _measure_factor(
            factors[:, k], kinds[k] == "categorical", nearest, test)
    above = np.maximum(performance - constant, 0)
    gap = (gaps(performance) if len(performance) > 1 else above[0]) / normaliser
    bounded = gaps(above) / np.where(varies, perfect - constant, 1)
    return Result("disentanglement_score", float(gap[varies].mean()),
                  {"gap": np.where(varies, gap, np.nan), "latent": performance.argmax(0), "performance": performance,
                   "normaliser": normaliser, "kinds": np.array(kinds), "bounded": np.array(bounded[varies].mean())},
                  "0: no latent predicts a factor better than another does; 1: one predicts it, the rest do not")


def _tell_apart(codes: np.ndarray, neighbours: int, seed: int) -> np.ndarray:
    """Return codes [N, d] with a little noise in latents of which many rows have the same value.

    Of such rows, scikit-learn takes the same few for the neighbours of all others. The noise has them take turns. Its
    standard deviation is a thousandth of the least distance between two values, and 1,000 roundings at least.
    """
    noise, found = np.random.default_rng([seed, 1]).standard_normal(len(codes)), codes.astype(np.float64)
    for j, (values, counts) in enumerate(np.unique(z, return_counts=True) for z in codes.T):
        if counts.max() > neighbours:
            distance = np.diff(values).min() if len(values) > 1 else 1.0
            around = codes[:, j] - np.median(codes[:, j])
            found[:, j] = around + np.maximum(1e-3 * distance, 1e3 * np.spacing(np.abs(around))) * noise
    return found


def _measure_factor(v: np.ndarray, classify: bool, nearest: Sequence[np.ndarray], test: np.ndarray,
                    ) -> tuple[np.ndarray, float, float, float]:
    """Return, for a factor v [N], A [d] of each latent alone, M, and the best constant's and a perfect score."""
    if classify:
        normaliser = float(np.unique(v[test], return_counts=True)[1].max() / len(test))
        constant, perfect = normaliser, 1.0
        performance = [np.mean(_find_commonest(v[rows]) == v[test]) for rows in nearest]
    else:
        constant, perfect = 0.0, float(v[test].std())
        normaliser = perfect
        performance = [perfect - np.sqrt(np.mean((v[rows].mean(1) - v[test])**2)) for rows in nearest]
    return np.array(performance), normaliser, constant, perfect


def _find_commonest(values: np.ndarray) -> np.ndarray:
    """Return the commonest value in each row [N] of values [N, neighbours]; the smallest of those as common."""
    ordered = np.sort(values, 1)
    counts = np.stack([(ordered == column[:, np.newaxis]).sum(1) for column in ordered.T], 1)
    return np.take_along_axis(ordered, counts.argmax(1)[:, np.newaxis], 1)[:, 0]


@register(needs=("codes", "factors"), learns=True, range=(0, 1), unchanged_by=("permutation", "sign"),
          nearly_unchanged_by=("relabelling",),
          by_factor=True, meaning="the gap in how well the two best latents, each alone, predict a factor linearly")
def sap(codes: np.ndarray, factors: np.ndarray, kinds: tuple[str, ...] | str | None = None, seed: Seed = 0) -> Result:
    """Separated attribute predictability (Kumar 2018): the gap in how well single latents predict a factor linearly.

    The score is the mean over factors of the gap between the two best latents. A discrete factor is predicted by a
    linear SVM (C = 0.01, balanced classes) on one latent, and its test accuracy counts. For a continuous factor the
    squared correlation counts. The score is in [0, 1]. It is 0 if two latents predict equally well. It is 1 if one
    predicts perfectly and the next not at all, which chance accuracy makes impossible for discrete factors. The SVM
    regularises its weight and its intercept, so the score depends on the scale of each latent, and on its mean. A
    constant latent predicts the commonest class, but of two classes one or the other, whichever its value leads to. It
    correlates 0 with a continuous factor, as does one of a variance below 1e-12. A constant factor is left out, with a
    warning.

    Args:
        codes: [N, d].
        factors: [N, K].
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third.

    Returns:
        Result; parts: gap [K], latent [K], score_matrix [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, kinds=kinds)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying("sap", factors, train)
    table = np.zeros((codes.shape[1], len(varies)))
    for k in np.flatnonzero(varies):
        for j, z in enumerate(codes.T):
            table[j, k] = (_squared_correlation(z[train], factors[train, k]) if kinds[k] == "continuous"
                           else np.mean(predict_classes(z[train], v[train, k], z[test], SVM_COST) == v[test, k]))
    gap = gaps(table)
    return Result("sap", float(gap[varies].mean()),
                  {"gap": np.where(varies, gap, np.nan), "latent": table.argmax(0), "score_matrix": table,
                   "kinds": np.array(kinds)},
                  "0: no latent predicts a factor better than another does; higher: one does; depends on the scale "
                  "and the mean of codes")


def _squared_correlation(z: np.ndarray, v: np.ndarray) -> float:
    """Return r^2; it is 0 for codes z whose variance is below 1e-12."""
    (zz, zv), (_, vv) = np.cov(z, v, ddof=0)
    return zv**2 / (zz * vv) if zz > 1e-12 and vv > 0 else 0.0
