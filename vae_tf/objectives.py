"""What the models minimise: pure functions of distributions, per example [B], in nats.

One objective, `reconstruction + beta * kl`; beta-TCVAE splits its KL into three terms.
"""

import math

import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import activity, checks, devices

tfd = tfp.distributions


def reconstruction(likelihood, x):
    """-log p(x|z) [B], summed over pixels."""
    return -likelihood.log_prob(x)


def kl(posterior, prior):
    """KL(q(z|x) || p(z)) [B] in closed form, diagonal or full covariance (rolinek (4), S77; bonheme (5))."""
    return tfd.kl_divergence(posterior, prior)


def kl_per_latent(posterior, prior):
    """KL_j(q(z_j|x) || p(z_j)) [B, d] of diagonal normals; its sum over j is `kl` (bonheme (5))."""
    return tfd.kl_divergence(tfd.Normal(posterior.mean(), posterior.stddev()),
                             tfd.Normal(prior.mean(), prior.stddev()))


def polarised(posterior, prior, threshold=activity.NARROW_VARIANCE):
    """How far the KL of a batch is from its polarised form (rolinek (10), (30)), by name, scalars.

    L~KL = 1/2 sum_{j active} ((mu_j - m_j)^2 / s_pj^2 - log(s_j^2 / s_pj^2) - 1) leaves out passive latents, and the
    posterior variance of active ones. With p(z) = N(0, I) that is (10); m and s_p^2 are a learned prior's. Latent j is
    active if the mean over the batch of s_j^2 / s_pj^2 is below `threshold`, as in `activity.is_narrow`. With a
    full covariance both forms are sums over the marginals q(z_j|x), so that their difference is (10)'s alone.

    Args:
        posterior: batch shape [B], event shape [d].
        prior: batch shape [] or [B], event shape [d].
        threshold: of the variance, in units of the prior's.

    Returns:
        kl_polarised: mean of L~KL, nats; delta_kl: |L_KL - L~KL| / L_KL of the means, 0 if L_KL is 0;
        active_latents: their number.
    """
    shift = (posterior.mean() - prior.mean()) / prior.stddev()
    log_ratio = 2 * tf.math.log(posterior.stddev() / prior.stddev())                     # [B, d]
    active = tf.cast(tf.reduce_mean(tf.exp(log_ratio), 0) < threshold, tf.float32)       # [d]
    polarised_kl = tf.reduce_mean(tf.reduce_sum(active * (shift ** 2 - log_ratio - 1) / 2, -1))
    total = tf.reduce_mean(tf.reduce_sum(kl_per_latent(posterior, prior), -1))
    return {"kl_polarised": polarised_kl, "delta_kl": tf.math.divide_no_nan(tf.abs(total - polarised_kl), total),
            "active_latents": tf.reduce_sum(active)}


def weighted_sampling(batch_size, examples):
    """Log weights [B, B] of minibatch-weighted sampling: log 1 / (N M) each (Chen 2018, eq. S3).

    examples is N, the size of the training set.
    """
    return tf.fill([batch_size, batch_size], -tf.math.log(tf.cast(batch_size, tf.float32)) - math.log(examples))


def stratified_sampling(batch_size, examples):
    """Log weights [B, B] of minibatch-stratified sampling (Chen 2018, appendix C.2); each row sums to 1.

    An example's own weight is 1/N, one other's (N - M) / (N M), the rest's 1/M, with M = B - 1. The own
    weight stands on the diagonal; the public code put it in column 0. Needs B >= 2.
    """
    others = tf.cast(batch_size - 1, tf.float32)
    own = tf.fill([batch_size], 1.0 / examples)
    stratum = tf.fill([batch_size], (examples - others) / (examples * others))
    weights = tf.linalg.set_diag(tf.fill([batch_size, batch_size], 1.0 / others), own)
    index = tf.range(batch_size)
    other = tf.stack([index, (index + 1) % batch_size], axis=1)
    return tf.math.log(tf.tensor_scatter_nd_update(weights, other, stratum))


TC_ESTIMATORS = {"weighted": weighted_sampling, "stratified": stratified_sampling}


def kl_decomposition(posterior, prior, z, examples, estimator="weighted"):
    """The single-sample KL in three parts, each [B] (Chen 2018, eq. 2; bhowal beta-TCVAE).

    mutual_information = log q(z|x) - log q(z),  total_correlation = log q(z) - log prod_j q(z_j),
    dimension_wise_kl = log prod_j q(z_j) - log p(z); their sum is log q(z|x) - log p(z), whatever the
    estimator of q(z).

    Args:
        posterior: diagonal normal, batch shape [B].
        prior: over [d].
        z: one sample per example, [B, d].
        examples: N, the size of the training set.
        estimator: a key of TC_ESTIMATORS.
    """
    checks.choice("estimator", estimator, TC_ESTIMATORS)
    checks.whole("examples", examples, 1)
    mean, stddev = (devices.whole_batch(x) for x in (posterior.mean(), posterior.stddev()))
    log_weights = TC_ESTIMATORS[estimator](tf.shape(mean)[0], examples)                  # [B, B]
    device, count = devices.place()
    if count > 1:                                                     # this device's samples under all posteriors
        log_weights = log_weights[device * tf.shape(z)[0]:(device + 1) * tf.shape(z)[0]]
    # log q(z_ik | x_j) [B, B, d]: sample i under posterior j
    marginals = tfd.Normal(mean, stddev).log_prob(z[:, tf.newaxis])
    log_q = tf.reduce_logsumexp(log_weights + tf.reduce_sum(marginals, -1), axis=1)
    log_prod = tf.reduce_sum(tf.reduce_logsumexp(log_weights[..., tf.newaxis] + marginals, axis=1), -1)
    return {"mutual_information": posterior.log_prob(z) - log_q,
            "total_correlation": log_q - log_prod,
            "dimension_wise_kl": log_prod - prior.log_prob(z)}
