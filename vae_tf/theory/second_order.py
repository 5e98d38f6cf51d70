"""Expand the ELBO around a posterior mean to second order in z, and find the covariance that maximises it.

`output` is always what the decoder returns, the natural parameter of the likelihood: the mean of a Gaussian if a
noise_variance is given, else the logits of a Bernoulli. J is the Jacobian of the output. Results are per example, in
nats.
"""

from typing import Annotated

import numpy as np
import scipy

from vae_tf import arguments
from vae_tf.arguments import NotNegative, Positive, Sizes
from vae_tf.errors import InputError
from vae_tf.theory.checks import (
    InFloat64,
    Jacobian,
    Matrices,
    OneJacobian,
    OnePriorVariance,
    Outputs,
    PriorMean,
    PriorVariance,
    check_positive_definite,
    check_symmetric,
    find_rounding,
)
from vae_tf.theory.inference import gaussian_kl
from vae_tf.typing import ArrayLike, Floats


@arguments.check
def log_likelihood(x: Outputs, output: Outputs, noise_variance: Positive | None = None) -> Floats:
    """Return log p(x|z) [...] of data [..., n] in nats: Gaussian, or Bernoulli (x . theta - sum log(1 + e^theta)).

    The Bernoulli log-likelihood is x log s(theta) + (1 - x) log(1 - s(theta)); allen A.4 prints its first half alone.
    """
    if noise_variance is None:
        return np.sum(x * output - np.logaddexp(0, output), -1)
    return -np.sum((x - output) ** 2, -1) / (2 * noise_variance) - x.shape[-1] / 2 * np.log(2 * np.pi * noise_variance)


@arguments.check
def curvature(output: Outputs, noise_variance: Positive | None = None) -> Floats:
    """Return A [..., n], minus the second derivative of log p(x|z) by the output: p (1 - p), or 1 / s^2 (allen (6))."""
    if noise_variance is None:
        return scipy.special.expit(output) * scipy.special.expit(-output)
    return np.full(np.shape(output), 1 / noise_variance)


@arguments.check
def gauss_newton_hessian(jacobian: Jacobian, output: Outputs, noise_variance: Positive | None = None) -> Floats:
    """Return -J^T A J [..., d, d], the Hessian of log p(x|z) by z without the decoder's own curvature (allen (6), A.4).

    Args:
        jacobian: J [..., n, d].
        output: the decoder's output [..., n].
        noise_variance: the variance of a Gaussian likelihood, or None for a Bernoulli.
    """
    J = np.asarray(jacobian, np.float64)
    return -np.einsum("...ni,...n,...nj->...ij", J, curvature(output, noise_variance), J, optimize=True)


@arguments.check
def hessian(jacobian: Jacobian, second: Annotated[Floats, InFloat64("... n d d")], x: Outputs,
            output: Outputs, noise_variance: Positive | None = None) -> Floats:
    """Return the exact Hessian of log p(x|z) by z [..., d, d]: -J^T A J + sum_k (x_k - xhat_k) d^2 theta_k (allen (6)).

    For a Gaussian, the last term is divided by s^2, because its natural parameter is the mean divided by the variance.

    Args:
        jacobian: J [..., n, d].
        second: second derivatives of the output by z, [..., n, d, d].
        x: data [..., n].
        output: the decoder's output [..., n].
        noise_variance: the variance of a Gaussian likelihood, or None for a Bernoulli.
    """
    residual = x - scipy.special.expit(output) if noise_variance is None else (x - output) / noise_variance
    return gauss_newton_hessian(jacobian, output, noise_variance) + np.einsum("...n,...nij->...ij", residual, second)


@arguments.check
def deterministic_elbo(log_likelihood: Annotated[Floats | float, InFloat64()],
                       hessian: Annotated[Floats, InFloat64("... d d")], mean: Annotated[Floats, Sizes("... d")],
                       covariance: Annotated[Floats, Sizes("... d d")], beta: NotNegative = 1.0,
                       prior_mean: PriorMean = 0.0, prior_variance: PriorVariance = 1.0) -> Floats:
    """Return log p(x|mu) + tr(H Sigma) / 2 - beta KL(N(mu, Sigma) || p(z)) [...], in nats (allen (5), (16), A.4).

    This is exact for a linear decoder with Gaussian noise. Otherwise its error vanishes as Sigma^2 when Sigma does, if
    H is the exact Hessian, and as Sigma with the Gauss-Newton Hessian.

    Args:
        log_likelihood: log p(x|mu) [...].
        hessian: H [..., d, d], of log p(x|z) by z at mu: exact, or by Gauss-Newton.
        mean, covariance: mean [..., d] and covariance [..., d, d] of q(z|x).
        beta: the weight of the KL.
        prior_mean, prior_variance: mean and variances of p(z) or p(z|u), broadcast to [..., d].

    Raises:
        InputError: the covariance is not positive definite, or the prior variance not above 0.
    """
    d = np.shape(mean)[-1]
    prior_variance = np.broadcast_to(prior_variance, np.broadcast_shapes(np.shape(prior_variance), np.shape(mean)))
    kl = gaussian_kl(mean, covariance, prior_mean, prior_variance[..., np.newaxis] * np.eye(d))
    return log_likelihood + np.einsum("...ij,...ji->...", hessian, covariance) / 2 - beta * kl


