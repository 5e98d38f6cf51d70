"""The rules by which a latent is active, with their sources, in units of the prior.

A latent's posterior at example i is N(mean_ij, stddev_ij^2), its prior N(prior_mean, prior_stddev^2), which broadcasts
to [N, d]: a standard prior is 0 and 1, an iVAE's is [N, d]. In units of the prior, (z - prior_mean) / prior_stddev,
every prior is N(0, I): a latent whose posterior is the prior is active by no rule, however narrow that prior is. The
exceptions are `classify` with the rule "standard_prior" and `has_a_vote`, which come from public code that presumes
p(z) = N(0, I), and the rules for codes without a posterior.

RULES lists the rules. Code that calls a latent active names the rule it uses.
"""

from typing import Annotated, NamedTuple

import numpy as np

from vae_tf import arguments
from vae_tf.arguments import Choice, NotNegative, Sizes
from vae_tf.typing import Booleans, Floats

PASSIVE_KL = 0.01           # nats at an example
INFORMATIVE_KL = 0.01       # nats, mean over examples
VARYING_MEANS = 0.01        # prior variances
NARROW_VARIANCE = 0.5       # prior variances
PRUNED_STDDEV = 0.05        # units of z
ROUNDING = 1e-10            # share of the mean square; float32 sums of many terms that are constant may vary so much
NEARLY_ALL = 0.95           # share of the examples that makes a latent passive or active
CLASSES = ("active", "mixed", "passive")
CLASSIFICATIONS = ("prior", "standard_prior")

Means = Annotated[np.ndarray, Sizes("N d")]
Widths = Annotated[np.ndarray | float, Sizes("N d", above=0, broadcasts=True)]       # standard deviations
PriorMeans = Annotated[np.ndarray | float, Sizes("N d", broadcasts=True)]


class Rule(NamedTuple):
    """A rule for active latents: latent j is active if `condition` holds; its source; its users other than metrics."""

    condition: str
    source: str
    users: str


RULES = {
    "not passive_at": Rule(f"KL_j(q(z_j|x) || p(z_j)) >= {PASSIVE_KL:g} nats, at one example x",
                           "bonheme 2.1; the number is ours",
                           "`classify`: active, mixed and passive latents, and `--latents=active`"),
    "is_informative": Rule(f"the mean of KL_j is at least {INFORMATIVE_KL:g} nats", "Duan 2020 (UDR)",
                           "the verdict on a model, `udr`"),
    "is_varying": Rule(f"Var(mu_j) > {VARYING_MEANS:g} prior variances", "Burda 2016, 5.2", ""),
    "is_narrow": Rule(f"mean s_j^2 / s_pj^2 < {NARROW_VARIANCE:g}", "rolinek 3.2; the number is ours",
                      "comparisons, and the polarised KL in a run's history"),
    "is_alive": Rule(f"the variance of a code over examples is above {ROUNDING:g} of its mean square; "
                     "sums of many terms in float32 that are constant may vary by less",
                     "ours, for codes without a posterior", "the verdict on codes without a posterior"),
    "LinearOptimum.active": Rule("its eigenvalue of the data's covariance is above beta s^2",
                                 "sikka (21)-(26), allen Theorem 3",
                                 "`theory.linear_beta_vae`, and the forecast of a linear network's training"),
    "is_moving": Rule("a code differs at two examples", "disentanglement_lib", "`udr` without KLs"),
    "has_a_vote": Rule(f"the standard deviation of a code is at least {PRUNED_STDDEV:g}", "disentanglement_lib", ""),
}


@arguments.check
def kl_per_latent(mean: Means, stddev: Widths, prior_mean: PriorMeans = 0.0,
                  prior_stddev: Widths = 1.0) -> np.ndarray:
    """Return KL_j(q(z_j|x) || p(z_j)) [N, d] in nats; the module's docstring describes the arrays.

    Raises:
        InputError: arrays that are not finite, that do not fit together, or a standard deviation that is not positive.
    """
    m, s, a, b = check_arrays(mean, stddev, prior_mean, prior_stddev)
    return np.log(b / s) + (s ** 2 + (m - a) ** 2) / (2 * b ** 2) - 0.5


@arguments.check
def find_dependence(scale_tril: Annotated[np.ndarray, Sizes("N d d")]) -> Floats:
    """Return the total correlation [N] in nats of normal posteriors with Cholesky factors L [N, d, d] of covariances.

    It is sum_j log s_j - log L_jj, with the marginal standard deviations s_j. KL(q(z|x) || p(z)) is the sum of the
    marginals' KL_j plus this, for a prior whose latents are independent.
    """
    L = np.asarray(scale_tril, np.float64)
    return np.log(np.linalg.norm(L, axis=2) / np.diagonal(L, axis1=1, axis2=2)).sum(1)


@arguments.check
def is_passive(mean: Means, stddev: Widths, prior_mean: PriorMeans = 0.0,
               prior_stddev: Widths = 1.0, passive_kl: NotNegative = PASSIVE_KL) -> np.ndarray:
    """Return where latents are passive, bool [N, d]: KL_j(q || p(z_j|u)) < passive_kl at that example (bonheme 2.1)."""
    return kl_per_latent(mean, stddev, prior_mean, prior_stddev) < passive_kl


