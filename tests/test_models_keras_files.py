"""Models in Keras' own files: save, load, and train on."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, IDS, build, dataset
from keras_cases import DENSE, DENSE_IDS, X, assert_same_weights, compiled, inputs

from vae_tf import checks, distributions, export, models, networks
from vae_tf.cli import training_request
from vae_tf.errors import InputError


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_saved_models_come_back_the_same(tmp_path, case):
    ds, model = dataset(case[2]), build(*case)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model) and loaded.beta == model.beta
    assert all(getattr(loaded, option.name) == getattr(model, option.name) for option in model.options)
    assert_same_weights(model, loaded)
    given = inputs(model, ds.take(np.arange(4)))
    np.testing.assert_array_equal(loaded(given), model(given))


@pytest.mark.parametrize("case", [DENSE[1], DENSE[5]], ids=[DENSE_IDS[1], DENSE_IDS[5]])
def test_a_loaded_model_trains_on_as_the_saved_one_does(tmp_path, case):
    ds, model = dataset(case[2]), compiled(case, seed=4)
    model.fit(ds, batch_size=8, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(ds, batch_size=8, verbose=0)
    assert_same_weights(model, loaded)


def test_a_frozen_variance_is_frozen_in_the_loaded_model(tmp_path):
    case = ("vae", "linear", (6,), "gaussian_learned", {})
    model, x = build(*case), dataset((6,)).images_at(np.arange(40))
    model.likelihood_layer.trainable = False
    model.compile(keras.optimizers.Adam(1e-3))
    model.fit(x, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(x, verbose=0, shuffle=False)
    assert_same_weights(model, loaded)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)


class Squared(models.VAE):
    """A user's own objective and argument: the squared norm of the means in place of the KL."""

    def __init__(self, encoder, decoder, likelihood, weight):
        super().__init__(encoder, decoder, likelihood)
        self.weight = weight

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        mean = self.posterior(x, u, training).mean()
        terms = {"reconstruction": -self.likelihood(mean, training).log_prob(x), "norm": tf.reduce_sum(mean ** 2, 1)}
        return {"loss": terms["reconstruction"] + self.weight * terms["norm"], **terms}


