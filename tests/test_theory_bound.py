import itertools

import numpy as np
import pytest
import reference
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.optimize import minimize

from vae_tf import models, theory

VARIANCES = (None, 0.3)      # Bernoulli, Gaussian
LATENTS, SIZE = 3, 5


def problem(noise_variance, seed=0):
    """A decoder, data and a posterior."""
    rng = np.random.default_rng(seed)
    decoder = reference.TanhDecoder(LATENTS, SIZE, seed=seed)
    z = 0.5 * rng.standard_normal(LATENTS)
    x = rng.uniform(size=SIZE) if noise_variance is None else decoder(z) + rng.standard_normal(SIZE)
    L = np.tril(rng.standard_normal((LATENTS, LATENTS)))
    return decoder, x, z, 0.1 * L @ L.T + 0.05 * np.eye(LATENTS)


def by_autodiff(decoder, x, z, noise_variance):
    """log p(x|z), and its first and second derivatives by z, from TFP's densities in float64."""
    z = tf.constant(z)
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            output = tf.linalg.matvec(decoder.B, tf.tanh(tf.linalg.matvec(decoder.W, z) + decoder.b))
            density = (tfp.distributions.Bernoulli(logits=output, dtype=tf.float64) if noise_variance is None
                       else tfp.distributions.Normal(output, tf.constant(noise_variance**0.5, tf.float64)))
            value = tf.reduce_sum(density.log_prob(x))
        gradient = inner.gradient(value, z)
    return value.numpy(), outer.jacobian(gradient, z).numpy()


@pytest.mark.parametrize("noise_variance", VARIANCES)
def test_log_likelihood_and_hessian_against_autodiff(noise_variance):
    decoder, x, z, _ = problem(noise_variance)
    value, H = by_autodiff(decoder, x, z, noise_variance)
    assert theory.log_likelihood(x, decoder(z), noise_variance) == pytest.approx(value, rel=1e-12)
    exact = theory.hessian(decoder.jacobian(z), decoder.second(z), x, decoder(z), noise_variance)
    np.testing.assert_allclose(exact, H, atol=1e-12 * np.abs(H).max())
    # Gauss-Newton leaves out the residual's term: exact when the data are reconstructed (allen A.2)
    GN = theory.gauss_newton_hessian(decoder.jacobian(z), decoder(z), noise_variance)
    assert np.abs(GN - H).max() > 1e-2
    rebuilt = 1 / (1 + np.exp(-decoder(z))) if noise_variance is None else decoder(z)
    np.testing.assert_allclose(GN, by_autodiff(decoder, rebuilt, z, noise_variance)[1], atol=1e-12 * np.abs(GN).max())
    J = decoder.jacobian(z)
    slow = -sum(a * np.outer(row, row) for a, row in zip(theory.curvature(decoder(z), noise_variance), J, strict=True))
    np.testing.assert_allclose(GN, slow, atol=1e-12)


def test_batches_are_their_rows():
    decoders, x, z, covariance = zip(*(problem(None, seed) for seed in range(4)), strict=True)
    J, output = (np.stack([f(c) for f, c in zip(fs, z, strict=True)]) for fs in
                 ([d.jacobian for d in decoders], decoders))
    x, z, covariance = map(np.stack, (x, z, covariance))
    batch = theory.deterministic_elbo(theory.log_likelihood(x, output), theory.gauss_newton_hessian(J, output), z,
                                      covariance, 2.0, 0.1, 0.5)
    rows = [theory.deterministic_elbo(theory.log_likelihood(x[i], output[i]), theory.gauss_newton_hessian(
        J[i], output[i]), z[i], covariance[i], 2.0, np.full(3, 0.1), np.full(3, 0.5)) for i in range(4)]
    np.testing.assert_allclose(batch, rows, rtol=1e-12)


@pytest.mark.parametrize("noise_variance", VARIANCES)
def test_deterministic_elbo_against_monte_carlo_as_the_posterior_narrows(noise_variance):
    """Odd moments vanish, so with the exact Hessian the error is the fourth order's: it falls as scale^2."""
    decoder, x, z, covariance = problem(noise_variance, seed=2)
    noise = np.random.default_rng(0).standard_normal((200_000, LATENTS))
    noise = np.concatenate([noise, -noise]) @ np.linalg.cholesky(covariance).T       # antithetic: no odd orders
    H = theory.hessian(decoder.jacobian(z), decoder.second(z), x, decoder(z), noise_variance)
    at_mean = theory.log_likelihood(x, decoder(z), noise_variance)
    gaps = []
    for scale in (1.0, 0.25, 0.0625):
        drawn = z + np.sqrt(scale) * noise
        outputs = np.tanh(drawn @ decoder.W.T + decoder.b) @ decoder.B.T
        quadratic = np.einsum("bi,ij,bj->b", drawn - z, H, drawn - z) / 2            # control: its mean is known
        sampled = theory.log_likelihood(x, outputs, noise_variance) - quadratic + np.trace(H @ covariance) * scale / 2
        kl = theory.gaussian_kl(z, scale * covariance, 0.0, np.eye(LATENTS))
        gap = theory.deterministic_elbo(at_mean, H, z, scale * covariance) - (sampled - kl)
        pairs = gap.reshape(2, -1).mean(0)
        gaps.append((pairs.mean(), pairs.std() / np.sqrt(len(pairs))))
    for (wide, wide_error), (narrow, narrow_error) in itertools.pairwise(gaps):
        # 1/16 but for the sixth order, which is the narrower the smaller
        assert abs(narrow) < abs(wide) / 4 and abs(wide) > 5 * wide_error and narrow_error < wide_error
    assert abs(gaps[2][0] * 16 / gaps[1][0] - 1) < abs(gaps[1][0] * 16 / gaps[0][0] - 1) + 5 * (
        gaps[2][1] * 16 / abs(gaps[1][0]))


