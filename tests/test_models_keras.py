"""Keras' own loops: compile, fit, evaluate and predict, with nothing but Keras' idioms."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, IDS, build, dataset
from keras_cases import DENSE, DENSE_IDS, X, assert_same_weights, compiled, inputs

from vae_tf import devices, distributions, models, training
from vae_tf.errors import InputError

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


def test_metrics_of_a_subclass_begin_anew_with_each_epoch():
    class Measured(models.VAE):
        def train_step(self, data):
            terms = super().train_step(data)
            self.seen.update_state(1.0)
            return {**terms, "seen": self.seen.result()}

    part = build(*DENSE[1])
    model = Measured(part.encoder, part.decoder, part.likelihood_layer)
    model.seen = keras.metrics.Sum("seen")
    model.compile("adam")
    assert [metric.name for metric in model.metrics] == ["loss", "reconstruction", "kl", "seen"]
    assert model.fit(X, batch_size=4, epochs=3, verbose=0).history["seen"] == [2, 2, 2]


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
    scaled = precision == "mixed_float16"
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == scaled
    history = model.fit(dataset((3,)), batch_size=8, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    optimizer = model.optimizer
    model.compile(optimizer)
    assert model.optimizer is optimizer         # which is not scaled twice
    model.compile("sgd", auto_scale_loss=False)
    assert type(model.optimizer) is keras.optimizers.SGD


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


def test_an_epoch_of_a_dataset_ends_and_one_of_no_batches_has_no_loss():
    model = compiled(("vae", "mlp_mnist", (4, 4, 1), "gaussian", {}))
    assert len(model.fit(dataset((4, 4, 1)), steps_per_epoch=None, verbose=0).history["loss"]) == 1
    with pytest.warns(UserWarning, match="ran out of data"):
        empty = tf.data.Dataset.from_tensor_slices(np.zeros((3, 4, 4, 1), np.float32)).batch(4, drop_remainder=True)
        model.fit(empty, verbose=0)


def test_a_stream_may_begin_with_an_empty_batch():
    model, x = compiled(("vae", "mlp_mnist", (4, 4, 1), "gaussian", {})), np.zeros((4, 4, 4, 1), np.float32)
    batches = tf.data.Dataset.from_tensors(x[:0]).concatenate(tf.data.Dataset.from_tensors(x))
    assert len(model.fit(batches, verbose=0).history["loss"]) == 1


def test_inputs_of_float64_to_layers_of_float32_train():
    """As they are where keras.config.set_floatx came after the first layers."""
    x, z = keras.Input((3,), dtype="float64"), keras.Input((2,), dtype="float64")
    encoder = keras.Model(x, [keras.layers.Dense(2, dtype="float32")(x) for _ in range(2)])
    decoder = keras.Model(z, keras.layers.Dense(3, dtype="float32")(z))
    model = models.VAE(encoder, decoder, distributions.Likelihood("gaussian"))
    model.compile("sgd")
    assert np.isfinite(model.fit(X, verbose=0).history["loss"]).all()


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
