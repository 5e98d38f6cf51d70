"""What "active" means: every rule by name, with its source, in units of the prior.

A latent's posterior at example i is N(mean_ij, stddev_ij^2), its prior N(prior_mean, prior_stddev^2), which broadcasts
to [N, d]: a standard prior is 0 and 1, an iVAE's is [N, d]. In units of the prior, (z - prior_mean) / prior_stddev,
every prior is N(0, I): a latent whose posterior is the prior is active by no rule, however narrow that prior is.

    rule             latent j is active if                                          source
    not passive_at   KL_j(q(z_j|x) || p(z_j)) >= 0.01 nats, at one example x        bonheme 2.1; the number is ours
    is_informative   the mean of KL_j over examples is at least 0.01 nats           Duan 2020 (UDR)
    is_varying       the variance of mean_j over examples is above 0.01             Burda 2016, 5.2
    is_narrow        the mean of s_j^2 over examples is below 0.5                   rolinek 3.2; the number is ours
    is_alive         the variance of a code over examples is not rounding           ours, for codes without a posterior

Who uses which: `not passive_at` gives the classes active, mixed and passive, and --latents=active; `is_informative`
gives the verdict on a model, `linear_optimum` and `udr`; `is_varying` gives active_units, mig_sup and
mig_sup_posterior; `is_narrow` gives dto_active, variance_norm_relation and the polarised KL in a run's history.
"""

import numpy as np

from vae_tf.errors import InputError

PASSIVE_KL = 0.01           # nats at an example
INFORMATIVE_KL = 0.01       # nats, mean over examples
VARYING_MEANS = 0.01        # prior variances
NARROW_VARIANCE = 0.5       # prior variances
ROUNDING = 1e-8             # of the mean square: a code that moves less may be constant but for float32's rounding


def kl_per_latent(mean, stddev, prior_mean=0.0, prior_stddev=1.0):
    """KL_j(q(z_j|x) || p(z_j)) [N, d], nats, of arrays as the module says.

    Raises:
        InputError: arrays that are not finite, that do not fit together, or a standard deviation that is not positive.
    """
    m, s, a, b = checked(mean, stddev, prior_mean, prior_stddev)
    return np.log(b / s) + (s ** 2 + (m - a) ** 2) / (2 * b ** 2) - 0.5


def passive_at(mean, stddev, prior_mean=0.0, prior_stddev=1.0, passive_kl=PASSIVE_KL):
    """At which examples each latent is passive, bool [N, d]: KL_j(q || p(z_j|u)) < passive_kl (bonheme 2.1)."""
    return kl_per_latent(mean, stddev, prior_mean, prior_stddev) < passive_kl


def is_informative(kl):
    """Which latents say something about x, bool [d]: kl [d], KL_j averaged over examples, is at least 0.01 nats."""
    return np.asarray(kl) >= INFORMATIVE_KL


def variance_of_means(mean, prior_mean=0.0, prior_stddev=1.0):
    """The variance [d] over examples of (mean - prior_mean) / prior_stddev."""
    return ((mean - np.asarray(prior_mean)) / prior_stddev).var(0)


def is_varying(mean, prior_mean=0.0, prior_stddev=1.0, threshold=VARYING_MEANS):
    """Which latents have means [N, d] that vary by more than 0.01 prior variances, bool [d] (Burda 2016, 5.2)."""
    return variance_of_means(mean, prior_mean, prior_stddev) > threshold


def is_narrow(stddevs, prior_stddev=1.0):
    """Which latents have a mean posterior variance below 0.5 prior variances, bool [d] (rolinek 3.2).

    stddevs are standard deviations [N, d], or Cholesky factors [N, d, d] of a full covariance.
    """
    stddevs = np.asarray(stddevs, np.float64)
    variance = stddevs ** 2 if stddevs.ndim == 2 else (stddevs ** 2).sum(2)
    return (variance / np.square(prior_stddev)).mean(0) < NARROW_VARIANCE


def is_alive(codes):
    """Which latents of codes [N, d] without a posterior vary by more than float32's rounding, bool [d]."""
    return codes.var(0) > ROUNDING * np.square(codes).mean(0)


def checked(mean, stddev, prior_mean, prior_stddev):
    """The four as finite float64 [N, d], standard deviations positive.

    Raises:
        InputError: which array, what was expected, what came.
    """
    mean = np.asarray(mean, np.float64)
    if mean.ndim != 2 or not mean.size or not np.isfinite(mean).all():
        raise InputError(f"mean: expected finite values of shape [N, d]; got shape {mean.shape}, "
                         f"{np.count_nonzero(~np.isfinite(mean))} of them NaN or infinite")
    arrays = {"stddev": stddev, "prior_mean": prior_mean, "prior_stddev": prior_stddev}
    for name, array in arrays.items():
        array = np.asarray(array, np.float64)
        try:
            arrays[name] = array = np.broadcast_to(array, mean.shape)
        except ValueError:
            raise InputError(f"{name}: expected an array that broadcasts to {mean.shape}, as mean; got {array.shape}"
                             ) from None
        low = 0 if name.endswith("stddev") else -np.inf
        if not (np.isfinite(array) & (array > low)).all():
            raise InputError(f"{name}: expected finite {'positive ' if low == 0 else ''}values; "
                             f"got {array.min():g} to {array.max():g}")
    return mean, *arrays.values()
