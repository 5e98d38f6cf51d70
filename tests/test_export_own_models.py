"""Exports of models that users write: they encode in their own way, or decode with gradients of their own."""

import types

import cases
import keras
import numpy as np
import pytest
import tensorflow as tf
from exports import assert_close, card

from vae_tf import distributions, export, jacobians, models
from vae_tf.metrics import derivatives


class TakesHeads(models.VAE):
    """Takes the heads out of the list that it is given."""

    def posterior(self, x, u=None, training=False):
        heads = self.encode(x, u, training)
        scale = heads.pop()
        return distributions.diagonal_normal(heads.pop(), scale)


class EncodesInLoop(models.VAE):
    def objective(self, x, u=None, *, noise, beta=None, training=False):
        half = x / 2
        inside = tf.map_fn(lambda _: self.encode(half)[0], tf.range(2), fn_output_signature=tf.float32)[1]
        terms = super().objective(x, u, noise=noise, beta=beta, training=training)
        return {**terms, "difference": tf.reduce_sum(abs(inside - self.encode(half)[0]), 1)}


class EncodesWithScale(models.VAE):
    def encode(self, x, u=None, training=False, scale=1.0):
        return [scale * head for head in super().encode(x, u, training)]

    def posterior(self, x, u=None, training=False):
        return distributions.diagonal_normal(*self.encode(x, u, training, scale=0.5))


class EncodesByVariables(models.VAE):
    """Reads variables that Keras does not know: in a list, and in an object of a layer."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.scales = [tf.Variable(2.0)]
        self.encoder.inner = types.SimpleNamespace(shift=tf.Variable(0.5))

    def encode(self, x, u=None, training=False):
        return [self.scales[0] * head + self.encoder.inner.shift for head in super().encode(x, u, training)]


def make_with_own_encoding(*parts):
    """A model of a class of the package, whose encoder is asked once alone unless the model has a way of its own."""
    model = models.VAE(*parts)
    model.encode = lambda *inputs: [2 * head for head in models.VAE.encode(model, *inputs)]
    return model


class Contractive(models.VAE):
    """Its objective differentiates the encoder."""

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        terms = super().objective(x, u, noise=noise, beta=beta, training=training)
        with tf.GradientTape() as tape:
            tape.watch(x)
            mean = self.encode(x, u, training)[0]
        return {**terms, "contraction": tf.reduce_sum(tape.batch_jacobian(mean, x)**2, (1, 2))}


@pytest.mark.parametrize("make", [TakesHeads, EncodesInLoop, EncodesWithScale, EncodesByVariables,
                                  make_with_own_encoding, Contractive])
def test_models_that_encode_in_their_own_way_are_exported(make, tmp_path):
    built, data = cases.build("vae", "mlp_synthetic", (3,), "gaussian", {}), cases.dataset((3,))
    model = make(built.encoder, built.decoder, built.likelihood_layer)
    before, x = vars(model).get("encode"), data.images_at(np.arange(4))
    loaded = export.load(export.save(tmp_path / "own", model, data, {**card(("vae", "mlp_synthetic", (3,))),
                                                                     "recipe": {}}))
    posterior, terms = loaded.encode_with_terms(x, 5)
    q, noise = model.posterior(tf.constant(x)), distributions.draw_noise(tf.constant([5, 0]), 4, model.noise_size)
    for found, expected in ((posterior, {"mean": q.loc, "stddev": q.stddev()}),
                            (terms, model.objective(tf.constant(x), noise=noise))):
        assert_close(found, {name: value.numpy() for name, value in expected.items()}, {"rtol": 1e-5, "atol": 1e-5})
    assert vars(model).get("encode") is before


def decode_by_silu(z):
    """Keras' silu has a gradient of its own, which is of the graph that it was traced in."""
    return keras.layers.Dense(3)(keras.layers.Dense(5, activation="silu")(z))


def decode_in_loop(z):
    return keras.layers.Dense(3)(keras.layers.SimpleRNN(4)(keras.layers.RepeatVector(2)(z)))


def decode_in_branches(z):
    either = keras.layers.Lambda(lambda z: tf.cond(tf.reduce_sum(z) > 0, lambda: tf.tanh(z), lambda: tf.sin(z)))
    return keras.layers.Dense(3)(either(z))


@pytest.mark.parametrize("decode", [decode_by_silu, decode_in_loop, decode_in_branches])
def test_derivatives_of_unusual_decoders(decode, tmp_path):
    built = cases.build("vae", "mlp_synthetic", (3,), "gaussian", {})
    z = keras.Input((cases.LATENTS,))
    model = models.VAE(built.encoder, keras.Model(z, decode(z)), built.likelihood_layer)
    loaded = export.load(export.save(tmp_path / "own", model, cases.dataset((3,)),
                                     {**card(("vae", "mlp_synthetic", (3,))), "recipe": {}}))
    z, x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    z = z[:, :cases.LATENTS]
    points = tf.constant(z)
    with tf.GradientTape() as outer:
        outer.watch(points)
        with tf.GradientTape() as tape:
            tape.watch(points)
            output = model.decoder(points)
            log_density = -tf.reduce_sum((x - output)**2) / 2
        gradient = tape.gradient(log_density, points)
    expected = [output, jacobians.jacobian(model.decoder, z, mode="reverse"),
                outer.batch_jacobian(gradient, points)]
    found = derivatives.compile_curvatures(loaded.inlined_decoder, 1.0, cases.LATENTS)(z, x)
    assert_close(dict(enumerate(found)), dict(enumerate(expected)), {"rtol": 1e-5, "atol": 1e-6})
    assert_close(loaded.jacobian(z), {"jacobian": expected[1]}, {"rtol": 1e-5, "atol": 1e-6})
