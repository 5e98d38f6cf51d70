"""Metrics from the whole posterior, N(mean, diag stddev^2) per example, by Monte Carlo (Chen 2018).

The aggregate posterior q(z) is the mixture over the examples given.
"""

import dataclasses
import math
import warnings
from typing import Annotated

import numpy as np

from vae_tf import activity, arguments
from vae_tf.arguments import Bins, Count, Seed, Sizes
from vae_tf.errors import InputError
from vae_tf.metrics.information import gaps
from vae_tf.metrics.mixtures import HALF_LOG_2PI, draw_owners, entropies, log_joint_mixture, log_marginals
from vae_tf.metrics.registry import ANY_MODEL, register
from vae_tf.metrics.result import Result, check_arrays, estimate_error, find_classes, find_varying
from vae_tf.typing import ArrayLike

SAMPLES = 10_000

Marginal = Annotated[ArrayLike, Sizes("d")]
Conditional = Annotated[ArrayLike, Sizes("d K")]
OfFactor = Annotated[ArrayLike, Sizes("K")]


@arguments.check
def information_from_entropies(marginal: Marginal, conditional: Conditional, of_factor: OfFactor) -> np.ndarray:
    """Return (H(z_j) - H(z_j|v_k)) / H(v_k) [d, K] from entropies in nats; a constant factor gives 0.

    Monte Carlo error may leave a value below 0. It is not cut off, because that would bias the others' mean upwards.

    Args:
        marginal: H(z_j) [d].
        conditional: H(z_j|v_k) [d, K].
        of_factor: H(v_k) [K]; the logarithm of its number of values, for a complete grid.

    Raises:
        InputError: shapes that disagree, or NaN.
    """
    information = np.asarray(marginal, np.float64)[:, np.newaxis] - np.asarray(conditional, np.float64)
    return np.divide(information, of_factor, where=np.asarray(of_factor) > 0, out=np.zeros_like(information))


@arguments.check
def mig_from_entropies(marginal: Marginal, conditional: Conditional, of_factor: OfFactor) -> Result:
    """MIG (Chen 2018, eq. 6) from stored entropies: mean over factors of the gap of I(z_j; v_k) / H(v_k).

    I(z_j; v_k) = H(z_j) - H(z_j|v_k). The range and the meaning are those of `mig_posterior`.

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


@arguments.check
def mig_sup_from_entropies(marginal: Marginal, conditional: Conditional, of_factor: OfFactor,
                           active: Annotated[ArrayLike, Sizes("d")] | None = None) -> Result:
    """MIG-sup (Li 2020) from stored entropies: mean over active latents of the gap over factors.

    Args:
        marginal: H(z_j) [d], in nats.
        conditional: H(z_j|v_k) [d, K].
        of_factor: H(v_k) [K].
        active: the latents that count, bool [d]; None for all.

    Returns:
        Result; parts: gap [d], factor [d], active [d], active_latents, normalised_information [d, K].

    Raises:
        InputError: shapes that disagree, NaN, or no factor with entropy.
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


@register(needs=("codes", "stddevs", "factors"), cost="seconds", range=(0, 1), unchanged_by=("scale",),
          nearly_unchanged_by=("permutation", "sign", "relabelling"),
          by_factor=True, meaning="`mig` of the whole posterior, whose noise counts")
