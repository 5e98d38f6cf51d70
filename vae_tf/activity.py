"""The rules by which a latent is active, with their sources, in units of the prior.

A latent's posterior at example i is N(mean_ij, stddev_ij^2), its prior N(prior_mean, prior_stddev^2), which broadcasts
to [N, d]: a standard prior is 0 and 1, an iVAE's is [N, d]. In units of the prior, (z - prior_mean) / prior_stddev,
every prior is N(0, I): a latent whose posterior is the prior is active by no rule, however narrow that prior is. The
exceptions are `classify` with the rule "standard_prior" and `has_a_vote`, which come from public code that presumes
p(z) = N(0, I), and the rules for codes without a posterior.

RULES lists the rules. Code that calls a latent active names the rule it uses.
"""

from typing import NamedTuple

import numpy as np

from vae_tf.errors import InputError

PASSIVE_KL = 0.01           # nats at an example
INFORMATIVE_KL = 0.01       # nats, mean over examples
VARYING_MEANS = 0.01        # prior variances
NARROW_VARIANCE = 0.5       # prior variances
PRUNED_STDDEV = 0.05        # units of z
ROUNDING = 1e-8             # share of the mean square; a code that varies less may be constant up to float32 rounding
NEARLY_ALL = 0.95           # share of the examples that makes a latent passive or active
CLASSES = ("active", "mixed", "passive")
CLASSIFICATIONS = ("prior", "standard_prior")


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
    "is_alive": Rule("the variance of a code over examples is more than float32's rounding",
                     "ours, for codes without a posterior", "the verdict on codes without a posterior"),
    "LinearOptimum.active": Rule("its eigenvalue of the data's covariance is above beta s^2",
                                 "sikka (21)-(26), allen Theorem 3",
                                 "`theory.linear_beta_vae`, and the forecast of a linear network's training"),
    "is_moving": Rule("a code differs at two examples", "disentanglement_lib", "`udr` without KLs"),
    "has_a_vote": Rule(f"the standard deviation of a code is at least {PRUNED_STDDEV:g}", "disentanglement_lib", ""),
}


def kl_per_latent(mean: np.ndarray, stddev: np.ndarray, prior_mean: np.ndarray | float = 0.0,
                  prior_stddev: np.ndarray | float = 1.0) -> np.ndarray:
    """Return KL_j(q(z_j|x) || p(z_j)) [N, d] in nats; the module's docstring describes the arrays.

    Raises:
        InputError: arrays that are not finite, that do not fit together, or a standard deviation that is not positive.
    """
    m, s, a, b = check_arrays(mean, stddev, prior_mean, prior_stddev)
    return np.log(b / s) + (s ** 2 + (m - a) ** 2) / (2 * b ** 2) - 0.5


def is_passive(mean: np.ndarray, stddev: np.ndarray, prior_mean: np.ndarray | float = 0.0,
               prior_stddev: np.ndarray | float = 1.0, passive_kl: float = PASSIVE_KL) -> np.ndarray:
    """Return where latents are passive, bool [N, d]: KL_j(q || p(z_j|u)) < passive_kl at that example (bonheme 2.1)."""
    return kl_per_latent(mean, stddev, prior_mean, prior_stddev) < passive_kl


