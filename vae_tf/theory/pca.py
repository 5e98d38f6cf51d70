"""PCA around the VAE: the linear autoencoder, which leaves the latents' rotation open, and PPCA by EM."""

from typing import Annotated

import numpy as np

from vae_tf import arguments
from vae_tf.arguments import Count, NotNegative, Seed, Sizes
from vae_tf.errors import InputError
from vae_tf.theory.checks import (
    Covariance,
    Decoder,
    Encoder,
    check_covariance,
    check_positive,
    find_relative_rounding,
)
from vae_tf.theory.linear import PPCA, linear_log_likelihood
from vae_tf.typing import ArrayLike, Floats


@arguments.check
def linear_autoencoder(covariance: Covariance, latents: Count,
                       mixing: Annotated[ArrayLike, Sizes("d d")] | None = None) -> tuple[Floats, Floats, float]:
    """Return a minimiser of E ||x - Y Y' x||^2: PCA with its latents mixed by any G (rolinek (6), (7), Example 1).

    Let the rows of P_d be the d leading eigenvectors. Then Y' = G^-1 P_d and Y = P_d^T G are a minimiser for any
    invertible G, because the decoder undoes what the encoder does to the latents. rolinek's example is G = Sigma Q.

    Args:
        covariance: covariance C [n, n] of the data.
        latents: d <= n.
        mixing: G [d, d], invertible; None for PCA itself.

    Returns:
        (Y [n, d], Y' [d, n], the loss: the sum of the eigenvalues left out).

    Raises:
        InputError: not a covariance, latents out of range, or a G that is not invertible.
    """
    C = check_covariance("covariance", covariance)
    if not 1 <= latents <= len(C):
        raise InputError(f"latents: expected 1 to {len(C)}, the size of the data; got {latents}")
    G = np.eye(latents) if mixing is None else np.asarray(mixing, np.float64)
    if G.shape != (latents, latents) or np.linalg.matrix_rank(G) < latents:
        raise InputError(f"mixing: expected an invertible matrix {[latents, latents]}; got shape {list(G.shape)} and "
                         f"rank {np.linalg.matrix_rank(G)}")
    eigenvalues, Q = np.linalg.eigh(C)
    P = Q[:, ::-1][:, :latents].T
    return P.T @ G, np.linalg.solve(G, P), float(np.maximum(eigenvalues[:len(C) - latents], 0).sum())


@arguments.check
def autoencoder_loss(covariance: Covariance, decoder: Decoder, encoder: Encoder) -> float:
    """Return E ||x - Y Y' x||^2 of a linear autoencoder without noise, in squared data units (rolinek (6)).

    Args:
        covariance: covariance C [n, n] of the data.
        decoder, encoder: Y [n, d] and Y' [d, n].
    """
    C = check_covariance("covariance", covariance)
    residual = np.eye(len(C)) - decoder @ encoder
    return float(np.sum((residual @ C) * residual))


@arguments.check
def ppca_by_em(covariance: Covariance, latents: Count, steps: Count = 10_000, tolerance: NotNegative = 1e-12,
               seed: Seed = 0) -> tuple[PPCA, Floats]:
    """Fit PPCA by expectation maximisation from random weights (Tipping, Bishop 1999, A.2; allen 2, PPCA^EM).

    The E step computes p(z|x) = N(M^-1 W^T x, s^2 M^-1) with M = W^T W + s^2 I. The M step sets
    W' = C W (s^2 I + M^-1 W^T C W)^-1 and s'^2 = tr(C - C W M^-1 W'^T) / n. The log-likelihood never falls. EM ends at
    the result of `ppca`, except for a rotation of the latents that depends on the start: a posterior with a full
    covariance does not notice a rotation.

    Args:
        covariance: covariance C [n, n] of the data.
        latents: k < n.
        steps: the largest number of steps.
        tolerance: EM ends when a step gains less than this share of the log-likelihood.
        seed: seed of the first weights.

    Returns:
        (PPCA, log-likelihood before each step and at the end [steps + 1]).

    Raises:
        InputError: not a covariance, latents out of range, or the noise variance goes to 0, see `ppca`.
    """
    C = check_covariance("covariance", covariance)
    n = len(C)
    if not 1 <= latents < n:
        raise InputError(f"latents: expected 1 to {n - 1}, fewer than the size of the data; got {latents}")
    s2 = float(np.trace(C)) / n
    check_positive(**{"trace of the covariance": s2})
    smallest = find_relative_rounding(covariance) * s2
    W = np.sqrt(s2) * np.random.default_rng(seed).standard_normal((n, latents))
    likelihoods = [linear_log_likelihood(C, W, s2)]
    for _ in range(steps):
        inverse, CW = np.linalg.inv(W.T @ W + s2 * np.eye(latents)), C @ W
        moved = CW @ np.linalg.inv(s2 * np.eye(latents) + inverse @ W.T @ CW)
        s2 = float(np.trace(C) - np.sum(CW @ inverse * moved)) / n
        if s2 <= smallest:
            raise InputError(f"covariance: expected noise that {latents} latents do not explain; the noise variance "
                             "goes to 0 and the likelihood grows without bound")
        W = moved
        likelihoods.append(linear_log_likelihood(C, W, s2))
        if likelihoods[-1] - likelihoods[-2] < tolerance * abs(likelihoods[-1]):
            break
    return PPCA(W, s2, likelihoods[-1]), np.array(likelihoods)
