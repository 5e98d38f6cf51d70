"""Measure how far q(z|x) is from a Gaussian posterior: the KL divergence, model and true inference error."""

import itertools
from collections.abc import Callable
from typing import Annotated

import numpy as np
import scipy

from vae_tf import arguments
from vae_tf.arguments import Sizes
from vae_tf.theory.checks import Covariance, Latents, Matrices, PriorMean, check_covariance, check_positive_definite
from vae_tf.typing import ArrayLike, Floats, Integers

# Up to this many latents every signed permutation is tried: 5! 2^5 = 3,840.
EXHAUSTIVE = 5


@arguments.check
def gaussian_kl(mean: Latents, covariance: Matrices, other_mean: PriorMean, other_covariance: Matrices) -> Floats:
    """Return KL(N(mean, covariance) || N(other_mean, other_covariance)) [...], in nats.

    Args:
        mean, other_mean: [..., d].
        covariance, other_covariance: [..., d, d], positive definite.

    Raises:
        InputError: a covariance is not positive definite.
    """
    covariance = check_positive_definite("covariance", covariance)
    other_covariance = check_positive_definite("other_covariance", other_covariance)
    precision = np.linalg.inv(other_covariance)
    difference = np.asarray(other_mean, np.float64) - np.asarray(mean, np.float64)
    trace = np.einsum("...ij,...ji->...", precision, covariance)
    distance = np.einsum("...i,...ij,...j->...", difference, precision, difference)
    log_det = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return (trace + distance + log_det - difference.shape[-1]) / 2


@arguments.check
def model_inference_error(log_weights: Annotated[ArrayLike, Sizes("N S")]) -> tuple[Floats, Floats, Floats]:
    """Estimate the model inference error E_x [log p(x) - ELBO(x)] by importance sampling of p(x) (sikka (2), (4)).

    log p(x) is estimated by the logarithm of the mean weight. On average this estimate is too low, and so is the error:
    to first order by Var(w) / (2 S (E w)^2). The effective sample size (sum w)^2 / sum w^2 estimates S / (1 + Var(w) /
    (E w)^2), so that the error is too low by 1 / (2 effective sample size) - 1 / (2 S), which is 0 if all weights are
    equal.

    Args:
        log_weights: log p(x|z) + log p(z) - log q(z|x) [N, S] for S draws of z ~ q(z|x) per x, nats.

    Returns:
        (error [N] in nats, effective sample size [N], from 1 to S, how much too low the error is [N] in nats).
    """
    log_weights = np.asarray(log_weights, np.float64)
    draws = log_weights.shape[1]
    total = scipy.special.logsumexp(log_weights, axis=1)
    error = total - np.log(draws) - log_weights.mean(1)
    effective = np.exp(2 * total - scipy.special.logsumexp(2 * log_weights, axis=1))
    return error, effective, (1 / effective - 1 / draws) / 2


@arguments.check
def true_inference_error(mean: Annotated[ArrayLike, Sizes("N k")], covariance: Annotated[ArrayLike, Sizes("N k k")],
                         true_mean: Annotated[ArrayLike, Sizes("N k")],
                         true_covariance: Annotated[ArrayLike, Sizes("k k")]) -> tuple[Floats, Floats, Floats]:
    """Return the true inference error E_x KL(q(z|x) || p(s|x)), as printed and with matched latents (sikka (3)).

    The printed formula compares latent j with source j, but a model cannot know the order and the signs of the sources.
    The matched error is the error after the best signed permutation of the latents. A model whose latents share an
    eigenvalue cannot know their rotation either; this rotation is not undone here.

    Args:
        mean, covariance: mean [N, k] and covariance [N, k, k] of q(z|x).
        true_mean, true_covariance: mean [N, k] and covariance [k, k] of p(s|x).

    Returns:
        (as printed [N], matched [N], P [k, k]): the errors in nats per example, and the P for which P z matches s.

    Raises:
        InputError: the number of latents is not that of the sources, or a covariance is not positive definite.
    """
    mean, covariance, true_mean = (np.asarray(array, np.float64) for array in (mean, covariance, true_mean))
    check_positive_definite("covariance", covariance)
    true_covariance = check_positive_definite("true_covariance", true_covariance)
    second = (covariance + mean[:, :, np.newaxis] * mean[:, np.newaxis]).mean(0)
    P = best_signed_permutation(second, mean.T @ true_mean / len(mean), np.linalg.inv(true_covariance))
    printed, matched = (gaussian_kl(mean @ R.T, R @ covariance @ R.T, true_mean, true_covariance)
                        for R in (np.eye(len(P)), P))
    return printed, matched, P


