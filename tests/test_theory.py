import keras
import numpy as np
import pytest
import reference
from scipy.optimize import minimize

from vae_tf import data, models, theory, training


def random_covariance(n, seed):
    A = np.random.default_rng(seed).standard_normal((n, n + 2))
    return A @ A.T / n


def by_optimiser(C, latents, beta, s2, seed):
    """The least objective a numerical optimiser finds over D, W and log-variances; sikka (21) with W_sigma = 0."""
    n, k = len(C), latents

    def objective(flat):
        D, W, log_v = flat[:n * k].reshape(n, k), flat[n * k:2 * n * k].reshape(k, n), flat[2 * n * k:]
        v, R = np.exp(log_v), np.eye(n) - D @ W
        reconstruction = n / 2 * np.log(2 * np.pi * s2) + (np.sum((R @ C) * R) + v @ (D**2).sum(0)) / (2 * s2)
        kl = 0.5 * (np.sum((W @ C) * W) + np.sum(v - log_v - 1))
        gradient = [(-(R @ C @ W.T) + D * v) / s2, -(D.T @ R @ C) / s2 + beta * W @ C,
                    0.5 * v * (D**2).sum(0) / s2 + beta / 2 * (v - 1)]
        return reconstruction + beta * kl, np.concatenate([g.ravel() for g in gradient])

    start = 0.3 * np.random.default_rng(seed).standard_normal(2 * n * k + k)
    options = {"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options)


@pytest.mark.parametrize(("beta", "s2"), [(1.0, 1.0), (0.2, 0.5), (4.0, 0.3), (20.0, 1.0)])
def test_linear_optimum_is_what_an_optimiser_finds(beta, s2):
    C = random_covariance(5, seed=1)
    optimum = theory.linear_beta_vae(C, 3, beta, s2)
    found = [by_optimiser(C, 3, beta, s2, seed) for seed in range(4)]
    best = min(found, key=lambda f: f.fun)
    assert optimum.reconstruction + beta * optimum.kl == pytest.approx(best.fun, rel=1e-7)
    D = best.x[:15].reshape(5, 3)
    # L-BFGS stops when the objective, which is quadratic there, is flat to 1e-14: D is good to the root of that.
    np.testing.assert_allclose(D @ D.T, optimum.decoder @ optimum.decoder.T, atol=2e-4)
    np.testing.assert_array_equal(optimum.active, np.linalg.eigvalsh(C)[::-1][:3] > beta * s2)


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


def test_trained_linear_beta_vae_lands_on_the_closed_form():
    """`linear` networks on synthetic_linear at beta 1e-4 (rolinek Table S3) against the optimum in closed form.

    The tolerances come from how far the exact objective of the trained weights is above its minimum, e:
    to second order in the distance, with m_j = ||d_j||^2 and l_j = m_j + beta s^2 the eigenvalues,
      e >= beta/4 (dm_j / l_j)^2          singular values        => |dm_j| / l_j      <= 2 sqrt(e / beta)
      e >= beta/4 (d log v_j)^2           posterior variances    => |d log v_j|       <= 2 sqrt(e / beta)
      e >= sin(angle)^2 m_j / (2 s^2)     column space, against a direction without variance
    and 10 % more for the third order at the size that e turns out to have.
    """
    beta, s2 = 1e-4, 0.5
    dataset = data.load("synthetic_linear")
    x = dataset.images_at(np.arange(len(dataset))).astype(np.float64)
    optimum = theory.linear_beta_vae(np.cov(x.T, bias=True), 2, beta, s2)
    model = models.build("beta_vae", dataset.shape, network="linear", latents=2, likelihood="gaussian",
                         likelihood_variance=s2, beta=beta)
    steps = 60_000
    rate = keras.optimizers.schedules.CosineDecay(0.01, steps)
    training.fit(model, dataset, keras.optimizers.Adam(rate), steps=steps, batch_size=500, log_every=steps)

    weights = [layer.get_weights() for layer in (*model.encoder.layers, *model.decoder.layers) if layer.weights]
    weights = [[w.astype(np.float64) for w in pair] for pair in weights]
    trained, _, kl = reference.linear_objective(x, weights, beta, s2)
    excess = trained - (optimum.reconstruction + beta * optimum.kl)
    tolerance = 1.1 * 2 * np.sqrt(excess / beta)
    assert 0 < tolerance < 0.06        # it has converged: the tolerance means something

    D = weights[2][0].T                                                    # [n, k]
    squared = np.sort((D**2).sum(0))[::-1]
    singular = np.linalg.svd(D, compute_uv=False) ** 2
    exact = (optimum.decoder**2).sum(0)
    np.testing.assert_allclose(singular, exact, rtol=tolerance)
    np.testing.assert_allclose(squared, singular, rtol=tolerance)          # the columns are orthogonal
    outside = D - optimum.decoder @ np.linalg.pinv(optimum.decoder) @ D
    sine = np.linalg.norm(outside, axis=0) / np.linalg.norm(D, axis=0)
    assert (sine < 1.1 * np.sqrt(2 * s2 * excess / (D**2).sum(0))).all()
    order = np.argsort(-(D**2).sum(0))
    variances = np.exp(x @ weights[1][0] + weights[1][1])[:, order]
    np.testing.assert_allclose(np.exp(np.log(variances).mean(0)), optimum.variances, rtol=tolerance)
    assert (np.log(variances).std(0) < tolerance).all()                    # W_sigma = 0 at the optimum
    assert kl == pytest.approx(optimum.kl, rel=tolerance)