@arguments.check
def optimal_precision(hessian: Matrices, beta: Positive = 1.0, prior_variance: PriorVariance = 1.0) -> Floats:
    """Return the Sigma^-1 [..., d, d] that maximises the deterministic ELBO: Lambda_prior - H / beta (allen (7)).

    bonheme (11) is the special case of a Gaussian likelihood and beta 1.

    The variances of the best diagonal posterior are the reciprocals of its diagonal.

    Args:
        hessian: H [..., d, d]; -J^T A J by Gauss-Newton.
        beta: the weight of the KL.
        prior_variance: variances of p(z) or p(z|u), broadcast to [..., d].

    Raises:
        InputError: beta or the prior variance is not above 0; or an exact Hessian curves upwards more than the prior
            holds it, so that the deterministic ELBO has no maximum.
    """
    H, _ = check_symmetric("hessian", hessian, "[..., d, d]")
    precision = 1 / np.broadcast_to(prior_variance, H.shape[:-1])
    P = precision[..., np.newaxis] * np.eye(H.shape[-1]) - H / beta
    least = np.linalg.eigvalsh(P)[..., 0]
    if (least <= 0).any():
        raise InputError(f"hessian: expected Lambda_prior - H / beta to be positive definite; it has an eigenvalue of "
                         f"{least.min():.3g}, and the deterministic ELBO has no maximum")
    return P


@arguments.check
def diagonal_cost(precision: Matrices) -> Floats:
    """Return what the best diagonal posterior costs [...], in nats: (sum_j log P_jj - log det P) / 2 (allen Theorem 5).

    The deterministic ELBO stays below that of the full covariance P^-1 by beta times this cost, which is 0 if and only
    if P is diagonal.

    Raises:
        InputError: the precision is not positive definite.
    """
    precision = check_positive_definite("precision", precision)
    diagonal = np.diagonal(precision, axis1=-2, axis2=-1)
    return (np.log(diagonal).sum(-1) - np.linalg.slogdet(precision)[1]) / 2


@arguments.check
def jacobian_cost(singular_values: Annotated[ArrayLike, Sizes("... d", low=0)], beta: Positive = 1.0,
                  noise_variance: Positive = 1.0) -> Floats:
    """Return the cost of slopes to an optimal posterior [...]: beta / 2 sum_j log(1 + s_j^2 / (beta s^2)), in nats.

    Take a Gaussian likelihood, orthogonal columns and the posterior that is best for them. The deterministic ELBO is
    then log p(x|mu) - beta ||mu||^2 / 2 minus this cost (allen (14), (19)). In its place (14) prints
    s^2 / (1 + s^2 / beta). But at the optimum tr(H Sigma) - beta tr(Sigma) is constant, and what depends on s is the
    entropy, which (14) leaves out. The cost is 0 for a constant decoder. It grows without bound, but only with the
    logarithm of s_j: on the same way through data space, jumps between plateaus cost less than an even slope once they
    are narrow enough.

    Args:
        singular_values: of the Jacobian of the decoder's mean, s_j [..., d]: norms of its columns.
        beta, noise_variance: the weight of the KL, and s^2, the likelihood's variance.
    """
    return beta / 2 * np.log1p(np.asarray(singular_values, np.float64) ** 2 / (beta * noise_variance)).sum(-1)


@arguments.check
def precise_limit(jacobian: OneJacobian, prior_variance: OnePriorVariance = 1.0) -> tuple[Floats, Floats]:
    """Return the limit of the optimal posterior covariance as the noise variance gamma goes to 0 (bonheme Theorem 1).

    That covariance is Sigma = (Lambda_prior + J^T J / gamma)^-1. The r directions of z that the decoder sees are
    active: along them, Sigma goes to 0 as gamma times the pseudo-inverse of J^T J. The other directions, the null space
    of J, are passive: along them, Sigma becomes the prior's covariance given the active directions. That is the prior
    itself where latents are axes of the null space.

    Args:
        jacobian: J [n, d], of any rank; singular values within the rounding of its type are 0.
        prior_variance: variances of p(z|u), broadcast to [d].

    Returns:
        (rate [d, d]: P Sigma P / gamma, P the projection on what the decoder sees; limit [d, d]: Sigma at gamma = 0).
    """
    J = np.asarray(jacobian, np.float64)
    prior_variance = np.broadcast_to(np.asarray(prior_variance, np.float64), J.shape[-1:])
    _, s, Vt = np.linalg.svd(J)
    rank = np.count_nonzero(s > find_rounding(jacobian))
    unseen = Vt[rank:].T
    limit = unseen @ np.linalg.solve(unseen.T / prior_variance @ unseen, unseen.T)
    return Vt[:rank].T / s[:rank] ** 2 @ Vt[:rank], limit


@arguments.check
def posterior_eigenvalue_bounds(jacobian: OneJacobian, prior_variance: OnePriorVariance, gamma: Positive,
                                ) -> tuple[Floats, Floats]:
    """Return bounds of the eigenvalues of the optimal posterior covariance, the smallest first (bonheme (12)).

    1 / (1 / min prior + m_i / gamma) <= l_i <= 1 / (1 / max prior + m_i / gamma), where m_i are the eigenvalues of
    J^T J. Both bounds go to 0 with gamma where m_i is above 0. They hold at any rank of J. Where m_i is 0, they are the
    smallest and the largest variance of the prior.

    Args:
        jacobian: J [n, d], of any rank; singular values within the rounding of its type are 0.
        prior_variance: variances of p(z|u), broadcast to [d].
        gamma: the noise variance.

    Returns:
        (lower [d], upper [d]).
    """
    J, prior_variance = np.asarray(jacobian, np.float64), np.asarray(prior_variance, np.float64)
    s = np.linalg.svd(J, compute_uv=False)
    seen = np.zeros(J.shape[1])
    seen[:len(s)] = np.where(s > find_rounding(jacobian), s, 0) ** 2 / gamma
    return 1 / (1 / np.min(prior_variance) + seen), 1 / (1 / np.max(prior_variance) + seen)
