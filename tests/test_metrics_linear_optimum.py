"""A linear network against its optimum, in arrays: what is said of one that is turned, dead or badly encoded."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from vae_tf import theory
from vae_tf.errors import InputError
from vae_tf.metrics.linear_optimum import linear_optimum

BETA, S2 = 1e-4, 0.5        # rolinek's Synth. Lin.


def turn(degrees):
    a = np.radians(degrees)
    return np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])


def square(scales=(2.0, 1.0), n=4_000):
    """A stretched square embedded in R^3, as rolinek's 8.5."""
    rng = np.random.default_rng(0)
    return rng.uniform(size=(n, 2)) * scales @ np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]


def score(x, D, W=None, variances=None, beta=BETA, s2=S2, **options):
    """Of a network with decoder D, by default with its best encoder and biases."""
    best, best_variances = theory.linear_encoder(D, beta, s2)
    mean = (x - x.mean(0)) @ (best if W is None else W).T
    covariance = np.tile(np.diag(best_variances if variances is None else variances), (len(x), 1, 1))
    return linear_optimum(x, D, x.mean(0), mean, covariance, beta=beta, noise_variance=s2, **options)


def optimum(x, beta=BETA, s2=S2, latents=2):
    return theory.linear_beta_vae(np.cov(x.T, bias=True), latents, beta, s2)


@pytest.mark.parametrize("degrees", [0, 10, 43, 45, 80])
def test_a_turned_network_is_said_to_be_turned(degrees):
    """At beta 1e-4 the objective of a model turned by 45 degrees is 2e-5 above the least: 0.000 in three digits."""
    x = square()
    D = optimum(x).decoder @ turn(degrees)
    result = score(x, D)
    angle = min(degrees, 90 - degrees)              # the other way round the latents have changed places
    assert result.parts["angle"] == pytest.approx(angle, abs=1e-4)          # arccos of 1 - 1e-16
    l1, l2 = (optimum(x).decoder ** 2).sum(0) / (BETA * S2)
    c, s = np.cos(np.radians(angle)) ** 2, np.sin(np.radians(angle)) ** 2
    cost = np.log((1 + l1 * c + l2 * s) * (1 + l1 * s + l2 * c) / ((1 + l1) * (1 + l2))) / 2
    # Differences of objectives over beta 1e-4: rounding of a few nats over that
    assert result.score == pytest.approx(cost, abs=1e-10) == result.parts["turn"]
    assert result.parts["excess"] == pytest.approx(BETA * cost, abs=1e-13)
    if angle:
        assert result.parts["excess"] < 5e-5 and result.score > 0.01
        assert f"not at the optimum: {cost:.3g} by latents turned by up to {angle} degrees" in result.meaning
        assert result.parts["kl"][0] > result.parts["kl"][1] + 0.01
    else:
        assert "at the optimum but for" in result.meaning and "not at" not in result.meaning


def test_the_parts_are_what_each_step_away_costs():
    """Each from the objective itself: first with the best encoder for the decoder, then with one that is not."""
    rng, beta, s2 = np.random.default_rng(1), 2.0, 0.3
    x = rng.standard_normal((2_000, 5)) @ rng.standard_normal((5, 5))
    C, o = np.cov(x.T, bias=True), optimum(x, beta, s2, latents=3)
    least = o.reconstruction + beta * o.kl
    D = o.decoder @ (np.eye(3) + 0.2 * rng.standard_normal((3, 3))) + 0.1 * rng.standard_normal((5, 3))
    W, v = theory.linear_encoder(D, beta, s2)
    with_best = np.dot(theory.linear_terms(C, D, W, v, s2), [1, beta])
    result = score(x, D, 1.1 * W, 0.8 * v, beta, s2)
    worse = np.dot(theory.linear_terms(C, D, 1.1 * W, 0.8 * v, s2), [1, beta])
    assert result.score == pytest.approx((worse - least) / beta, rel=1e-9)
    assert result.parts["encoder"] == pytest.approx((worse - with_best) / beta, rel=1e-8)
    # A full covariance has no turn to pay for: what is left is the decoder's likelihood.
    posterior = theory.linear_posterior(D, beta * s2)
    mean = (x - x.mean(0)) @ posterior.matrix.T
    full = linear_optimum(x, D, x.mean(0), mean, np.broadcast_to(posterior.covariance, (len(x), 3, 3)), beta=beta,
                          noise_variance=s2, full=True)
    assert full.parts["turn"] == 0 and full.score == pytest.approx(full.parts["decoder"], rel=1e-9)
    assert result.parts["decoder"] == pytest.approx(full.parts["decoder"], rel=1e-9)
    assert min(result.parts[name] for name in ("decoder", "turn", "encoder")) > 0.01
    assert sum(result.parts[name] for name in ("decoder", "turn", "encoder")) == pytest.approx(result.score)
    largest = max(("decoder", "turn", "encoder"), key=result.parts.get)
    assert f"not at the optimum: {result.parts[largest]:.3g} by" in result.meaning
    # Biases that are off cost what they do to the reconstruction.
    moved = linear_optimum(x, D, x.mean(0) + 0.5, (x - x.mean(0)) @ W.T, np.broadcast_to(np.diag(v), (len(x), 3, 3)),
                           beta=beta, noise_variance=s2)
    assert moved.parts["encoder"] == pytest.approx(5 * 0.5**2 / (2 * s2) / beta, rel=1e-9)


