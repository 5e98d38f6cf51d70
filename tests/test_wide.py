import keras
import numpy as np
import pytest
import tensorflow as tf
import twins

from vae_tf import jacobians, networks, wide

RNG = np.random.default_rng(0)


def make_layers(shape=(5, 4), **options):
    """Return this layer and Keras', with the same weights, biases other than 0, and inputs for them."""
    return twins.make_alike(wide.Dense(7, **options), keras.layers.Dense(7, **options), shape)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", [{}, {"activation": "tanh"}, {"use_bias": False}, {"shape": (5, 2, 4)}])
def test_values_and_gradients_are_those_of_keras(options, training):
    twins.assert_same_values_and_gradients(*make_layers(**options), training)


def test_the_faster_gradient_is_for_training_in_float32():
    for dtype, training, expected in (("float32", True, True), ("float32", False, False), ("float16", True, False)):
        layer = wide.Dense(7, dtype=dtype)
        x = tf.zeros((5, 4), dtype)
        layer(x)
        graph = tf.function(lambda x, layer=layer, training=training: tf.gradients(
            layer(x, training=training), x)).get_concrete_function(x).graph
        # A custom gradient, which a SavedModel would not keep.
        assert ("IdentityN" in {op.type for op in graph.get_operations()}) is expected


def test_jacobians_by_forward_mode_are_those_by_reverse_mode():
    decoder = networks.build("mlp_mnist", (8, 8, 1), 2, (2, 2)).decoder
    assert [type(layer) for layer in decoder.layers if isinstance(layer, keras.layers.Dense)] == 3 * [wide.Dense]
    z = tf.constant(RNG.standard_normal((2, 2)), tf.float32)
    found = [tf.function(lambda z, mode=mode, training=training: jacobians.jacobian(
        lambda z: decoder(z, training=training), z, mode=mode))(z)
        for mode in ("forward", "reverse") for training in (False, True)]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-4, atol=1e-6)


def test_a_layer_is_copied_and_has_the_names_of_keras():
    ours, keras_layer, _ = make_layers(activation="relu")
    copy = keras.layers.deserialize(keras.layers.serialize(ours))
    assert type(copy) is wide.Dense and copy.get_config() == ours.get_config()
    assert [w.path.split("/")[1] for w in ours.weights] == [w.path.split("/")[1] for w in keras_layer.weights]
    assert ours.name.rstrip("_0123456789") == keras_layer.name.rstrip("_0123456789")
