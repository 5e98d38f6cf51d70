"""What beta does: it is a variance, a temperature, a collapse, and the price in a trade-off."""


import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

from vae_tf import models, theory
from vae_tf.errors import InputError

MEANS = np.array([0.1, 0.35, 0.62, 0.9])
FAMILIES = [("gaussian", beta, np.array([-1.3, 0.4, 2.0])) for beta in (0.2, 1.0, 6.0)]
FAMILIES += [("gamma", beta, np.array([0.05, 0.8, 3.0])) for beta in (0.2, 1.0, 6.0)]
FAMILIES += [("bernoulli", 1 / k, np.arange(k + 1) / k) for k in (1, 2, 5)]


@pytest.mark.parametrize(("family", "beta", "x"), FAMILIES)
def test_the_likelihood_to_the_power_1_over_beta_is_that_of_beta_times_the_variance(family, beta, x):
    """allen Theorem 3 for exponential dispersion models: log p / beta less the other's has no mean in it."""
    dispersion = 1.0 if family == "bernoulli" else 0.7
    if family == "bernoulli":                       # x of the powered likelihood may be a mean: allen's [0, 1] pixels
        powered = (x[:, np.newaxis] * np.log(MEANS) + (1 - x[:, np.newaxis]) * np.log1p(-MEANS)) / beta
    else:
        powered = theory.dispersed_log_likelihood(family, x[:, np.newaxis], MEANS, 1.0, dispersion) / beta
    other = theory.dispersed_log_likelihood(family, x[:, np.newaxis], MEANS, beta, dispersion)
    without_mean = powered - other
    np.testing.assert_allclose(without_mean, np.broadcast_to(without_mean[:, :1], without_mean.shape), atol=1e-11)
    # It is a distribution, and its variance is beta times that of the family: against SciPy's.
    variance = {"gaussian": np.full(4, dispersion), "gamma": dispersion * MEANS**2,
                "bernoulli": MEANS * (1 - MEANS)}[family] * beta
    if family == "bernoulli":
        k = round(1 / beta)
        law = stats.binom(k, MEANS)
        np.testing.assert_allclose(other, law.logpmf(x[:, np.newaxis] * k), atol=1e-12)
        np.testing.assert_allclose(law.var() / k**2, variance)
        np.testing.assert_allclose(logsumexp(other, 0), 0, atol=1e-12)
    else:
        law = (stats.norm(MEANS, np.sqrt(beta * dispersion)) if family == "gaussian"
               else stats.gamma(1 / (beta * dispersion), scale=MEANS * beta * dispersion))
        np.testing.assert_allclose(other, law.logpdf(x[:, np.newaxis]), rtol=1e-10)
        np.testing.assert_allclose(law.var(), variance)


def test_a_bernoulli_has_no_such_member_at_other_betas():
    """At beta 2 a density h(x) p^{x/2} (1-p)^{(1-x)/2} on {0, 1} would have to add up to a number without p."""
    with pytest.raises(InputError, match=r"beta: expected 1, 1/2, 1/3, \.\.\. for a Bernoulli; got 2"):
        theory.dispersed_log_likelihood("bernoulli", 1.0, 0.5, beta=2.0)
    with pytest.raises(InputError, match="beta: expected 1, 1/2, 1/3"):
        theory.dispersed_log_likelihood("bernoulli", 1.0, 0.5, beta=0.4)
    with pytest.raises(InputError, match="family: expected one of gaussian, gamma, bernoulli; got 'poisson'"):
        theory.dispersed_log_likelihood("poisson", 1.0, 0.5)
    powers = np.stack([MEANS, 1 - MEANS]) ** 0.5
    weights = np.linalg.lstsq(powers.T, np.ones(4), rcond=None)[0]
    assert np.abs(weights @ powers - 1).max() > 0.01
    # At beta 1/3 the same question has an answer: the mean of three draws.
    thirds = np.stack([MEANS**i * (1 - MEANS) ** (3 - i) for i in range(4)])
    np.testing.assert_allclose(np.linalg.solve(thirds.T, np.ones(4)), [1, 3, 3, 1], rtol=1e-9)


