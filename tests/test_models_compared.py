"""The models that the field compares with: FactorVAE, DIP-VAE and the annealed VAE."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import LATENTS, NARROW, build, dataset

from vae_tf import distributions, models, objectives, training
from vae_tf.errors import InputError
from vae_tf.models import factor_vae
from vae_tf.models.factor_vae import make_discriminator

NAMES = ("factor_vae", "dip_vae_i", "dip_vae_ii", "annealed_vae")


def make(name, seed=0, **options):
    narrow = NARROW if name == "factor_vae" else {}
    return build(name, "mlp_synthetic", (3,), "gaussian", {**narrow, **options}, seed)


def objective(model, **more):
    """The terms on eight examples; the columns of noise that make z are the same for every model."""
    x = tf.constant(dataset((3,)).images_at(np.arange(8)))
    noise = tf.concat([distributions.draw_noise((i, 11), 8, LATENTS) for i in range(model.noise_size // LATENTS)], 1)
    return model.objective(x, noise=noise, **more)


@pytest.mark.parametrize("name, off", [
    ("factor_vae", {"gamma": 0.0}), ("dip_vae_i", {"lambda_od": 0.0}),
    ("dip_vae_ii", {"lambda_od": 0.0, "lambda_d": 0.0})])
@pytest.mark.parametrize("beta", [None, 0.25])
def test_without_its_weight_each_is_the_vae(name, off, beta):
    ours, vae = objective(make(name, **off), beta=beta), objective(make("vae"), beta=beta)
    for term in ("loss", "reconstruction", "kl"):
        np.testing.assert_allclose(ours[term], vae[term], rtol=1e-6)


@pytest.mark.parametrize("warm_up", [None, 0.5])
def test_a_capacity_of_0_is_a_beta_vae(warm_up):
    ours, other = objective(make("annealed_vae", capacity=0.0, capacity_weight=7.0), beta=warm_up), objective(make(
        "beta_vae", beta=7.0))
    np.testing.assert_allclose(np.mean(ours["loss"]), np.mean(other["loss"]), rtol=1e-6)


@pytest.mark.parametrize("warm_up", [None, 0.5, 0.01])
def test_the_kl_is_held_at_the_capacity_that_the_warm_up_has_reached(warm_up):
    terms = objective(make("annealed_vae", capacity=3.0, capacity_weight=10.0), beta=warm_up)
    expected = np.mean(terms["reconstruction"]) + 10 * abs(np.mean(terms["kl"]) - 3 * (warm_up or 1))
    np.testing.assert_allclose(np.mean(terms["loss"]), expected, rtol=1e-5)


@pytest.mark.parametrize("name, lambda_d, weight", [("dip_vae_i", None, 20.0), ("dip_vae_ii", None, 2.0),
                                                    ("dip_vae_ii", 0.5, 0.5)])
def test_dip_vae_s_moments_are_those_of_a_loop(name, lambda_d, weight):
    model = make(name, lambda_od=2.0, lambda_d=lambda_d)
    posterior = model.posterior(tf.constant(dataset((3,)).images_at(np.arange(8))))
    mean, variance = (np.float64(value) for value in (posterior.mean(), posterior.variance()))
    C = np.zeros((LATENTS, LATENTS))
    for i in range(LATENTS):
        for j in range(LATENTS):
            for m in mean:
                C[i, j] += (m[i] - mean[:, i].mean()) * (m[j] - mean[:, j].mean()) / 8
        if name == "dip_vae_ii":
            C[i, i] += sum(variance[:, i]) / 8
    off = sum(C[i, j] ** 2 for i in range(LATENTS) for j in range(LATENTS) if i != j)
    diagonal = sum((C[i, i] - 1) ** 2 for i in range(LATENTS))
    terms = objective(model)
    np.testing.assert_allclose(terms["off_diagonal"], np.full(8, off), rtol=1e-4)
    np.testing.assert_allclose(terms["diagonal"], np.full(8, diagonal), rtol=1e-4)
    np.testing.assert_allclose(terms["loss"], terms["reconstruction"] + terms["kl"] + 2 * off + weight * diagonal,
                               rtol=1e-4)


def test_columns_are_permuted_each_on_its_own():
    z, noise = (np.random.default_rng(seed).standard_normal((50, 3)).astype(np.float32) for seed in (0, 1))
    permuted = objectives.permute_columns(tf.constant(z), tf.constant(noise)).numpy()
    np.testing.assert_array_equal(np.sort(permuted, 0), np.sort(z, 0))
    for j in range(3):
        np.testing.assert_array_equal(permuted[:, j], z[np.argsort(noise[:, j]), j])
    assert np.mean(permuted == z) < 0.1


def test_the_discriminator_learns_the_total_correlation_of_gaussians():
    """TC of N(0, R) is -1/2 log det R; for two latents of correlation r that is -1/2 log(1 - r^2)."""
    r, n = 0.8, 20_000
    normal = tf.random.stateless_normal((n, 2), (0, 0))
    joint = normal @ np.linalg.cholesky([[1, r], [r, 1]]).T.astype(np.float32)
    permuted = objectives.permute_columns(joint, tf.random.stateless_normal((n, 2), (1, 0)))
    # log q(z) - log q(z_1) q(z_2) is a polynomial of the second degree, so that this discriminator can be optimal.
    network = keras.Sequential([
        keras.Input((2,)), keras.layers.Lambda(lambda z: tf.stack([*tf.unstack(z, axis=1), *tf.unstack(
            z**2, axis=1), z[:, 0] * z[:, 1]], 1)), keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = keras.optimizers.Adam(0.1)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(objectives.discriminator_loss(network, joint, permuted))
        optimizer.apply_gradients(zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables,
                                      strict=True))

    for _ in range(300):
        step()
    # The standard deviation of this estimate over seeds is 0.011; the closed form is 0.511.
    assert float(tf.reduce_mean(network(joint))) == pytest.approx(-0.5 * np.log(1 - r**2), abs=0.03)


def test_the_weights_of_a_discriminator_are_counted_before_it_is_built():
    for latents, units in ((2, 3), (7, 16)):
        weights = sum(np.prod(each.shape) for each in factor_vae.make_discriminator(latents, units).weights)
        assert models.FactorVAE.count_further_weights(latents, {"discriminator_units": units}) == {
            "discriminator_units": weights}
    with pytest.raises(InputError, match=r"^discriminator_units: the model takes about [\d,.]+ GiB of memory, "):
        models.build("factor_vae", (3,), network="linear", latents=2, discriminator_units=10_000_000)


def test_the_vae_and_the_discriminator_minimise_their_own_terms():
    """One step of gradient descent at rate 1 moves the VAE down the loss; the discriminator does not follow it."""
    model, ds = make("factor_vae", gamma=5.0), dataset((3,))
    before = [variable.numpy() for variable in model.discriminator.trainable_variables]
    own = [*model.encoder.trainable_variables, *model.decoder.trainable_variables]
    x = tf.constant(ds.images_at(np.arange(len(ds))))
    indices = training.loop.draw_permutation(len(ds), 3, 0)
    noise = distributions.draw_noise(tf.constant([3, 0]), len(ds), model.noise_size)
    with tf.GradientTape(persistent=True) as tape:
        terms = model.objective(tf.gather(x, indices), noise=noise, training=True)
        loss, other = (tf.reduce_mean(terms[name]) for name in ("loss", "discriminator"))
    expected = [variable.numpy() - gradient for variable, gradient in zip(own, tape.gradient(loss, own), strict=True)]
    towards = tape.gradient(other, model.discriminator.trainable_variables)
    assert all(gradient is None for gradient in tape.gradient(other, own))
    training.fit(model, ds, keras.optimizers.SGD(1.0), steps=1, batch_size=len(ds), seed=3)
    for variable, value in zip(own, expected, strict=True):
        np.testing.assert_allclose(variable, value, rtol=1e-4, atol=1e-5)
    for variable, was, gradient in zip(model.discriminator.trainable_variables, before, towards, strict=True):
        moved = variable.numpy() - was      # Adam's first step is 1e-4 against the sign of the gradient
        clear = abs(gradient.numpy()) > 1e-4
        np.testing.assert_allclose(moved[clear], -1e-4 * np.sign(gradient.numpy()[clear]), rtol=1e-2)


@pytest.mark.parametrize("keras_loop", [False, True])
def test_the_discriminator_s_regularizers_move_it(keras_loop):
    model, ds = make("factor_vae"), dataset((3,))
    kernel = model.discriminator.trainable_variables[0]
    kernel.regularizer, before = keras.regularizers.L2(100.0), kernel.numpy()
    if keras_loop:
        model.compile(keras.optimizers.Adam(1e-3))
        model.fit(ds.images_at(np.arange(8)), batch_size=8, verbose=0)
    else:
        training.fit(model, ds, keras.optimizers.Adam(1e-3), steps=1, batch_size=8)
    np.testing.assert_allclose(kernel - before, -1e-4 * np.sign(before), atol=1e-6)     # Adam's first step


def test_a_factor_vae_goes_on_exactly_with_its_discriminator(tmp_path):
    def train(model, steps, run_dir=None):
        training.fit(model, dataset((3,)), keras.optimizers.Adam(1e-3), steps=steps, batch_size=8, run_dir=run_dir,
                     checkpoint_every=3, log_every=3)
        return model.get_weights()

    whole = train(make("factor_vae"), 6)
    train(make("factor_vae"), 3, tmp_path)
    for a, b in zip(whole, train(make("factor_vae", seed=9), 6, tmp_path), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["dip_vae_i", "dip_vae_ii"])
def test_a_lambda_d_of_0_is_no_default(name):
    model = build(name, "mlp_synthetic", (3,), "gaussian", {"lambda_od": 2.0, "lambda_d": 0.0})
    x = tf.constant(dataset((3,)).images_at(np.arange(8)))
    terms = model.objective(x, noise=distributions.draw_noise((0, 1), 8, LATENTS))
    np.testing.assert_allclose(terms["loss"], terms["reconstruction"] + terms["kl"] + 2 * terms["off_diagonal"],
                               rtol=1e-5)
    assert terms["diagonal"][0] > 0.01


def test_the_discriminator_has_the_papers_optimizer():
    model = build("factor_vae", "mlp_synthetic", (3,), "gaussian", NARROW)
    _, update = model.updates(keras.optimizers.SGD(1.0))
    assert (float(update.optimizer.learning_rate), update.optimizer.beta_1, update.optimizer.beta_2) == (
        pytest.approx(1e-4), 0.5, 0.9)


def test_the_discriminator_is_that_of_the_paper():
    layers = make_discriminator(3, 16).layers
    assert [layer.negative_slope for layer in layers if isinstance(layer, keras.layers.LeakyReLU)] == [
        pytest.approx(0.2)] * 6
