"""Metrics of codes alone: how far the latents are from independent (Locatello 2019, section 5.3)."""

import math
import warnings

import numpy as np

from vae_tf import activity
from vae_tf.arguments import Bins
from vae_tf.errors import InputError
from vae_tf.metrics.information import pair_information
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, discretise


def _covariance(codes: np.ndarray) -> np.ndarray:
    if len(codes) < 2:
        raise InputError(f"codes: expected at least 2 rows for a covariance; got {len(codes)}")
    varies = activity.is_moving(codes)          # rounding leaves the variance of a constant column above 0
    return np.where(np.outer(varies, varies), np.atleast_2d(np.cov(codes, rowvar=False)), 0)


@register(needs=("codes",), range=(0, math.inf), unchanged_by=("permutation", "sign", "scale", "relabelling"),
          meaning="dependence of the latents in nats, of a Gaussian with the codes' covariance")
def total_correlation(codes: np.ndarray) -> Result:
    """Total correlation in nats of a Gaussian with the codes' covariance C: KL(N(m, C) || N(m, diag C)).

    The score is 1/2 (sum_j log C_jj - log det C), which is 0 or more, without an upper bound. It is 0 if the latents
    are uncorrelated. It sees second moments only, so 0 does not mean independence. It is infinite, with a warning, if a
    latent is a linear function of others (duplicated codes, or fewer rows than latents). A constant latent is
    independent of all others and does not count.

    Args:
        codes: [N, d], N >= 2.

    Returns:
        Result; parts: correlation [d, d], signed.

    Raises:
        InputError: NaN, not a matrix, or one row.
    """
    codes, _ = check_arrays(codes)
    covariance = _covariance(codes)
    variance = np.diag(covariance)
    scale = np.sqrt(np.where(variance > 0, variance, 1))
    correlation = covariance / np.outer(scale, scale) + np.diag(variance == 0)
    spectrum = np.linalg.eigvalsh(correlation)
    if spectrum[0] <= len(scale) * np.finfo(float).eps * spectrum[-1]:
        warnings.warn("total_correlation is infinite: a latent is a linear function of the others", stacklevel=2)
        score = np.inf
    else:
        score = max(0.0, -0.5 * float(np.log(spectrum).sum()))
    return Result("total_correlation", score, {"correlation": correlation},
                  "nats, of a Gaussian with the codes' covariance; 0: latents are uncorrelated")


@register(needs=("codes",), range=(0, math.inf), unchanged_by=("permutation", "sign", "relabelling"),
          meaning="dependence of the latents as a distance between Gaussians, in squared units of z")
def wasserstein_correlation(codes: np.ndarray) -> Result:
    """Squared 2-Wasserstein distance between Gaussians with the codes' covariance C and with its diagonal D.

    2 tr C - 2 tr (D^1/2 C D^1/2)^1/2. The score is 0 if the latents are uncorrelated, and larger otherwise. It is in
    squared units of the codes and grows with their scale, so the part `normalised` divides by tr C (then in [0, 2]).
    Codes that are all constant give 0.

    Args:
        codes: [N, d], N >= 2.

    Returns:
        Result; parts: normalised, covariance [d, d].

    Raises:
        InputError: NaN, not a matrix, or one row.
    """
    codes, _ = check_arrays(codes)
    covariance = _covariance(codes)
    root = np.sqrt(np.diag(covariance))
    trace = float(np.trace(covariance))
    # The trace of the root is the sum of the roots of the eigenvalues; rounding makes some negative.
    spectrum = np.linalg.eigvalsh(root[:, np.newaxis] * covariance * root)
    score = max(0.0, 2 * trace - 2 * float(np.sqrt(np.maximum(spectrum, 0)).sum()))
    return Result("wasserstein_correlation", score,
                  {"normalised": np.array(score / trace if trace else 0.0), "covariance": covariance},
                  "squared units of z; 0: latents are uncorrelated; grows with their scale")


@register(needs=("codes",), range=(0, math.log(20)), unchanged_by=("permutation", "relabelling"),
          nearly_unchanged_by=("sign", "scale"),
          meaning="mean mutual information of two latents in nats, from histograms")
def mutual_information(codes: np.ndarray, bins: Bins = 20) -> Result:
    """Mean mutual information in nats of two latents, from histograms.

    The score is 1/(d (d - 1)) sum_{i != j} I(z_i; z_j), in [0, log bins]. It is near 0 if the latents are pairwise
    independent; the histogram of N examples gives about (bins - 1)^2 / 2N even then. With one latent there is no pair,
    and the score is 0.

    Args:
        codes: [N, d].
        bins: number of equal-width bins of each latent.

    Returns:
        Result; parts: mutual_information [d, d], its diagonal the entropy of each binned latent.

    Raises:
        InputError: NaN, or not a matrix.
    """
    codes, _ = check_arrays(codes)
    z = [discretise(column, bins) for column in codes.T]
    d = len(z)
    table = np.array([[pair_information(a, b) for b in z] for a in z])
    score = (table.sum() - np.trace(table)) / (d * (d - 1)) if d > 1 else 0.0
    return Result("mutual_information", float(score), {"mutual_information": table},
                  "nats, mean over pairs of latents; 0: latents are pairwise independent")
