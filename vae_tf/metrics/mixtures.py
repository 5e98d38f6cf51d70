"""Entropies and densities of the aggregate posterior q(z), by Monte Carlo: the mixture of q(z|x) over the examples."""

import functools
from collections.abc import Callable

import numpy as np
import scipy

CHUNK = 100_000             # number of densities in memory at a time, few enough to stay in the cache
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
MANY = 100                  # number of components from which on densities may be computed in float32
SAFE_REACH = 1e3            # the largest reach of z, in units of the narrowest component, for float32
GRID = 6                    # points of the grid on which a density is computed, per least standard deviation
FEWEST = 10                 # the least number of points of a grid
LARGEST_ERROR = 1e-6        # of an exponent that is computed as a difference of squares


def _keep_last(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Let a function of arrays return its last result again if it is called with equal arguments.

    Metrics of one posterior draw the same samples, and so ask for the same densities one after another.
    """
    last: list[tuple[list[np.ndarray], np.ndarray]] = []

    @functools.wraps(function)
    def find_or_compute(*arrays: np.ndarray) -> np.ndarray:
        if not (last and all(map(np.array_equal, last[0][0], arrays))):
            last[:] = [([array.copy() for array in arrays], function(*arrays))]
        return last[0][1].copy()

    return find_or_compute


def entropies(means: np.ndarray, stddevs: np.ndarray, factors: np.ndarray, samples: int, rng: np.random.Generator,
              ) -> tuple[np.ndarray, np.ndarray]:
    """Return H(z_j) [d] and H(z_j|v_k) [d, K] in nats, by Monte Carlo from the same samples.

    The aggregate posterior q(z_j) is the mixture 1/N sum_n N(mean_nj, stddev_nj^2), and q(z_j|v_k) that of the
    examples that share the value. Each z_s is drawn from the posterior of an example x_s, all examples equally often:
        H(z_j)     = -1/S sum_s log q(z_sj)
        H(z_j|v_k) = -1/S sum_s log q(z_sj | v_k(x_s))
    Their difference I(z_j; v_k) is the mean of log q(z_sj|v_k(x_s)) - log q(z_sj), whose two terms rise and fall
    together: it has far less spread than entropies of different samples, and neither term is biased.

    Args:
        means, stddevs: [N, d].
        factors: [N, K], classes.
        samples: S.
        rng: numpy Generator.
    """
    owner = draw_owners(len(means), samples, rng)
    z = means[owner] + stddevs[owner] * rng.standard_normal((samples, means.shape[1]))
    conditional = _sum_conditionals(z, owner, means, stddevs, factors)
    return -log_marginals(z, means, stddevs).sum(1) / samples, -conditional / samples


@_keep_last
def log_marginals(z: np.ndarray, means: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """Return log q(z_sj) [d, S] of each latent's mixture over all examples, for z [S, d], means and stddevs [N, d]."""
    return np.stack([log_mixture(*columns) for columns in zip(z.T, means.T, stddevs.T, strict=True)])


@_keep_last
def _sum_conditionals(z: np.ndarray, owner: np.ndarray, means: np.ndarray, stddevs: np.ndarray, factors: np.ndarray,
                      ) -> np.ndarray:
    """Return log q(z_sj|v_k(x_s)), summed over samples [d, K], where sample s is from the posterior of owner[s]."""
    total = np.zeros((means.shape[1], factors.shape[1]))
    for k, v in enumerate(factors.T):
        for value in np.unique(v[owner]):
            of, rows = v[owner] == value, v == value
            total[:, k] += [log_mixture(*columns).sum()
                            for columns in zip(z[of].T, means[rows].T, stddevs[rows].T, strict=True)]
    return total


def log_mixture(z: np.ndarray, means: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """Return log 1/N sum_n N(z_s; mean_n, stddev_n^2) [S], for one latent: z [S], means and stddevs [N].

    The logarithm is a curve that cannot turn within less than the narrowest component. Where a grid of GRID points per
    least standard deviation has fewer points than z, it is computed on the grid alone, and a cubic spline gives it at
    z. The spline is off by up to 1e-3 in gaps between groups of components, where few z lie that are drawn from the
    mixture, and by 1e-6 on average.
    """
    low, high, narrowest = z.min(), z.max(), stddevs.min()
    if low < high and GRID * (high - low) < (len(z) - FEWEST) * narrowest:
        grid = np.linspace(low, high, FEWEST + int(GRID * (high - low) / narrowest))
        return scipy.interpolate.CubicSpline(grid, _compute_log_mixture(grid, means, stddevs))(z)
    return _compute_log_mixture(z, means, stddevs)


def _compute_log_mixture(z: np.ndarray, means: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """Return what `log_mixture` does, computed for each z.

    Densities of many components, where time counts, are computed in float32, if none is narrower than a thousandth of
    the reach of z. The error of a logarithm is then below 1e-4 for each z, and far smaller in the mean over z, which
    Monte Carlo leaves uncertain by about 1e-2.
    """
    centre, scale = means.mean(), np.sqrt(0.5) / stddevs
    reach = max(np.abs(z - centre).max(), np.abs(means - centre).max())
    safe = stddevs.min() > max(reach / SAFE_REACH, 1e-30) and stddevs.max() < 1e30     # the range is 1e-38 to 1e38
    dtype = np.float32 if safe and len(means) >= MANY else np.float64
    z, means, scale, weights = (a.astype(dtype) for a in (z - centre, means - centre, scale, 1 / stddevs))
    total, least = np.empty(len(z)), -700 if dtype is np.float64 else -80      # exp is slow where it underflows
    step = max(1, CHUNK // len(means))
    for i in range(0, len(z), step):
        exponent = np.subtract.outer(z[i:i + step], means)
        exponent *= scale
        np.square(exponent, out=exponent)
        np.negative(exponent, out=exponent)
        np.maximum(exponent, least, out=exponent)           # so that no sum is 0 far from all components, either
        total[i:i + step] = np.exp(exponent, out=exponent) @ weights
    return np.log(total / len(means)) - HALF_LOG_2PI


def draw_owners(examples: int, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return which example's posterior each sample is from [S]: all equally often, in random order."""
    return rng.permutation(examples)[np.arange(samples) % examples]


def log_joint_mixture(z: np.ndarray, means: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """Return log 1/N sum_n N(z_s; mean_n, diag stddev_n^2) [S], for z [S, d].

    The exponents are products of matrices, unless some component is so narrow that the difference of z^2 and the
    mean^2 would have no digits left.
    """
    centre = means.mean(0)
    z, means = z - centre, means - centre
    reach = max(np.abs(z).max(), np.abs(means).max())
    if np.finfo(float).eps * (reach / stddevs.min())**2 > LARGEST_ERROR:
        log_widths = np.log(stddevs).sum(1)
        return _average_densities(len(z), means, lambda rows: -log_widths - 0.5 * sum(
            ((z[rows, j, np.newaxis] - means[:, j]) / stddevs[:, j])**2 for j in range(means.shape[1])))
    precision = stddevs**-2.0
    weights = np.concatenate([-0.5 * precision, means * precision,
                              (-0.5 * (means**2 * precision).sum(1) - np.log(stddevs).sum(1))[:, np.newaxis]], 1).T
    features = np.concatenate([z**2, z, np.ones((len(z), 1))], 1)
    return _average_densities(len(z), means, lambda rows: features[rows] @ weights)


def _average_densities(samples: int, means: np.ndarray, list_exponents: Callable[[slice], np.ndarray]) -> np.ndarray:
    """Return the logarithms [S] of mean densities, from their exponents [rows, N] less d log(2 pi) / 2.

    Each exponential is taken relative to the largest of its row. Where there are many components, and time counts, it
    is a float32, which is off by less than 1e-6 of the largest.
    """
    total = np.empty(samples)
    step = max(1, CHUNK // len(means))
    # No exponent is below `least`, because exp takes long where its result underflows.
    dtype, least = (np.float32, -80) if len(means) >= MANY else (np.float64, -700)
    for i in range(0, samples, step):
        exponent = list_exponents(slice(i, i + step))
        largest = exponent.max(1, keepdims=True)
        exponent -= largest
        share = np.maximum(exponent, least).astype(dtype, copy=False)
        total[i:i + step] = np.log(np.exp(share, out=share).sum(1)) + largest[:, 0]
    return total - np.log(len(means)) - means.shape[1] * HALF_LOG_2PI
