"""The terms that models minimise: pure functions of distributions, per example [B], in nats.

All models share one objective, `reconstruction + beta * kl`; beta-TCVAE splits its KL into three terms.
"""

import math
from collections.abc import Callable
from typing import Annotated

import tensorflow as tf

from vae_tf import activity, arguments, checks, devices
from vae_tf import probability as tfd
from vae_tf.errors import InputError
from vae_tf.tensors import AnyDistribution, AnyFloats, Count, Rows, Tensors, check_pair, refuse_rows, widen


@arguments.check_arguments
def reconstruction(likelihood: AnyDistribution, x: AnyFloats) -> tf.Tensor:
    """Return the reconstruction term -log p(x|z) [B], summed over pixels."""
    expected = likelihood.batch_shape.concatenate(likelihood.event_shape)
    if not expected.is_compatible_with(x.shape) or likelihood.dtype != x.dtype:
        raise InputError(f"x: expected examples of {likelihood.dtype.name} and shape {expected}, as the likelihood "
                         f"has; got {x.dtype.name} and {x.shape}")
    return -likelihood.log_prob(x)


@arguments.check_arguments
def kl(posterior: AnyDistribution, prior: AnyDistribution) -> tf.Tensor:
    """Return KL(q(z|x) || p(z)) [B] in closed form, diagonal or full covariance (rolinek (4), S77; bonheme (10))."""
    check_pair(posterior, prior)
    try:
        return tfd.kl_divergence(posterior, prior)
    except NotImplementedError:
        raise InputError(f"posterior: expected distributions whose KL is known in closed form; got "
                         f"{type(posterior).__name__} and {type(prior).__name__}") from None


@arguments.check_arguments
def kl_per_latent(posterior: AnyDistribution, prior: AnyDistribution) -> tf.Tensor:
    """Return KL_j(q(z_j|x) || p(z_j)) [B, d] of diagonal normals; its sum over j is `kl` (bonheme (10))."""
    check_pair(posterior, prior)
    return tfd.kl_divergence(tfd.Normal(posterior.mean(), posterior.stddev()),
                             tfd.Normal(prior.mean(), prior.stddev()))


@arguments.check_arguments
def polarised_kl(posterior: AnyDistribution, prior: AnyDistribution,
                 threshold: arguments.Positive = activity.NARROW_VARIANCE) -> dict[str, tf.Tensor]:
    """Return the polarised form of a batch's KL, and how far the KL is from it (rolinek (10), (30)).

    L~KL = 1/2 sum_{j active} ((mu_j - m_j)^2 / s_pj^2 - log(s_j^2 / s_pj^2) - 1) leaves out the passive latents, and
    the posterior variance of the active ones. With p(z) = N(0, I) it is rolinek's (10); for a learned prior, m and
    s_p^2 are its mean and variance. Latent j is active if the mean over the batch of s_j^2 / s_pj^2 is below
    `threshold`, which is the rule `activity.is_narrow`. With a full covariance both forms are sums over the marginals
    q(z_j|x), so that they differ by the polarised form alone.

    Args:
        posterior: q(z|x), batch shape [B] and event shape [d], or batch shape [B, d].
        prior: p(z), batch shape [] or [B], event shape [d].
        threshold: the posterior variance below which a latent is active, in prior variances.

    Returns:
        A dict of scalars. kl_polarised: the mean of L~KL, nats. delta_kl: |L_KL - L~KL| / L_KL of the means, 0 if L_KL
        is 0. active_latents: the number of active latents.

    Raises:
        InputError: a posterior that is not one distribution for each example of a batch, or another prior.
    """
    check_pair(posterior, prior)
    if (posterior.batch_shape + posterior.event_shape).rank not in (2, None):
        raise InputError(f"posterior: expected a distribution for each example, of batch shape [B] or [B, d]; got "
                         f"batch shape {posterior.batch_shape} and event shape {posterior.event_shape}")
    shift = (posterior.mean() - prior.mean()) / prior.stddev()
    log_ratio = 2 * tf.math.log(posterior.stddev() / prior.stddev())                     # [B, d]
    active = tf.cast(tf.reduce_mean(tf.exp(log_ratio), 0) < threshold, log_ratio.dtype)  # [d]
    form = tf.reduce_mean(tf.reduce_sum(active * (shift ** 2 - log_ratio - 1) / 2, -1))
    total = tf.reduce_mean(tf.reduce_sum(kl_per_latent(posterior, prior), -1))
    return {"kl_polarised": form, "delta_kl": tf.math.divide_no_nan(tf.abs(total - form), total),
            "active_latents": tf.reduce_sum(active)}


