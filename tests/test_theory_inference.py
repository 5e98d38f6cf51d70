"""Inference errors against printed formulas, Monte Carlo and exhaustive matching; the bias of sampled ones."""

import itertools

import numpy as np
import pytest
import reference
from covariances import mixing, of_mixture, random_covariance

from vae_tf import theory

BETAS = np.geomspace(0.1, 20, 25)


def test_true_inference_error_has_an_interior_minimum_once_latents_are_matched():
    A = mixing()
    C, truth = of_mixture(A), theory.linear_posterior(A)
    optima = [theory.linear_beta_vae(C, 2, beta) for beta in BETAS]
    matched = [theory.linear_inference_error(C, o.encoder, o.variances, truth, matched=True) for o in optima]
    assert 0 < np.argmin(matched) < len(BETAS) - 1
    # As printed it depends on the signs and the order that the optimum leaves open: one choice has no minimum inside.
    printed = []
    for order, signs in itertools.product(((0, 1), (1, 0)), itertools.product((1, -1), repeat=2)):
        turned = [(o.encoder[list(order)] * np.array(signs)[:, np.newaxis], o.variances[list(order)]) for o in optima]
        printed.append([theory.linear_inference_error(C, W, v, truth) for W, v in turned])
    np.testing.assert_allclose(np.min(printed, axis=0), matched, rtol=1e-9)
    inside = [0 < np.argmin(errors) < len(BETAS) - 1 for errors in printed]
    assert any(inside) and not all(inside)


def test_inference_errors_against_the_printed_formula_and_monte_carlo():
    A = np.random.default_rng(7).standard_normal((6, 2))
    C = of_mixture(A)
    o, (F, E) = theory.linear_beta_vae(C, 2, 3.0), theory.linear_posterior(A)
    closed = theory.linear_inference_error(C, o.encoder, o.variances, theory.LinearPosterior(F, E))
    assert closed == pytest.approx(reference.inference_error(C, o.encoder, np.zeros((2, 6)), np.log(o.variances), E, F))
    x = np.random.default_rng(0).multivariate_normal(np.zeros(6), C, 40_000)
    printed, matched, P = theory.true_inference_error(
        x @ o.encoder.T, np.broadcast_to(np.diag(o.variances), (len(x), 2, 2)), x @ F.T, E)
    assert abs(printed.mean() - closed) < 5 * printed.std() / np.sqrt(len(x))
    exact = theory.linear_inference_error(C, o.encoder, o.variances, theory.LinearPosterior(F, E), matched=True)
    assert abs(matched.mean() - exact) < 5 * matched.std() / np.sqrt(len(x))
    np.testing.assert_array_equal(P @ P.T, np.eye(2))


@pytest.mark.parametrize("k", [1, 3])
def test_every_signed_permutation_is_tried(k):
    rng = np.random.default_rng(k)
    mean, true_mean = rng.standard_normal((2, 20, k))
    L = rng.standard_normal((20, k, k))
    covariance, true = L @ L.swapaxes(1, 2) + np.eye(k), np.cov(rng.standard_normal((k, 9))).reshape(k, k)
    printed, matched, _ = theory.true_inference_error(mean, covariance, true_mean, true)
    assert matched.mean() == pytest.approx(reference.matched_inference_error(mean, covariance, true_mean, true))
    assert printed[0] == pytest.approx(reference.full_gaussian_kl(mean[0], covariance[0], true_mean[0], true))


