"""Solve linear models in closed form: PPCA and the beta-VAE with affine encoder and decoder and Gaussian noise.

The two are one model: the beta-VAE with noise variance s^2 has the decoder of PPCA with noise variance beta s^2.
Encoders and decoders act on the data less their mean.
"""

from typing import NamedTuple

import numpy as np

from vae_tf import arguments
from vae_tf.arguments import Count, Positive, Sizes
from vae_tf.errors import InputError
from vae_tf.theory.checks import (
    Covariance,
    Decoder,
    Encoder,
    InFloat64,
    Variances,
    check_covariance,
    check_positive_definite,
    find_relative_rounding,
)
from vae_tf.theory.inference import best_signed_permutation
from vae_tf.typing import ArrayLike, Booleans, Floats, Integers


class PPCA(NamedTuple):
    """x = W z + noise, z ~ N(0, I): weights W [n, k], with orthogonal columns; log_likelihood per example, nats."""

    weights: Floats
    noise_variance: float
    log_likelihood: float


class LinearPosterior(NamedTuple):
    """p(z|x) = N(F x, E) of a linear Gaussian model: matrix F [k, n], covariance E [k, k], the same for every x."""

    matrix: Floats
    covariance: Floats


class LinearOptimum(NamedTuple):
    """An optimum of a linear beta-VAE; terms are in nats per example.

    decoder D [n, k] and encoder W [k, n] act on data minus its mean; variances [k] are the posterior's;
    active [k] says which latents are used. elbo is -(reconstruction + kl), whatever beta is; mie is the model
    inference error E_x KL(q(z|x) || p(z|x)).

    Signs and order of the latents are open, because all choices are as good. multiplicity [k] is how many eigenvalues
    of the covariance equal that of the latent, up to rounding, with or without a latent. Above 1, more is open: any
    rotation of the active latents that share the eigenvalue is as good, and if it has fewer latents than its
    multiplicity, so is any choice of that many orthogonal directions in its eigenspace.
    """

    decoder: Floats
    encoder: Floats
    variances: Floats
    active: Booleans
    multiplicity: Integers
    reconstruction: float
    kl: float
    elbo: float
    mie: float


@arguments.check
def ppca(covariance: Covariance, latents: Count, noise_variance: Positive | None = None) -> PPCA:
    """Fit probabilistic PCA by maximum likelihood, with the rotation R = I (Tipping, Bishop 1999; allen (2)-(4)).

    W = Q_k (diag(l) - s^2 I)_+^{1/2} for data covariance C = Q diag(l) Q^T; s^2 is the mean of the eigenvalues left
    out, unless given. A column is 0 where l_j is s^2 or less, up to rounding.

    Args:
        covariance: covariance C [n, n] of the data.
        latents: k <= n; k < n when the noise variance is to be found.
        noise_variance: s^2, or None for its maximum-likelihood value.

    Returns:
        PPCA; log_likelihood is E log p(x) in nats.

    Raises:
        InputError: not a covariance, or latents or a noise variance out of range; or a noise variance is to be found
            and k latents explain the data whole, so that the likelihood grows without bound as it goes to 0.
    """
    C, eigenvalues, Q, rounding = _decompose(covariance, latents)
    if noise_variance is None:
        if latents == len(C):
            raise InputError(f"latents: expected fewer than {len(C)}, the size of the data, so that noise is left; "
                             f"got {latents}")
        rank = np.count_nonzero(eigenvalues > rounding)
        if latents >= rank:
            raise InputError(f"noise_variance: expected a number, because {latents} latents explain data of rank "
                             f"{rank} whole: the likelihood grows without bound as the noise variance goes to 0")
        noise_variance = float(eigenvalues[latents:].mean())
    excess = eigenvalues[:latents] - noise_variance
    W = Q[:, :latents] * np.sqrt(np.where(excess > rounding, excess, 0))
    return PPCA(W, noise_variance, linear_log_likelihood(C, W, noise_variance))


@arguments.check
def linear_log_likelihood(covariance: Covariance, weights: Decoder, noise_variance: Positive = 1.0) -> float:
    """Return E log N(x; 0, W W^T + s^2 I) over data with a covariance [n, n], in nats (sikka (57))."""
    covariance = check_covariance("covariance", covariance)
    model = weights @ weights.T + noise_variance * np.eye(len(weights))
    return float(-(len(model) * np.log(2 * np.pi) + np.linalg.slogdet(model)[1]
                   + np.trace(np.linalg.solve(model, covariance))) / 2)


@arguments.check
def linear_posterior(weights: Decoder, noise_variance: Positive = 1.0) -> LinearPosterior:
    """Return p(z|x) of x = W z + noise, z ~ N(0, I): F = M^-1 W^T and E = s^2 M^-1, M = W^T W + s^2 I (allen (3)).

    With W = A it is the true posterior of mixed sources (sikka (19)); with W = D, a linear decoder's (sikka (24)).
    """
    inverse = np.linalg.inv(weights.T @ weights + noise_variance * np.eye(weights.shape[1]))
    return LinearPosterior(inverse @ weights.T, noise_variance * inverse)


