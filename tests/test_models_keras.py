"""Keras' own loops: compile, fit, evaluate, predict, save and load, with nothing but Keras' idioms."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, FACTORS, IDS, NARROW, build, dataset

from vae_tf import devices, distributions, export, models, networks, training
from vae_tf.cli import training_request
from vae_tf.errors import InputError

DENSE = [case for case in CASES if case[1] == "mlp_synthetic"]
DENSE_IDS = [IDS[CASES.index(case)] for case in DENSE]


def compiled(case, seed=0, **options):
    model = build(*case)
    model.compile(keras.optimizers.Adam(1e-3), seed=seed, **options)
    return model


def inputs(model, ds):
    """What Keras takes of a dataset: x, or [x, u]."""
    rows = np.arange(len(ds))
    return [ds.images_at(rows), ds.u_at(rows)] if model.u_size else ds.images_at(rows)


def assert_same_weights(a, b, **tolerance):
    for one, other in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, **{"rtol": 0, "atol": 0, **tolerance})


# Of the models whose objective is a VAE's with other weights, the one whose weights change as it trains.
LOOPED = [case for case in DENSE if case[0] not in ("beta_vae", "dip_vae_i") and "tc_estimator" not in case[4]]


@pytest.mark.parametrize("case", LOOPED, ids=[IDS[CASES.index(case)] for case in LOOPED])
def test_fit_on_a_dataset_is_training_fit(case):
    """Two calls of fit, with batches that straddle epochs: the same program on the same numbers."""
    case = (case[0], "linear", *case[2:])
    ds, model, ours = dataset(case[2]), compiled(case, seed=5), build(*case)
    for steps in (4, 3):
        history = model.fit(ds, batch_size=12, steps_per_epoch=steps, verbose=0).history
    rows = training.fit(ours, ds, keras.optimizers.Adam(1e-3), steps=7, batch_size=12, seed=5, log_every=7,
                        checkpoint_every=4)
    assert_same_weights(model, ours)
    for name, values in history.items():        # 36 numbers of float32, summed in another order
        np.testing.assert_allclose(values, rows[-1][name], rtol=1e-5)


@pytest.mark.parametrize("options", [{"use_ema": True, "ema_momentum": 0.9}, {"gradient_accumulation_steps": 2}])
def test_optimizers_that_average_or_accumulate_do_so_in_both_loops(options, tmp_path):
    """The averages of weights were left out, and the batches of an update had one noise."""
    case = ("vae", "linear", *DENSE[0][2:])
    ds, model, ours, plain = dataset(case[2]), build(*case), build(*case), build(*case)
    model.compile(keras.optimizers.Adam(1e-3, **options), seed=5)
    model.fit(ds, batch_size=12, steps_per_epoch=7, verbose=0)
    for trained, given, run in ((plain, {}, None), (ours, options, tmp_path)):
        training.fit(trained, ds, keras.optimizers.Adam(1e-3, **given), steps=7, batch_size=12, seed=5, run_dir=run)
    assert_same_weights(model, ours)
    assert np.abs(plain.get_weights()[0] - ours.get_weights()[0]).max() > 1e-4
    untrained = build(*case)
    training.fit(untrained, ds, keras.optimizers.Adam(1e-3, **options), steps=0, batch_size=12, seed=5)
    assert_same_weights(untrained, build(*case))
    again = build(*case)        # the checkpoint of a run that has ended
    training.fit(again, ds, keras.optimizers.Adam(1e-3, **options), steps=7, batch_size=12, seed=5, run_dir=tmp_path)
    assert_same_weights(again, ours)


@pytest.mark.parametrize("case", DENSE[:6], ids=DENSE_IDS[:6])
def test_a_step_on_arrays_is_the_gradient_of_the_objective(case):
    """One step of plain gradient descent at rate 1 moves the weights by the gradient of the mean loss."""
    ds, model = dataset(case[2]), build(*case)
    x, *u = [inputs(model, ds)] if not model.u_size else inputs(model, ds)
    noise = distributions.draw_noise(tf.constant([2, 0]), len(ds), model.noise_size)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model.objective(tf.constant(x), *u, noise=noise, training=True)["loss"])
    expected = [w.numpy() - g for w, g in
                zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True)]
    model.compile(keras.optimizers.SGD(1.0), seed=2)
    history = model.fit(inputs(model, ds), batch_size=len(ds), shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [loss], rtol=1e-6)
    for weight, value in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(weight, value, rtol=1e-4, atol=1e-5)     # a graph may sum in another order


@pytest.mark.parametrize("name", ["ae", "vae", "ivae"])
def test_every_form_of_the_same_data_gives_the_same_numbers(name):
    case = (name, "mlp_mnist", (8, 8, 1), "bernoulli", {})
    ds, model = dataset(case[2]), compiled(case)
    given = inputs(model, ds)
    floats = [given[0] / np.float32(255), given[1]] if model.u_size else given / np.float32(255)
    as_data = tf.data.Dataset.from_tensor_slices(tuple(given) if model.u_size else given).batch(8)
    forms = [given, floats, as_data, ds]
    if model.u_size:
        as_inputs = tf.data.Dataset.from_tensor_slices((tuple(given),)).batch(8)
        forms += [as_inputs]
        np.testing.assert_allclose(model.evaluate(*given, batch_size=8, verbose=0),
                                   model.evaluate(given, batch_size=8, verbose=0))
    scores = [model.evaluate(form, batch_size=None if isinstance(form, tf.data.Dataset) else 8, verbose=0,
                             return_dict=True) for form in forms]
    assert set(scores[0]) == {"loss", "reconstruction", *(["kl"] if model.has_prior else [])}
    images = [model.predict(form, verbose=0) for form in forms]
    assert images[0].shape == (len(ds), *ds.shape) and images[0].min() >= 0 and images[0].max() <= 1
    for score, image in zip(scores[1:], images[1:], strict=True):
        # Floats are divided by 255 by NumPy, bytes by TensorFlow. The KL is near 0, a difference of numbers near 1.
        np.testing.assert_allclose(list(score.values()), list(scores[0].values()), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(image, images[0], rtol=1e-5, atol=1e-6)


def test_evaluate_gives_the_objective_of_each_example_and_repeats_itself():
    case = ("beta_vae", "mlp_synthetic", (3,), "gaussian", {"beta": 3.0})
    ds, model = dataset(case[2]), compiled(case)
    first, second = (model.evaluate(ds, batch_size=16, verbose=0, return_dict=True) for _ in range(2))
    assert first == second
    posterior = model.posterior(inputs(model, ds))
    kl = -0.5 * np.sum(1 + np.log(posterior.variance()) - posterior.mean() ** 2 - posterior.variance(), 1)
    np.testing.assert_allclose(first["kl"], kl.mean(), rtol=1e-5)           # 40 examples in batches of 16, 16 and 8
    np.testing.assert_allclose(first["loss"], first["reconstruction"] + 3 * first["kl"], rtol=1e-5)


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


def test_an_argument_that_is_not_kept_is_named(tmp_path):
    class Forgetful(models.VAE):
        def __init__(self, encoder, decoder, likelihood, colour):
            super().__init__(encoder, decoder, likelihood)

    model = build(*DENSE[1])
    forgetful = Forgetful(model.encoder, model.decoder, model.likelihood_layer, "red")
    with pytest.raises(InputError, match="colour: expected a Forgetful to keep this argument"):
        forgetful.save(tmp_path / "model.keras")
    assert not list(tmp_path.iterdir())


def test_keras_callbacks_and_validation(tmp_path):
    ds = dataset((3,))
    model, rows = compiled(DENSE[1]), np.arange(len(ds))
    x = ds.images_at(rows)
    stopping = keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=1e6)
    history = model.fit(x, validation_data=x[:10], epochs=3, batch_size=8, verbose=0, callbacks=[
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_kl", save_best_only=True, mode="min"),
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=0, min_delta=1e6),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"), keras.callbacks.TensorBoard(tmp_path / "logs"), stopping])
    assert len(history.history["val_reconstruction"]) == 2 and stopping.stopped_epoch == 1
    assert float(model.optimizer.learning_rate) == pytest.approx(0.0005)
    header, *lines = (tmp_path / "log.csv").read_text().splitlines()
    assert "val_kl" in header and len(lines) == 2 and list((tmp_path / "logs/validation").iterdir())
    best = keras.models.load_model(tmp_path / "best.keras")
    kl = best.evaluate(x[:10], verbose=0, return_dict=True)["kl"]
    assert kl == pytest.approx(min(history.history["val_kl"]), rel=1e-6)
    assert "val_kl" in model.fit(ds, validation_data=ds, batch_size=8, verbose=0).history
    assert "val_kl" in model.fit(x, validation_split=0.25, batch_size=8, verbose=0).history


def test_a_file_in_keras_old_format_leaves_the_model_as_it_was(tmp_path):
    """Keras takes the optimizer out of what `save` writes next; how a model was compiled is kept."""
    model = compiled(DENSE[1], steps_per_execution=2)
    model.save(tmp_path / "model.h5")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_weights(model, loaded)
    assert loaded.optimizer.get_config() == model.optimizer.get_config() and loaded.steps_per_execution == 2


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


def test_a_model_that_is_all_frozen_or_was_frozen_after_compile_is_refused():
    model = compiled(DENSE[1])
    model.encoder.trainable = False
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(InputError, match=r"^trainable: .* at compile; got others.*call compile"):
            train(X)
    model.trainable = False
    model.compile("adam")
    assert np.isfinite(model.evaluate(X, verbose=0)).all()
    with pytest.raises(InputError, match=r"^trainable: expected some layers that can be trained; got"):
        model.fit(X)
    with pytest.raises(InputError, match=r"^trainable: expected some layers that can be trained; got"):
        training.fit(model, dataset((3,)), keras.optimizers.Adam(), steps=1, batch_size=8, seed=0)


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


def test_a_beta_that_is_a_variable_takes_effect_and_is_saved(tmp_path):
    model = build(*DENSE[1])
    model.beta = tf.Variable(1.0)
    model.compile("adam")
    for beta in (1.0, 3.0):
        model.beta.assign(beta)
        assert weigh(model.fit(inputs(model, dataset((3,))), verbose=0).history) == beta
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").beta == 3.0
    assert export.describe_model(model, dataset((3,)))["beta"] == 3.0
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


def test_encode_takes_tensors_of_keras():
    model = build(*DENSE[1])
    x = keras.Input((3,))
    means = keras.Model(x, model.encode(x)[0])
    np.testing.assert_allclose(means.predict(X, verbose=0), model.encode(X)[0], rtol=1e-6)


def test_a_stream_that_cannot_be_read_twice_is_read_once():
    stream = iter(np.split(np.zeros((24, 16, 16, 1), np.float32), 3))
    batches = tf.data.Dataset.from_generator(lambda: stream, output_signature=tf.TensorSpec((None, 16, 16, 1)))
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    model.evaluate(batches, verbose=0)
    assert int(model.metrics[0].count) == 24


def test_float_images_outside_of_0_to_1_are_refused_in_streams_that_can_be_read_again():
    images = tf.data.Dataset.from_tensor_slices(IMAGES + np.float32(200))
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    for stream in (images.batch(4).repeat(), images.filter(lambda x: True).batch(4), images.shuffle(8).batch(4)):
        with pytest.raises(InputError, match=r"x: expected uint8 images, or floats in \[0, 1\]; got 200"):
            model.fit(stream, steps_per_epoch=2, verbose=0)


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


def test_a_beta_that_is_no_argument_is_saved(tmp_path):
    model = build(*DENSE[1])
    model.beta = 5.0
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").beta == 5.0


def test_validation_of_a_model_that_sees_u():
    ds, model = dataset((3,)), compiled(DENSE[5])
    x, u = inputs(model, ds)
    for given in ([x, u], (x, u), ds):
        assert "val_kl" in model.fit([x, u], validation_data=given, batch_size=8, verbose=0).history


@pytest.mark.parametrize("batch_size, validation_batch_size", [(8, None), (8, 20), (None, 20)])
def test_validation_has_batches_of_the_size_asked_for(batch_size, validation_batch_size):
    """The terms of the DIP-VAE depend on the batches, whatever the training and the validation data come as."""
    ds, model = dataset((3,)), build("dip_vae_i", *DENSE[1][1:])
    model.compile(keras.optimizers.SGD(0.0))
    x = inputs(model, ds)
    wanted = model.evaluate(x, batch_size=validation_batch_size or batch_size, verbose=0, return_dict=True)
    for given in (x, ds):
        for validation in (x, (x, None), ds):
            history = model.fit(given, batch_size=batch_size, validation_batch_size=validation_batch_size, verbose=0,
                                validation_data=validation).history
            assert history["val_loss"] == pytest.approx([wanted["loss"]], rel=1e-6)


def test_devices_share_batches():
    """The same objective and updates on two devices as on one; the noise of an example is the same."""
    ds, alone = dataset((3,)), compiled(DENSE[1])
    with devices.choose_strategy("mirrored").scope():     # a second strategy of TensorFlow's would mix up its messages
        shared = compiled(DENSE[1])
    for model in (alone, shared):
        history = model.fit(inputs(model, ds), batch_size=40, epochs=3, shuffle=False, verbose=0).history
    assert_same_weights(alone, shared, rtol=1e-3, atol=1e-5)        # sums over two halves, then Adam's division
    assert np.isfinite(history["loss"]).all()
    shared.set_weights(alone.get_weights())
    one, two = (model.evaluate(inputs(model, ds), batch_size=8, verbose=0) for model in (alone, shared))
    np.testing.assert_allclose(two, one, rtol=1e-5)                 # the noise of five batches is the same, too
    with pytest.raises(InputError, match=r"^optimizer: expected none of Keras' clipnorm where several devices share"):
        shared.compile(keras.optimizers.Adam(clipnorm=1.0))


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_trains(precision):
    model = compiled(("vae", "mlp_synthetic", (3,), "gaussian", {"dtype": precision}))
    history = model.fit(dataset((3,)), batch_size=8, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def test_steps_whose_gradients_overflow_count(tmp_path):
    case, ds = ("vae", "mlp_synthetic", (3,), "gaussian", {"dtype": "mixed_float16"}), dataset((3,))
    ours, keras_own = build(*case), build(*case)
    of_ours, of_keras = (keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), initial_scale=2.0**24)
                         for _ in range(2))
    training.fit(ours, ds, of_ours, steps=12, batch_size=8, seed=0)
    keras_own.compile(of_keras, seed=0)
    keras_own.fit(ds, batch_size=8, steps_per_epoch=12, verbose=0)
    assert int(of_keras.inner_optimizer.iterations) == int(of_ours.inner_optimizer.iterations) < 12
    assert_same_weights(ours, keras_own)
    assert ours.describe_origin()["steps"] == keras_own.describe_origin()["steps"] == 12
    keras_own.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").describe_origin()["steps"] == 12


def test_images_that_rounding_took_beyond_1_train():
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    assert np.isfinite(model.evaluate(np.full((2, 16, 16, 1), 1 + 1e-6, np.float32), verbose=0)).all()


X, U = np.zeros((8, 3), np.float32), np.zeros((8, FACTORS), np.float32)
IMAGES = np.zeros((8, 16, 16, 1), np.uint8)


class Batches(keras.utils.PyDataset):
    """Two batches of four examples of some arrays, which Keras sees when it asks for them."""

    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return tuple(array[4 * index:4 * index + 4] for array in self.arrays)


def generate(*arrays):
    yield from [Batches(*arrays)[0]] * 2


REFUSED = [
    ("loss", "vae", lambda model: model.compile("adam", loss="mse")),
    ("metrics", "vae", lambda model: model.compile("adam", metrics=["mae"])),
    ("loss_weights", "vae", lambda model: model.compile("adam", loss_weights=[1])),
    ("loss", "vae", lambda model: model.compile("adam", "mse")),
    ("seed", "vae", lambda model: model.compile("adam", seed=-1)),
    ("x", "vae", lambda model: model.fit(tf.data.Dataset.from_generator(lambda: [X], tf.float32))),
    ("y", "vae", lambda model: model.fit(X, X)),
    ("y", "vae", lambda model: model.evaluate(X, X)),
    ("y", "vae", lambda model: model.train_on_batch(X, X)),
    ("y", "vae", lambda model: model.test_on_batch(X, X)),
    ("x", "vae", lambda model: model.fit([X, X])),
    ("x", "vae", lambda model: model.fit(tf.data.Dataset.from_tensor_slices((X, U)).batch(4))),
    ("x", "vae", lambda model: model.fit(X[:, :2])),
    ("x", "vae", lambda model: model.fit(X.astype(int))),
    ("x", "vae", lambda model: model.fit(np.full_like(X, np.nan))),
    ("x", "vae", lambda model: model.predict(X[:, :2])),
    ("x", "vae", lambda model: model.fit(Batches(X, U))),
    ("x", "vae", lambda model: model.fit(generate(X, U), steps_per_epoch=1)),
    ("x", "vae", lambda model: model.fit(Batches(X, X, X))),
    ("x", "vae", lambda model: model.fit(Batches(X[:, :2]))),
    ("x", "vae", lambda model: model.fit(Batches(X.astype(int)))),
    ("x", "vae", lambda model: model.evaluate(Batches(X, U))),
    ("x", "vae", lambda model: model.predict(Batches(X, U))),
    ("x", "vae", lambda model: model.fit(tf.data.Dataset.from_tensor_slices({"x": X, "label": U}).batch(4))),
    ("x", "ivae", lambda model: model.fit(Batches(X))),
    ("x", "ivae", lambda model: model.fit(Batches(X, U, U))),
    ("x", "ivae", lambda model: model.fit(X)),
    ("u", "ivae", lambda model: model.fit([X, U[:, :1]])),
    ("u", "ivae", lambda model: model.fit([X, U.astype(int)])),
    ("sample_weight", "vae", lambda model: model.fit(X, sample_weight=np.ones(8))),
    ("class_weight", "vae", lambda model: model.fit(X, class_weight={0: 1})),
    ("validation_data", "vae", lambda model: model.fit(X, validation_data=(X, X))),
    ("batch_size", "vae", lambda model: model.fit(dataset((3,)), batch_size=0)),
    ("x", "vae", lambda model: model.fit(X[:0])),
    ("x", "vae", lambda model: model.evaluate(X[:0])),
    ("x", "vae", lambda model: model.predict(X[:0])),
]


@pytest.mark.parametrize("argument, name, call", REFUSED, ids=[f"{a}-{n}-{i}" for i, (a, n, _) in enumerate(REFUSED)])
def test_what_keras_users_try_is_refused_in_one_line(argument, name, call):
    model = compiled((name, "mlp_synthetic", (3,), "gaussian", {}))
    before = [w.copy() for w in model.get_weights()]
    with pytest.raises(InputError, match=rf"^{argument}: .*expected [^\n]*$"):
        call(model)
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_model_before_compile_says_so():
    model = build("vae", "mlp_synthetic", (3,), "gaussian", {})
    for given in (X, dataset((3,))):
        with pytest.raises(InputError, match="fit: expected a compiled model; call compile"):
            model.fit(given)


def test_arguments_by_place_are_those_of_keras():
    ds = dataset((3,))
    one, other = compiled(DENSE[1]), compiled(DENSE[1])
    assert len(one.fit(inputs(one, ds), None, 8, 2, 0, shuffle=False).epoch) == 2
    other.fit(inputs(other, ds), batch_size=8, epochs=2, verbose=0, shuffle=False)
    assert_same_weights(one, other)
    x = inputs(one, ds)
    assert one.evaluate(x, None, 32, 0) == other.evaluate(x, batch_size=32, verbose=0)
    np.testing.assert_array_equal(one.predict(x, 32, 0), other.predict(x, batch_size=32, verbose=0))


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16])
def test_batches_of_any_precision_train(dtype):
    model, x = compiled(DENSE[1]), dataset((3,)).images_at(np.arange(40))
    batches = tf.data.Dataset.from_tensor_slices(tf.cast(x, dtype)).batch(8)
    assert np.isfinite(model.fit(batches, verbose=0).history["loss"]).all()


def test_the_last_batch_of_an_epoch_may_be_one_example():
    model = compiled(("beta_tcvae", "mlp_synthetic", (3,), "gaussian", {"tc_estimator": "stratified"}))
    history = model.fit(dataset((3,)).images_at(np.arange(33)), batch_size=8, verbose=0).history
    assert np.isfinite([values[-1] for values in history.values()]).all()


def test_a_batch_of_more_examples_than_the_training_set_has():
    model = compiled(("beta_tcvae", "mlp_synthetic", (3,), "gaussian", {"tc_estimator": "stratified"}))
    x = np.tile(dataset((3,)).images_at(np.arange(40)), (2, 1))
    assert np.isfinite(model.evaluate(x, batch_size=80, verbose=0)).all()


def test_a_regularizer_is_a_term_of_the_loss():
    model = compiled(DENSE[1])
    kernel = model.decoder.trainable_variables[0]
    plain = model.evaluate(X, verbose=0, return_dict=True)
    kernel.regularizer = keras.regularizers.L2(2.0)
    model.compile(keras.optimizers.Adam(1e-3))
    found = model.evaluate(X, verbose=0, return_dict=True)
    assert found["regularization"] == pytest.approx(2 * np.sum(kernel.numpy()**2), rel=1e-5)
    assert found["loss"] == pytest.approx(plain["loss"] + found["regularization"], rel=1e-5)


def test_activity_regularizers_are_a_term_of_the_loss_as_keras_scales_them():
    case = ("vae", "mlp_synthetic", (3,), "gaussian", {})
    model, plain, x = build(*case), compiled(case), dataset((3,)).images_at(np.arange(8))
    hidden, output = model.encoder.layers[1], model.decoder.layers[-1]
    hidden.activity_regularizer, output.activity_regularizer = keras.regularizers.L2(2.0), keras.regularizers.L1(0.5)
    model.compile(keras.optimizers.Adam(1e-3))
    found, without = (each.evaluate(x, batch_size=len(x), verbose=0, return_dict=True) for each in (model, plain))
    of_hidden = 2 * np.sum(keras.Model(model.encoder.input, hidden.output)(x).numpy()**2) / len(x)
    posterior, noise = model.posterior(x), distributions.draw_noise(tf.constant([-1, 0]), len(x), model.noise_size)
    of_output = 0.5 * np.sum(np.abs(model.decoder(distributions.reparameterise(posterior, noise)))) / len(x)
    assert of_hidden > 0 and of_output > 0
    assert found["regularization"] == pytest.approx(of_hidden + of_output, rel=1e-5)
    assert found["loss"] == pytest.approx(without["loss"] + found["regularization"], rel=1e-5)


def test_outputs_by_name_are_refused():
    x = keras.Input((3,))
    encoder = keras.Model(x, {"mean": keras.layers.Dense(2)(x), "log_variance": keras.layers.Dense(2)(x)})
    z = keras.Input((2,))
    with pytest.raises(InputError, match=r"encoder: expected a list of outputs, .* got a dict of "):
        models.VAE(encoder, keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))


def test_an_encoder_of_whole_numbers_is_refused():
    """Images were scaled to [0, 1] and then rounded down."""
    x, z = keras.Input((3,), dtype="uint8"), keras.Input((2,))
    h = keras.layers.Rescaling(1 / 255)(x)
    encoder = keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)])
    with pytest.raises(InputError, match=r"^encoder: expected an input x of floats, .* got uint8$"):
        models.VAE(encoder, keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))


def test_train_py_cannot_go_on_with_own_networks(tmp_path):
    one = build(*DENSE[1])
    own = models.VAE(one.encoder, one.decoder, one.likelihood_layer)
    path = own.export(str(tmp_path / "own"), data=dataset((3,)))
    with pytest.raises(InputError, match=r"--init_from: expected an export with a network of .* has 'own networks'"):
        training_request._read_init_from({"init_from": path})


def test_steps_are_counted_over_several_trainings():
    ds = dataset((3,))
    model = build(*DENSE[1])
    for steps in (5, 7):
        training.fit(model, ds, keras.optimizers.Adam(1e-3), steps=steps, batch_size=8)
    assert model.describe_origin()["steps"] == 12
    other = compiled(DENSE[1])
    other.fit(inputs(other, ds), batch_size=8, epochs=1, verbose=0)
    training.fit(other, ds, other.optimizer, steps=3, batch_size=8)
    assert other.describe_origin()["steps"] == 8
    other.fit(inputs(other, ds), batch_size=8, epochs=1, verbose=0)
    assert other.describe_origin()["steps"] == 13


@pytest.mark.parametrize("x, fault", [(IMAGES + np.float32(200), "200"), (IMAGES - np.float32(1), "-1")])
def test_float_images_outside_of_0_to_1_are_refused(x, fault):
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    for given in (x, tf.constant(x), tf.data.Dataset.from_tensor_slices(x).batch(4)):
        for call in (model.fit, model.evaluate, model.predict, lambda given: model.fit(IMAGES, validation_data=given)):
            with pytest.raises(InputError, match=rf"x: expected uint8 images, or floats in \[0, 1\]; got {fault}"):
                call(given)