def test_own_networks_and_an_own_objective(tmp_path):
    x, z = keras.Input((3,)), keras.Input((2,))
    hidden = keras.layers.Dense(8, networks.xtanh)(x)
    model = Squared(keras.Model(x, [keras.layers.Dense(2)(hidden), keras.layers.Dense(2)(hidden)]),
                    keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"), weight=0.5)
    model.compile("sgd")
    ds = dataset((3,))
    history = model.fit(inputs(model, ds), epochs=2, verbose=0).history
    assert set(history) == {"loss", "reconstruction", "norm"} and history["loss"][1] < history["loss"][0]
    model.save(tmp_path / "own.keras")
    loaded = keras.models.load_model(tmp_path / "own.keras")
    assert isinstance(loaded, Squared) and loaded.weight == 0.5 and loaded.likelihood_layer.kind == "gaussian"
    np.testing.assert_array_equal(loaded.predict(ds, verbose=0), model.predict(ds, verbose=0))


def test_classes_of_one_name_are_told_apart(tmp_path):
    """The class that was defined last was loaded for both."""
    one, two = (type("Own", (models.VAE,), {"__module__": f"own.{module}"}) for module in ("one", "two"))
    for kind in (one, two):
        part = build(*DENSE[1])
        kind(part.encoder, part.decoder, part.likelihood_layer).save(tmp_path / "model.keras")
        assert type(keras.models.load_model(tmp_path / "model.keras")) is kind
    registered = keras.saving.get_custom_objects()
    assert registered["own.one>Own"] is one and "own>Own" not in registered
    type("Own", (models.VAE,), {"__module__": "own.three"})
    assert "own>Own" not in registered
    for _ in range(2):      # the second is that of a module that is executed again
        alone = type("Alone", (models.VAE,), {"__module__": "own.one"})
        assert registered["own>Alone"] is registered["own.one>Alone"] is alone      # as files from before have it


class Weighted(models.VAE):
    """A subclass in the usual form of Keras."""

    def __init__(self, *args, weight=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.weight = weight


def test_a_subclass_that_hands_arguments_on_is_saved_with_them(tmp_path):
    part = build(*DENSE[1])
    model = Weighted(part.encoder, part.decoder, part.likelihood_layer, weight=2.0)
    model.compile("adam")
    model.fit(X, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is Weighted and loaded.weight == 2.0
    assert_same_weights(loaded, model)
    assert type(keras.models.clone_model(model)) is Weighted


def test_a_subclass_that_takes_its_networks_by_place_alone_is_refused_when_it_is_saved(tmp_path):
    class ByPlace(models.VAE):
        def __init__(self, *args):
            super().__init__(*args)

    part = build(*DENSE[1])
    model = ByPlace(part.encoder, part.decoder, part.likelihood_layer)
    with pytest.raises(InputError, match=r"take encoder, decoder and likelihood by name, .*got one that takes nothing"):
        model.save(tmp_path / "model.keras")


def test_an_argument_that_is_not_kept_is_named(tmp_path):
    class Forgetful(models.VAE):
        def __init__(self, encoder, decoder, likelihood, colour):
            super().__init__(encoder, decoder, likelihood)

    model = build(*DENSE[1])
    forgetful = Forgetful(model.encoder, model.decoder, model.likelihood_layer, "red")
    with pytest.raises(InputError, match="colour: expected a Forgetful to keep this argument"):
        forgetful.save(tmp_path / "model.keras")
    assert not list(tmp_path.iterdir())


def test_a_file_in_keras_old_format_leaves_the_model_as_it_was(tmp_path):
    """Keras takes the optimizer out of what `save` writes next; how a model was compiled is kept."""
    model = compiled(DENSE[1], steps_per_execution=2)
    model.save(tmp_path / "model.h5")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_weights(model, loaded)
    assert loaded.optimizer.get_config() == model.optimizer.get_config() and loaded.steps_per_execution == 2


def test_a_beta_that_is_no_argument_is_saved(tmp_path):
    model = build(*DENSE[1])
    model.beta = 5.0
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").beta == 5.0


def test_an_argument_that_became_a_variable_is_saved_as_its_number(tmp_path):
    model = build("dip_vae_i", *DENSE[1][1:])
    model.lambda_od = tf.Variable(3.0)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").lambda_od == 3.0


@pytest.mark.parametrize("logarithm", [-800.0, 800.0])
def test_a_learned_variance_beyond_float32_is_saved_and_exported_as_the_nearest(tmp_path, logarithm):
    model = build("vae", "mlp_synthetic", (3,), "gaussian_learned", {})
    model.likelihood_layer.log_variance.assign(logarithm)
    nearest = checks.SMALLEST_FLOAT if logarithm < 0 else checks.LARGEST_FLOAT
    assert keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(
        model.likelihood_layer)).variance == pytest.approx(nearest, rel=1e-5)
    assert export.describe_model(model, dataset((3,)))["likelihood_variance"] == nearest


def test_train_py_cannot_go_on_with_own_networks(tmp_path):
    one = build(*DENSE[1])
    own = models.VAE(one.encoder, one.decoder, one.likelihood_layer)
    path = own.export(str(tmp_path / "own"), data=dataset((3,)))
    with pytest.raises(InputError, match=r"--init_from: expected an export with a network of .* has 'own networks'"):
        training_request._read_init_from({"init_from": path})


@pytest.mark.parametrize("kind", ["dataset", "list", "arrays"])
def test_a_fit_that_is_restored_from_a_backup_ends_as_if_it_had_not_been_interrupted(tmp_path, kind):
    """The backup is read after `fit` has been given the examples, which begin at the restored step all the same."""
    class Interrupt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    def fit(model, *callbacks):
        given = {"x": inputs(model, ds), "shuffle": False} if kind == "arrays" else {"x": ds}
        listed = keras.callbacks.CallbackList([*callbacks], add_history=True, model=model)
        return model.fit(**given, batch_size=8, epochs=4, callbacks=listed if kind == "list" else [*callbacks],
                         verbose=0)

    ds = dataset((3,))
    whole, interrupted, restored = (compiled(DENSE[0], seed=3) for _ in range(3))
    fit(whole)
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, keras.callbacks.BackupAndRestore(tmp_path), Interrupt())
    assert fit(restored, keras.callbacks.BackupAndRestore(tmp_path)).epoch == [2, 3]
    assert_same_weights(whole, restored)