@arguments.check
def linear_encoder(decoder: Decoder, beta: Positive = 1.0, noise_variance: Positive = 1.0) -> tuple[Floats, Floats]:
    """Return the best diagonal Gaussian encoder for a fixed linear decoder D [n, k] (sikka IV.A; (23), lines 1 and 4).

    It is W = (D^T D + beta s^2 I)^-1 D^T with the variances beta s^2 / (||d_j||^2 + beta s^2), whatever the data are.

    Returns:
        (W [k, n], variances [k]).
    """
    noise = beta * noise_variance
    return linear_posterior(decoder, noise).matrix, noise / ((decoder**2).sum(0) + noise)


@arguments.check
def linear_terms(covariance: Covariance, decoder: Decoder, encoder: Encoder, variances: Variances,
                 noise_variance: Positive = 1.0) -> tuple[float, float]:
    """Return E reconstruction and E KL of a linear VAE without biases, in nats per example (sikka (21), W_sigma = 0).

    Args:
        covariance: covariance C [n, n] of the data.
        decoder, encoder, variances: D [n, k], W [k, n], v [k], as LinearOptimum.
        noise_variance: s^2, the variance of the likelihood.

    Returns:
        (reconstruction, kl).

    Raises:
        InputError: not a covariance, or variances that are not above 0.
    """
    covariance = check_covariance("covariance", covariance)
    n = len(covariance)
    residual = np.eye(n) - decoder @ encoder
    squared = np.sum((residual @ covariance) * residual) + (decoder**2).sum(0) @ variances
    kl = (np.sum((encoder @ covariance) * encoder) + np.sum(variances - np.log(variances) - 1)) / 2
    return float(n / 2 * np.log(2 * np.pi * noise_variance) + squared / (2 * noise_variance)), float(kl)


@arguments.check
def linear_inference_error(covariance: Covariance, encoder: Encoder, variances: Variances, posterior: LinearPosterior,
                           matched: bool = False) -> float:
    """Return E_x KL(N(W x, diag v) || N(F x, E)) in nats (sikka (25), W_sigma = 0).

    With the decoder's own posterior, this is the model inference error (26). With the true posterior of the sources, it
    is the true inference error (27).

    Args:
        covariance: covariance C [n, n] of the data.
        encoder, variances: W [k, n], v [k].
        posterior: LinearPosterior.
        matched: whether latents are first brought into the best order and signs, or compared as they are.

    Raises:
        InputError: not a covariance, variances that are not above 0, or a posterior that is not positive definite.
    """
    covariance = check_covariance("covariance", covariance)
    known = {size: (count, "encoder") for size, count in zip("kn", encoder.shape, strict=True)}
    F = InFloat64("k n").check("posterior.matrix", posterior.matrix, known)
    E = check_positive_definite("posterior.covariance", Sizes("k k").check(
        "posterior.covariance", posterior.covariance, known))
    precision = np.linalg.inv(E)
    P: Floats = np.eye(len(E))
    if matched:
        P = best_signed_permutation(encoder @ covariance @ encoder.T + np.diag(variances), encoder @ covariance @ F.T,
                                    precision)
    difference = P @ encoder - F        # of the means first: a difference of their second moments would lose its digits
    quadratic = difference @ covariance @ difference.T + P @ np.diag(variances) @ P.T
    return float((np.sum(precision * quadratic) - np.log(variances).sum() + np.linalg.slogdet(E)[1] - len(E)) / 2)


@arguments.check
def critical_betas(covariance: Covariance, latents: Count, noise_variance: Positive = 1.0) -> Floats:
    """Return the beta [k] at which each latent of the linear beta-VAE becomes passive: l_j / s^2, the largest first.

    At beta >= l_j / s^2, up to rounding, latent j is passive: its column is 0, and its posterior is the prior.
    """
    return _decompose(covariance, latents)[1][:latents] / noise_variance


@arguments.check
def linear_beta_vae(covariance: Covariance, latents: Count, beta: Positive = 1.0, noise_variance: Positive = 1.0,
                    ) -> LinearOptimum:
    """Return the optimum of the linear beta-VAE (sikka (21)-(26) and allen Theorem 3 together).

    With covariance C = Q diag(l) Q^T and noise variance s^2 the optimum is that of PPCA with noise beta s^2:
    D = Q_k (diag(l) - beta s^2 I)_+^{1/2}, W = (D^T D + beta s^2 I)^{-1} D^T, variances
    beta s^2 / (||d_j||^2 + beta s^2). Latent j is passive if and only if l_j <= beta s^2, up to rounding, which
    is 10 l_1 times the larger of n eps of float64 and eps of the covariance's type.
    Other optima differ in the signs and order of the latents; LinearOptimum.multiplicity says where more is open.

    Args:
        covariance: covariance C [n, n] of the data.
        latents: k <= n.
        beta: the weight of the KL.
        noise_variance: s^2, the variance of the likelihood.

    Returns:
        LinearOptimum.

    Raises:
        InputError: not a covariance, or an argument out of range.
    """
    C, eigenvalues, _, rounding = _decompose(covariance, latents)
    D = ppca(covariance, latents, beta * noise_variance).weights
    W, v = linear_encoder(D, beta, noise_variance)
    reconstruction, kl = linear_terms(C, D, W, v, noise_variance)
    mie = linear_inference_error(C, W, v, linear_posterior(D, noise_variance))
    group = _group(eigenvalues, rounding)
    return LinearOptimum(D, W, v, (D**2).sum(0) > 0, np.bincount(group)[group][:latents], reconstruction, kl,
                         -reconstruction - kl, mie)


