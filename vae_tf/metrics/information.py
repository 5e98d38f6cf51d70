"""Metrics from the mutual information of codes and factors."""

import warnings

import numpy as np
from sklearn.metrics import mutual_info_score

from vae_tf.errors import InputError
from vae_tf.metrics.result import Result, checked


def discretised(column, bins=20):
    """A column [N] in `bins` equal-width bins over its range: integers 0..bins-1; a constant column gives 0."""
    low, high = column.min(), column.max()
    if low == high:
        return np.zeros(len(column), np.int64)
    edges = np.linspace(low, high, bins + 1)
    return np.clip(np.digitize(column, edges[1:-1]), 0, bins - 1)


def mutual_information(codes, factors, bins=20):
    """I(z_j; v_k) [d, K] and H(v_k) [K] in nats, from histograms.

    codes [N, d] are binned, 20 equal-width bins each; integer factors [N, K] are taken as they are, float
    factors are binned as codes are.
    """
    z = [discretised(column, bins) for column in codes.T]
    v = [column if np.issubdtype(factors.dtype, np.integer) else discretised(column, bins) for column in factors.T]
    return (np.array([[mutual_info_score(a, b) for b in v] for a in z]),
            np.array([mutual_info_score(b, b) for b in v]))


def mig(codes, factors, bins=20):
    """Mutual information gap (Chen 2018, eq. 6), with disentanglement_lib's histograms.

    mean over factors k of (I(z_a; v_k) - I(z_b; v_k)) / H(v_k), where z_a and z_b are the two latents that
    know most about v_k. In [0, 1]. 1: each factor is known to one latent alone, wholly. 0: for each factor
    two latents know equally much, or none knows anything. With one latent, z_b knows nothing. A constant
    factor has no information to be gained; it is left out, with a warning.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K]; integers as they are, floats in `bins` bins.
        bins: equal-width bins per latent. One outlier squeezes all other codes into few of them.

    Returns:
        Result; parts: gap [K], mutual_information [d, K] and entropy [K] in nats.

    Raises:
        InputError: shapes that disagree, NaN, or no factor that varies.
    """
    codes, factors = checked(codes, factors)
    information, entropy = mutual_information(codes, factors, bins)
    varies = entropy > 0
    if not varies.any():
        raise InputError("factors: expected at least one that varies; all are constant")
    if not varies.all():
        warnings.warn(f"mig leaves out the constant factors {np.flatnonzero(~varies).tolist()}", stacklevel=2)
    top = np.sort(np.pad(information, [(1, 0), (0, 0)]), axis=0)[-2:]      # the pad: nothing, for d = 1
    gap = np.divide(top[1] - top[0], entropy, where=varies, out=np.full(len(entropy), np.nan))
    return Result("mig", float(gap[varies].mean()),
                  {"gap": gap, "mutual_information": information, "entropy": entropy},
                  "0: no factor has a latent of its own; 1: every factor is known to exactly one latent")