def mig_posterior(means: np.ndarray, stddevs: np.ndarray, factors: np.ndarray, bins: Bins = 20,
                  samples: Count = SAMPLES, samples_per_value: Count | None = None,
                  kinds: tuple[str, ...] | str | None = None, seed: Seed = 0) -> Result:
    """MIG with the entropies of q(z_j) and q(z_j|v_k) by Monte Carlo from q(z|x) (Chen 2018; what bhowal reports).

    This is `mig_from_entropies` with H(v_k) = log(number of values). Up to Monte Carlo error the score is in [0, 1]. It
    is 1 if each factor is known wholly to one latent and to no other. It is 0 if for each factor two latents know
    equally much, or none knows anything. Unlike `mig`, the score counts the posterior's noise: a latent whose means
    follow a factor within s_j knows little of it. There is no bias of a histogram, but q is the mixture over the
    examples given. With N examples no latent can know more than log N, and few examples per value make the score too
    high. A constant factor is left out, with a warning.

    Chen's and bhowal's tables leave dSprites' shape out of the factors, mix over all images, and take 10,000 samples
    per value. The entropies here are theirs, but H(z_j) and H(z_j|v_k) are estimated from the same samples.

    Args:
        means, stddevs: means and standard deviations of q(z|x), [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        samples: number of samples of z in all; time grows with samples x N x d.
        samples_per_value: if given, so many samples for each value of the factor that has most values, and hence so
            many or more for each value of any factor, where all values are equally frequent. It replaces `samples`.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the noise.

    Returns:
        Result; parts: gap [K], latent [K], normalised_information [d, K], marginal_entropy [d],
        conditional_entropy [d, K], factor_entropy [K], samples (in all).

    Raises:
        InputError: shapes that disagree, NaN, a standard deviation not above 0, no factor that varies, or fewer than
            one sample.
    """
    estimated, _ = _entropies("mig_posterior", means, stddevs, factors, bins, samples, samples_per_value, kinds, seed)
    marginal, conditional, of_factor, _ = estimated
    return _add_entropies(mig_from_entropies(marginal, conditional, of_factor), estimated)


@register(needs=("codes", "stddevs", "factors"), cost="seconds", active="is_varying", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "relabelling"),
          meaning="`mig_sup` of the whole posterior, whose noise counts")
def mig_sup_posterior(means: np.ndarray, stddevs: np.ndarray, factors: np.ndarray, bins: Bins = 20,
                      samples: Count = SAMPLES, samples_per_value: Count | None = None,
                      kinds: tuple[str, ...] | str | None = None, prior_means: activity.PriorMeans = 0.0,
                      prior_stddevs: activity.Widths = 1.0, seed: Seed = 0) -> Result:
    """MIG-sup with the entropies of `mig_posterior` (Li 2020; what bhowal reports).

    This is `mig_sup_from_entropies` over latents with Var(mean_j) > 0.01 prior variances (`activity.is_varying`). Up to
    Monte Carlo error the score is in [0, 1]. It is 1 if every active latent holds one factor wholly and nothing of
    another, and 0 if every active latent holds two factors equally, or nothing.

    Args:
        means, stddevs: means and standard deviations of q(z|x), [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        samples: number of samples of z in all; time grows with samples x N x d.
        samples_per_value: if given, so many samples for each value of the factor that has most values, and hence so
            many or more for each value of any factor, where all values are equally frequent. It replaces `samples`.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).
        seed: seed of the noise.

    Returns:
        Result; parts: gap [d], factor [d], active [d], active_latents, normalised_information [d, K],
        marginal_entropy [d], conditional_entropy [d, K], factor_entropy [K], samples (in all).

    Raises:
        InputError: shapes that disagree, NaN, a standard deviation not above 0, no factor that varies, or fewer than
            one sample.
    """
    estimated, means = _entropies("mig_sup_posterior", means, stddevs, factors, bins, samples, samples_per_value,
                                  kinds, seed)
    marginal, conditional, of_factor, _ = estimated
    active = activity.is_varying(means, prior_means, prior_stddevs)
    result = _add_entropies(mig_sup_from_entropies(marginal, conditional, of_factor, active), estimated)
    return dataclasses.replace(result, meaning=f"{result.meaning}: {activity.RULES['is_varying'].condition}")