def test_equal_eigenvalues_leave_the_turn_open():
    """Any rotation of a square's latents is an optimum; nearly equal ones cost little and are said to be turned."""
    corners = np.array([[a, b] for a in (-1.0, 0, 1) for b in (-1.0, 0, 1)])
    x = corners @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0][:2]
    assert list(optimum(x).multiplicity) == [2, 2]
    result = score(x, optimum(x).decoder @ turn(30))
    assert result.parts["angle"] == 0 == pytest.approx(result.score, abs=1e-9) and "turned" not in result.meaning
    assert "2 latents of the optimum have eigenvalues that occur more than once, and may be rotated" in result.meaning
    stretched = corners * [1.02, 1] @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0][:2]
    result = score(stretched, optimum(stretched).decoder @ turn(30))
    assert result.parts["angle"] == pytest.approx(30, abs=1e-4) and 0 < result.score < 0.01
    assert "at the optimum but for" in result.meaning and "its latents turned by up to 30 degrees" in result.meaning


def test_one_direction_shared_by_two_latents_is_a_turn():
    """With one latent passive at the optimum, a decoder whose latents share its direction pays as well."""
    x = square()
    C, beta = np.cov(x.T, bias=True), 0.4             # beta s^2 is between the eigenvalues 1/3 and 1/12
    o = theory.linear_beta_vae(C, 2, beta, S2)
    assert list(o.active) == [True, False]
    D = o.decoder @ turn(45)
    assert theory.turn_angle(C, D, beta, S2) == pytest.approx(45, abs=1e-4)
    assert score(x, D, beta=beta).score == pytest.approx(score(x, D, beta=beta).parts["turn"], abs=1e-12)
    assert theory.turn_angle(C, np.zeros((3, 2)), beta, S2) == 0                  # a dead decoder points nowhere
    assert theory.turn_angle(C, o.decoder[:, ::-1], beta, S2) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("beta", [0.2, 1.0, 1.7, 2.5, 6.0, 30.0])
def test_a_learned_noise_variance_is_where_the_least_objective_is_least(beta):
    A = np.random.default_rng(4).standard_normal((7, 3)) * [3, 1, 0.3]
    C, latents = A @ A.T + np.diag(np.linspace(0.2, 0.8, 7)), 4

    def least(log_noise):
        o = theory.linear_beta_vae(C, latents, beta, np.exp(log_noise))
        return o.reconstruction + beta * o.kl

    ours = theory.linear_noise_variance(C, latents, beta)
    found = minimize_scalar(least, bounds=(np.log(ours) - 3, np.log(ours) + 3), method="bounded",
                            options={"xatol": 1e-9})
    assert least(np.log(ours)) <= found.fun + 1e-12
    assert np.log(ours) == pytest.approx(found.x, abs=1e-5)         # the root of the objective's precision
    for other in np.linspace(-6, 6, 61):                            # no other minimum
        assert least(np.log(ours) + other) >= least(np.log(ours)) - 1e-12
    if beta == 1:
        assert ours == pytest.approx(theory.ppca(C, latents).noise_variance, rel=1e-12)
    # Everything dies at n l_1 / tr C, whatever the variance was: beta below 1 collapses nothing (allen Corollary 3.1).
    assert theory.linear_beta_vae(C, latents, beta, ours).active.any() == (
        beta < 7 * np.linalg.eigvalsh(C)[-1] / np.trace(C))


def test_data_without_noise_have_no_best_noise_variance():
    C = np.diag([3.0, 1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="falls without bound as the noise variance goes to 0"):
        theory.linear_noise_variance(C, 2, 1.0)
    assert theory.linear_noise_variance(C, 1, 1.0) == pytest.approx(1 / 3)
    assert theory.linear_noise_variance(C, 2, 3.0) == pytest.approx(1.0)       # c = 3: 4 / beta = 1 + l_2 / c
    # In between, where r beta = n, all up to l_r / beta are as good.
    assert theory.linear_noise_variance(C, 2, 2.0) == pytest.approx(0.5)
    optima = [theory.linear_beta_vae(C, 2, 2.0, noise) for noise in (1e-6, 0.1, 0.5)]
    np.testing.assert_allclose(np.diff([o.reconstruction + 2 * o.kl for o in optima]), 0, atol=1e-9)


def test_what_a_learned_noise_variance_leaves_open_is_said():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3_000, 4)) @ np.diag([3.0, 2, 1, 0.5])
    C, beta = np.cov(x.T, bias=True), 1.5
    best = theory.linear_noise_variance(C, 2, beta)
    for factor in (1.0, 3.0):
        result = score(x, theory.linear_beta_vae(C, 2, beta, factor * best).decoder, beta=beta, s2=factor * best,
                       learned=True)
        assert result.score == pytest.approx(0, abs=1e-9)           # at the optimum of its own noise variance
        np.testing.assert_allclose(result.parts["noise_variance"], [factor * best, best], rtol=1e-12)
        # Trained freely, with its own variance as one parameter more, the network reaches the least at the best one.
        assert (result.parts["best_noise_excess"] > 0.1) == (factor == 3)
        assert f"with noise variance {factor * best:.4g}" in result.meaning
        assert f"above the least with any, which is at {best:.4g}" in result.meaning

    def objective(free):
        D, s2 = free[:8].reshape(4, 2), np.exp(free[8])
        return np.dot(theory.linear_terms(C, D, *theory.linear_encoder(D, beta, s2), s2), [1, beta])

    start = rng.standard_normal(9)
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
    o = theory.linear_beta_vae(C, 2, beta, best)
    assert found.fun == pytest.approx(o.reconstruction + beta * o.kl, rel=1e-7)
    flat = score(np.c_[x[:, :2], np.zeros((3_000, 2))], np.eye(4, 2), beta=1.0, learned=True)
    assert "the noise variance was learned, and the objective has no least" in flat.meaning
