"""Consistency and restrictiveness: what latents do while a factor stays, and while it alone changes (Shu 2020)."""

import warnings

import numpy as np

from vae_tf.arguments import Bins
from vae_tf.errors import InputError
from vae_tf.kinds import decide, tell_factors
from vae_tf.metrics.correlation import match
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying


@register(needs=("codes", "factors"), range=(0, 1), unchanged_by=("permutation", "sign", "scale", "relabelling"),
          meaning="whether the latent of a factor stays put while the factor does, whatever the others do")
def consistency(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
                ) -> Result:
    """Consistency (Shu 2020): does the latent of a factor stay put while the factor does?

    For latent j and factor k this is 1 - E (z_j - z'_j)^2 / E (z_j - z''_j)^2, where z and z' share the value of factor
    k, and z'' is any row. It equals the share of the latent's variance between the values of the factor. The paper
    trains latent k to be about factor k; here latents and factors are matched one to one, so that the sum is largest.
    The score is the mean over factors, in [0, 1]. It is 1 if each factor determines a latent of its own, and 0 if no
    factor says anything about any latent. A latent may be consistent with a factor and say nothing of it but a part. A
    factor without a partner counts 0, a constant latent has 0, and a constant factor is left out, with a warning.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.

    Returns:
        Result; parts: per_factor [K], latent [K] (the partner, -1 for none), matrix [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, or no factor that varies.
    """
    codes, v, kinds, varies = _prepare("consistency", codes, factors, bins, kinds)
    variance = codes.var(0)
    matrix = np.zeros((codes.shape[1], v.shape[1]))
    for k in np.flatnonzero(varies):
        within = np.mean(_deviate(codes, v[:, k])**2, 0)        # half of E (z - z')^2
        matrix[:, k] = 1 - np.minimum(1, within / np.where(variance > 0, variance, 1))
    matrix[variance == 0] = 0
    return _make_result("consistency", matrix, varies, kinds,
                        "0: a latent moves as much while a factor stays; 1: each factor stills a latent of its own")


@register(needs=("codes", "factors"), range=(0, 1), unchanged_by=("permutation", "sign", "relabelling"),
          meaning="whether a factor that changes alone moves its own latent alone")
def restrictiveness(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20,
                    kinds: tuple[str, ...] | str | None = None) -> Result:
    """Restrictiveness (Shu 2020): does a factor that changes alone leave all latents but its own where they are?

    For latent j and factor k this is 1 - E |z_-j - z'_-j|^2 / E |z_-j - z''_-j|^2, where z_-j are all latents but j, z
    and z' share all factors but k, whose value in z' is drawn anew, and z'' is any row. Latents and factors are matched
    one to one, so that the sum is largest. The score is the mean over factors, in [0, 1]. It is 1 if a factor that
    changes alone moves the latent of that factor alone, and 0 if it moves the others as much as all factors do.
    Latents count by their variance, so their scale does. A constant latent is the partner of no factor. Where a single
    latent varies, the factor that it is matched to has 1, because no other latent can move, and all others have 0.

    Pairs of rows that share all factors but one are needed. A factor without such pairs is left out, with a warning;
    of a continuous factor, values in the same bin count as shared. Every pair counts alike.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.

    Returns:
        Result; parts: per_factor [K], latent [K] (the partner, -1 for none), matrix [d, K], pairs [K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, no factor that varies, or none that ever changes alone.
    """
    codes, v, kinds, varies = _prepare("restrictiveness", codes, factors, bins, kinds)
    variance = codes.var(0)
    alike = _number_groups(v)
    others_of = 1 - np.eye(codes.shape[1])
    matrix, pairs = np.zeros((codes.shape[1], v.shape[1])), np.zeros(v.shape[1], int)
    for k in np.flatnonzero(varies):
        others = _number_groups(np.delete(v, k, 1))
        pairs[k] = _count_pairs(others) - _count_pairs(alike)
        if pairs[k]:
            moved = (_sum_over_pairs(codes, others) - _sum_over_pairs(codes, alike)) / pairs[k]
            stayed = _sum_over_pairs(codes, alike) / max(_count_pairs(alike), 1)
            shared = np.sum((np.bincount(v[:, k]) / len(v))**2)         # how often a value drawn anew is the same
            moved = shared * stayed + (1 - shared) * moved
            rest = 2 * variance @ others_of        # added up, because a difference to the whole would be rounding
            matrix[:, k] = np.where(rest > 0, 1 - np.minimum(1, moved @ others_of / np.where(rest > 0, rest, 1)), 1)
    matrix[variance == 0] = 0
    if not pairs.any():
        raise InputError("factors: restrictiveness expects rows that share all factors but one; there are none; give "
                         "more rows, or fewer factors")
    if (varies & (pairs == 0)).any():
        warnings.warn("restrictiveness leaves out factors that never change alone: "
                      f"{tell_factors(varies & (pairs == 0))}", stacklevel=2)
    return _make_result("restrictiveness", matrix, varies & (pairs > 0), kinds,
                        "0: a factor that changes alone moves all latents; 1: it moves its own alone", pairs=pairs)


def _prepare(name: str, codes: np.ndarray, factors: np.ndarray, bins: int, kinds: tuple[str, ...] | str | None,
             ) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], np.ndarray]:
    """Return codes about their mean, exactly 0 where constant, classes [N, K], kinds, and which factors vary [K]."""
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    constant = (codes == codes[:1]).all(0)
    return np.where(constant, 0, codes - codes.mean(0)), v, kinds, find_varying(name, v)


def _number_groups(columns: np.ndarray) -> np.ndarray:
    """Return the number [N] of the group of equal rows that each row of columns [N, c] belongs to."""
    if not columns.shape[1]:
        return np.zeros(len(columns), int)
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)


def _count_pairs(group: np.ndarray) -> int:
    """Return the number of pairs of rows in the same group, of group numbers [N]."""
    sizes = np.bincount(group)
    return int(np.sum(sizes * (sizes - 1) // 2))


def _sum_over_pairs(codes: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the sum [d] of (z - z')^2 over pairs of rows in the same group: n sum (z - mean)^2 for n rows of one."""
    sums: np.ndarray = np.bincount(group)[group] @ _deviate(codes, group)**2
    return sums


def _deviate(codes: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return codes [N, d] less the means of the groups, by number [N], that their rows belong to."""
    sizes = np.maximum(np.bincount(group), 1)
    return np.stack([column - (np.bincount(group, column) / sizes)[group] for column in codes.T], -1)


def _make_result(name: str, matrix: np.ndarray, counted: np.ndarray, kinds: tuple[str, ...], meaning: str,
                 **parts: np.ndarray) -> Result:
    """Return the Result of the best one-to-one matching of latents to the factors that count, of a matrix [d, K]."""
    per_factor, latent = np.full(len(counted), np.nan), np.full(len(counted), -1)
    per_factor[counted], latent[counted] = match(matrix[:, counted])
    return Result(name, float(per_factor[counted].mean()),
                  {"per_factor": per_factor, "latent": latent, "matrix": matrix, "kinds": np.array(kinds), **parts},
                  meaning)
