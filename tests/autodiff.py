"""Derivatives of a decoder's density by TensorFlow's tapes, beside which closed forms are held."""

import tensorflow as tf
import tensorflow_probability as tfp


def by_autodiff(decoder, x, z, noise_variance):
    """log p(x|z), and its first and second derivatives by z, from TFP's densities in float64."""
    z = tf.constant(z)
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            output = tf.linalg.matvec(decoder.B, tf.tanh(tf.linalg.matvec(decoder.W, z) + decoder.b))
            density = (tfp.distributions.Bernoulli(logits=output, dtype=tf.float64) if noise_variance is None
                       else tfp.distributions.Normal(output, tf.constant(noise_variance**0.5, tf.float64)))
            value = tf.reduce_sum(density.log_prob(x))
        gradient = inner.gradient(value, z)
    return value.numpy(), outer.jacobian(gradient, z).numpy()
