"""Ties, singular and impossible covariances, and how much too low a sampled inference error is."""

import numpy as np
import pytest

from vae_tf import metrics, theory
from vae_tf.errors import InputError

INDEFINITE = np.diag([1.0, -3.0])


def mixture_covariance(n=128, k=2):
    """sikka IV.B: eigenvalues 66.25, 1.25 and n - 2 times 1."""
    A = (1 + np.eye(n, k)) / 2
    return A @ A.T + np.eye(n)


def test_latents_at_their_limit_are_passive():
    """Their eigenvalue is beta s^2 but for rounding: which side of it they come out on means nothing."""
    C = mixture_covariance()
    np.testing.assert_allclose(theory.critical_betas(C, 6), [66.25, 1.25, 1, 1, 1, 1])
    optimum = theory.linear_beta_vae(C, latents=6)
    assert list(optimum.active) == [True, True, False, False, False, False]
    assert not optimum.decoder[:, 2:].any() and (optimum.variances[2:] == 1).all()
    assert list(theory.linear_beta_vae(C, 6, beta=1.25).active) == [True] + 5 * [False]
    # 1e-9 of the eigenvalue to either side is no rounding any more.
    assert list(theory.linear_beta_vae(C, 6, beta=1 - 1e-9).active) == 6 * [True]
    assert list(theory.linear_beta_vae(C, 6, beta=1.25 - 1e-9).active) == 2 * [True] + 4 * [False]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_ties_do_not_depend_on_units(scale):
    C = scale * mixture_covariance()
    assert list(theory.linear_beta_vae(C, 6, noise_variance=scale).active) == [True, True, False, False, False, False]
    assert list(theory.linear_beta_vae(C, 6, noise_variance=scale).multiplicity) == [1, 1, 126, 126, 126, 126]


def test_latents_that_share_an_eigenvalue_may_be_rotated():
    """Any rotation of them is an optimum too, a rotation of latents that do not share one is not."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    C, beta, s2 = Q @ np.diag([5.0, 5, 5, 3, 2, 2]) @ Q.T, 2.0, 0.4
    o = theory.linear_beta_vae(C, 5, beta, s2)
    assert list(o.multiplicity) == [3, 3, 3, 1, 2] and o.active.all()
    least = o.reconstruction + beta * o.kl

    def objective(R):
        reconstruction, kl = theory.linear_terms(C, o.decoder @ R, R.T @ o.encoder, o.variances, s2)
        return reconstruction + beta * kl

    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    shared, others = np.eye(5), np.eye(5)
    shared[:3, :3], others[2:, 2:] = turn, turn
    assert objective(shared) == pytest.approx(least, rel=1e-12)
    assert objective(others) > least + 0.01
    # The last latent has one direction of a space of two: any other one of it is as good.
    directions = np.linalg.eigh(C)[1]
    other = (directions[:, :2] @ [0.6, 0.8])[:, np.newaxis] * np.linalg.norm(o.decoder[:, 4])
    D = np.hstack([o.decoder[:, :4], other])
    reconstruction, kl = theory.linear_terms(C, D, *theory.linear_encoder(D, beta, s2), s2)
    assert reconstruction + beta * kl == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("latents", [2, 3, 5])
def test_ppca_of_data_without_noise_says_so(seed, latents):
    """The likelihood's supremum is infinite; eigenvalues that should be 0 come out as 1e-15 or -3e-16."""
    x = np.random.default_rng(seed).standard_normal((50, 2)) @ np.random.default_rng(seed + 9).standard_normal((2, 6))
    C = np.cov(x.T)
    with pytest.raises(InputError, match=rf"noise_variance: expected a number, because {latents} latents explain data "
                                         "of rank 2 whole: the likelihood grows without bound"):
        theory.ppca(C, latents)
    values = [theory.ppca(C, latents, noise_variance=s2).log_likelihood for s2 in (1e-2, 1e-4, 1e-6)]
    assert values[0] < values[1] < values[2]                       # with a noise variance it is an ordinary question
    assert theory.ppca(C, 1).noise_variance > 1e-3                 # one latent leaves noise