@arguments.check_arguments
def weighted_sampling(batch_size: Count, examples: arguments.Size) -> tf.Tensor:
    """Return log weights [B, B] of minibatch-weighted sampling: log 1 / (N M) each (Chen 2018, eq. S3).

    batch_size is M = B; examples is N, the size of the training set.
    """
    return tf.fill([batch_size, batch_size], -tf.math.log(tf.cast(batch_size, tf.float32)) - math.log(examples))


@arguments.check_arguments
def stratified_sampling(batch_size: Count, examples: arguments.Size) -> tf.Tensor:
    """Return log weights [B, B] of minibatch-stratified sampling (Chen 2018, appendix C.2); each row sums to 1.

    With M = B - 1, an example weighs 1/N for itself, (N - M) / (N M) for one other example, and 1/M for each of the
    rest. The weight for itself stands on the diagonal, where the public code put it in column 0. A batch size
    that is a number is at least two. If it is a tensor, the batch may hold one example, such as the last of an epoch,
    whose weight is 1. If a batch holds more than N examples, as in an evaluation, its size takes the place of N.
    """
    if not tf.is_tensor(batch_size):
        checks.check_whole("batch_size", batch_size, 2, examples)
    others = tf.cast(tf.maximum(batch_size - 1, 1), tf.float32)
    count = tf.cast(tf.maximum(batch_size, examples), tf.float32)
    own = tf.fill([batch_size], 1.0 / count)
    stratum = tf.fill([batch_size], (count - others) / (count * others))
    weights = tf.linalg.set_diag(tf.fill([batch_size, batch_size], 1.0 / others), own)
    index = tf.range(batch_size)
    other = tf.stack([index, (index + 1) % batch_size], axis=1)
    log_weights = tf.math.log(tf.tensor_scatter_nd_update(weights, other, stratum))
    return tf.where(tf.equal(batch_size, 1), tf.zeros_like(log_weights), log_weights)


TC_ESTIMATORS = {"weighted": weighted_sampling, "stratified": stratified_sampling}


@arguments.check_arguments
def kl_decomposition(posterior: AnyDistribution, prior: AnyDistribution, z: Rows, examples: arguments.Size,
                     estimator: str = "weighted") -> dict[str, tf.Tensor]:
    """Split the single-sample KL into three parts, each [B] (Chen 2018, eq. 2; bhowal beta-TCVAE).

    mutual_information = log q(z|x) - log q(z),  total_correlation = log q(z) - log prod_j q(z_j),
    dimension_wise_kl = log prod_j q(z_j) - log p(z); their sum is log q(z|x) - log p(z), whatever the
    estimator of q(z).

    Args:
        posterior: q(z|x), a diagonal normal of batch shape [B].
        prior: p(z) over [d].
        z: one sample of the posterior per example, [B, d].
        examples: N, the size of the training set.
        estimator: a key of TC_ESTIMATORS.

    Returns:
        A dict of the three parts.

    Raises:
        InputError: an estimator that does not exist, or a number of examples below 1.
    """
    checks.check_choice("estimator", estimator, TC_ESTIMATORS)
    check_pair(posterior, prior)
    shape = posterior.batch_shape.concatenate(posterior.event_shape)
    if not shape.is_compatible_with(z.shape) or posterior.dtype != z.dtype:
        raise InputError(f"z: expected {posterior.dtype.name} of shape {shape}, a sample of the posterior for each "
                         f"example; got {z.dtype.name} of shape {z.shape}")
    mean, stddev = (devices.gather_batch(x) for x in (posterior.mean(), posterior.stddev()))
    log_weights = tf.cast(TC_ESTIMATORS[estimator](tf.shape(mean)[0], examples), z.dtype)        # [B, B]
    device, count = devices.locate_device()
    if count > 1:                                                     # the samples of this device, under all posteriors
        log_weights = log_weights[device * tf.shape(z)[0]:(device + 1) * tf.shape(z)[0]]
    # log q(z_ik | x_j) [d, B, B]: sample i under posterior j, which comes last, so that sums over j run along memory.
    mean, stddev, samples = (tf.transpose(values) for values in (mean, stddev, z))
    marginals = tfd.Normal(mean[:, tf.newaxis], stddev[:, tf.newaxis]).log_prob(samples[..., tf.newaxis])
    log_q = tf.reduce_logsumexp(log_weights + tf.reduce_sum(marginals, 0), axis=1)
    log_prod = tf.reduce_sum(tf.reduce_logsumexp(log_weights + marginals, axis=2), 0)
    return {"mutual_information": posterior.log_prob(z) - log_q,
            "total_correlation": log_q - log_prod,
            "dimension_wise_kl": log_prod - prior.log_prob(z)}