def classify(mean: np.ndarray, stddev: np.ndarray, prior_mean: np.ndarray | float = 0.0,
             prior_stddev: np.ndarray | float = 1.0, *, rule: str = "prior", passive_kl: float = PASSIVE_KL,
             ) -> np.ndarray:
    """Return the class of each latent, [d]: "active", "mixed" or "passive" (bonheme 2.2; Bonheme, Grzes 2021).

    rule "prior", the model's own: passive if it is `is_passive` 95 % of the examples or more, active if at 5 % or less,
    else mixed. rule "standard_prior", the authors' public code, which presumes p(z) = N(0, I): mixed if
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
    if rule not in CLASSIFICATIONS:
        raise InputError(f"rule: expected one of {', '.join(CLASSIFICATIONS)}; got {rule!r}")
    if rule == "prior":
        share = is_passive(mean, stddev, prior_mean, prior_stddev, passive_kl).mean(0)
        return np.select([share >= NEARLY_ALL, share <= 1 - NEARLY_ALL], ["passive", "active"], "mixed")
    variance = check_arrays(mean, stddev, prior_mean, prior_stddev)[1] ** 2
    steady, average = variance.var(0) < 0.1, variance.mean(0)
    return np.select([steady & (average <= 0.1), steady & (abs(average - 1) <= 0.1)], ["active", "passive"], "mixed")


def is_informative(kl: np.ndarray) -> np.ndarray:
    """Return which latents carry information about x, bool [d]: those whose mean KL_j, kl [d], is 0.01 nats or more."""
    return np.asarray(kl) >= INFORMATIVE_KL


def variance_of_means(mean: np.ndarray, prior_mean: np.ndarray | float = 0.0,
                      prior_stddev: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the variance [d] over examples of (mean - prior_mean) / prior_stddev."""
    return ((mean - np.asarray(prior_mean)) / prior_stddev).var(0)


def is_varying(mean: np.ndarray, prior_mean: np.ndarray | float = 0.0, prior_stddev: np.ndarray | float = 1.0,
               threshold: float = VARYING_MEANS) -> np.ndarray:
    """Return which latents' means [N, d] have a variance above 0.01 prior variances, bool [d] (Burda 2016, 5.2)."""
    return variance_of_means(mean, prior_mean, prior_stddev) > threshold


def is_narrow(stddevs: np.ndarray, prior_stddev: np.ndarray | float = 1.0) -> np.ndarray:
    """Return which latents have a mean posterior variance below 0.5 prior variances, bool [d] (rolinek 3.2).

    stddevs are standard deviations [N, d], or Cholesky factors [N, d, d] of a full covariance.
    """
    stddevs = np.asarray(stddevs, np.float64)
    variance = stddevs ** 2 if stddevs.ndim == 2 else (stddevs ** 2).sum(2)
    return (variance / np.square(prior_stddev)).mean(0) < NARROW_VARIANCE


def is_alive(codes: np.ndarray) -> np.ndarray:
    """Return which latents of codes [N, d] without a posterior vary by more than float32's rounding, bool [d]."""
    return codes.var(0) > ROUNDING * np.square(codes).mean(0)


def is_moving(codes: np.ndarray) -> np.ndarray:
    """Return which latents of codes [N, d] differ between at least two examples, bool [d], by any amount."""
    return (codes != codes[:1]).any(0)


def has_a_vote(variance: np.ndarray, threshold: float = PRUNED_STDDEV) -> np.ndarray:
    """Return which latents have a standard deviation of at least 0.05 in units of z, bool [d]; variance is [d]."""
    return np.sqrt(variance) >= threshold


def check_arrays(mean: np.ndarray, stddev: np.ndarray | float, prior_mean: np.ndarray | float,
                 prior_stddev: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the four arrays as finite float64 [N, d], after checking that the standard deviations are positive.

    Raises:
        InputError: which array, what was expected, what came.
    """
    mean = np.asarray(mean, np.float64)
    if mean.ndim != 2 or not mean.size or not np.isfinite(mean).all():
        raise InputError(f"mean: expected finite values of shape [N, d]; got shape {mean.shape}, "
                         f"{np.count_nonzero(~np.isfinite(mean))} of them NaN or infinite")
    return (mean, _widen(mean, "stddev", stddev), _widen(mean, "prior_mean", prior_mean),
            _widen(mean, "prior_stddev", prior_stddev))


def _widen(mean: np.ndarray, name: str, array: np.ndarray | float) -> np.ndarray:
    array = np.asarray(array, np.float64)
    try:
        array = np.broadcast_to(array, mean.shape)
    except ValueError:
        raise InputError(f"{name}: expected an array that broadcasts to {mean.shape}, as mean; got {array.shape}"
                         ) from None
    low = 0 if name.endswith("stddev") else -np.inf
    if not (np.isfinite(array) & (array > low)).all():
        raise InputError(f"{name}: expected finite {'positive ' if low == 0 else ''}values; "
                         f"got {array.min():g} to {array.max():g}")
    return array