@arguments.check
def best_signed_permutation(second_moment: Covariance, cross_moment: Covariance, precision: Covariance) -> Floats:
    """Find the signed permutation P of latents that minimises E KL(q(P z|x) || p(s|x)) for a fixed posterior precision.

    The part that depends on P is tr(Lambda P S P^T) / 2 - tr(Lambda P C). For uncorrelated latents (S diagonal),
    minimising it is a linear assignment problem; in general it is a quadratic one. With up to 5 latents, every P is
    tried. With more, the search
    starts at the assignment for a diagonal S and makes swaps and sign flips until none helps. That is exact for
    uncorrelated latents, such as those of the linear beta-VAE's optimum; otherwise it ends at a local minimum.

    Args:
        second_moment: S = E_x E_q z z^T [k, k].
        cross_moment: C = E_x mean(x) true_mean(x)^T [k, k].
        precision: Lambda, of p(s|x), [k, k].

    Returns:
        P [k, k], entries -1, 0 and 1; P z is in the order of s.

    Raises:
        InputError: the second moment has a negative eigenvalue, or the precision one that is not above 0.
    """
    S, C = check_covariance("second_moment", second_moment, "[k, k]"), np.asarray(cross_moment, np.float64)
    Lambda = check_positive_definite("precision", precision)
    k, CL = len(S), C @ Lambda

    def cost(latent: Integers, sign: Integers) -> float:       # source i is matched with sign_i z_latent_i
        return float(np.sum(Lambda * S[np.ix_(latent, latent)] * np.outer(sign, sign)) / 2
                     - np.sum(sign * CL[latent, np.arange(k)]))

    if k <= EXHAUSTIVE:
        latent, sign = min(((np.array(latent), np.array(sign)) for latent in itertools.permutations(range(k))
                            for sign in itertools.product((1, -1), repeat=k)), key=lambda match: cost(*match))
    else:
        separate = np.outer(np.diag(Lambda), np.diag(S)) / 2 - np.abs(CL.T)             # [source, latent]
        latent = scipy.optimize.linear_sum_assignment(separate)[1]
        sign = np.where(CL[latent, np.arange(k)] < 0, -1, 1)
        latent, sign = _improve(cost, latent, sign)
    return np.eye(k)[latent] * sign[:, np.newaxis]


def _improve(cost: Callable[[Integers, Integers], float], latent: Integers,
             sign: Integers) -> tuple[Integers, Integers]:
    """Swap two matches, or turn their signs, as long as the best such step lowers the cost."""
    least = cost(latent, sign)
    while True:
        neighbours = []
        for i, j in itertools.combinations_with_replacement(range(len(latent)), 2):
            for flips in itertools.product((1, -1), repeat=2):
                swapped, flipped = latent.copy(), sign.copy()
                swapped[[i, j]] = latent[[j, i]]
                flipped[[i, j]] = sign[[j, i]] * flips
                neighbours.append((cost(swapped, flipped), swapped, flipped))
        best = min(neighbours, key=lambda neighbour: neighbour[0])
        if best[0] >= least - 1e-12 * abs(least):
            return latent, sign
        least, latent, sign = best
