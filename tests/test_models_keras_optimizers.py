"""Optimizers that know more than the gradient of each weight, in Keras' own loops."""

import keras
import numpy as np
import pytest
from cases import NARROW, build, dataset
from keras_cases import assert_same_weights

from vae_tf import models, networks, training
from vae_tf.errors import InputError
from vae_tf.models.declarations import Update

CASE = ("vae", "mlp_synthetic", (3,), "gaussian", {})


class Halves(models.VAE):
    """Its optimizer trains the decoder, and another one the encoder."""

    def updates(self, optimizer):
        return (Update("loss", self.decoder.trainable_variables, optimizer),
                Update("loss", self.encoder.trainable_variables, keras.optimizers.SGD(1e-3)))


def make_halves():
    model = build(*CASE)
    return Halves(model.encoder, model.decoder, model.likelihood_layer)


def test_averages_of_weights_go_to_the_weights_that_they_are_of():
    """Keras put the averages of the decoder's weights into the encoder."""
    model, ours = make_halves(), make_halves()
    model.compile(keras.optimizers.Adam(1e-2, use_ema=True), seed=5)
    model.fit(dataset((3,)), batch_size=8, steps_per_epoch=3, verbose=0)
    training.fit(ours, dataset((3,)), keras.optimizers.Adam(1e-2, use_ema=True), steps=3, batch_size=8, seed=5)
    assert_same_weights(model, ours)
    assert "finalize_variable_values" not in vars(model.optimizer)


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="Keras has no MultiOptimizer")
def test_fit_ends_where_the_optimizer_trains_a_part_of_the_weights():
    model = build("factor_vae", *CASE[1:4], NARROW)
    model.compile(keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(keras.optimizers.Adam(1e-3))))
    assert len(model.fit(dataset((3,)), batch_size=8, verbose=0).history["loss"]) == 1


@pytest.mark.skipif(not hasattr(keras.optimizers, "ScheduleFreeAdamW"), reason="Keras has no ScheduleFreeAdamW")
def test_weights_that_are_set_after_compile_are_trained_on():
    """The optimizer keeps a copy of the weights, from which it computes the next ones."""
    model, other = build(*CASE), build(*CASE, 7)
    model.compile(keras.optimizers.ScheduleFreeAdamW(1e-4))
    model.set_weights(other.get_weights())
    model.fit(dataset((3,)), batch_size=8, steps_per_epoch=1, verbose=0)
    for trained, given in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(trained, given, atol=1e-3)


def test_an_optimizer_that_is_compiled_twice_keeps_its_state(tmp_path):
    model, optimizer = build(*CASE), keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
    for _ in range(2):
        model.compile(optimizer)
        model.fit(dataset((3,)), batch_size=8, steps_per_epoch=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").optimizer
    assert int(again.inner_optimizer.iterations) == 4 and len(again.variables) == len(optimizer.variables)


def test_a_discriminator_behaves_in_training_as_its_layers_say():
    model = build("factor_vae", *CASE[1:4], NARROW)
    z = keras.Input((model.latents,))
    judge = keras.Model(z, keras.layers.Dense(1)(keras.layers.BatchNormalization()(z)))
    made = models.FactorVAE(model.encoder, model.decoder, model.likelihood_layer, judge)
    training.fit(made, dataset((3,)), keras.optimizers.Adam(1e-3), steps=3, batch_size=8)
    assert np.asarray(judge.layers[1].moving_mean).any()


@pytest.mark.parametrize("layer", [keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)])
def test_a_prior_network_that_would_behave_otherwise_in_training_is_refused(layer):
    model = build("ivae", *CASE[1:])
    prior = keras.Sequential([networks.build_prior_network(model.u_size, model.latents, 0), layer])
    with pytest.raises(InputError, match=r"^prior_network: expected layers that do in training what they do after it; "
                                         rf"got a {type(layer).__name__}$"):
        models.IVAE(model.encoder, model.decoder, model.likelihood_layer, prior)


def test_a_callback_that_changes_weights_between_steps_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^callbacks: expected none that changes weights .* got a SwapEMAWeights"):
        training.fit(build(*CASE), dataset((3,)), keras.optimizers.Adam(1e-3, use_ema=True), steps=3, batch_size=8,
                     run_dir=tmp_path / "run", callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)])
    assert not (tmp_path / "run").exists()