def test_deterministic_elbo_is_exact_for_linear_gaussian_decoders():
    rng = np.random.default_rng(1)
    D, x = rng.standard_normal((SIZE, LATENTS)), rng.standard_normal(SIZE)
    o = theory.linear_beta_vae(np.outer(x, x) + 1e-9 * np.eye(SIZE), 2, 0.7, 0.4)     # the data are x, minus x
    D = o.decoder
    value = theory.deterministic_elbo(theory.log_likelihood(x, D @ o.encoder @ x, 0.4),
                                      theory.gauss_newton_hessian(D, D @ o.encoder @ x, 0.4), o.encoder @ x,
                                      np.diag(o.variances))
    # 1e-9 of variance in every direction moves the reconstruction by 1e-9 n / 2 s^2
    assert value == pytest.approx(o.elbo, abs=1e-8)


@pytest.mark.parametrize("noise_variance", VARIANCES)
@pytest.mark.parametrize("diagonal", [False, True])
def test_optimal_covariance_is_what_an_optimiser_finds(noise_variance, diagonal):
    """Standard and learned priors, beta not 1; what a diagonal posterior costs is beta times the gap of theorem 5."""
    decoder, _, z, _ = problem(noise_variance, seed=3)
    beta, prior_mean, prior_variance = 2.5, np.array([0.2, -0.4, 0.0]), np.array([0.3, 1.0, 2.0])
    H = theory.gauss_newton_hessian(decoder.jacobian(z), decoder(z), noise_variance)
    P = theory.optimal_precision(H, beta, prior_variance)
    best = np.diag(1 / np.diag(P)) if diagonal else np.linalg.inv(P)

    def covariance(flat):
        if diagonal:
            return np.diag(np.exp(flat))
        L = np.zeros((LATENTS, LATENTS))
        L[np.tril_indices(LATENTS)] = flat
        return L @ L.T

    def loss(flat):
        return -theory.deterministic_elbo(0.0, H, z, covariance(flat), beta, prior_mean, prior_variance)

    start = np.zeros(LATENTS) if diagonal else np.eye(LATENTS)[np.tril_indices(LATENTS)]
    found = minimize(loss, start, method="Nelder-Mead",
                     options={"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-9, "fatol": 1e-13})
    at_best = theory.deterministic_elbo(0.0, H, z, best, beta, prior_mean, prior_variance)
    assert at_best >= -found.fun - 1e-12 * abs(found.fun)
    # The simplex stops where the loss is flat to 1e-13: the covariance is good to the root of that, of its own size.
    assert at_best == pytest.approx(-found.fun, abs=1e-11)
    np.testing.assert_allclose(covariance(found.x), best, atol=1e-5)
    whole = theory.deterministic_elbo(0.0, H, z, np.linalg.inv(P), beta, prior_mean, prior_variance)
    cost = beta * theory.diagonal_cost(P) if diagonal else 0
    assert whole - at_best == pytest.approx(cost, abs=1e-12)
    assert not diagonal or cost > 1e-3


def test_optimal_covariance_of_a_linear_model_is_ppcas():
    """allen (8), bonheme (11) with one prior: the posterior of PPCA, the same as by conditioning."""
    W = np.random.default_rng(5).standard_normal((6, 2))
    P = theory.optimal_precision(theory.gauss_newton_hessian(W, np.zeros(6), 0.2), 3.0)
    np.testing.assert_allclose(np.linalg.inv(P), theory.linear_posterior(W, 0.6).covariance, atol=1e-12)


@pytest.mark.parametrize("network", ["linear", "mlp_synthetic"])
def test_beta_is_likelihood_variance(network):
    """objective(beta, s^2) / beta = objective(1, beta s^2) + constant per example, and gradients scale likewise."""
    beta, s2 = 5.0, 0.3
    scaled, constant = theory.beta_as_noise_variance(SIZE, beta, s2)
    assert scaled == beta * s2
    one, other = (models.build("beta_vae", (SIZE,), network=network, latents=2, likelihood="gaussian",
                               likelihood_variance=variance, beta=b) for variance, b in ((s2, beta), (scaled, 1.0)))
    x, noise = (tf.random.stateless_normal((16, size), seed=(0, size)) for size in (SIZE, 2))
    gradients = []
    for model, weight in ((one, beta), (other, 1.0)):
        with tf.GradientTape() as tape:
            loss = model.objective(x, noise=noise)["loss"] / weight
        gradients.append((loss.numpy(), tape.gradient(loss, model.trainable_variables)))
    # float32 sums of some tens of terms
    np.testing.assert_allclose(gradients[0][0], gradients[1][0] + constant, rtol=20 * np.finfo(np.float32).eps)
    for a, b in zip(gradients[0][1], gradients[1][1], strict=True):
        scale = np.abs(a).max()
        np.testing.assert_allclose(a, b, atol=200 * np.finfo(np.float32).eps * max(scale, 1e-3))
    assert constant != 0 and len(gradients[0][1]) >= 6
