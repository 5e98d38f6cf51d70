"""Covariances that are impossible or singular are refused or taken, with one line."""

import numpy as np
import pytest

from vae_tf import metrics, theory
from vae_tf.errors import InputError

INDEFINITE = np.diag([1.0, -3.0])
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
    "rotated": ("covariance", lambda M: theory.rotate(np.zeros(2), M, eye, eye)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_matrices_that_are_no_covariances_are_refused(name):
    """diag(1, -1) gave a KL of -1 to N(0, I), and -I as the other covariance one of -2."""
    argument, call = REFUSED[name]
    call(eye)
    with pytest.raises(InputError, match=f"{argument}: expected .*(eigenvalue|eigenvalues; got one) of -3"):
        call(INDEFINITE)
    with pytest.raises(InputError, match=f"{argument}: expected a symmetric matrix"):
        call(np.array([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(InputError, match=f"{argument}: expected finite (numbers; got nan|values; got 1 NaN)"):
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
