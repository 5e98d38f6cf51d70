"""Densities, entropies and KL divergences, term by term, and what rests on them alone."""

import itertools
import math

import numpy as np


def normal_log_pdf(z, mean, stddev):
    return -0.5 * math.log(2 * math.pi) - math.log(stddev) - 0.5 * ((z - mean) / stddev) ** 2


def diagonal_kl(mean, stddev):
    """rolinek (4): 1/2 sum_j (mu_j^2 + s_j^2 - log s_j^2 - 1)."""
    return sum(0.5 * (m * m + s * s - math.log(s * s) - 1) for m, s in zip(mean, stddev, strict=True))


def full_kl(mean, lower):
    """rolinek S77: 1/2 (|mu|^2 + tr Sigma - log det Sigma - d)."""
    covariance = lower @ lower.T
    return 0.5 * (mean @ mean + np.trace(covariance) - math.log(np.linalg.det(covariance)) - len(mean))


def between_diagonal_kl(mean, stddev, prior_mean, prior_stddev):
    """KL(N(m, s^2) || N(a, b^2)) summed over latents: log b/s + (s^2 + (m - a)^2) / 2 b^2 - 1/2."""
    return sum(math.log(b / s) + (s * s + (m - a) ** 2) / (2 * b * b) - 0.5
               for m, s, a, b in zip(mean, stddev, prior_mean, prior_stddev, strict=True))


def weights(estimator, batch_size, examples):
    """Importance weights [B, B] of Chen 2018: what example j counts in the estimate of q(z_i)."""
    B, N, M = batch_size, examples, batch_size - 1
    W = np.empty((B, B))
    for i, j in itertools.product(range(B), range(B)):
        if estimator == "weighted":
            W[i, j] = 1 / (N * B)
        elif i == j:
            W[i, j] = 1 / N
        elif j == (i + 1) % B:
            W[i, j] = (N - M) / (N * M)
        else:
            W[i, j] = 1 / M
    return W


def kl_decomposition(mean, stddev, z, examples, estimator):
    """Mutual information, total correlation, dimension-wise KL [B] each, prior N(0, I)."""
    B, d = z.shape
    W = weights(estimator, B, examples)
    parts = []
    for i in range(B):
        density = [[math.exp(normal_log_pdf(z[i, k], mean[j, k], stddev[j, k])) for k in range(d)] for j in range(B)]
        log_q_x = sum(math.log(density[i][k]) for k in range(d))
        log_q = math.log(sum(W[i, j] * math.prod(density[j]) for j in range(B)))
        log_prod = sum(math.log(sum(W[i, j] * density[j][k] for j in range(B))) for k in range(d))
        log_p = sum(normal_log_pdf(z[i, k], 0, 1) for k in range(d))
        parts.append((log_q_x - log_q, log_q - log_prod, log_prod - log_p))
    return np.array(parts).T


def mixture_entropy(means, stddevs):
    """H of a one-dimensional mixture of normals, by the trapezoidal rule."""
    z = np.linspace((means - 12 * stddevs).min(), (means + 12 * stddevs).max(), 200_001)
    density = sum(np.exp(-0.5 * ((z - m) / s)**2) / (s * math.sqrt(2 * math.pi)) for m, s in zip(means, stddevs,
                                                                                                strict=True))
    density /= len(means)
    return -np.trapezoid(density * np.log(np.maximum(density, 1e-300)), z)


def log_mixture(z, means, stddevs):
    """log 1/N sum_n prod_j N(z_j; mean_nj, stddev_nj^2)."""
    return math.log(sum(math.exp(sum(normal_log_pdf(*column) for column in zip(z, m, s, strict=True)))
                        for m, s in zip(means, stddevs, strict=True)) / len(means))


def full_gaussian_kl(mean, covariance, other_mean, other_covariance):
    """KL of two Gaussians as E_q log q / p, the expectation by the moments, densities by SciPy's log-determinants."""
    from scipy.stats import multivariate_normal
    entropy = multivariate_normal(mean, covariance).entropy()
    other = multivariate_normal(other_mean, other_covariance)
    eigenvalues, Q = np.linalg.eigh(covariance)
    # E_q of a quadratic: its value at the mean, and half its second difference along each axis of q
    at_mean = other.logpdf(mean)
    axes = [q * math.sqrt(e) for q, e in zip(Q.T, eigenvalues, strict=True)]
    second = sum(other.logpdf(mean + a) + other.logpdf(mean - a) - 2 * at_mean for a in axes)
    return -entropy - at_mean - second / 2


def polarised_kl(mean, stddev, prior_mean, prior_stddev, threshold):
    """rolinek (10) and (30) of a batch, in units of the prior: L_KL, L~KL, their relative distance, active latents."""
    B, d = mean.shape
    active = [j for j in range(d)
              if sum(stddev[i, j] ** 2 / prior_stddev[i, j] ** 2 for i in range(B)) / B < threshold]
    full = sum(between_diagonal_kl(*row) for row in zip(mean, stddev, prior_mean, prior_stddev, strict=True)) / B
    polarised = sum(0.5 * (((mean[i, j] - prior_mean[i, j]) / prior_stddev[i, j]) ** 2
                           - math.log((stddev[i, j] / prior_stddev[i, j]) ** 2) - 1)
                    for i in range(B) for j in active) / B
    return full, polarised, abs(full - polarised) / full, active


def regime_of_latent(mean, stddev, prior_mean, prior_stddev):
    """active, mixed or passive, counting examples [N] whose KL to the prior is below 0.01 nats."""
    passive = sum(between_diagonal_kl([m], [s], [a], [b]) < 0.01
                  for m, s, a, b in zip(mean, stddev, prior_mean, prior_stddev, strict=True))
    return "passive" if passive >= 0.95 * len(mean) else "active" if passive <= 0.05 * len(mean) else "mixed"


def ks_distance(one, other):
    """The largest difference of the empirical distribution functions, which only jump at the points themselves."""
    def share(sample, t):
        return sum(value <= t for value in sample) / len(sample)

    return max(abs(share(one, t) - share(other, t)) for t in [*one, *other])
