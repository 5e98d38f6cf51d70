"""Exports of models that users write: they encode in their own way, or decode with gradients of their own."""

import functools

import cases
import keras
import numpy as np
import pytest
import tensorflow as tf
from exports import assert_close, card

from vae_tf import distributions, export, models
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


class HasOwnEncoding(models.VAE):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.encode = functools.partial(self.encode_double)

    def encode_double(self, x, u=None, training=False):
        return [2 * head for head in models.VAE.encode(self, x, u, training)]


class Contractive(models.VAE):
    """Its objective differentiates the encoder."""

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        terms = super().objective(x, u, noise=noise, beta=beta, training=training)
        with tf.GradientTape() as tape:
            tape.watch(x)
            mean = self.encode(x, u, training)[0]
        return {**terms, "contraction": tf.reduce_sum(tape.batch_jacobian(mean, x)**2, (1, 2))}


@pytest.mark.parametrize("kind", [TakesHeads, EncodesInLoop, EncodesWithScale, HasOwnEncoding, Contractive])
def test_models_that_encode_in_their_own_way_are_exported(kind, tmp_path):
    built, data = cases.build("vae", "mlp_synthetic", (3,), "gaussian", {}), cases.dataset((3,))
    model = kind(built.encoder, built.decoder, built.likelihood_layer)
    before, x = vars(model).get("encode"), data.images_at(np.arange(4))
    loaded = export.load(export.save(tmp_path / "own", model, data, {**card(("vae", "mlp_synthetic", (3,))),
                                                                     "recipe": {}}))
    posterior, terms = loaded.encode_with_terms(x, 5)
    q, noise = model.posterior(tf.constant(x)), distributions.draw_noise(tf.constant([5, 0]), 4, model.noise_size)
    for found, expected in ((posterior, {"mean": q.loc, "stddev": q.stddev()}),
                            (terms, model.objective(tf.constant(x), noise=noise))):
        assert_close(found, {name: value.numpy() for name, value in expected.items()}, {"rtol": 1e-5, "atol": 1e-5})
    assert vars(model).get("encode") is before


def test_second_derivatives_of_a_decoder_with_gradients_of_its_own(tmp_path):
    """Keras' silu is one, and its gradient is of the graph that it was traced in."""
    built = cases.build("vae", "mlp_synthetic", (3,), "gaussian", {})
    z = keras.Input((cases.LATENTS,))
    decoder = keras.Model(z, keras.layers.Dense(3)(keras.layers.Dense(5, activation="silu")(z)))
    model = models.VAE(built.encoder, decoder, built.likelihood_layer)
    loaded = export.load(export.save(tmp_path / "silu", model, cases.dataset((3,)),
                                     {**card(("vae", "mlp_synthetic", (3,))), "recipe": {}}))
    z, x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    expected = derivatives.compile_curvatures(model.decoder, 1.0, cases.LATENTS)(z[:, :cases.LATENTS], x)
    found = derivatives.compile_curvatures(loaded.inlined_decoder, 1.0, cases.LATENTS)(z[:, :cases.LATENTS], x)
    assert_close(dict(enumerate(found)), dict(enumerate(expected)), {"rtol": 1e-5, "atol": 1e-6})