def test_ppca_of_constant_data():
    with pytest.raises(InputError, match="explain data of rank 0 whole"):
        theory.ppca(np.zeros((3, 3)), 1)
    assert not theory.linear_beta_vae(np.zeros((3, 3)), 2).active.any()


eye = np.eye(2)
posterior = theory.LinearPosterior(eye, INDEFINITE)
REFUSED = {
    "ppca": ("covariance", lambda M: theory.ppca(M, 1)),
    "critical_betas": ("covariance", lambda M: theory.critical_betas(M, 1)),
    "linear_beta_vae": ("covariance", lambda M: theory.linear_beta_vae(M, 2)),
    "linear_log_likelihood": ("covariance", lambda M: theory.linear_log_likelihood(M, eye)),
    "linear_terms": ("covariance", lambda M: theory.linear_terms(M, eye, eye, np.ones(2))),
    "linear_inference_error": ("covariance", lambda M: theory.linear_inference_error(
        M, eye, np.ones(2), theory.LinearPosterior(eye, eye))),
    "linear_inference_error of": ("posterior", lambda M: theory.linear_inference_error(
        eye, eye, np.ones(2), theory.LinearPosterior(eye, M))),
    "gaussian_kl": ("covariance", lambda M: theory.gaussian_kl(np.zeros(2), M, np.zeros(2), eye)),
    "gaussian_kl from": ("other_covariance", lambda M: theory.gaussian_kl(np.zeros(2), eye, np.zeros(2), M)),
    "true_inference_error": ("true_covariance", lambda M: theory.true_inference_error(
        np.zeros((4, 2)), np.tile(eye, (4, 1, 1)), np.zeros((4, 2)), M)),
    "best_signed_permutation": ("precision", lambda M: theory.best_signed_permutation(eye, eye, M)),
    "best_signed_permutation of": ("second_moment", lambda M: theory.best_signed_permutation(M, eye, eye)),
    "deterministic_elbo": ("covariance", lambda M: theory.deterministic_elbo(0.0, -eye, np.zeros(2), M)),
    "diagonal_cost": ("precision", theory.diagonal_cost),
    "optimal_precision": ("hessian", lambda M: theory.optimal_precision(eye - M)),
    "rotated": ("covariance", lambda M: theory.rotated(np.zeros(2), M, eye, eye)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_matrices_that_are_no_covariances_are_refused(name):
    """diag(1, -1) gave a KL of -1 to N(0, I), and -I as the other covariance one of -2."""
    argument, call = REFUSED[name]
    call(eye)
    with pytest.raises(InputError, match=f"{argument}: expected .*(eigenvalue|eigenvalues; got one) of -3"):
        call(INDEFINITE)
    if argument != "hessian":
        with pytest.raises(InputError, match=f"{argument}: expected a symmetric matrix"):
            call(np.array([[1.0, 0.5], [0.0, 1.0]]))
        with pytest.raises(InputError, match=f"{argument}: expected finite values; got 1 NaN"):
            call(np.array([[1.0, 0.0], [0.0, np.nan]]))


def test_singular_matrices_are_covariances_of_data_and_not_of_densities():
    singular = np.ones((2, 2))
    assert theory.linear_beta_vae(singular, 1).active.all()
    with pytest.raises(InputError, match="covariance: expected a positive definite matrix; got an eigenvalue of"):
        theory.gaussian_kl(np.zeros(2), singular, np.zeros(2), eye)
    # A float32 covariance of 1,000 examples on a plane has negative eigenvalues of the size of its own rounding.
    x = np.random.default_rng(1).standard_normal((1_000, 2)).astype(np.float32) @ np.ones((2, 4), np.float32)
    C = x.T @ x / np.float32(1_000)
    assert C.dtype == np.float32 and theory.linear_beta_vae(C, 2, noise_variance=0.1).active[0]
    # One bad matrix in a batch is found; a metric of posteriors refuses what it cannot invert.
    with pytest.raises(InputError, match="covariances: expected a positive definite matrix"):
        metrics.posterior_covariance_gap(np.stack([eye, np.diag([1.0, 0.0])]), np.stack([eye, eye]))
    with pytest.raises(InputError, match="got one of -3"):
        theory.gaussian_kl(np.zeros((2, 2)), np.stack([eye, INDEFINITE]), 0.0, eye)


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
