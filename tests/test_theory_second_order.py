"""The ELBO to second order: Hessians, optimal covariances, the cost of slopes, and vanishing noise."""

import itertools

import numpy as np
import pytest
import reference
from autodiff import by_autodiff
from scipy.optimize import minimize

from vae_tf import theory


@pytest.mark.parametrize(("beta", "s2"), [(1.0, 1.0), (3.0, 0.2)])
def test_what_slopes_cost_is_the_deterministic_elbo_at_the_best_posterior(beta, s2):
    """allen (14), right: with an optimiser over the posterior's variances. As printed it is another function."""
    s = np.array([0.3, 1.4, 2.2])
    J, mean = np.vstack([np.diag(s), np.zeros((2, 3))]), np.array([0.5, -1.0, 0.2])
    H = theory.gauss_newton_hessian(J, np.zeros(5), s2)
    found = minimize(lambda v: -theory.deterministic_elbo(0.0, H, mean, np.diag(np.exp(v)), beta), np.zeros(3),
                     options={"gtol": 1e-8})
    value = -beta * mean @ mean / 2 - theory.jacobian_cost(s, beta, s2)
    assert value == pytest.approx(-found.fun, rel=1e-9)
    printed = (s**2 / (s2 * (1 + s**2 / (beta * s2)))).sum() / 2          # half of (14)'s, with s^2 as in (5)
    assert abs(printed - theory.jacobian_cost(s, beta, s2)) > 0.1
    # They differ by more than a constant: (14) is bounded, what slopes cost is not.
    steep = 1e4 * s
    assert (steep**2 / (s2 * (1 + steep**2 / (beta * s2)))).sum() / 2 < 3 * beta / 2
    assert theory.jacobian_cost(steep, beta, s2) > 20 * beta


def test_jumps_between_plateaus_cost_less_than_an_even_slope():
    """allen's optimal S: over z from 0 to 1 the decoder moves by 3, and stands still but for a jump of some width."""
    def staircase(width, way=3):
        return width * theory.jacobian_cost(np.array([way / width]))

    widths = np.geomspace(1e-6, 1, 200)
    costs = np.array([staircase(w) for w in widths])
    assert (np.diff(costs) > 0).all() and costs[0] < 1e-4 < costs[-1]
    assert staircase(0.01, 0.5) < staircase(1, 0.5) < staircase(0.5, 0.5)       # on a short way, narrow jumps alone do
    # An even slope below sqrt(beta) s is the best of its neighbours: the cost is convex there, and concave beyond.
    for slope, convex in ((0.9, True), (1.1, False)):
        second = np.diff([float(theory.jacobian_cost(np.array([slope + d]), 2.0, 0.5)) for d in (-1e-3, 0, 1e-3)], 2)
        assert (second > 0).item() == convex


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_as_the_noise_vanishes_what_the_decoder_sees_narrows_and_the_rest_is_the_prior(rank):
    """bonheme Theorem 1 and (12), with a learned prior, at every rank: the paper's proof has the full one."""
    rng = np.random.default_rng(rank)
    J = rng.standard_normal((6, rank)) @ rng.standard_normal((rank, 4))
    prior = np.array([0.3, 1.0, 2.0, 0.7])
    rate, limit = theory.precise_limit(J, prior)
    projection = np.linalg.pinv(J) @ J
    errors = []
    for gamma in 1e-2 / np.abs(rate).max() * np.array([1, 0.1]):
        covariance = np.linalg.inv(theory.optimal_precision(theory.gauss_newton_hessian(J, np.zeros(6), gamma),
                                                            prior_variance=prior))
        seen = projection @ covariance @ projection / gamma
        errors.append((np.abs(covariance - limit).max(), np.abs(seen - rate).max() / np.abs(rate).max()))
        lower, upper = theory.posterior_eigenvalue_bounds(J, prior, gamma)
        eigenvalues = np.linalg.eigvalsh(covariance)
        assert (lower <= eigenvalues * (1 + 1e-9)).all() and (eigenvalues <= upper * (1 + 1e-9)).all()
        assert (upper[:rank] < 2 * gamma * np.linalg.norm(rate)).all() and (lower[rank:] > 0.29).all()
    for wide, narrow in zip(*errors, strict=True):
        assert narrow < wide / 9 and narrow < 0.05                          # first order in gamma
    assert np.linalg.matrix_rank(limit) == 4 - rank
    # A latent that the decoder does not see, while the others are axes: exactly its prior.
    axes = np.zeros((6, 4))
    axes[:, :2] = J[:, :2] + np.eye(6, 2)
    np.testing.assert_allclose(theory.precise_limit(axes, prior)[1], np.diag([0, 0, 2.0, 0.7]), atol=1e-12)


@pytest.mark.parametrize("jacobian", [[[1, 1 / 3, 0.1], [3, 1, 0.3]], [[1.0, 2.0, 3.0]]])
def test_directions_that_the_decoder_does_not_see_keep_the_priors_bounds_as_the_noise_vanishes(jacobian):
    for gamma in (1e-10, 1e-18):
        lower, upper = theory.posterior_eigenvalue_bounds(jacobian, [1.0, 1.0, 1.0], gamma)
        assert lower[1:].tolist() == upper[1:].tolist() == [1, 1] and upper[0] < gamma


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