def test_many_uncorrelated_latents_are_matched_exactly():
    """With 8 sources 8! 2^8 = 10 million choices are not tried. At A with orthogonal columns the answer is known."""
    rng = np.random.default_rng(1)
    A = np.linalg.qr(rng.standard_normal((20, 8)))[0] * np.arange(1, 9)
    C = of_mixture(A)
    o, truth = theory.linear_beta_vae(C, 8), theory.linear_posterior(A)
    assert theory.linear_inference_error(C, o.encoder, o.variances, truth, matched=True) == pytest.approx(0, abs=1e-9)
    assert theory.linear_inference_error(C, o.encoder, o.variances, truth) > 1
    # Correlated latents: the search ends where no swap and no sign flip helps, and finds a planted permutation.
    P = np.eye(8)[rng.permutation(8)] * rng.choice([-1, 1], 8)
    mean = rng.standard_normal((500, 8)) @ (np.eye(8) + 0.1 * rng.standard_normal((8, 8)))
    E = theory.linear_posterior(rng.standard_normal((30, 8))).covariance
    _, matched, found = theory.true_inference_error(mean @ P, P.T @ E @ P + np.zeros((500, 1, 1)), mean, E)
    np.testing.assert_array_equal(found, P)
    assert matched == pytest.approx(0, abs=1e-9)


def test_model_inference_error_by_importance_sampling():
    C, s2 = random_covariance(4, seed=2), 0.5
    o = theory.linear_beta_vae(C, 2, 2.0, s2)
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(4), C, 400)
    noise = rng.standard_normal((400, 1000, 2))
    z = (x @ o.encoder.T)[:, np.newaxis] + noise * np.sqrt(o.variances)
    weights = (-((x[:, np.newaxis] - z @ o.decoder.T) ** 2).sum(-1) / (2 * s2) - 2 * np.log(2 * np.pi * s2)
               - (z**2).sum(-1) / 2 + (noise**2).sum(-1) / 2 + np.log(o.variances).sum() / 2)
    error, effective, bias = theory.model_inference_error(weights)
    F, E = theory.linear_posterior(o.decoder, s2)
    exact = theory.gaussian_kl(x @ o.encoder.T, np.diag(o.variances), x @ F.T, E)     # at these x: no error from x
    difference = error - exact
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(400) + bias.mean()
    assert ((effective >= 1) & (effective <= 1000)).all()


@pytest.mark.parametrize(("spread", "draws"), [(0.3, 16), (0.3, 64), (0.8, 64), (0.8, 256)])
def test_bias_of_a_sampled_inference_error(spread, draws):
    """log of the mean of S weights, 20,000 times: too low by 1 / (2 ESS) - 1 / (2 S), not by 1 / (2 ESS).

    Weights are log-normal with E w = 1 and Var w = m = e^(spread^2) - 1, so that log p(x) is 0.
    """
    log_weights = spread * np.random.default_rng(draws).standard_normal((20_000, draws)) - spread**2 / 2
    error, effective, bias = theory.model_inference_error(log_weights)
    low = -(error + log_weights.mean(1))        # -log p(x): the mean log weight, whose mean is known, is taken out
    m = np.expm1(spread**2)
    # To second order in 1 / S, with the log-normal's third moment m^3 + 3 m^2: log mean w is lower by
    # m / 2S - (m^2 / 4 + m^3 / 3) / S^2, and the estimate of that is m / 2S - (m + 3 m^2 + 2 m^3) / 2S^2.
    assert abs(low.mean() - m / (2 * draws)) < 5 * low.std() / np.sqrt(len(low)) + (m**2 / 4 + m**3 / 3) / draws**2
    second_order = (m + 3 * m**2 + 2 * m**3) / draws**2
    assert second_order < m / (4 * draws)                                   # small: the test means something
    assert abs(bias.mean() - low.mean()) < 5 * low.std() / np.sqrt(len(low)) + second_order
    assert (1 / (2 * effective)).mean() > low.mean() + 1 / (3 * draws)      # what was printed before: 1 / 2S more


def test_equal_weights_have_no_bias():
    error, effective, bias = theory.model_inference_error(np.full((3, 8), -2.0))
    np.testing.assert_allclose(error, 0, atol=1e-14)
    np.testing.assert_allclose(effective, 8)
    np.testing.assert_allclose(bias, 0, atol=1e-15)
