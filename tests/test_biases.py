import keras
import numpy as np
import pytest
import tensorflow as tf
import twins

from vae_tf import biases, models, networks

RNG = np.random.default_rng(0)
POLICY = "mixed_bfloat16"
CASES = [(biases.Dense, (8,), {"units": 5, "activation": "tanh"}),
         (biases.Dense, (8,), {"units": 5, "use_bias": False}),
         (biases.Conv2D, (8, 8, 3), {"filters": 5, "kernel_size": 4, "strides": 2, "padding": "same"}),
         (biases.Conv2D, (8, 8, 3), {"filters": 5, "kernel_size": 3, "dilation_rate": 2, "use_bias": False}),
         (biases.Conv2DTranspose, (4, 5, 3), {"filters": 5, "kernel_size": 3, "strides": 2, "output_padding": 0}),
         (biases.Conv2DTranspose, (4, 4, 3), {"filters": 5, "kernel_size": 4, "strides": 2, "padding": "same",
                                                "activation": "relu"})]


@pytest.mark.parametrize(("kind", "shape", "options"), CASES)
def test_outputs_are_those_of_keras(kind, shape, options):
    x = tf.constant(RNG.standard_normal((3, *shape)), tf.float32)
    ours, keras_layer = (each(**options, dtype=POLICY) for each in (kind, kind.__bases__[0]))
    for layer in (ours, keras_layer):
        layer.build((None, *shape))
    weights = [RNG.standard_normal(weight.shape) for weight in ours.get_weights()]
    for layer in (ours, keras_layer):
        layer.set_weights(weights)
    assert ours(x).dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(ours(x), tf.float32), tf.cast(keras_layer(x), tf.float32), rtol=2**-7)
    copy = keras.layers.deserialize(keras.layers.serialize(ours))
    assert type(copy) is kind and copy.get_config() == ours.get_config()
    # A layer's variables, and so arrays in checkpoints, are called as those of Keras' layer.
    assert [w.path.split("/")[1] for w in ours.weights] == [w.path.split("/")[1] for w in keras_layer.weights]
    assert ours.name.rstrip("_0123456789") == keras_layer.name.rstrip("_0123456789")


@pytest.mark.parametrize(("kind", "shape", "options"), CASES)
def test_in_float32_outputs_and_gradients_are_those_of_keras(kind, shape, options):
    layers = (each(**options) for each in (kind, kind.__bases__[0]))
    twins.assert_same_values_and_gradients(*twins.make_alike(*layers, (3, *shape)), training=False)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("kind", "shape", "options"), [case for case in CASES if "use_bias" not in case[2]])
def test_gradients_of_biases_are_sums_that_lose_nothing(kind, shape, options, jit_compile):
    """The sum of so many ones, of which a sum in bfloat16 would reach 256 or 512."""
    layer = kind(**{**options, "activation": None}, dtype=POLICY)
    x = tf.zeros((2_048, *shape))
    layer(x[:1])

    @tf.function(jit_compile=jit_compile)
    def differentiate(x):
        with tf.GradientTape() as tape:
            y = layer(x)
        return y, tape.gradient(y, layer.bias.value)

    y, gradient = differentiate(x)
    np.testing.assert_allclose(gradient, np.full(layer.bias.shape, y.shape.num_elements() / 5), rtol=2**-8)


def test_a_bias_belongs_to_a_channel_where_these_come_first():
    """On a CPU, TensorFlow convolves such maps only by oneDNN, so this takes maps that are convolved already."""
    layer = biases.Conv2D(4, 3, data_format="channels_first", dtype=POLICY)
    layer.build((None, 2, 6, 6))
    layer.bias.assign(np.arange(4))
    added = tf.cast(biases._finish(layer, tf.zeros((2, 4, 3, 4), tf.bfloat16)), tf.float32)
    np.testing.assert_array_equal(added, np.broadcast_to(np.arange(4.0)[:, None, None], (2, 4, 3, 4)))


@pytest.mark.parametrize(("network", "count"), [("conv_locatello", 64), ("mlp_mnist", 1_024)])
def test_gradients_of_a_model_in_bfloat16_are_near_those_in_float32(network, count):
    """With Keras' layers, those of some biases were wrong by 45 to 85 % here: dark pixels all pull in one direction."""
    shape = (32, 32, 1)
    x, noise = (tf.constant(values, tf.float32) for values in
                (RNG.uniform(size=(count, *shape)) < 0.05, RNG.standard_normal((count, 4))))
    found = []
    for dtype in ("float32", POLICY):
        model = models.build("vae", shape, network=network, latents=4, likelihood="bernoulli", dtype=dtype)

        @tf.function
        def differentiate(model=model):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model.compute_terms(x, noise=noise, training=True)["loss"])
            return tape.gradient(loss, [variable.value for variable in model.trainable_variables])

        found.append(differentiate())
    for variable, ours, expected in zip(model.trainable_variables, *found[::-1], strict=True):
        # A layer's outputs have 8 bits, and 10 layers are behind the first weights: up to 8 % was seen.
        assert np.linalg.norm(ours - expected) < 0.2 * np.linalg.norm(expected), variable.path


def test_makers_choose_layers_by_the_format_that_they_compute_in():
    layer = networks.make_seeded_layers(0, POLICY)
    assert type(layer(keras.layers.Dense, 3)) is biases.Dense
    assert type(layer(keras.layers.Dense, 3, dtype="float32")) is keras.layers.Dense
    assert type(layer(keras.layers.Flatten)) is keras.layers.Flatten
    for dtype in ("float32", "mixed_float16"):
        layer = networks.make_seeded_layers(0, dtype)
        assert type(layer(keras.layers.Dense, 3)) is keras.layers.Dense
        assert type(layer(keras.layers.Conv2D, 3, 4)) is biases.Conv2D