@arguments.check_arguments
def mean_over_batch(values: Annotated[tf.Tensor, Tensors("B")]) -> tf.Tensor:
    """Return the mean of values [B] over the batch of all devices."""
    return tf.reduce_mean(devices.gather_batch(values))


@arguments.check_arguments
def covariance(mean: Rows, variance: Rows | None = None) -> tf.Tensor:
    """Return the covariance [d, d] over a batch of what has these means and variances, for Kumar 2018, eq. 6 and 7.

    It is E[mu mu^T] - E[mu] E[mu]^T + diag E[s^2], with means over the B examples of all devices.

    Args:
        mean: [B, d].
        variance: [B, d]; None stands for 0.
    """
    mean = devices.gather_batch(mean)
    centred = mean - tf.reduce_mean(mean, 0)
    of_means = tf.matmul(centred, centred, transpose_a=True) / tf.cast(tf.shape(mean)[0], mean.dtype)
    if variance is None:
        return of_means
    return of_means + tf.linalg.diag(tf.reduce_mean(devices.gather_batch(variance), 0))


@arguments.check_arguments
def distance_to_identity(matrix: Annotated[tf.Tensor, Tensors("d d")]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return (sum_{i != j} C_ij^2, sum_i (C_ii - 1)^2) of a matrix C [d, d] (Kumar 2018, eq. 6 and 7)."""
    diagonal = tf.linalg.diag_part(matrix)
    off_diagonal = tf.linalg.set_diag(matrix, tf.zeros_like(diagonal))
    return tf.reduce_sum(off_diagonal ** 2), tf.reduce_sum((diagonal - 1) ** 2)


@arguments.check_arguments
def permute_columns(z: Rows, noise: Rows) -> tf.Tensor:
    """Return z [B, d] with each column in an order of its own: that of the noise's column [B, d] (Kim, Mnih 2018).

    The columns are those of the whole batch, also where several devices share it. Gradients do not pass.
    """
    rows, latents = tf.shape(z)[0], z.shape[1]
    z, order = tf.stop_gradient(devices.gather_batch(z)), tf.argsort(devices.gather_batch(noise), axis=0)
    device, _ = devices.locate_device()
    order = order[device * rows:(device + 1) * rows]
    return tf.stack([tf.gather(z[:, j], order[:, j]) for j in range(latents)], -1)


@arguments.check_arguments
def discriminator_loss(discriminator: Callable[[tf.Tensor], tf.Tensor], z: Rows, permuted: Rows) -> tf.Tensor:
    """Return the cross-entropy [B] of a discriminator that tells z from permuted z, both [B, d], in nats.

    Its gradient goes to the discriminator alone, which gives the logit [B, 1] of "z". At the optimum the logit is
    log q(z) - log prod_j q(z_j) (Kim, Mnih 2018, algorithm 2).

    Raises:
        InputError: z and permuted are not floats of one shape, or the discriminator does not return logits [B, 1].
    """
    own, other = (_discriminate(discriminator, tf.stop_gradient(each)) for each in (z, permuted))
    return tf.nn.softplus(-own) + tf.nn.softplus(other)


def _discriminate(discriminator: Callable[[tf.Tensor], tf.Tensor], z: tf.Tensor) -> tf.Tensor:
    """Return a discriminator's logits [B] at z [B, d]."""
    with refuse_rows("the discriminator", z):
        logits = discriminator(z)
    if not (tf.is_tensor(logits) and logits.dtype.is_floating and logits.shape.is_compatible_with([z.shape[0], 1])):
        raise InputError(f"discriminator: expected a function that returns logits, floats [B, 1]; got "
                         f"{checks.describe(logits)}")
    return widen(logits[:, 0])
