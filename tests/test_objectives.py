import numpy as np
import pytest
import reference
import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import distributions, objectives

tfd = tfp.distributions


def draws(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_kl_of_a_diagonal_posterior():
    mean, log_variance = draws(0, 5, 4), draws(1, 5, 4)
    expected = [reference.diagonal_kl(m, np.exp(v / 2)) for m, v in zip(mean, log_variance, strict=True)]
    kl = objectives.kl(distributions.diagonal_normal(mean, log_variance), distributions.standard_normal(4))
    np.testing.assert_allclose(kl, expected, rtol=1e-5)


def test_kl_of_a_full_posterior():
    mean, lower = draws(0, 5, 3), draws(1, 5, 6)
    posterior = distributions.full_normal(mean, lower)
    scale = posterior.scale_tril.numpy().astype(float)
    expected = [reference.full_kl(m, L) for m, L in zip(mean.astype(float), scale, strict=True)]
    np.testing.assert_allclose(objectives.kl(posterior, distributions.standard_normal(3)), expected, rtol=1e-5)


def test_kl_against_a_learned_prior_is_the_sum_over_latents():
    q = distributions.diagonal_normal(draws(0, 5, 4), draws(1, 5, 4))
    p = distributions.diagonal_normal(draws(2, 5, 4), draws(3, 5, 4))
    expected = [reference.between_diagonal_kl(*row)
                for row in zip(q.mean().numpy(), q.stddev().numpy(), p.mean().numpy(), p.stddev().numpy(), strict=True)]
    np.testing.assert_allclose(objectives.kl(q, p), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(objectives.kl_per_latent(q, p), -1), expected, rtol=1e-5)


def test_kl_against_monte_carlo():
    q, p = distributions.diagonal_normal(draws(0, 1, 3), draws(1, 1, 3)), distributions.standard_normal(3)
    z = q.sample(100_000, seed=(3, 4))
    log_ratio = (q.log_prob(z) - p.log_prob(z)).numpy().astype(np.float64)
    error = log_ratio.std() / np.sqrt(len(log_ratio))
    assert abs(log_ratio.mean() - float(objectives.kl(q, p)[0])) < 5 * error


@pytest.mark.parametrize("estimator", objectives.TC_ESTIMATORS)
def test_kl_decomposition_against_loops(estimator):
    mean, log_variance = draws(0, 6, 3), 0.3 * draws(1, 6, 3)
    q, p = distributions.diagonal_normal(mean, log_variance), distributions.standard_normal(3)
    z = q.sample(seed=(5, 6))
    parts = objectives.kl_decomposition(q, p, z, 1000, estimator)
    stddev = np.exp(log_variance.astype(float) / 2)
    expected = reference.kl_decomposition(mean.astype(float), stddev, z.numpy().astype(float), 1000, estimator)
    for got, want in zip(parts.values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)     # sums of a dozen float32 terms of size 10
    np.testing.assert_allclose(sum(parts.values()), q.log_prob(z) - p.log_prob(z), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_posteriors_of_any_type(dtype):
    q = tfd.MultivariateNormalDiag(tf.zeros((4, 2), dtype), tf.constant([[0.1, 1.0]] * 4, dtype))
    p = tfd.MultivariateNormalDiag(tf.zeros(2, dtype), tf.ones(2, dtype))
    found = {**objectives.polarised_kl(q, p), **objectives.kl_decomposition(q, p, tf.zeros((4, 2), dtype), 100)}
    assert {value.dtype.name for value in found.values()} == {dtype}
    assert float(found["active_latents"]) == 1


@pytest.mark.parametrize("estimator", objectives.TC_ESTIMATORS)
def test_weights_of_the_estimators(estimator):
    weights = np.exp(objectives.TC_ESTIMATORS[estimator](7, 100))
    np.testing.assert_allclose(weights, reference.weights(estimator, 7, 100), rtol=1e-5)


def test_stratified_rows_sum_to_one_with_the_own_weight_on_the_diagonal():
    weights = np.exp(objectives.stratified_sampling(5, 1000))
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.diag(weights), 1 / 1000, rtol=1e-5)
    # The public code put 1/N in column 0: example 0's density got every example's own, tiny weight.
    assert (weights[1:, 0] > 0.1).all()


@pytest.mark.parametrize("estimator", objectives.TC_ESTIMATORS)
def test_a_batch_of_one_is_its_own_estimate_of_the_aggregate_posterior(estimator):
    """The last batch of an epoch may be one example."""
    q = distributions.diagonal_normal(draws(0, 1, 3), draws(1, 1, 3))
    z, prior = q.sample(seed=(0, 1)), distributions.standard_normal(3)
    parts = tf.function(lambda size: objectives.TC_ESTIMATORS[estimator](size, 40))(tf.constant(1))
    assert np.isfinite(parts).all()
    found = objectives.kl_decomposition(q, prior, z, 40, estimator)
    np.testing.assert_allclose(sum(found.values()), q.log_prob(z) - prior.log_prob(z), atol=1e-5)
    assert all(np.isfinite(part).all() for part in found.values())


def test_total_correlation_vanishes_when_one_posterior_is_all_there_is():
    # B = N = 1: q(z) = q(z|x), a product of its marginals.
    q = distributions.diagonal_normal(draws(0, 1, 3), draws(1, 1, 3))
    parts = objectives.kl_decomposition(q, distributions.standard_normal(3), q.sample(seed=(0, 1)), 1)
    np.testing.assert_allclose(parts["total_correlation"], 0, atol=1e-5)
    np.testing.assert_allclose(parts["mutual_information"], 0, atol=1e-5)


def test_the_weighted_estimate_of_mutual_information_ends_where_only_a_samples_own_posterior_counts():
    q = distributions.diagonal_normal(1e2 * draws(0, 6, 3), draws(1, 6, 3))      # far apart
    parts = objectives.kl_decomposition(q, distributions.standard_normal(3), q.sample(seed=(0, 1)), 1000, "weighted")
    np.testing.assert_allclose(parts["mutual_information"], np.log(6 * 1000), atol=1e-4)   # z is rounded to 4e-6


def test_stratified_weights_of_a_batch_larger_than_the_data_sum_to_one():
    weights = tf.function(lambda size: objectives.stratified_sampling(size, 5))(tf.constant(7))
    np.testing.assert_allclose(np.exp(weights).sum(1), 1, rtol=1e-5)


def test_the_off_diagonal_part_of_a_nearly_diagonal_covariance_is_not_rounding():
    covariance = tf.constant([[1000.0, 5e-4], [5e-4, 1000.0]])
    off_diagonal, diagonal = objectives.distance_to_identity(covariance)
    np.testing.assert_allclose([off_diagonal, diagonal], [5e-7, 2 * 999**2], rtol=1e-6)