@arguments.check
def linear_noise_variance(covariance: Covariance, latents: Count, beta: Positive = 1.0) -> float:
    """Return the noise variance s^2 at which the linear beta-VAE's optimum is least: a learned variance ends there.

    With a active latents it is R_a / (n - a beta), where R_a is the sum of the eigenvalues beyond the first a. There is
    exactly one such a: the derivative of the least objective by log c, c = beta s^2, is beta / 2 times
    n / beta - sum_{j <= k} min(1, l_j / c) - sum_{j > k} l_j / c, which rises with c. At beta = 1 it is PPCA's.

    Args:
        covariance: covariance C [n, n] of the data.
        latents: k <= n.
        beta: the weight of the KL.

    Raises:
        InputError: not a covariance, or an argument out of range; or the objective falls without bound as s^2 goes to
            0, which needs k latents that explain the data whole, and r beta < n for data of rank r.
    """
    C, eigenvalues, _, rounding = _decompose(covariance, latents)
    n, rank = len(C), np.count_nonzero(eigenvalues > rounding)
    if latents >= rank and rank * beta < n:
        raise InputError(f"covariance: expected more than {latents} eigenvalues above 0 for that many latents; it has "
                         f"{rank}, and the objective falls without bound as the noise variance goes to 0")
    eigenvalues = np.where(eigenvalues > rounding, eigenvalues, 0)
    shares = [np.minimum(eigenvalues[:latents] / c, 1).sum() + eigenvalues[latents:].sum() / c
              for c in eigenvalues[:min(latents, rank)]]
    active = np.count_nonzero(np.array(shares) < n / beta)
    return float(eigenvalues[active:].sum() / (n - active * beta))


@arguments.check
def turn_angle(covariance: Covariance, decoder: Decoder, beta: Positive = 1.0, noise_variance: Positive = 1.0) -> float:
    """Return the angle by which the latents of a linear decoder are turned from the optimum's, in degrees: 0 to 90.

    At the optimum each active latent moves x within one eigenspace of the covariance, and an eigenspace has one latent
    for each of its directions that the optimum uses. The angle of an eigenspace is arccos sqrt of the share that this
    many latents have in what the decoder does along it; the largest angle is returned. Rotations of latents that share
    an eigenvalue do not count, nor do directions that the decoder hardly uses (1 % of the optimum's variance or less).

    Args:
        covariance: covariance C [n, n] of the data.
        decoder: D [n, k].
        beta, noise_variance: the weight of the KL and the likelihood's variance of the linear beta-VAE.
    """
    k = decoder.shape[1]
    _, eigenvalues, Q, rounding = _decompose(covariance, k)
    group, excess = _group(eigenvalues, rounding), eigenvalues - beta * noise_variance
    angle = 0.0
    for g in np.unique(group[:k][excess[:k] > rounding]):
        moved = np.sort(((Q[:, group == g].T @ decoder) ** 2).sum(0))
        latents = np.count_nonzero(group[:k] == g)
        if moved.sum() > 0.01 * latents * excess[group == g][0]:
            angle = max(angle, np.degrees(np.arccos(np.sqrt(min(1.0, moved[-latents:].sum() / moved.sum())))))
    return float(angle)


def _group(eigenvalues: Floats, rounding: float) -> Integers:
    """Number the groups of sorted eigenvalues that are equal but for rounding; return the group of each."""
    return np.cumsum(np.append(0, -np.diff(eigenvalues) > rounding))


def _decompose(covariance: ArrayLike, latents: int) -> tuple[Floats, Floats, Floats, float]:
    """Return a covariance in float64, its eigenvalues and eigenvectors, and the size of differences that are rounding.

    The largest eigenvalue is the first, and eigenvectors are columns. An InputError is raised if it is no covariance,
    or if there are more latents than data.
    """
    C = check_covariance("covariance", covariance)
    if not 1 <= latents <= len(C):
        raise InputError(f"latents: expected 1 to {len(C)}, the size of the data; got {latents}")
    eigenvalues, Q = np.linalg.eigh(C)
    rounding = find_relative_rounding(covariance) * max(eigenvalues[-1], 0)
    return C, eigenvalues[::-1], Q[:, ::-1], rounding
