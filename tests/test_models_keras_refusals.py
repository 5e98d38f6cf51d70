"""What Keras' loops refuse, in one line, before anything is trained."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset
from keras_cases import DENSE, Batches, U, X, compiled

from vae_tf import data, distributions, models, training
from vae_tf.errors import InputError

IMAGES = np.zeros((8, 16, 16, 1), np.uint8)


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


def test_datasets_of_vectors_outside_of_0_to_1_are_refused_under_a_bernoulli_likelihood():
    model, beyond = compiled(("vae", "linear", (3,), "bernoulli", {})), dataset((3,))
    within = data.from_arrays("within", np.eye(3, dtype=np.float32))
    model._accept(within, None, 2, {})
    for x, more in ((beyond, {}), (within, {"validation_data": beyond})):
        with pytest.raises(InputError, match=r"^x: expected floats in \[0, 1\]; got -"):
            model.fit(x, **more)
    for x, more in ((beyond, {}), (within, {"validation": beyond})):
        with pytest.raises(InputError, match=r"^dataset: expected floats in \[0, 1\]; got -"):
            training.fit(model, x, keras.optimizers.Adam(), steps=1, batch_size=2, **more)


def test_float_images_outside_of_0_to_1_are_refused_in_streams_that_can_be_read_again():
    images = tf.data.Dataset.from_tensor_slices(IMAGES + np.float32(200))
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    for stream in (images.batch(4).repeat(), images.filter(lambda x: True).batch(4), images.shuffle(8).batch(4)):
        with pytest.raises(InputError, match=r"x: expected uint8 images, or floats in \[0, 1\]; got 200 .* divide"):
            model.fit(stream, steps_per_epoch=2, verbose=0)


def test_uint8_are_images_from_0_to_255():
    """A server scales images alone; masks of 0 and 1 would be black."""
    vectors = compiled(("vae", "linear", (3,), "gaussian", {}))
    for use in (vectors.fit, vectors.evaluate, vectors.predict, vectors.train_on_batch):
        with pytest.raises(InputError, match=r"^x: expected floats; got uint8; give x\.astype\('float32'\)"):
            use(np.ones((8, 3), np.uint8))
    model = compiled(("vae", "mlp_mnist", (16, 16, 1), "bernoulli", {}))
    masks = IMAGES + np.eye(16, dtype=np.uint8)[..., np.newaxis]
    for kind in (bool, np.int64):
        with pytest.raises(InputError, match=r"^x: expected uint8 or floats; got .*; give x\.astype\('float32'\)"):
            model.fit(masks.astype(kind), verbose=0)
    for given in (masks, tf.data.Dataset.from_tensor_slices(masks).batch(4)):
        with pytest.raises(InputError, match=r"^x: expected uint8 images from 0 to 255; got 0 and 1 alone.* 255 \* x"):
            model.fit(given, verbose=0)
    assert np.isfinite(model.fit(255 * masks, verbose=0).history["loss"]).all()
    assert model.predict(IMAGES[:1], verbose=0).shape == (1, 16, 16, 1)      # black throughout


def test_float_images_that_go_to_255_are_warned_of_under_a_gaussian_likelihood():
    model = compiled(("vae", "mlp_mnist", (16, 16, 1), "gaussian", {}))
    with pytest.warns(UserWarning, match="floats from 200 to 200, of which training may diverge; divide them by 255"):
        model.evaluate(IMAGES + np.float32(200), verbose=0)


def test_tables_are_read_as_arrays():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X)
    model, other = compiled(DENSE[1]), compiled(DENSE[1])
    model.fit(frame, validation_data=frame, verbose=0)
    other.fit(X, validation_data=X, verbose=0)
    np.testing.assert_allclose(model.predict(frame, verbose=0), other.predict(X, verbose=0), rtol=1e-5, atol=1e-6)
    assert model.describe_origin()["data"] == other.describe_origin()["data"]
    frame.iloc[1, 1] = np.nan
    with pytest.raises(InputError, match="x: expected finite floats; got nan"):
        model.fit(frame)


def test_what_is_missing_or_in_another_form_is_said():
    model, conditional = compiled(DENSE[1]), compiled(("ivae", "linear", (3,), "gaussian", {}))
    with pytest.raises(InputError, match=r"arrays got: 1; u is missing"):
        conditional.fit(X)
    with pytest.raises(InputError, match=r"arrays got: \d+; np.stack makes one array of a list of examples"):
        model.fit(list(X))
    with pytest.raises(InputError, match=r"u: expected floats; got int64; give u.astype\('float32'\)"):
        conditional.fit([X, U.astype(np.int64)])


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_a_decoder_of_probabilities_is_refused_under_a_bernoulli_likelihood(activation):
    """The likelihood makes probabilities of logits; of logits in [0, 1] it makes hardly any difference."""
    x = keras.Input((4, 4, 1))
    encoder = keras.Model(x, [keras.layers.Dense(2)(keras.layers.Flatten()(x)) for _ in range(2)])
    shaped = keras.layers.Reshape((4, 4, 1))
    sequences = [keras.Sequential([keras.Input((2,)), *ends, shaped]) for ends in (
        [keras.layers.Dense(16, activation)], [keras.layers.Dense(16), keras.layers.Activation(activation)],
        [keras.layers.Dense(16, getattr(tf.nn, activation))],
        [keras.layers.Dense(16, activation), keras.layers.Activation("linear", dtype="float32")],
        [keras.layers.Dense(16), keras.layers.Lambda(getattr(tf.nn, activation))],
        [keras.layers.Dense(36, activation), keras.layers.Reshape((6, 6, 1)), keras.layers.Cropping2D(1)])]
    z = keras.Input((2,))
    operation = getattr(keras.ops, activation)(keras.layers.Dense(16)(z))
    for decoder in (*sequences, keras.Model(z, keras.ops.reshape(operation, (-1, 4, 4, 1)))):
        with pytest.raises(InputError, match=f"decoder: expected logits for a bernoulli .* activation {activation}"):
            models.VAE(encoder, decoder, distributions.Likelihood("bernoulli"))
        models.VAE(encoder, decoder, distributions.Likelihood("gaussian"))


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
    ("batch_size", "vae", lambda model: model.fit(X, batch_size=0)),
    ("batch_size", "vae", lambda model: model.evaluate(X, batch_size=2.5)),
    ("validation_batch_size", "vae", lambda model: model.fit(X, validation_data=X, validation_batch_size=0)),
    ("x", "vae", lambda model: model.fit(None)),
    ("steps_per_execution", "vae", lambda model: (model.compile("adam", steps_per_execution=3),
                                                  model.fit(dataset((3,)), batch_size=8))),
    ("x", "vae", lambda model: model.fit(X[:0])),
    ("x", "vae", lambda model: model.evaluate(X[:0])),
    ("x", "vae", lambda model: model.predict(X[:0])),
    ("beta", "vae", lambda model: setattr(model, "beta", keras.Variable(0.5))),     # would be trained
    ("gamma", "factor_vae", lambda model: setattr(model, "gamma", keras.Variable(10.0))),
    ("validation_split", "vae", lambda model: model.fit(dataset((3,)), validation_split=0.5)),
    ("shuffle", "vae", lambda model: model.fit(dataset((3,)), shuffle=False)),
    ("x", "vae", lambda model: model.fit([[1.0, 2.0, 3.0]])),
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
    for method in ("fit", "evaluate", "train_on_batch", "test_on_batch"):
        with pytest.raises(InputError, match=f"^{method}: expected a compiled model; call compile"):
            getattr(model, method)(X)
    for method in ("updates", "compute_terms"):     # of a subclass, which fails
        setattr(model, method, {}.__getitem__)
        with pytest.raises((TypeError, KeyError)):
            model.compile("adam")
        with pytest.raises(InputError, match="fit: expected a compiled model; call compile"):
            model.fit(X)


@pytest.mark.parametrize("change", [
    lambda terms: {name: tf.reduce_mean(term) for name, term in terms.items()},
    lambda terms: {**terms, "wide": tf.stack([terms["kl"]] * 2, 1)},
    lambda terms: {"total": terms["loss"]},
    lambda terms: terms["loss"]])
def test_an_objective_that_returns_no_terms_of_examples_is_refused(change, tmp_path):
    class Own(models.VAE):
        def objective(self, x, u=None, **more):
            return change(super().objective(x, u, **more))

    part = build(*DENSE[1])
    model = Own(part.encoder, part.decoder, part.likelihood_layer)
    for use in (lambda: model.compile("adam"), lambda: model.export(tmp_path / "own"),
                lambda: training.fit(model, dataset((3,)), keras.optimizers.Adam(), steps=1, batch_size=8)):
        with pytest.raises(InputError, match=r"^objective: expected a dict of terms, each \[B\], with `loss` .*; got "):
            use()
    assert not (tmp_path / "own").exists()


def test_an_encoder_of_whole_numbers_is_refused():
    """Images were scaled to [0, 1] and then rounded down."""
    x, z = keras.Input((3,), dtype="uint8"), keras.Input((2,))
    h = keras.layers.Rescaling(1 / 255)(x)
    encoder = keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)])
    with pytest.raises(InputError, match=r"^encoder: expected an input x of floats, .* got uint8$"):
        models.VAE(encoder, keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))


@pytest.mark.parametrize("x, fault", [(IMAGES + np.float32(200), "200"), (IMAGES - np.float32(1), "-1")])
def test_float_images_outside_of_0_to_1_are_refused(x, fault):
    model = compiled(("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}))
    for given in (x, tf.constant(x), tf.data.Dataset.from_tensor_slices(x).batch(4), Batches(x)):
        for call in (model.fit, model.evaluate, model.predict, lambda given: model.fit(IMAGES, validation_data=given)):
            with pytest.raises(InputError, match=rf"x: expected uint8 images, or floats in \[0, 1\]; got {fault}"):
                call(given)
