"""Layers of ours beside those of Keras that they replace."""

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(0)


def make_alike(ours, keras_layer, shape):
    """Give two layers the same weights, with biases other than 0; returns the layers, and inputs of a shape."""
    x = tf.constant(RNG.standard_normal(shape), tf.float32)
    for layer in (ours, keras_layer):
        layer(x)
    weights = [RNG.standard_normal(weight.shape) for weight in keras_layer.get_weights()]
    for layer in (ours, keras_layer):
        layer.set_weights(weights)
    return ours, keras_layer, x


def assert_same_values_and_gradients(ours, keras_layer, x, training):
    """Compare outputs, gradients, and a gradient of gradients."""
    found = []
    for layer, options in ((ours, {"training": training}), (keras_layer, {})):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = layer(x, **options)
                total = tf.reduce_sum(tf.sin(y))
            first = inner.gradient(total, [x, *(v.value for v in layer.trainable_variables)])
            norm = sum(tf.reduce_sum(g**2) for g in first)
        found.append([y, *first, outer.gradient(norm, x)])
    for a, b in zip(*found, strict=True):       # sums of float32 in another order
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * float(tf.reduce_max(abs(b))))
