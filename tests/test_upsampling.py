import keras
import numpy as np
import pytest
import tensorflow as tf
import twins

from vae_tf import jacobians, networks, upsampling

RNG = np.random.default_rng(0)


def make_layers(filters, shape=(5, 6, 7), **options):
    """Return this layer and Keras', with the same weights, biases other than 0, and inputs for them."""
    keras_layer = keras.layers.Conv2DTranspose(filters, 4, strides=2, padding="same", **options)
    return twins.make_alike(upsampling.Conv2DTranspose(filters, **options), keras_layer, (3, *shape))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("filters", "options"), [(1, {}), (3, {"activation": "tanh"}), (2, {"use_bias": False})])
def test_values_and_gradients_are_those_of_keras(filters, options, training):
    twins.assert_same_values_and_gradients(*make_layers(filters, **options), training)


@pytest.mark.parametrize("training", [False, True])
def test_jacobians_by_forward_mode_are_those_by_reverse_mode(training):
    decoder = networks.build("conv_locatello", (16, 16, 1), 2, (2, 2)).decoder
    z = tf.constant(RNG.standard_normal((2, 2)), tf.float32)
    forward, reverse = (tf.function(lambda z, mode=mode: jacobians.jacobian(
        lambda z: decoder(z, training=training), z, mode=mode))(z) for mode in ("forward", "reverse"))
    np.testing.assert_allclose(forward, reverse, rtol=1e-4, atol=1e-6)


def test_training_takes_the_faster_gradient_and_serving_no_custom_one():
    ours, _, x = make_layers(1)

    @tf.function
    def differentiate(x, training):
        return tf.gradients(ours(x, training=training), x)

    kinds = {training: [op.type for op in differentiate.get_concrete_function(x, training).graph.get_operations()]
             for training in (False, True)}
    # The gradient of a transposed convolution is a convolution, and the outputs are computed by one, too.
    assert kinds[True].count("Conv2D") == 2 and not {"MatMul", "Conv2DBackpropInput"} & {*kinds[True]}
    assert "MatMul" in kinds[False] and "Conv2D" not in kinds[False]
    assert "IdentityN" in {*kinds[True]} - {*kinds[False]}  # a custom gradient, which a SavedModel would not keep


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_of_the_bias_is_a_sum_that_loses_nothing(dtype):
    """The sum of 2^18 ones, of which a sum in bfloat16 would reach 256."""
    ours = upsampling.Conv2DTranspose(1, dtype=dtype)
    x = tf.zeros((64, 32, 32, 2), dtype)
    ours(x)
    with tf.GradientTape() as tape:
        y = ours(x, training=True)
    assert float(tape.gradient(y, ours.bias.value)[0]) == 2**18


def test_the_jacobian_of_a_loaded_decoder_needs_no_loops(tmp_path, caplog, monkeypatch):
    """TensorFlow warns of operations that it cannot vectorise; a loaded decoder computes gradients of weights, too."""
    decoder = networks.build("conv_locatello", (16, 16, 1), 2, (2, 2)).decoder
    module = tf.Module()
    module.decoder = decoder
    module.decode = tf.function(lambda z: decoder(z, training=False), input_signature=[tf.TensorSpec((None, 2))])
    tf.saved_model.save(module, tmp_path)
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    loaded = tf.saved_model.load(tmp_path)
    jacobians.jacobian(loaded.decode, tf.zeros((3, 2)), mode="forward")
    assert "while_loop" not in caplog.text


def test_batches_of_any_size_and_configurations():
    ours, _, x = make_layers(1)
    function = tf.function(ours, input_signature=[tf.TensorSpec((None, 5, 6, 7))])
    np.testing.assert_allclose(function(x[:1]), ours(x)[:1], rtol=1e-5, atol=1e-5)
    copy = keras.layers.deserialize(keras.layers.serialize(ours))
    assert type(copy) is upsampling.Conv2DTranspose and copy.get_config() == ours.get_config()
