"""Metrics from the whole posterior, N(mean, diag stddev^2) per example, by Monte Carlo (Chen 2018).

The aggregate posterior q(z) is the mixture over the examples given.
"""

import dataclasses
import warnings

import numpy as np
from scipy.special import logsumexp

from vae_tf import activity
from vae_tf.errors import InputError
from vae_tf.metrics.information import gaps
from vae_tf.metrics.result import Result, checked, classes, varying

SAMPLES = 10_000
CHUNK = 100_000             # densities in memory at a time: they stay in cache
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def entropies(means, stddevs, factors, samples, rng):
    """H(z_j) [d] and H(z_j|v_k) [d, K] in nats, by Monte Carlo from the same samples.

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
    own = _owners(len(means), samples, rng)
    z = means[own] + stddevs[own] * rng.standard_normal((samples, means.shape[1]))

    def log_densities(of, rows):
        """Sum over the samples `of` of the log density of the mixture over the examples `rows`, per latent."""
        return np.array([_log_mixture(*columns).sum()
                         for columns in zip(z[of].T, means[rows].T, stddevs[rows].T, strict=True)])

    conditional = np.zeros((means.shape[1], factors.shape[1]))
    for k, v in enumerate(factors.T):
        for value in np.unique(v[own]):
            conditional[:, k] -= log_densities(v[own] == value, v == value) / samples
    return -log_densities(slice(None), slice(None)) / samples, conditional


def _log_mixture(z, means, stddevs):
    """log 1/N sum_n N(z_s; mean_n, stddev_n^2) [S], for one latent: z [S], means and stddevs [N]."""
    total = np.empty(len(z))
    step = max(1, CHUNK // len(means))
    for i in range(0, len(z), step):
        exponent = np.subtract.outer(z[i:i + step], means)
        exponent /= stddevs
        np.square(exponent, out=exponent)
        exponent *= -0.5
        # z comes from one of the components, whose own term keeps the sum away from 0.
        total[i:i + step] = np.exp(exponent, out=exponent) @ (1 / stddevs)
    return np.log(total / len(means)) - HALF_LOG_2PI


def information_from_entropies(marginal, conditional, of_factor):
    """(H(z_j) - H(z_j|v_k)) / H(v_k) [d, K] from entropies in nats; a constant factor gives 0.

    Monte Carlo error may leave a value below 0. It is not cut off, because that would bias the others' mean upwards.

    Args:
        marginal: H(z_j) [d].
        conditional: H(z_j|v_k) [d, K].
        of_factor: H(v_k) [K]; the logarithm of its number of values, for a complete grid.

    Raises:
        InputError: shapes that disagree, or NaN.
    """
    marginal, conditional, of_factor = (np.asarray(array, np.float64) for array in (marginal, conditional, of_factor))
    if conditional.ndim != 2 or conditional.shape != (*marginal.shape, *of_factor.shape):
        raise InputError("conditional: expected entropies [d, K] for marginal [d] and of_factor [K]; got "
                         f"{conditional.shape}, {marginal.shape}, {of_factor.shape}")
    if not all(np.isfinite(array).all() for array in (marginal, conditional, of_factor)):
        raise InputError("entropies: expected finite values; got NaN or infinite")
    information = marginal[:, np.newaxis] - conditional
    return np.divide(information, of_factor, where=of_factor > 0, out=np.zeros_like(information))


def mig_from_entropies(marginal, conditional, of_factor):
    """MIG (Chen 2018, eq. 6) from stored entropies: mean over factors of the gap of I(z_j; v_k) / H(v_k).

    I(z_j; v_k) = H(z_j) - H(z_j|v_k). Range and meaning as `mig_posterior`.

    Args:
        marginal: H(z_j) [d], in nats.
        conditional: H(z_j|v_k) [d, K].
        of_factor: H(v_k) [K].

    Returns:
        Result; parts: gap [K], latent [K], normalised_information [d, K].

    Raises:
        InputError: shapes that disagree, NaN, or no factor with entropy.
    """
    normalised = information_from_entropies(marginal, conditional, of_factor)
    varies = np.asarray(of_factor) > 0
    if not varies.any():
        raise InputError("of_factor: expected an entropy above 0; all factors are constant")
    gap = np.where(varies, gaps(normalised), np.nan)
    return Result("mig_posterior", float(gap[varies].mean()),
                  {"gap": gap, "latent": normalised.argmax(0), "normalised_information": normalised},
                  "0: no factor has a latent of its own; 1: every factor is known to exactly one latent")


def mig_sup_from_entropies(marginal, conditional, of_factor, active=None):
    """MIG-sup (Li 2020) from stored entropies: mean over active latents of the gap over factors.

    Args:
        marginal, conditional, of_factor: as `mig_from_entropies`.
        active: bool [d]; None for all.

    Returns:
        Result; parts: gap [d], factor [d], active [d], active_latents, normalised_information [d, K].

    Raises:
        InputError: as `mig_from_entropies`.
    """
    normalised = information_from_entropies(marginal, conditional, of_factor)
    active = np.ones(len(normalised), bool) if active is None else np.asarray(active, bool)
    if not (np.asarray(of_factor) > 0).any():
        raise InputError("of_factor: expected an entropy above 0; all factors are constant")
    if not active.any():
        warnings.warn("mig_sup_posterior is 0: no latent is active", stacklevel=2)
    gap = gaps(normalised.T)
    return Result("mig_sup_posterior", float(gap[active].mean()) if active.any() else 0.0,
                  {"gap": gap, "factor": normalised.argmax(1), "active": active,
                   "active_latents": np.array(active.sum()), "normalised_information": normalised},
                  f"0: no latent is about one factor; 1: each of the {active.sum()} active latents is one factor")


def mig_posterior(means, stddevs, factors, bins=20, samples=SAMPLES, samples_per_value=None, kinds=None, seed=0):
    """MIG with the entropies of q(z_j) and q(z_j|v_k) by Monte Carlo from q(z|x) (Chen 2018; what bhowal reports).

    `mig_from_entropies` with H(v_k) = log(number of values). In [0, 1] up to Monte Carlo error. 1: each factor is
    known to one latent alone, wholly. 0: for each factor two latents know equally much, or none anything. Unlike
    `mig` it counts the posterior's noise: a latent whose means follow a factor within s_j knows little of it. The
    histogram's bias is gone, but q is the mixture over the examples given: with N of them no latent
    can know more than log N, and few examples per value overstate. A constant factor is left out, with a warning.
    Chen's and bhowal's tables leave dSprites' shape out of the factors, mix over all images, and take 10,000 samples
    per value. As they do, it takes `entropies`, but of the same samples for H(z_j) and H(z_j|v_k).

    Args:
        means, stddevs: [N, d] of q(z|x).
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: of continuous factors.
        samples: of z in all; time grows with samples x N x d.
        samples_per_value: if given, so many samples for each value of the factor that has most values, and hence so
            many or more for each value of any factor, where all values are equally frequent. It replaces `samples`.
        kinds: of the factors, see `vae_tf.kinds.decided`.
        seed: of the noise.

    Returns:
        Result; parts: gap [K], latent [K], normalised_information [d, K], marginal_entropy [d],
        conditional_entropy [d, K], factor_entropy [K], samples (in all).

    Raises:
        InputError: shapes that disagree, NaN, a standard deviation not above 0, no factor that varies, or fewer than
            one sample.
    """
    estimated, _ = _entropies("mig_posterior", means, stddevs, factors, bins, samples, samples_per_value, kinds, seed)
    marginal, conditional, of_factor, _ = estimated
    return _with_entropies(mig_from_entropies(marginal, conditional, of_factor), estimated)


def mig_sup_posterior(means, stddevs, factors, bins=20, samples=SAMPLES, samples_per_value=None, kinds=None,
                      prior_means=0.0, prior_stddevs=1.0, seed=0):
    """MIG-sup with the entropies of `mig_posterior` (Li 2020; what bhowal reports).

    `mig_sup_from_entropies` over latents with Var(mean_j) > 0.01 prior variances (`activity.is_varying`). In [0, 1] up
    to Monte Carlo error. 1: every active latent holds one factor, wholly, and nothing of another; 0: two factors
    equally, or nothing.

    Args, raises: as `mig_posterior`.

    Returns:
        Result; parts: as `mig_sup_from_entropies`, and the entropies as `mig_posterior`.
    """
    estimated, means = _entropies("mig_sup_posterior", means, stddevs, factors, bins, samples, samples_per_value,
                                  kinds, seed)
    marginal, conditional, of_factor, _ = estimated
    active = activity.is_varying(means, prior_means, prior_stddevs)
    return _with_entropies(mig_sup_from_entropies(marginal, conditional, of_factor, active), estimated)


def _entropies(name, means, stddevs, factors, bins, samples, samples_per_value, kinds, seed):
    """(H(z_j), H(z_j|v_k), log number of values of v_k, number of samples), and the checked means."""
    means, stddevs, factors = _checked_posterior(means, stddevs, factors)
    for argument, count in (("samples", samples), ("samples_per_value", samples_per_value)):
        if count is not None and count < 1:
            raise InputError(f"{argument}: expected at least 1; got {count}")
    varying(name, factors)
    v = classes(factors, bins, kinds)
    values = v.max(0) + 1
    samples = samples if samples_per_value is None else samples_per_value * int(values.max())
    marginal, conditional = entropies(means, stddevs, v, samples, np.random.default_rng(seed))
    return (marginal, conditional, np.log(values), np.array(samples)), means


def _with_entropies(result, estimated):
    names = ("marginal_entropy", "conditional_entropy", "factor_entropy", "samples")
    return dataclasses.replace(result, parts=result.parts | dict(zip(names, estimated, strict=True)))


def _checked_posterior(means, stddevs, factors=None):
    means, factors = checked(means, factors)
    stddevs, _ = checked(stddevs, name="stddevs")
    if stddevs.shape != means.shape or stddevs.min() <= 0:
        raise InputError(f"stddevs: expected values above 0 of shape {means.shape}, as means; "
                         f"got shape {stddevs.shape}, smallest {stddevs.min():g}")
    return means, stddevs, factors


def elbo_decomposition(means, stddevs, factors=None, samples=SAMPLES, prior_means=0.0, prior_stddevs=1.0, seed=0):
    """KL(q(z|x) || p(z)), mean over x, in the three parts that beta-TCVAE weighs (Chen 2018, eq. 2).

    With z_s ~ q(z|x_s), and q(z) the mixture over the N examples given, means over s of
        mutual information   log q(z|x) - log q(z)             I(x; z), at most log N: a lower bound
        total correlation    log q(z) - sum_j log q(z_j)       0: latents are independent
        dimension-wise KL    sum_j log q(z_j) - log p(z)       0: each latent follows its prior
    in nats. The score is their sum, the KL, from 0 up. 0: z says nothing about x. The three parts need as
    many examples as q(z) has room for: what the mutual information lacks, for want of examples, the total
    correlation has too much.

    Args:
        means, stddevs: [N, d] of q(z|x).
        factors: not looked at.
        samples: of z.
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).
        seed: of the noise.

    Returns:
        Result; parts: mutual_information, total_correlation, dimension_wise_kl, standard_errors [3].

    Raises:
        InputError: shapes that disagree, NaN, or a standard deviation not above 0.
    """
    means, stddevs, _ = _checked_posterior(means, stddevs)
    prior_means, prior_stddevs, _ = _checked_posterior(*(np.broadcast_to(array, means.shape)
                                                         for array in (prior_means, prior_stddevs)))
    rng = np.random.default_rng(seed)
    own = _owners(len(means), samples, rng)
    noise = rng.standard_normal((samples, means.shape[1]))
    z = means[own] + stddevs[own] * noise
    log_own = -(0.5 * noise**2 + np.log(stddevs[own]) + HALF_LOG_2PI).sum(1)
    log_joint = _log_joint_mixture(z, means, stddevs)
    log_marginals = sum(_log_mixture(*columns) for columns in zip(z.T, means.T, stddevs.T, strict=True))
    from_prior = (z - prior_means[own]) / prior_stddevs[own]
    log_prior = -(0.5 * from_prior**2 + np.log(prior_stddevs[own]) + HALF_LOG_2PI).sum(1)
    terms = np.stack([log_own - log_joint, log_joint - log_marginals, log_marginals - log_prior])
    values = terms.mean(1)
    return Result("elbo_decomposition", float(values.sum()),
                  {"mutual_information": values[0], "total_correlation": values[1], "dimension_wise_kl": values[2],
                   "standard_errors": terms.std(1) / np.sqrt(samples)},
                  "KL in nats = mutual information {:.3g} + total correlation {:.3g} + dimension-wise KL {:.3g}"
                  .format(*values))


def _owners(examples, samples, rng):
    """Which example's posterior each sample is from [S]: all equally often, in random order."""
    return rng.permutation(examples)[np.arange(samples) % examples]


def _log_joint_mixture(z, means, stddevs):
    """log 1/N sum_n N(z_s; mean_n, diag stddev_n^2) [S], for z [S, d]; squares are expanded into matrix products."""
    precision = stddevs**-2.0
    constant = -0.5 * (means**2 * precision).sum(1) - np.log(stddevs).sum(1) - means.shape[1] * HALF_LOG_2PI
    step = max(1, 10 * CHUNK // len(means))
    return np.concatenate([logsumexp(z[i:i + step]**2 @ (-0.5 * precision.T) + z[i:i + step] @ (means * precision).T
                                     + constant, axis=1) for i in range(0, len(z), step)]) - np.log(len(means))
