"""Metrics from the correlation of codes and factors."""

import numpy as np
import scipy

from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays


def correlation(codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return the absolute Pearson correlation [d, K]; a constant column has correlation 0."""
    def standardised(columns: np.ndarray) -> np.ndarray:
        centred = columns - columns.mean(0)
        constant = (columns == columns[:1]).all(0)      # rounding leaves the norm of a constant column above 0
        return np.where(constant, 0, centred / np.where(constant, 1, np.linalg.norm(centred, axis=0)))

    return np.minimum(1, np.abs(standardised(codes).T @ standardised(np.asarray(factors, np.float64))))


@register(needs=("codes", "factors"), range=(0, 1), unchanged_by=("permutation", "sign", "scale"),
          also=("strong_mcc",), meaning="correlation after the best one-to-one matching of latents to factors")
def mcc(codes: np.ndarray, factors: np.ndarray) -> Result:
    """Mean correlation coefficient after the best one-to-one matching of latents to factors (Khemakhem 2020, 5).

    The score is in [0, 1]. It is 1 if each factor is an affine function of a latent of its own, and 0 if no latent is
    correlated with any factor. With fewer latents than factors, a factor without a partner counts 0. A constant
    latent has correlation 0 with everything. The score uses Pearson's correlation; the part `spearman` is the same
    with Spearman's, which sees monotone relations.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K].

    Returns:
        Result; parts: per_factor [K], latent [K] (the partner, -1 for none), correlation [d, K], spearman.

    Raises:
        InputError: shapes that disagree, or NaN.
    """
    codes, factors = check_arrays(codes, factors)
    r = correlation(codes, factors)
    per_factor, latent = match(r)
    ranked, _ = match(correlation(scipy.stats.rankdata(codes, axis=0), scipy.stats.rankdata(factors, axis=0)))
    return Result("mcc", float(per_factor.mean()),
                  {"per_factor": per_factor, "latent": latent, "correlation": r, "spearman": np.array(ranked.mean())},
                  "0: no latent follows any factor; 1: each factor is a straight line in a latent of its own")


def match(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best one-to-one matching of |r| [d, K]: the correlation of each factor, and its latent."""
    latents, factors = scipy.optimize.linear_sum_assignment(r, maximize=True)
    per_factor, latent = np.zeros(r.shape[1]), np.full(r.shape[1], -1)
    per_factor[factors], latent[factors] = r[latents, factors], latents
    return per_factor, latent