def _entropies(name: str, means: np.ndarray, stddevs: np.ndarray, factors: np.ndarray, bins: int, samples: int,
               samples_per_value: int | None, kinds: tuple[str, ...] | str | None, seed: int,
               ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return (H(z_j), H(z_j|v_k), log number of values of v_k, number of samples), and the checked means."""
    means, stddevs = _check_posterior(means, stddevs)
    means, factors = check_arrays(means, factors)
    find_varying(name, factors)
    v = find_classes(factors, bins, kinds)
    values = v.max(0) + 1
    samples = samples if samples_per_value is None else samples_per_value * int(values.max())
    marginal, conditional = entropies(means, stddevs, v, samples, np.random.default_rng(seed))
    return (marginal, conditional, np.log(values), np.array(samples)), means


def _add_entropies(result: Result, estimated: tuple[np.ndarray, ...]) -> Result:
    names = ("marginal_entropy", "conditional_entropy", "factor_entropy", "samples")
    return dataclasses.replace(result, parts=result.parts | dict(zip(names, estimated, strict=True)))


def _check_posterior(means: np.ndarray, stddevs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means, _ = check_arrays(means)
    stddevs, _ = check_arrays(stddevs, name="stddevs")
    if stddevs.shape != means.shape or stddevs.min() <= 0:
        raise InputError(f"stddevs: expected values above 0 of shape {means.shape}, as means; "
                         f"got shape {stddevs.shape}, smallest {stddevs.min():g}")
    return means, stddevs


@register(needs=("codes", "independent_stddevs"), cost="seconds", no_meaning_for=ANY_MODEL, range=(0, math.inf),
          unchanged_by=("relabelling",), nearly_unchanged_by=("permutation", "sign"),
          meaning="the KL in nats, in the three parts that beta-TCVAE weighs")
def elbo_decomposition(means: np.ndarray, stddevs: np.ndarray, samples: Count = SAMPLES,
                       prior_means: activity.PriorMeans = 0.0, prior_stddevs: activity.Widths = 1.0,
                       seed: Seed = 0) -> Result:
    """KL(q(z|x) || p(z)), mean over x, in the three parts that beta-TCVAE weighs (Chen 2018, eq. 2).

    With z_s ~ q(z|x_s), and q(z) the mixture over the N examples given, means over s of
        mutual information   log q(z|x) - log q(z)             I(x; z), at most log N: a lower bound
        total correlation    log q(z) - sum_j log q(z_j)       0: latents are independent
        dimension-wise KL    sum_j log q(z_j) - log p(z)       0: each latent follows its prior
    in nats. The score is their sum, the KL, which is 0 or more up to the error of the samples, and 0 if z says nothing
    about x. The mutual information is at most log N, so with too few examples it is too small, and the total
    correlation is too large by as much.
    The standard errors are those of means over examples: they estimate how much the parts would vary if other examples
    had been drawn. For a single example they are 0.

    Args:
        means, stddevs: means and standard deviations of q(z|x), [N, d].
        samples: number of samples of z.
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).
        seed: seed of the noise.

    Returns:
        Result; parts: mutual_information, total_correlation, dimension_wise_kl, standard_errors [3].

    Raises:
        InputError: shapes that disagree, NaN, or a standard deviation not above 0.
    """
    means, stddevs = _check_posterior(means, stddevs)
    _, _, prior_means, prior_stddevs = activity.check_arrays(means, stddevs, prior_means, prior_stddevs)
    rng = np.random.default_rng(seed)
    owner = draw_owners(len(means), samples, rng)
    noise = rng.standard_normal((samples, means.shape[1]))
    z = means[owner] + stddevs[owner] * noise
    log_own = -(0.5 * noise**2 + np.log(stddevs[owner]) + HALF_LOG_2PI).sum(1)
    log_joint = log_joint_mixture(z, means, stddevs)
    log_product = log_marginals(z, means, stddevs).sum(0)
    from_prior = (z - prior_means[owner]) / prior_stddevs[owner]
    log_prior = -(0.5 * from_prior**2 + np.log(prior_stddevs[owner]) + HALF_LOG_2PI).sum(1)
    terms = np.stack([log_own - log_joint, log_joint - log_product, log_product - log_prior])
    values = terms.mean(1)
    drawn = np.bincount(owner, minlength=len(means))
    per_example = np.array([np.bincount(owner, term, len(means)) for term in terms])[:, drawn > 0] / drawn[drawn > 0]
    return Result("elbo_decomposition", float(values.sum()),
                  {"mutual_information": values[0], "total_correlation": values[1], "dimension_wise_kl": values[2],
                   "standard_errors": np.array([estimate_error(each) for each in per_example])},
                  "KL in nats = mutual information {:.3g} + total correlation {:.3g} + dimension-wise KL {:.3g}"
                  .format(*values))
