"""Penalties on the decoder's Jacobian: their values, their gradients, and that every loop minimises them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import KINDS, LATENTS, NARROW, build, dataset
from commands import parse
from rounding import apart, perturb

from vae_tf import cli, configured, data, devices, distributions, jacobians, metrics, models, penalties, training
from vae_tf.errors import InputError

X = tf.constant(dataset((3,)).images_at(np.arange(32)))
U = tf.constant(dataset((3,)).u_at(np.arange(32)))


def make(name="vae", kind=None, weight=1.0, examples=16, seed=0, **more):
    more = NARROW if name == "factor_vae" else more
    model = build(name, "mlp_synthetic", (3,), "gaussian", more, seed)
    if kind:
        model.penalise_jacobian(kind, weight, examples)
    return model


def draw(model):
    return distributions.draw_noise((0, 1), len(X), model.noise_size)


def train(model, **more):
    training.fit(model, dataset((3,)), keras.optimizers.SGD(1e-3), **{"steps": 3, "batch_size": 32, "log_every": 1,
                                                                     **more})
    return model.get_weights()


@pytest.mark.parametrize("name", [*KINDS, "beta_tcvae", "factor_vae"])      # the others are VAEs to a penalty
def test_the_loss_of_every_model_has_the_mean_penalty_of_the_first_examples(name):
    model = make(name)
    noise, u = draw(model), U if model.u_size else None
    before = model.objective(X, u, noise=noise)
    model.penalise_jacobian("orthogonality", 2.5, examples=7)
    after = model.compute_terms(X, u, noise=noise)
    posterior = model.posterior(X[:7], None if u is None else u[:7])
    z = distributions.reparameterise(posterior, noise[:7, :LATENTS]) if model.has_prior else posterior.mean()
    gap = metrics.hadamard_gap(jacobians.gram(model.likelihood, z).numpy()).score
    np.testing.assert_allclose(after["jacobian_penalty"], np.full(32, gap), rtol=1e-4)      # J is of float32
    np.testing.assert_allclose(after["loss"], before["loss"] + 2.5 * gap, rtol=1e-5)
    assert before.keys() == after.keys() - {"jacobian_penalty"}


def test_columns_of_zeros_have_no_angle_and_dependent_ones_a_finite_penalty():
    orthogonal = np.array([[3, 0, 0], [0, 0.1, 0], [0, 0, 0]], np.float32)
    dependent = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], np.float32)
    gaps = penalties.measure_gap(tf.constant([orthogonal, dependent])).numpy()
    assert abs(gaps[0]) < 2e-6
    assert gaps[1] == pytest.approx(-0.5 * np.log((1 + 1e-6)**2 - 1), rel=1e-3)


def test_l1_is_a_sum_of_sizes():
    jacobian = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(penalties.measure_size(tf.constant(jacobian)), np.abs(jacobian).sum((1, 2)), rtol=1e-6)


def test_hessian_is_the_variance_over_directions():
    """f_i(z) = z^T A_i z has the Hessian A_i + A_i^T, and 2 sum_{j != k} H_jk^2 is the mean of the estimates."""
    A = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    hessian = A + A.T
    noise = distributions.draw_noise((3, 4), 4_000, 4)
    z = tf.constant(np.random.default_rng(2).standard_normal((4_000, 4)).astype(np.float32))
    one = penalties.measure_curvature(lambda z: tf.einsum("bj,jk,bk->b", z, A, z)[:, tf.newaxis], z, noise).numpy()
    expected = 2 * (np.sum(hessian**2) - np.sum(np.diag(hessian)**2))
    assert abs(one.mean() - expected) < 4 * one.std() / np.sqrt(len(one))
    both = penalties.measure_curvature(lambda z: tf.einsum("bj,jk,bk->b", z, A, z)[:, tf.newaxis] * [0.5, 2.0], z,
                                       noise)
    np.testing.assert_allclose(both, 4 * one, rtol=1e-3, atol=1e-3)      # the largest over the outputs
    diagonal = penalties.measure_curvature(lambda z: tf.reduce_sum(z**2, 1, keepdims=True), z, noise)
    assert np.max(np.abs(diagonal)) < 1e-4      # differences of rounded numbers, over steps of 0.1


@pytest.mark.parametrize("kind", penalties.PENALTIES)
def test_gradients_are_those_of_finite_differences(kind):
    keras.utils.set_random_seed(0)
    z = keras.Input((2,), dtype="float64")
    h = keras.layers.Dense(5, "tanh", dtype="float64", bias_initializer="normal")(z)
    decoder = keras.Model(z, keras.layers.Dense(4, "sigmoid", dtype="float64")(h))
    rng = np.random.default_rng(0)
    at, noise = (tf.constant(rng.standard_normal((6, 2))) for _ in range(2))

    @tf.function
    def compute():
        return tf.reduce_mean(penalties.compute_penalty(kind, decoder, at, noise))

    @tf.function
    def differentiate():
        with tf.GradientTape() as tape:
            value = compute()
        return tape.gradient(value, decoder.trainable_variables)

    for variable, gradient in zip(decoder.trainable_variables[:3], differentiate(), strict=False):
        start, direction = variable.numpy(), rng.standard_normal(variable.shape)
        values = []
        for step in (1e-5, -1e-5):
            variable.assign(start + step * direction)
            values.append(float(compute()))
        variable.assign(start)
        assert (values[0] - values[1]) / 2e-5 == pytest.approx(float(np.sum(gradient * direction)), rel=1e-5, abs=1e-9)


def test_a_weight_of_zero_changes_no_bit():
    for a, b in zip(train(make()), train(make(kind="orthogonality", weight=0)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_with_a_penalty_goes_on_exactly(tmp_path):
    through = train(make(kind="hessian"), steps=4)
    train(make(kind="hessian"), steps=2, run_dir=tmp_path)
    for a, b in zip(through, train(make(kind="hessian", seed=5), steps=4, run_dir=tmp_path), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_rounded_alike(make_one, found):
    """Check weights against those of one model: sums in another order, three steps long, see rounding.tolerance."""
    alone = train(make_one())
    bound = 3 * apart(alone, train(perturb(make_one())))
    assert apart(alone, found) < bound < 1e-4, (apart(alone, found), bound)


@pytest.mark.parametrize("kind", ["orthogonality", "hessian"])
def test_replicas_share_the_penalty(kind):
    ours = functools.partial(make, "full_covariance_vae", kind, examples=20)
    stack = [ours(), ours(seed=1)]
    training.fit_replicas(stack, dataset((3,)), keras.optimizers.SGD(1e-3), seeds=[0, 1], steps=3, batch_size=32,
                          log_every=1)
    assert_rounded_alike(ours, stack[0].get_weights())


def test_devices_share_the_penalty():
    """20 of 32 examples: all of the first device's and some of the second's."""
    ours = functools.partial(make, "full_covariance_vae", "hessian", examples=20)
    with devices.choose_strategy("mirrored").scope():
        shared = train(ours())
    assert_rounded_alike(ours, shared)


def test_models_with_other_penalties_are_no_replicas():
    with pytest.raises(InputError, match=r"models: .* alone; got model 2 of 2 with other jacobian_penalty than"):
        training.fit_replicas([make(), make(kind="l1")], dataset((3,)), keras.optimizers.SGD(1e-3), seeds=[0, 1],
                              steps=1, batch_size=8)


def test_a_penalty_makes_columns_orthogonal_in_keras_loops_too(tmp_path):
    model = make("ae", "orthogonality", 5.0, 32)
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(X.numpy(), batch_size=32, epochs=60, verbose=0).history
    assert history["jacobian_penalty"][-1] < 0.1 * history["jacobian_penalty"][0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.penalty == model.penalty
    assert loaded.evaluate(X.numpy(), verbose=0, return_dict=True) == pytest.approx(
        model.evaluate(X.numpy(), verbose=0, return_dict=True), rel=1e-6)


@pytest.mark.parametrize("kind", penalties.OF_JACOBIAN)
def test_bfloat16_comes_near_float32(kind):
    values = []
    for dtype in ("float32", "mixed_bfloat16"):
        model = make("vae", kind, dtype=dtype)
        values.append(float(model.compute_terms(X, noise=draw(model))["jacobian_penalty"][0]))
    assert values[0] == pytest.approx(values[1], rel=0.05)      # bfloat16 has 8 bits, and there are three layers


def test_convolutions_have_penalties():
    penalised, plain = (build("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}) for _ in range(2))
    penalised.penalise_jacobian("orthogonality", examples=4)
    for model in (penalised, plain):
        history = training.fit(model, dataset((16, 16, 1)), keras.optimizers.SGD(1e-3), steps=2, batch_size=8,
                               log_every=1)
        assert model is plain or history[-1]["jacobian_penalty"] > 0
    moved = np.abs(penalised.decoder.get_weights()[0] - plain.decoder.get_weights()[0]).max()
    assert moved > 1e-6         # a hundred times the rounding of a weight of this size


def measure_first_column(jacobian):
    return tf.reduce_sum(jacobian[:, :, 0]**2, 1)


def test_a_function_of_the_jacobian_is_a_penalty():
    model = make(kind=measure_first_column)
    noise = draw(model)
    gram = jacobians.gram(model.likelihood, distributions.reparameterise(model.posterior(X[:16]), noise[:16]))
    assert float(model.compute_terms(X, noise=noise)["jacobian_penalty"][0]) == pytest.approx(
        float(np.mean(gram[:, 0, 0])), rel=1e-5)
    assert np.isfinite(np.concatenate([array.ravel() for array in train(model)])).all()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: make(kind="l2"), r"jacobian_penalty: expected one of orthogonality, l1, hessian; got 'l2'"),
    (lambda: make(kind="l1", weight=-1), "weight: expected a finite number, 0 or more"),
    (lambda: make(kind="l1", examples=0), "examples: expected a whole number, 1 to"),
    (lambda: models.build("ae", (2,), network="linear", latents=3, likelihood="gaussian").penalise_jacobian(),
     "jacobian_penalty: orthogonality expects at most as many latents as an example has entries, 2; got 3"),
    (lambda: make(kind="hessian", dtype="mixed_bfloat16"), "jacobian_penalty: hessian .* which bfloat16 rounds away"),
    (lambda: make(kind=tf.reduce_sum).compute_terms(X, noise=draw(make())),
     r"jacobian_penalty: expected a function from J \[B, n, d\] to floats \[B\]"),
])
def test_what_is_no_penalty_is_refused(call, message):
    with pytest.raises(InputError, match=f"^{message}"):
        call()


def test_flags_and_configurations_have_the_penalty():
    values = parse(cli.define_train_flags, "--model=ae", "--dataset=circles", "--jacobian_penalty=l1",
                   "--jacobian_weight=0.5", "--jacobian_examples=4")
    whole = data.load("circles")
    config = cli.configure(values, whole)
    assert configured.build_model(config, whole).penalty == penalties.Penalty("l1", 0.5, 4)
    assert {name for name in config.as_json() if "jacobian" in name} == {"jacobian_penalty", "jacobian_weight",
                                                                          "jacobian_examples"}
    assert not [name for name in cli.configure(parse(cli.define_train_flags, "--dataset=circles"), whole).as_json()
                if "jacobian" in name]


def test_a_batch_smaller_than_the_penalty_asks_for_has_the_mean_of_all_its_examples():
    model = build("vae", "mlp_synthetic", (3,), "gaussian", {})
    x = tf.constant(dataset((3,)).images_at(np.arange(8)))
    noise = distributions.draw_noise((0, 1), 8, LATENTS)
    model.penalise_jacobian("l1", examples=16)
    z = distributions.reparameterise(model.posterior(x), noise)
    expected = np.mean(penalties.measure_size(jacobians.jacobian(model.likelihood, z)))
    np.testing.assert_allclose(model.compute_terms(x, noise=noise)["jacobian_penalty"], np.full(8, expected), rtol=1e-5)
