"""The linear beta-VAE in closed form: affine encoder and decoder, Gaussian noise."""

from typing import NamedTuple

import numpy as np


class LinearOptimum(NamedTuple):
    """The optimum of a linear beta-VAE, up to signs and order of the latents; terms are in nats per example.

    decoder D [n, k] and encoder W [k, n] act on data minus its mean; variances [k] are the posterior's;
    active [k] says which latents are used. elbo is -(reconstruction + kl), whatever beta is; mie is the model
    inference error E_x KL(q(z|x) || p(z|x)).
    """

    decoder: np.ndarray
    encoder: np.ndarray
    variances: np.ndarray
    active: np.ndarray
    reconstruction: float
    kl: float
    elbo: float
    mie: float


def linear_beta_vae(covariance, latents, beta=1.0, noise_variance=1.0):
    """The optimum of the linear beta-VAE (sikka (21)-(26) and allen Theorem 3 together).

    With covariance C = Q diag(l) Q^T and noise variance s^2 the optimum is that of PPCA with noise beta s^2:
    D = Q_k (diag(l) - beta s^2 I)_+^{1/2}, W = (D^T D + beta s^2 I)^{-1} D^T, variances
    beta s^2 / (||d_j||^2 + beta s^2). Latent j is passive iff l_j <= beta s^2.

    Args:
        covariance: of the data, C [n, n].
        latents: k <= n.
        beta: weight of the KL.
        noise_variance: s^2, of the likelihood.

    Returns:
        LinearOptimum.
    """
    C = np.asarray(covariance, np.float64)
    n, s2, noise = len(C), noise_variance, beta * noise_variance
    eigenvalues, Q = np.linalg.eigh(C)
    eigenvalues, Q = eigenvalues[::-1][:latents], Q[:, ::-1][:, :latents]
    m = np.maximum(eigenvalues - noise, 0)                       # ||d_j||^2
    D = Q * np.sqrt(m)
    W = (D / (m + noise)).T
    v = noise / (m + noise)
    residual = np.eye(n) - D @ W
    reconstruction = n / 2 * np.log(2 * np.pi * s2) + (np.trace(residual @ C @ residual.T) + m @ v) / (2 * s2)
    kl = (np.trace(W @ C @ W.T) + np.sum(v - np.log(v) - 1)) / 2
    # The model's own posterior p(z|x) = N(F x, E), E diagonal because the columns of D are orthogonal (sikka 24, 26).
    E = s2 / (m + s2)
    F = (D / (m + s2)).T
    mie = (np.sum(v / E - np.log(v / E) - 1) + np.trace(((F - W) @ C @ (F - W).T) / E[:, np.newaxis])) / 2
    active = eigenvalues > noise
    return LinearOptimum(D, W, v, active, float(reconstruction), float(kl), float(-reconstruction - kl), float(mie))
