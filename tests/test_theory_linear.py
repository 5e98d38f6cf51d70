"""Linear models in closed form against optimisers, Monte Carlo and the joint Gaussian; ties and limits."""

import numpy as np
import pytest
import reference
from covariances import mixing, of_mixture, random_covariance
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from vae_tf import theory
from vae_tf.errors import InputError

OPTIONS = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}


def by_optimiser(C, latents, beta, s2, seed):
    """The least objective a numerical optimiser finds of sikka (21), all of its parameters free; s^2 is scaled into C.

    Data over s have noise variance 1; densities of x and x / s differ by s^n.
    """
    n = len(C)
    start = 0.3 * np.random.default_rng(seed).standard_normal(3 * n * latents + 2 * latents + n)
    found = minimize(lambda flat: reference.sikka_objective(C / s2, beta, latents, flat)[:2], start, jac=True,
                     method="L-BFGS-B", options=OPTIONS)
    constant = n / 2 * np.log(2 * np.pi * s2) - beta * latents / 2        # what (21) leaves out
    D, W, *rest = reference.sikka_objective(C / s2, beta, latents, found.x)[2]
    return found.fun + constant, D * np.sqrt(s2), W / np.sqrt(s2), *rest


@pytest.mark.parametrize(("covariance", "latents", "beta", "s2"), [
    (random_covariance(5, seed=1), 3, 0.2, 0.5), (random_covariance(5, seed=1), 3, 4.0, 0.3),
    *((of_mixture(mixing()), 2, beta, 1.0) for beta in (0.5, 1.2, 2.0, 20.0)),
    *((of_mixture(np.random.default_rng(k).standard_normal((12, k))), k, beta, 1.0)
      for k, beta in zip(range(1, 7), (0.1, 20.0, 0.5, 5.0, 1.0, 2.0), strict=True))])
def test_linear_optimum_is_what_an_optimiser_finds(covariance, latents, beta, s2):
    optimum = theory.linear_beta_vae(covariance, latents, beta, s2)
    found = [by_optimiser(covariance, latents, beta, s2, seed) for seed in range(2)]
    best, D, _, Ws, bs, bm, bD = min(found, key=lambda f: f[0])
    least = optimum.reconstruction + beta * optimum.kl
    # L-BFGS stops where a step gains less than 1e-15 of the objective, in at most 20,000 steps: what is left is not
    # more than 2e-11 of it. Next to a quadratic minimum parameters are good to the root of what is left.
    assert best == pytest.approx(least, rel=2e-11)
    assert best >= least - 1e-12 * abs(least)                              # nothing is below the closed form
    scale = np.linalg.eigvalsh(covariance)[-1]
    np.testing.assert_allclose(D @ D.T, optimum.decoder @ optimum.decoder.T, atol=2e-4 * scale)
    assert np.abs(Ws @ np.linalg.cholesky(covariance / s2)).max() < 1e-3    # W_sigma = 0, the errata's line on (23)
    np.testing.assert_allclose(np.sort(bs), np.sort(np.log(optimum.variances)), atol=2e-3)
    assert np.abs(bm).max() < 1e-3 and np.abs(bD).max() < 1e-3 * np.sqrt(scale)
    np.testing.assert_array_equal(optimum.active, np.linalg.eigvalsh(covariance)[::-1][:latents] > beta * s2)


def test_which_latents_die_at_which_beta():
    C, s2 = random_covariance(6, seed=5), 0.7
    betas = theory.critical_betas(C, 4, s2)
    np.testing.assert_allclose(betas, np.linalg.eigvalsh(C)[:1:-1] / s2)
    for j, beta in enumerate(betas):
        # float64 knows eigenvalues to about 1e-15 of the largest
        before, after = (theory.linear_beta_vae(C, 4, beta * (1 + sign * 1e-9), s2) for sign in (-1, 1))
        np.testing.assert_array_equal(before.active, np.arange(4) <= j)
        np.testing.assert_array_equal(after.active, np.arange(4) < j)
        assert after.variances[j] == 1 and not after.decoder[:, j].any()
    np.testing.assert_allclose(theory.critical_betas(of_mixture(mixing()), 2), [66.25, 1.25])


def test_terms_against_monte_carlo():
    C, beta, s2 = random_covariance(4, seed=2), 0.7, 0.5
    o = theory.linear_beta_vae(C, 2, beta, s2)
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(4), C, 200_000)
    mean = x @ o.encoder.T
    z = mean + rng.standard_normal(mean.shape) * np.sqrt(o.variances)
    reconstruction = 2 * np.log(2 * np.pi * s2) + ((x - z @ o.decoder.T) ** 2).sum(1) / (2 * s2)
    kl = 0.5 * (mean**2 + o.variances - np.log(o.variances) - 1).sum(1)
    E = np.linalg.inv(o.decoder.T @ o.decoder / s2 + np.eye(2))          # sikka (24): p(z|x) = N(F x, E)
    difference = mean - x @ (E @ o.decoder.T / s2).T
    mie = 0.5 * (np.trace(np.linalg.inv(E) @ np.diag(o.variances)) - np.log(o.variances).sum()
                 + np.log(np.linalg.det(E)) - 2 + np.einsum("bi,ij,bj->b", difference, np.linalg.inv(E), difference))
    for samples, exact in [(reconstruction, o.reconstruction), (kl, o.kl), (mie, o.mie)]:
        assert abs(samples.mean() - exact) < 5 * samples.std() / np.sqrt(len(samples))
    assert o.elbo == -(o.reconstruction + o.kl)


