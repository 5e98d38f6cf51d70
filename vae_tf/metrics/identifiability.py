"""How well factors are identified up to a linear map: R^2 of linear regression, and canonical correlations."""

import numpy as np

from vae_tf.arguments import Seed
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows


@register(needs=("codes", "factors"), learns=True, range=(0, 1), unchanged_by=("permutation", "sign", "scale"),
          by_factor=True,
          meaning="how well a linear regression on all latents predicts factors: what is lost up to a linear map")
def linear_r2(codes: np.ndarray, factors: np.ndarray, seed: Seed = 0) -> Result:
    """R^2 of predicting each factor by linear regression from all latents, on new rows: linear identifiability.

    The score is the mean over factors of 1 - (mean squared error) / (variance of the factor), where a factor that is
    predicted worse than by its mean counts 0. It is in [0, 1]. It is 1 if the factors are affine functions of the
    codes, as any invertible linear map of perfect codes is: the score does not say whether a latent is about one
    factor. A constant factor is left out, with a warning. The score takes factors as numbers, so it misleads for an
    unordered factor.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K].
        seed: seed of the split, two thirds to one third.

    Returns:
        Result; parts: per_factor [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying("linear_r2", factors, train, test)
    axes, centre = _find_axes(codes[train])
    mean = factors[train].mean(0)
    z = (codes - centre) @ axes                                         # orthonormal columns in the training part
    predicted = mean + z[test] @ (z[train].T @ (factors[train] - mean))
    error = np.mean((predicted - factors[test])**2, 0)
    per_factor = np.full(len(varies), np.nan)
    per_factor[varies] = np.maximum(0, 1 - error[varies] / factors[test].var(0)[varies])
    return Result("linear_r2", float(per_factor[varies].mean()), {"per_factor": per_factor},
                  "0: no better than the factors' means; 1: each factor is an affine function of all latents")


@register(needs=("codes", "factors"), learns=True, range=(0, 1), unchanged_by=("permutation", "sign", "scale"),
          also=("cca",), meaning="`mcc` after the best linear maps of codes and factors: mean canonical correlation")
def weak_mcc(codes: np.ndarray, factors: np.ndarray, seed: Seed = 0) -> Result:
    """Mean canonical correlation of codes and factors, on new rows: weak identifiability (Khemakhem, Monti 2020).

    Canonical correlation analysis finds a linear map of the codes and one of the factors whose columns are correlated
    the most, pair by pair. The score is the mean over R pairs of |correlation| in rows that the maps were not made
    from. It is in [0, 1]. It is 1 if codes and factors are invertible affine functions of each other, and 0 if no
    linear function of the codes is correlated with any of the factors. `mcc` asks the same of latents and factors as
    they are, and is called strong for that. With fewer latents than factors, pairs that are missing count 0. Constant
    latents add nothing; a constant factor is left out, with a warning. R is the rank of the factors: factors that are
    affine functions of others, as one of several indicators of a class is, add no pair.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K].
        seed: seed of the split, two thirds to one third.

    Returns:
        Result; parts: per_pair [R].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    from vae_tf.metrics.correlation import correlation

    codes, factors = check_arrays(codes, factors)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    factors = factors[:, find_varying("weak_mcc", factors, train)]
    (left, left_centre), (right, right_centre) = _find_axes(codes[train]), _find_axes(factors[train])
    z, v = (codes - left_centre) @ left, (factors - right_centre) @ right
    U, _, Vt = np.linalg.svd(z[train].T @ v[train], full_matrices=False)
    per_pair = np.zeros(right.shape[1])
    found = np.diag(correlation(z[test] @ U, v[test] @ Vt.T))
    per_pair[:len(found)] = found
    return Result("weak_mcc", float(per_pair.mean()), {"per_pair": per_pair},
                  "0: no linear function of the codes follows the factors; 1: they are linear functions of each other")


def _find_axes(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a map [c, rank] and a centre [c]: (columns - centre) @ map has orthonormal columns, columns being [N, c].

    Each column is first brought to standard deviation 1, so that no unit decides which directions are rounding.
    """
    centre, spread = columns.mean(0), columns.std(0)
    constant = (columns == columns[:1]).all(0)          # rounding leaves a constant column a deviation
    scale = np.where(constant, 0, 1 / np.where(constant, 1, spread))
    _, values, Vt = np.linalg.svd((columns - centre) * scale, full_matrices=False)
    kept = values > len(columns) * np.finfo(float).eps * max(values.max(), 1e-300)
    return scale[:, np.newaxis] * Vt[kept].T / values[kept], centre
