"""What is set after a model was made or compiled takes effect: beta, options, penalties, layers that are frozen."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import NARROW, build, dataset
from keras_cases import DENSE, X, assert_same_weights, compiled, inputs

from vae_tf import export, models, training


@pytest.mark.parametrize("loop", ["keras", "training", "replicas"])
def test_a_frozen_network_stays_as_it_is(loop):
    trained = [build("factor_vae", "mlp_synthetic", (3,), "gaussian", NARROW, seed) for seed in range(2)]
    before = [[w.copy() for w in model.discriminator.get_weights()] for model in trained]
    for model in trained:
        model.discriminator.trainable = False
    ds, optimizer = dataset((3,)), keras.optimizers.Adam(1e-2)
    moved = trained[0].decoder.get_weights()
    if loop == "keras":
        trained[0].compile(optimizer)
        trained[0].fit(ds, batch_size=8, verbose=0)
    elif loop == "training":
        training.fit(trained[0], ds, optimizer, steps=2, batch_size=8, seed=0)
    else:
        training.fit_replicas(trained, ds, optimizer, seeds=[0, 1], steps=2, batch_size=8)
    for model, weights in zip(trained, before, strict=True):
        for a, b in zip(weights, model.discriminator.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not all(np.array_equal(a, b) for a, b in zip(moved, trained[0].decoder.get_weights(), strict=True))


def test_steps_are_counted_where_the_discriminator_alone_is_trained(tmp_path):
    """Every step had the noise of the first."""
    ds, case = dataset((3,)), ("factor_vae", *DENSE[1][1:4], NARROW)
    model, ours = build(*case), build(*case)
    for each in (model, ours):
        each.encoder.trainable = each.decoder.trainable = False
    model.compile(keras.optimizers.Adam(1e-3), seed=5)
    model.fit(ds, batch_size=8, steps_per_epoch=3, verbose=0)
    model.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    model.fit(ds, batch_size=8, steps_per_epoch=4, verbose=0)
    training.fit(ours, ds, keras.optimizers.Adam(1e-3), steps=7, batch_size=8, seed=5)
    assert_same_weights(model, ours)
    assert model.describe_origin()["steps"] == 7


def weigh(terms):
    """The beta that a loss was computed with."""
    return pytest.approx((terms["loss"][-1] - terms["reconstruction"][-1]) / terms["kl"][-1], rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"steps_per_execution": 2}])
def test_a_beta_that_is_set_after_compile_takes_effect(options):
    """The steps are graphs, which went on with the beta of their first call."""
    model, x = compiled(("beta_vae", *DENSE[1][1:]), **options), inputs(build(*DENSE[1]), dataset((3,)))
    warm_up = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: setattr(model, "beta", 2.0 * epoch + 1))
    for epochs in (1, 2, 3):
        history = model.fit(x, validation_data=x, epochs=epochs, verbose=0, callbacks=[warm_up]).history
        assert 2 * epochs - 1 == weigh(history)
        assert 2 * epochs - 1 == weigh({name: history[f"val_{name}"] for name in ("loss", "reconstruction", "kl")})
    model.beta = 20.0
    scores = model.evaluate(x, verbose=0, return_dict=True)
    assert weigh({name: [value] for name, value in scores.items()}) == 20


class Counting(models.VAE):
    """A VAE that counts how often its objective is made, in an attribute that is an argument, too."""

    def __init__(self, encoder, decoder, likelihood, made=0):
        super().__init__(encoder, decoder, likelihood)
        self.made = made

    def objective(self, x, u=None, **more):
        self.made += 1
        return super().objective(x, u, **more)


def test_steps_are_made_anew_for_another_beta_alone():
    part = build(*DENSE[1])
    model = Counting(part.encoder, part.decoder, part.likelihood_layer)
    model.compile("adam")
    model.fit(X, verbose=0)
    for beta, again in ((1.0, False), (np.float32(1), False), (2.0, True)):
        before = model.made
        model.beta = beta
        model.fit(X, verbose=0)
        assert (model.made > before) == again


def test_a_beta_that_is_a_variable_takes_effect_and_is_saved_and_exported(tmp_path):
    model = build(*DENSE[1])
    model.beta = tf.Variable(1.0)
    model.compile("adam")
    for beta in (1.0, 3.0):
        model.beta.assign(beta)
        assert weigh(model.fit(inputs(model, dataset((3,))), verbose=0).history) == beta
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").beta == 3.0
    assert export.describe_model(model, dataset((3,)))["beta"] == 3.0
    served = export.load(model.export(tmp_path / "exported/mine")).objective(inputs(model, dataset((3,))))
    assert weigh(served) == 3.0
    model.beta = 3.0        # as large, but no variable: another one must not count any more
    assert weigh(model.fit(inputs(model, dataset((3,))), verbose=0).history) == 3.0


class Scaled(models.VAE):
    """A VAE whose loss is the mean of an argument."""

    def __init__(self, encoder, decoder, likelihood, scale):
        super().__init__(encoder, decoder, likelihood)
        self.scale = scale

    def objective(self, x, u=None, **more):
        terms = super().objective(x, u, **more)
        return {**terms, "loss": 0 * terms["loss"] + np.float32(np.mean(self.scale))}


def test_arguments_that_are_arrays_take_effect():
    part = build(*DENSE[1])
    model = Scaled(part.encoder, part.decoder, part.likelihood_layer, np.ones(2))
    model.compile("adam")
    assert model.evaluate(X, verbose=0, return_dict=True)["loss"] == pytest.approx(1)
    model.scale *= 5
    assert model.evaluate(X, verbose=0, return_dict=True)["loss"] == pytest.approx(5)
    model.scale = 2.0
    assert model.evaluate(X, verbose=0, return_dict=True)["loss"] == pytest.approx(2)


def test_options_and_penalties_that_are_set_after_compile_take_effect():
    model = compiled(("annealed_vae", *DENSE[1][1:]))
    first = model.evaluate(X, verbose=0, return_dict=True)
    model.capacity = 0.0
    second = model.evaluate(X, verbose=0, return_dict=True)
    assert second["loss"] == pytest.approx(second["reconstruction"] + 1000 * second["kl"], rel=1e-4)
    assert second["loss"] < first["loss"]
    for weight in (1.0, 0.0):
        model.penalise_jacobian("l1", weight=weight)
        assert ("jacobian_penalty" in model.fit(X, verbose=0).history) == bool(weight)