def test_inference_error_is_zero_at_beta_one_alone():
    C = random_covariance(6, seed=3) + 5 * np.eye(6)      # no latent is passive at any of these
    errors = [theory.linear_beta_vae(C, 3, beta).mie for beta in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert errors[2] == pytest.approx(0, abs=1e-12) and min(errors[:2] + errors[3:]) > 1e-3
    elbos = [theory.linear_beta_vae(C, 3, beta).elbo for beta in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert max(elbos) == elbos[2]


@pytest.mark.parametrize("s2", [1e-4, 1e-12, 1e-20])
def test_inference_error_keeps_its_digits_where_noise_is_small(s2):
    """It was -0.89 nats at s^2 = 1e-16, from second moments whose difference had no digits left."""
    spectrum, beta = np.array([3.0, 2, 1, 0.5]), 2.0
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    C, noise = (Q * spectrum) @ Q.T, beta * s2
    # Along each axis: KL(N(w x, v) || N(f x, e)), with x of variance l and a decoder d of squared length l - noise.
    d = np.sqrt(spectrum - noise)
    w, v, f, e = d / spectrum, noise / spectrum, d / (d**2 + s2), s2 / (d**2 + s2)
    expected = np.sum(v / e - 1 - np.log(v / e) + (w - f) ** 2 * spectrum / e) / 2
    assert theory.linear_beta_vae(C, 4, beta, s2).mie == pytest.approx(expected, rel=1e-9)
    assert theory.linear_beta_vae(C, 4, 1.0, s2).mie == pytest.approx(0, abs=1e-9)


BETAS = np.geomspace(0.1, 20, 25)


@pytest.mark.parametrize("A", [mixing(), np.random.default_rng(0).standard_normal((20, 6))])
def test_sikkas_propositions(A):
    C = of_mixture(A)
    optima = [theory.linear_beta_vae(C, A.shape[1], beta) for beta in BETAS]
    objective = np.array([o.reconstruction + beta * o.kl for o, beta in zip(optima, BETAS, strict=True)])
    assert (np.diff(objective) > 0).all()                                   # Proposition 1 (to be minimised here)
    assert (np.diff([o.kl for o in optima]) < 0).all()                      # Proposition 2, (12)
    assert (np.diff([o.reconstruction for o in optima]) > 0).all()          # (13)
    for o, beta in zip(optima, BETAS, strict=True):                         # (10): the slope of the objective is the KL
        step = 1e-5 * beta
        up, down = (theory.linear_beta_vae(C, A.shape[1], beta + d) for d in (step, -step))
        slope = (up.reconstruction + (beta + step) * up.kl - down.reconstruction - (beta - step) * down.kl) / (2 * step)
        # Rounding of the objective over the step; the second derivative may jump where a latent dies.
        assert slope == pytest.approx(o.kl, abs=1e-15 * abs(objective).max() * 10 / step + step * 10)
        assert o.elbo <= theory.linear_beta_vae(C, A.shape[1], 1.0).elbo    # Proposition 3
        # (4), (16): ELBO = E log p(x) - MIE, and with the sources' own noise and number p(x) is fitted exactly
        assert o.elbo + o.mie == pytest.approx(theory.linear_log_likelihood(C, o.decoder), rel=1e-12)
    assert theory.linear_beta_vae(C, A.shape[1], 1.0).mie == pytest.approx(0, abs=1e-9)


def test_a_decoders_objective_is_ppcas_likelihood_and_the_cost_of_a_diagonal_posterior():
    """The derivation of the optimum: with the best encoder for D, whatever D, objective / beta is
    -E log N(x; 0, D D^T + beta s^2 I) + constant + a cost that is 0 iff the columns of D are orthogonal."""
    C, beta, s2 = random_covariance(7, seed=9), 2.5, 0.4
    noise, constant = theory.beta_as_noise_variance(7, beta, s2)
    skew = np.random.default_rng(9).standard_normal((7, 3))
    for D, orthogonal in ((skew, False), (np.linalg.qr(skew)[0] * [1.0, 2.0, 3.0], True)):
        reconstruction, kl = theory.linear_terms(C, D, *theory.linear_encoder(D, beta, s2), s2)
        cost = theory.diagonal_cost(np.eye(3) + D.T @ D / noise)
        assert (reconstruction + beta * kl) / beta == pytest.approx(
            -theory.linear_log_likelihood(C, D, noise) + constant + cost, rel=1e-12)
        assert abs(cost) < 1e-12 if orthogonal else cost > 0.01


def test_a_fixed_decoder_is_inferred_best_at_beta_one():
    """sikka IV.A, for a decoder whose columns are not orthogonal, so that the error is not 0."""
    C, D = random_covariance(8, seed=4), np.random.default_rng(4).standard_normal((8, 3))
    posterior = theory.linear_posterior(D, 0.6)
    errors = []
    for beta in (0.3, 0.7, 0.95, 1.0, 1.05, 1.5, 4.0):
        W, v = theory.linear_encoder(D, beta, 0.6)
        errors.append(theory.linear_inference_error(C, W, v, posterior))

        def objective(flat, beta=beta):
            W, log_v = flat[:24].reshape(3, 8), flat[24:]
            reconstruction, kl = theory.linear_terms(C, D, W, np.exp(log_v), 0.6)
            return reconstruction + beta * kl

        rng = np.random.default_rng(0)
        least = objective(np.concatenate([W.ravel(), np.log(v)]))
        for size in (1e-3, 0.1, 1):
            moved = np.concatenate([W.ravel(), np.log(v)]) + size * rng.standard_normal(27)
            assert objective(moved) > least
    assert min(errors) == errors[3] > 0.01


def test_ppca_is_maximum_likelihood_and_the_linear_vae():
    C = random_covariance(6, seed=8)
    fitted = theory.ppca(C, 2)
    assert fitted.log_likelihood == pytest.approx(-multivariate_entropy(C, fitted), rel=1e-12)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.05, 1.0):
        W = fitted.weights + size * rng.standard_normal(fitted.weights.shape)
        s2 = fitted.noise_variance * np.exp(size * rng.standard_normal())
        assert theory.linear_log_likelihood(C, W, s2) < fitted.log_likelihood
    R = np.linalg.qr(rng.standard_normal((2, 2)))[0]                        # R is open
    assert theory.linear_log_likelihood(C, fitted.weights @ R, fitted.noise_variance) == pytest.approx(
        fitted.log_likelihood, rel=1e-12)
    # beta-VAE with s^2 = PPCA with beta s^2; at beta = 1 its ELBO is the log-likelihood: the posterior is exact
    for beta, s2 in ((1.0, fitted.noise_variance), (4.0, fitted.noise_variance / 4)):
        o = theory.linear_beta_vae(C, 2, beta, s2)
        np.testing.assert_allclose(o.decoder, fitted.weights, atol=1e-12)
        posterior = theory.linear_posterior(fitted.weights, fitted.noise_variance)
        np.testing.assert_allclose(o.encoder, posterior.matrix, atol=1e-12)
        np.testing.assert_allclose(np.diag(o.variances), posterior.covariance, atol=1e-12)
        if beta == 1:
            assert o.elbo == pytest.approx(fitted.log_likelihood, rel=1e-12)


def multivariate_entropy(C, fitted):
    """Cross-entropy of N(0, C) under the fitted model, from SciPy's density and the KL of Gaussians."""
    model = fitted.weights @ fitted.weights.T + fitted.noise_variance * np.eye(len(C))
    zero = np.zeros(len(C))
    return multivariate_normal(zero, C).entropy() + reference.full_gaussian_kl(zero, C, zero, model)


def test_linear_posterior_against_the_joint_gaussian():
    W, s2 = np.random.default_rng(3).standard_normal((5, 2)), 0.3
    F, E = theory.linear_posterior(W, s2)
    inverse = np.linalg.inv(W @ W.T + s2 * np.eye(5))                       # conditioning, sikka (49)
    np.testing.assert_allclose(F, W.T @ inverse, atol=1e-12)
    np.testing.assert_allclose(E, np.eye(2) - W.T @ inverse @ W, atol=1e-12)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"covariance": np.ones((2, 3))}, r"covariance: expected an array \[n, n\]; got shape \(2, 3\)"),
    ({"latents": 4}, "latents: expected 1 to 3, the size of the data; got 4"),
    ({"beta": 0}, "beta: expected a finite number above 0; got 0"),
    ({"noise_variance": float("inf")}, "noise_variance: expected a finite number above 0; got inf"),
])
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        theory.linear_beta_vae(**{"covariance": np.eye(3), "latents": 2, **arguments})
    with pytest.raises(InputError, match="latents: expected fewer than 3"):
        theory.ppca(np.eye(3), 3)
    with pytest.raises(InputError, match=r"true_mean: expected an array \[N, k\] where k is 3, as in mean; got"):
        theory.true_inference_error(np.zeros((4, 3)), np.stack([np.eye(3)] * 4), np.zeros((4, 2)), np.eye(2))


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


def test_log_likelihood_does_not_see_a_rotation():
    """rolinek Proposition 2 where p(x) is known: a linear decoder."""
    W = np.random.default_rng(8).standard_normal((5, 3))
    U = np.linalg.qr(np.random.default_rng(9).standard_normal((3, 3)))[0]
    C = W @ W.T + 2 * np.eye(5)
    assert theory.linear_log_likelihood(C, W @ U.T, 0.7) == pytest.approx(theory.linear_log_likelihood(C, W, 0.7))
