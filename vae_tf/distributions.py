"""Tensors to distributions: posteriors q(z|x), priors p(z) and likelihoods p(x|z).

Every function takes what a network returns and gives a TensorFlow Probability distribution whose
batch shape is [B]: one distribution per example, over all latents or all pixels of that example.
"""

import math

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import checks, devices
from vae_tf.errors import InputError

tfd = tfp.distributions

LIKELIHOODS = ("bernoulli", "gaussian", "gaussian_learned")


def point(mean):
    """q(z|x) of an autoencoder: all mass at mean [B, d]."""
    return tfd.VectorDeterministic(mean)


def diagonal_normal(mean, log_variance):
    """N(mean, diag exp(log_variance)), both [B, d] (Kingma, Welling 2014; rolinek (3))."""
    _check_last("log_variance", log_variance, mean.shape[-1])
    return tfd.MultivariateNormalDiag(mean, tf.exp(0.5 * log_variance))


def full_normal(mean, lower):
    """N(mean, L L^T) (rolinek S76-S78).

    mean is [B, d]; lower is [B, d (d + 1) / 2], the entries of L, whose diagonal is exponentiated so
    that it is positive and lower = 0 gives L = I.
    """
    _check_last("lower", lower, mean.shape[-1] * (mean.shape[-1] + 1) // 2)
    L = tfp.math.fill_triangular(lower)
    return tfd.MultivariateNormalTriL(mean, tf.linalg.set_diag(L, tf.exp(tf.linalg.diag_part(L))))


def _check_last(name, tensor, size):
    if tensor.shape[-1] != size:
        raise InputError(f"{name}: expected {size} numbers per example, to suit the mean; got {tensor.shape[-1]}")


def standard_normal(latents):
    """p(z) = N(0, I) over `latents` dimensions, batch shape []."""
    checks.whole("latents", latents, 1)
    return tfd.MultivariateNormalDiag(tf.zeros(latents), tf.ones(latents))


def noise(seed, examples, latents):
    """eps ~ N(0, I) [B, d] for z = mu + L eps: a function of the seed, two integers, alone.

    Under a tf.distribute strategy `examples` is this device's share, and the noise its rows of the whole batch's:
    an example gets the same whatever the number of devices.
    """
    device, count = devices.place()
    shape = (examples * count, latents)
    whole = tfd.MultivariateNormalDiag(tf.zeros(shape), tf.ones(shape)).sample(seed=seed)
    return whole if count == 1 else whole[device * examples:(device + 1) * examples]


def reparameterised(posterior, noise):
    """z = mu + L eps [B, d], a sample of a normal q(z|x) (Kingma, Welling 2014; rolinek S76)."""
    return posterior.bijector.forward(noise)


class Likelihood(keras.layers.Layer):
    """p(x|z) from the decoder's output.

    Args:
        kind: "bernoulli" (the output is logits), "gaussian" (the output is the mean; fixed variance) or
            "gaussian_learned" (one variance for all pixels, learned: gamma of bonheme).
        variance: of each pixel, in squared data units; the start value when it is learned. 1/2 makes the
            negative log-likelihood the squared error of the papers, up to a constant.
    """

    def __init__(self, kind, variance=0.5):
        super().__init__(name="likelihood")
        checks.choice("likelihood", kind, LIKELIHOODS)
        checks.number("likelihood_variance", variance, above=0)
        self.kind = kind
        self.log_variance = math.log(variance)
        if kind == "gaussian_learned":
            self.log_variance = self.add_weight(
                shape=(), initializer=keras.initializers.Constant(self.log_variance), name="log_variance")

    def distribution(self, output):
        """p(x|z): output [B, ...] is the decoder's; the event shape is that of one example."""
        event_rank = len(output.shape) - 1
        if self.kind == "bernoulli":
            # dtype float32: grey images are scored too, by x log p + (1 - x) log(1 - p).
            return tfd.Independent(tfd.Bernoulli(logits=output, dtype=tf.float32), event_rank)
        stddev = tf.exp(0.5 * tf.convert_to_tensor(self.log_variance))
        return tfd.Independent(tfd.Normal(output, stddev), event_rank)