@arguments.check
def classify(mean: Means, stddev: Widths, prior_mean: PriorMeans = 0.0, prior_stddev: Widths = 1.0, *,
             rule: Annotated[str, Choice(CLASSIFICATIONS)] = "prior", passive_kl: NotNegative = PASSIVE_KL,
             ) -> np.ndarray:
    """Return the class of each latent, [d]: "active", "mixed" or "passive" (bonheme 2.2; Bonheme, Grzes 2021).

    rule "prior", the model's own: passive if `is_passive` holds at 95 % of the examples or more, active if it holds at
    5 % or less, else mixed. rule "standard_prior", the authors' public code, which presumes p(z) = N(0, I): mixed if
    Var(s_j^2) >= 0.1; else active if the mean of s_j^2 is at most 0.1, passive if it is within 0.1 of 1, else mixed.
    This rule calls passive latents active where a learned prior is narrow.

    Args:
        mean, stddev: means and standard deviations of the posterior, [N, d].
        prior_mean, prior_stddev: means and standard deviations of the prior; they broadcast to [N, d].
        rule: a name of CLASSIFICATIONS.
        passive_kl: nats, see `is_passive`.

    Raises:
        InputError: no such rule, or arrays that are not finite or do not fit together.
    """
    if rule == "prior":
        share = is_passive(mean, stddev, prior_mean, prior_stddev, passive_kl).mean(0)
        return np.select([share >= NEARLY_ALL, share <= 1 - NEARLY_ALL], ["passive", "active"], "mixed")
    variance = check_arrays(mean, stddev, prior_mean, prior_stddev)[1] ** 2
    steady, average = variance.var(0) < 0.1, variance.mean(0)
    return np.select([steady & (average <= 0.1), steady & (abs(average - 1) <= 0.1)], ["active", "passive"], "mixed")


@arguments.check
def is_informative(kl: Annotated[np.ndarray, Sizes("d")]) -> Booleans:
    """Return which latents carry information about x, bool [d]: those whose mean KL_j, kl [d], is 0.01 nats or more."""
    return np.asarray(kl) >= INFORMATIVE_KL


@arguments.check
def variance_of_means(mean: Means, prior_mean: PriorMeans = 0.0, prior_stddev: Widths = 1.0) -> np.ndarray:
    """Return the variance [d] over examples of (mean - prior_mean) / prior_stddev."""
    return ((mean - np.asarray(prior_mean, np.float64)) / prior_stddev).var(0)


@arguments.check
def is_varying(mean: Means, prior_mean: PriorMeans = 0.0, prior_stddev: Widths = 1.0,
               threshold: NotNegative = VARYING_MEANS) -> np.ndarray:
    """Return which latents' means [N, d] have a variance above 0.01 prior variances, bool [d] (Burda 2016, 5.2)."""
    return variance_of_means(mean, prior_mean, prior_stddev) > threshold


@arguments.check
def is_narrow(stddevs: Annotated[np.ndarray, Sizes()], prior_stddev: Widths = 1.0) -> np.ndarray:
    """Return which latents have a mean posterior variance below 0.5 prior variances, bool [d] (rolinek 3.2).

    stddevs are standard deviations [N, d], or Cholesky factors [N, d, d] of a full covariance.
    """
    squared = np.asarray(stddevs, np.float64) ** 2
    return _is_variance_narrow(squared.sum(2) if squared.ndim == 3 else squared, prior_stddev)


@arguments.check
def _is_variance_narrow(stddevs: Means, prior_stddev: Widths) -> np.ndarray:
    return (stddevs / np.square(prior_stddev)).mean(0) < NARROW_VARIANCE


@arguments.check
def is_alive(codes: Means) -> Booleans:
    """Return which latents of codes [N, d] without a posterior vary by more than float32's rounding, bool [d]."""
    codes = np.asarray(codes, np.float64)       # in which squares of float16 and int16 do not overflow
    return codes.var(0) > ROUNDING * np.square(codes).mean(0)


@arguments.check
def is_moving(codes: Means) -> Booleans:
    """Return which latents of codes [N, d] differ between at least two examples, bool [d], by any amount."""
    return (codes != codes[:1]).any(0)


@arguments.check
def has_a_vote(variance: Annotated[np.ndarray, Sizes("d", low=0, largest=arguments.LARGEST**2)],
               threshold: NotNegative = PRUNED_STDDEV) -> np.ndarray:
    """Return which latents have a standard deviation of at least 0.05 in units of z, bool [d]; variance is [d]."""
    return np.sqrt(variance) >= threshold


@arguments.check
def check_arrays(mean: Means, stddev: Widths, prior_mean: PriorMeans, prior_stddev: Widths,
            ) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the four arrays as finite float64 [N, d], after checking that the standard deviations are positive.

    Raises:
        InputError: which array, what was expected, what came.
    """
    shape = np.shape(mean)
    m, s, a, b = (np.broadcast_to(np.asarray(array, np.float64), shape)
                  for array in (mean, stddev, prior_mean, prior_stddev))
    return m, s, a, b