@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_the_tempered_posterior_is_the_best_of_all(beta):
    """Of distributions over five values of z, by an optimiser of the beta-ELBO over logits."""
    rng = np.random.default_rng(0)
    likelihood, prior = 3 * rng.standard_normal(5), np.log(rng.dirichlet(np.ones(5)))

    def loss(logits):
        log_q = logits - logsumexp(logits)
        return -np.exp(log_q) @ (likelihood - beta * (log_q - prior))

    found = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    log_q, value = theory.tempered_posterior(likelihood, prior, beta)
    assert value == pytest.approx(-loss(log_q), rel=1e-12) and value >= -found.fun - 1e-12
    np.testing.assert_allclose(np.exp(log_q), np.exp(found.x - logsumexp(found.x)), atol=1e-5)
    # A temperature: hot is the prior, cold the likeliest z.
    np.testing.assert_allclose(theory.tempered_posterior(likelihood, prior, 1e9)[0], prior, atol=1e-7)
    assert np.exp(theory.tempered_posterior(likelihood, prior, 1e-3)[0])[likelihood.argmax()] == pytest.approx(1)


def test_a_gaussian_tempered_posterior_is_the_linear_betas_vae_own():
    """On a fine grid of one latent: N(F x, E) of the linear model with noise beta s^2."""
    w, x, s2, beta = 1.7, 0.9, 0.4, 2.5
    z = np.linspace(-8, 8, 4_001)
    log_q, _ = theory.tempered_posterior(stats.norm.logpdf(x, w * z, np.sqrt(s2)),
                                         stats.norm.logpdf(z) + np.log(z[1] - z[0]), beta)
    F, E = theory.linear_posterior(np.array([[w]]), beta * s2)
    q = np.exp(log_q)
    assert q @ z == pytest.approx(F[0, 0] * x, rel=1e-9)
    assert q @ (z - q @ z) ** 2 == pytest.approx(E[0, 0], rel=1e-9)


def test_below_its_collapse_beta_a_linear_model_uses_a_latent():
    """allen Corollary 3.1; with a learned variance the limit is never below 1."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        A = rng.standard_normal((5, 7)) * rng.gamma(1, size=7)
        C, s2 = A @ A.T, float(rng.gamma(2))
        limit = theory.collapse_beta(C, s2)
        assert theory.linear_beta_vae(C, 2, 0.999 * limit, s2).active.any()
        assert not theory.linear_beta_vae(C, 2, 1.001 * limit, s2).active.any()
        limit = theory.collapse_beta(C)
        assert limit >= 1
        for beta, alive in ((0.999 * limit, True), (1.001 * limit, False)):
            learned = theory.linear_noise_variance(C, 2, beta)
            assert theory.linear_beta_vae(C, 2, beta, learned).active.any() == alive
    assert theory.collapse_beta(3 * np.eye(4)) == pytest.approx(1)      # nothing to learn: at beta 1 all is noise


def test_the_cost_of_the_best_choice_never_rises_with_beta():
    """sikka Proposition 4, for any two terms; and for optima, where it is Proposition 2."""
    rng = np.random.default_rng(2)
    betas, changes = np.geomspace(0.01, 100, 60), 0
    for _ in range(20):
        reward, cost = 3 * rng.standard_normal(40), rng.gamma(1, size=40)
        best = theory.best_trade_off(reward, cost, betas)
        slow = [max(range(40), key=lambda i, b=b: (reward[i] - b * cost[i], -cost[i])) for b in betas]
        assert list(best) == slow
        changes += len(set(slow)) - 1
        assert (np.diff(cost[best]) <= 0).all() and (np.diff(reward[best]) <= 0).all()
    assert changes > 20
    assert list(theory.best_trade_off([2, 1], [1, 0], [1.0])) == [1]              # as good: the one that costs less
    C = np.cov(rng.standard_normal((6, 50)))
    optima = [theory.linear_beta_vae(C, 3, beta) for beta in np.geomspace(0.05, 1, 12)]
    own = theory.best_trade_off([-o.reconstruction for o in optima], [o.kl for o in optima], np.geomspace(0.05, 1, 12))
    assert list(own) == list(range(12))              # each is the best at its own beta: so are trained models, or not
    worse = [o.kl + (i == 4) for i, o in enumerate(optima)]
    assert theory.best_trade_off([-o.reconstruction for o in optima], worse, np.geomspace(0.05, 1, 12))[4] != 4


LATENTS, SIZE = 3, 5


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


def test_the_argument_that_is_wrong_is_named():
    for options, name in (({"beta": 0.7}, "beta"), ({"dispersion": 0.7}, "dispersion"),
                          ({"beta": 0.7, "dispersion": 0.5}, r"beta \* dispersion")):
        with pytest.raises(InputError, match=f"^{name}: expected 1, 1/2, 1/3"):
            theory.dispersed_log_likelihood("bernoulli", [1.0], [0.5], **options)
