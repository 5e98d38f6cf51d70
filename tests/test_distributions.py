import numpy as np
import pytest
import reference
import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import distributions, objectives


def draws(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_full_normal_with_diagonal_scale_is_the_diagonal_normal():
    mean, log_variance = draws(0, 5, 4), draws(1, 5, 4)
    lower = np.zeros((5, 10), np.float32)
    # fill_triangular puts the diagonal somewhere: find it by asking.
    L = tfp.math.fill_triangular(tf.range(10.0)).numpy()
    lower[:, np.diag(L).astype(int)] = log_variance / 2
    full, diagonal = distributions.full_normal(mean, lower), distributions.diagonal_normal(mean, log_variance)
    z = draws(2, 5, 4)
    np.testing.assert_allclose(full.log_prob(z), diagonal.log_prob(z), rtol=1e-5)
    prior = distributions.standard_normal(4)
    np.testing.assert_allclose(objectives.kl(full, prior), objectives.kl(diagonal, prior), rtol=1e-5)
    np.testing.assert_allclose(full.sample(seed=(1, 2)), diagonal.sample(seed=(1, 2)), rtol=1e-5)


def test_full_normal_sample_is_mean_plus_scale_times_noise():
    mean, lower = draws(0, 2, 3), draws(1, 2, 6)
    q = distributions.full_normal(mean, lower)
    L = q.scale_tril.numpy()
    assert (np.diagonal(L, axis1=1, axis2=2) > 0).all() and (np.triu(L, 1) == 0).all()
    n = 40_000
    z = q.sample(n, seed=(0, 0)).numpy().astype(np.float64)
    covariance = L.astype(np.float64) @ np.swapaxes(L, 1, 2)
    for b in range(2):
        diagonal = np.diag(covariance[b])
        error = np.sqrt((np.outer(diagonal, diagonal) + covariance[b] ** 2) / n)   # of a sample covariance
        assert (np.abs(np.cov(z[:, b].T) - covariance[b]) < 5 * error).all()
        assert (np.abs(z[:, b].mean(0) - mean[b]) < 5 * np.sqrt(diagonal / n)).all()


@pytest.mark.parametrize("examples", [1, 64])
def test_noise_is_what_a_multivariate_normal_draws(examples):
    """Recorded results were drawn so. Both multiply the same draws by 1, so that they are equal bit for bit."""
    standard = distributions.diagonal_normal(tf.zeros((examples, 3)), tf.zeros((examples, 3)))
    for seed in ((0, 0), (3, 7), (-1, 2**31 - 1)):
        np.testing.assert_array_equal(distributions.draw_noise(seed, examples, 3), standard.sample(seed=seed))


def test_bernoulli_scores_grey_pixels():
    logits, x = draws(0, 2, 4, 4, 1), np.random.default_rng(1).uniform(size=(2, 4, 4, 1)).astype(np.float32)
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    expected = (x * np.log(p) + (1 - x) * np.log(1 - p)).sum((1, 2, 3))
    likelihood = distributions.Likelihood("bernoulli").make_distribution(tf.constant(logits))
    np.testing.assert_allclose(likelihood.log_prob(x), expected, rtol=1e-5)
    np.testing.assert_allclose(likelihood.mean(), p, rtol=1e-5)


@pytest.mark.parametrize("x", [0.0, 0.25, 1.0])
def test_bernoulli_is_that_of_tensorflow_probability_for_any_logits(x):
    """Up to the rounding of x l and of log(1 + e^l), which are as large as the logits."""
    logits = np.float32([-200, -88, -20, -1e-3, 0, 1e-3, 1, 20, 88, 200])
    likelihood = distributions.Likelihood("bernoulli")

    def differentiate(make):
        with tf.GradientTape() as tape:
            tape.watch(given := tf.constant(logits))
            density = make(given).log_prob(tf.fill(given.shape, x))
        return density, tape.gradient(density, given)

    density, gradient = differentiate(lambda given: likelihood.make_distribution(given).distribution)
    expected, expected_gradient = differentiate(
        lambda given: distributions.tfd.Bernoulli(logits=given, dtype=tf.float32))
    rounding = 2 * np.finfo(np.float32).eps
    np.testing.assert_array_less(np.abs(density - expected), rounding * (1 + np.abs(logits)))
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=rounding)


@pytest.mark.parametrize("kind", ["gaussian", "gaussian_learned"])
def test_gaussian_of_variance_half_is_the_squared_error(kind):
    mean, x = draws(0, 3, 6), draws(1, 3, 6)
    likelihood = distributions.Likelihood(kind, 0.5).make_distribution(tf.constant(mean))
    squared = ((x - mean).astype(np.float64) ** 2).sum(1)
    np.testing.assert_allclose(objectives.reconstruction(likelihood, x), squared + 3 * np.log(np.pi), rtol=1e-5)
    assert len(distributions.Likelihood(kind).trainable_variables) == (kind == "gaussian_learned")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", distributions.LIKELIHOODS)
def test_likelihoods_of_outputs_of_any_type(kind, dtype):
    """In float16, in which a sum over pixels overflows, 100,000 of them have a likelihood of 0."""
    likelihood = distributions.Likelihood(kind).make_distribution(tf.zeros((1, 100_000), dtype))
    assert likelihood.mean().dtype == (dtype if dtype == "float64" else "float32")
    each = distributions.Likelihood(kind).make_distribution(tf.zeros((1, 1))).log_prob(tf.ones((1, 1)))
    np.testing.assert_allclose(likelihood.log_prob(tf.ones(100_000, likelihood.dtype)), 1e5 * each, rtol=1e-5)


def test_standard_normal_log_density():
    z = draws(0, 3, 4)
    expected = [sum(reference.normal_log_pdf(v, 0, 1) for v in row) for row in z]
    np.testing.assert_allclose(distributions.standard_normal(4).log_prob(z), expected, rtol=1e-5)


@pytest.mark.parametrize(("log_variance", "least", "largest"), [
    (-90.0, 0, 1e-37), (100.0, 1e38, 4e38), (800.0, 1e38, 4e38)])
def test_a_learned_variance_beyond_float32_can_be_read_back(log_variance, least, largest):
    layer = distributions.Likelihood("gaussian_learned", 0.5)
    layer.log_variance.assign(log_variance)
    assert least < distributions.Likelihood.from_config(layer.get_config()).get_config()["variance"] < largest
