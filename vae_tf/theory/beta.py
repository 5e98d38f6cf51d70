"""What beta does: it acts as the variance of the likelihood, as a temperature, and as the price of the KL."""

from typing import Annotated

import numpy as np
import scipy

from vae_tf import arguments
from vae_tf.arguments import Choice, Count, Positive, Sizes
from vae_tf.errors import InputError
from vae_tf.theory.checks import Covariance, check_covariance, check_positive
from vae_tf.typing import ArrayLike, Floats, Integers


@arguments.check
def beta_as_noise_variance(size: Count, beta: Positive, noise_variance: Positive) -> tuple[float, float]:
    """Return the VAE that a Gaussian beta-VAE is: objective(beta, s^2) / beta = objective(1, beta s^2) + constant.

    A beta-VAE with likelihood variance s^2 therefore trains as a VAE with variance beta s^2 (allen Theorem 3).

    `dispersed_log_likelihood` covers the other families for which the theorem holds.

    Args:
        size: n, the number of entries of an example.
        beta: the weight of the KL.
        noise_variance: s^2, the variance of the beta-VAE's likelihood.

    Returns:
        (beta s^2, the constant in nats).
    """
    scaled = beta * noise_variance
    return scaled, size / 2 * (np.log(2 * np.pi * noise_variance) / beta - np.log(2 * np.pi * scaled))


@arguments.check
def dispersed_log_likelihood(family: Annotated[str, Choice(("gaussian", "gamma", "bernoulli"))],
                             x: Annotated[ArrayLike, Sizes()], mean: Annotated[ArrayLike, Sizes()],
                             beta: Positive = 1.0, dispersion: Positive = 1.0) -> Floats:
    """Return log p(x; mean) in nats under a family member whose variance is beta times as large (allen Theorem 3).

    p(x; mean)^{1/beta} is that member's density times a factor without the mean, so that a beta-VAE with the one
    likelihood has the gradients of a VAE with the other, times beta. This holds exactly for exponential dispersion
    models: a Gaussian and a Gamma at every beta; for a Bernoulli at beta = 1/k, where the member is the mean of k
    draws, whose values are 0, 1/k, ..., 1. At another beta no distribution over x has the powers of a Bernoulli.

    Args:
        family: "gaussian", "gamma" or "bernoulli".
        x: data [...]; above 0 for a Gamma, multiples of beta from 0 to 1 for a Bernoulli.
        mean: the mean [...] that the decoder gives.
        beta: the factor by which the variance is larger.
        dispersion: the variance at beta = 1, relative to that of the unit family: the variance of a Gaussian, and the
            variance of a Gamma divided by mean^2. It is 1 for a Bernoulli, whose variance is mean (1 - mean).

    Raises:
        InputError: another family, or a Bernoulli whose beta is not 1/k or whose x no mean of k draws takes.
    """
    x, mean, scaled = np.asarray(x, np.float64), np.asarray(mean, np.float64), beta * dispersion
    if family == "gaussian":
        return -((x - mean) ** 2) / (2 * scaled) - np.log(2 * np.pi * scaled) / 2
    if family == "gamma":
        shape = 1 / scaled
        return (shape - 1) * np.log(x) - shape * x / mean - shape * np.log(mean * scaled) - scipy.special.gammaln(shape)
    draws = round(1 / scaled)
    if draws < 1 or not np.isclose(scaled * draws, 1):
        product = "beta" if dispersion == 1 else "dispersion" if beta == 1 else "beta * dispersion"
        raise InputError(f"{product}: expected 1, 1/2, 1/3, ... for a Bernoulli; got {scaled:g}. No distribution "
                         "has its likelihood to the power 1 / beta at others")
    ones = x * draws
    impossible = x[(ones < 0) | (ones > draws) | ~np.isclose(ones, np.round(ones), rtol=0, atol=1e-6 * draws)]
    if impossible.size:
        raise InputError(f"x: expected multiples of {scaled:g} from 0 to 1, of which the mean of {draws} draws of a "
                         f"Bernoulli is one; got {impossible.flat[0]:g}")
    ways = scipy.special.gammaln(draws + 1) - scipy.special.gammaln(ones + 1) - scipy.special.gammaln(draws - ones + 1)
    return ways + scipy.special.xlogy(ones, mean) + scipy.special.xlog1py(draws - ones, -mean)


@arguments.check
def tempered_posterior(log_likelihood: Annotated[ArrayLike, Sizes("... Z")],
                       log_prior: Annotated[ArrayLike, Sizes("Z")], beta: Positive = 1.0) -> tuple[Floats, Floats]:
    """Return the q(z|x) that maximises the beta-ELBO: p(x|z)^{1/beta} p(z), normalised (allen 3.3).

    beta acts as a temperature: as it grows, the posterior approaches the prior, and as it shrinks, the posterior
    concentrates on the best z. Here z takes values in a finite set, such as a grid.

    Args:
        log_likelihood: log p(x|z) [..., Z].
        log_prior: log p(z) [Z]; the probabilities add up to 1.
        beta: the weight of the KL.

    Returns:
        (log q(z|x) [..., Z], the beta-ELBO there [...]: beta log sum_z p(z) p(x|z)^{1/beta}), nats.
    """
    joint = np.asarray(log_likelihood, np.float64) / beta + np.asarray(log_prior, np.float64)
    evidence = scipy.special.logsumexp(joint, axis=-1)
    return joint - evidence[..., np.newaxis], beta * evidence


@arguments.check
def collapse_beta(covariance: Covariance, noise_variance: Positive | None = None) -> float:
    """Return the beta from which on every latent of the linear beta-VAE's optimum is passive (allen Corollary 3.1).

    It is l_1 / s^2 for a fixed noise variance s^2. For a learned one it is n l_1 / tr C, which is at least 1, so that
    with a beta below 1 nothing collapses, whatever the data are.

    Args:
        covariance: covariance C [n, n] of the data.
        noise_variance: s^2, or None for a learned one (`linear_noise_variance`).

    Returns:
        The beta.

    Raises:
        InputError: not a covariance, or a noise variance that is not above 0; or data that do not vary, of which no
            noise variance can be learned.
    """
    C = check_covariance("covariance", covariance)
    if noise_variance is None:
        check_positive(**{"trace of the covariance": np.trace(C)})
        noise_variance = np.trace(C) / len(C)
    return float(np.linalg.eigvalsh(C)[-1] / noise_variance)


@arguments.check
def best_trade_off(reward: Annotated[ArrayLike, Sizes("M")], cost: Annotated[ArrayLike, Sizes("M")],
                   betas: Annotated[ArrayLike, Sizes("K")]) -> Integers:
    """Find which of M choices maximises reward - beta cost, for each beta (sikka Proposition 4).

    The cost of the best choice never rises with beta, whatever the choices are. So the KL of models that are each at
    the optimum of their beta never rises with beta either. Take models trained at several betas as the choices,
    -reconstruction as the reward and the KL as the cost: a model that is not the best at its own beta is not at its
    optimum.

    Args:
        reward, cost: A and B [M], of each choice.
        betas: the values of beta [K].

    Returns:
        Indices [K] of the best choice at each beta; among equals, of the choice that costs least.
    """
    reward, cost = np.asarray(reward, np.float64), np.asarray(cost, np.float64)
    cheapest = np.argsort(cost, kind="stable")
    values = reward[cheapest] - np.asarray(betas, np.float64)[:, np.newaxis] * cost[cheapest]
    return cheapest[values.argmax(1)]
