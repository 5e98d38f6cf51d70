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
    "linear_inference_error of": ("posterior.covariance", lambda M: theory.linear_inference_error(
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
NARROW = [np.uint8, np.int8, np.float16, np.float32]
C, D, ONES = np.diag([500.0, 1000, 3]), np.array([[20.0, 1], [3, 30], [2, 5]]), np.ones((3, 2))
W = theory.linear_encoder(D)
COMPUTED = {
    "linear_encoder": lambda D: theory.linear_encoder(D),
    "linear_posterior": lambda D: theory.linear_posterior(D),
    "linear_log_likelihood": lambda D: theory.linear_log_likelihood(C, D),
    "linear_terms": lambda D: theory.linear_terms(C, D, *W),
    "linear_terms, encoder": lambda D: theory.linear_terms(C, ONES, D.T, D[1]),
    "linear_inference_error": lambda D: theory.linear_inference_error(
        C, ONES.T, [1, 1], theory.LinearPosterior(D.T, eye)),
    "autoencoder_loss": lambda D: theory.autoencoder_loss(C, D, D.T),
    "stochastic_loss": lambda D: theory.stochastic_loss(ONES, [1, 1], D[:, 0], D[:, 1], D[:, 1]),
    "log_likelihood": lambda D: theory.log_likelihood(D.T, D.T, 2.0),
    "curvature": lambda D: theory.curvature(D),
    "hessian": lambda D: theory.hessian(ONES, np.ones((3, 2, 2)), D[:, 0], D[:, 1]),
    "rotate": lambda D: theory.rotate(D[0], np.eye(2), D, [[0, 1], [-1, 0]]),
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


@pytest.mark.parametrize("seed", range(5))
def test_covariances_in_float32_have_the_rank_of_their_data(seed):
    """Rounding left eigenvalues of -1e-7, for which an inner function refused what the outer one had accepted."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((2_000, 3)).astype(np.float32) @ random.standard_normal((3, 20)).astype(np.float32)
    C = x.T @ x / np.float32(len(x))
    assert C.dtype == np.float32 and np.linalg.eigvalsh(C.astype(np.float64))[0] < 0
    exact = x.astype(np.float64).T @ x.astype(np.float64) / len(x)
    for ours, other in zip(theory.linear_beta_vae(C, 3, 2.0, 0.1)[-4:], theory.linear_beta_vae(exact, 3, 2.0, 0.1)[-4:],
                           strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-4)      # float32 sums of 2,000 terms
    np.testing.assert_allclose(theory.ppca_by_em(C, 3, steps=2)[1], theory.ppca_by_em(exact, 3, steps=2)[1], rtol=1e-4)
    for fit, latents in ((theory.ppca, 3), (theory.linear_noise_variance, 3)):
        with pytest.raises(InputError, match=r"explain data of rank 3 whole|3 eigenvalues above 0 for that many"):
            fit(C, latents)


def test_eigenvalues_that_are_equal_in_float32_are_equal():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    C = (Q * [4, 4, 2, 1, 1, 1]) @ Q.T
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(theory.linear_beta_vae(C.astype(dtype), 4, 1.0, 0.1).multiplicity, [2, 2, 1, 3])
        turned = Q[:, :2] @ [[0.6, 0.8], [-0.8, 0.6]]       # within the equal pair, which is no turn
        assert theory.turn_angle(C.astype(dtype), turned, 1.0, 0.1) == 0


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", COMPUTED)
def test_arrays_of_narrow_types_give_what_float64_gives(name, dtype):
    """20 squared is 144 in uint8, and so an encoder was off by a factor of 130."""
    narrow = D.astype(dtype)
    expected, found = COMPUTED[name](D), COMPUTED[name](narrow)
    for one, other in zip(*(array if isinstance(array, tuple) else (array,) for array in (expected, found)),
                          strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.asarray(other).dtype == np.float64


def test_equal_singular_values_and_missing_ranks_are_those_of_the_jacobians_type():
    """A float32 Jacobian is known to 1e-7: equal columns have no component of their own, and a null space stays one."""
    rng = np.random.default_rng(0)
    for n in (3, 50, 4096):
        columns, turn = np.linalg.qr(rng.normal(size=(n, 2)))[0], np.linalg.qr(rng.normal(size=(2, 2)))[0]
        low = np.outer(rng.normal(size=n), rng.normal(size=3))
        for dtype in (np.float32, np.float64):
            assert not theory.components((2 * columns @ turn).astype(dtype)).identified.any()
            assert theory.components((columns * [2, 1.99] @ turn).astype(dtype)).identified.all()
            rate, limit = theory.precise_limit(low.astype(dtype))
            assert np.trace(limit) == pytest.approx(2)          # two directions stay at the prior
            assert np.trace(rate) == pytest.approx(1 / (low**2).sum(), rel=1e-5)


def test_what_a_closed_form_cannot_take_is_refused():
    with pytest.raises(InputError, match=r"jacobian: expected full column rank .* shape \(2, 3\) and rank 2"):
        theory.push_forward_log_density(np.zeros(3), np.random.default_rng(0).normal(size=(2, 3)))
    with pytest.raises(InputError, match=r"rotation: expected an orthogonal matrix .* by 1"):
        theory.rotate(np.zeros(2), eye, np.ones((3, 2)), [[1, 1], [0, 1]])
    with pytest.raises(InputError, match=r"x: expected multiples of 0.5 from 0 to 1, .*; got 0.3"):
        theory.dispersed_log_likelihood("bernoulli", [0.5, 0.3], [0.2, 0.2], 0.5)
    with pytest.raises(InputError, match=r"x: expected multiples of 1 from 0 to 1, .*; got -0.5"):
        theory.dispersed_log_likelihood("bernoulli", [-0.5], [0.2])
    with pytest.raises(InputError, match=r"trace of the covariance: expected a finite number above 0; got 0"):
        theory.collapse_beta(np.zeros((2, 2)))
    for matrix in ([[1], [1, 2]], np.full((2, 2), np.nan), "abc"):
        with pytest.raises(InputError, match=r"posterior\.matrix: expected"):
            theory.linear_inference_error(eye, eye, np.ones(2), theory.LinearPosterior(matrix, eye))
