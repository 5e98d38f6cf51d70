"""Trained models against theory: a linear beta-VAE's optimum, and a model whose latents are rotated."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from vae_tf import data, jacobians, models, objectives, theory, training


# In the last case beta s^2 is between the two eigenvalues, 1/3 and 1/12: one latent is passive.
@pytest.mark.parametrize(("beta", "steps"), [(1e-4, 20_000), (0.05, 4_000), (0.4, 4_000)])
def test_trained_linear_beta_vae_lands_on_the_closed_form(beta, steps):
    """`linear` networks on synthetic_linear, beta 1e-4 being rolinek's (Table S3), against the optimum in closed form.

    The tolerances come from how far the exact objective of the trained weights is above its minimum, e:
    to second order in the distance, with c = beta s^2, m_j = ||d_j||^2 and eigenvalues l_j, where active m_j + c = l_j,
      e >= beta/4 (dm_j / l_j)^2          singular values        => |dm_j| / l_j      <= 2 sqrt(e / beta)
      e >= beta/4 (d log v_j)^2           posterior variances    => |d log v_j|       <= 2 sqrt(e / beta)
      e >= beta m_j (c - l_j) / (2 c^2)   a passive latent       => m_j               <= 2 c^2 e / (beta (c - l_j))
      e >= beta m_j (l_j - l') sin(angle)^2 / (2 c l_j)  column space, l' the largest eigenvalue outside it
    and 10 % more for the third order at the size that e turns out to have. The KL moves by at most 4 sqrt(e / beta)
    per latent: (1 - v) from log v, 1 / sqrt 2 from the encoder's gain, 1 + (1 - v) from m.
    """
    s2 = 0.5
    dataset = data.load("synthetic_linear")
    x = dataset.images_at(np.arange(len(dataset))).astype(np.float64)
    covariance = np.cov(x.T, bias=True)
    optimum = theory.linear_beta_vae(covariance, 2, beta, s2)
    model = models.build("beta_vae", dataset.shape, network="linear", latents=2, likelihood="gaussian",
                         likelihood_variance=s2, beta=beta)
    rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
    training.fit(model, dataset, keras.optimizers.Adam(rate), steps=steps, batch_size=200, log_every=steps)

    weights = [layer.get_weights() for layer in (*model.encoder.layers, *model.decoder.layers) if layer.weights]
    weights = [[w.astype(np.float64) for w in pair] for pair in weights]
    trained, _, kl = reference.linear_objective(x, weights, beta, s2)
    excess = trained - (optimum.reconstruction + beta * optimum.kl)
    tolerance = 1.1 * 2 * np.sqrt(excess / beta)
    assert 0 < tolerance < 0.06        # it has converged: the tolerance means something

    D = weights[2][0].T                                                    # [n, k]
    D = D[:, np.argsort(-(D**2).sum(0))]
    order = np.argsort(-(weights[2][0].T**2).sum(0))
    on = optimum.active
    eigenvalues, c, m = np.linalg.eigvalsh(covariance)[::-1], beta * s2, (D**2).sum(0)
    singular = np.linalg.svd(D, compute_uv=False) ** 2
    exact = (optimum.decoder**2).sum(0)
    assert (np.abs(singular - exact)[on] < tolerance * eigenvalues[:2][on]).all()
    assert (np.abs(m - singular)[on] < tolerance * eigenvalues[:2][on]).all()        # the columns are orthogonal
    assert (m[~on] < 1.1 * 2 * c**2 * excess / beta / (c - eigenvalues[:2][~on])).all()
    outside = D - optimum.decoder @ np.linalg.pinv(optimum.decoder) @ D
    sine = (np.linalg.norm(outside, axis=0) / np.sqrt(m))[on]
    gap = (eigenvalues[:2] - eigenvalues[on.sum()])[on]
    assert (sine < 1.1 * np.sqrt(2 * c * eigenvalues[:2][on] * excess / (beta * m[on] * gap))).all()
    variances = np.exp(x @ weights[1][0] + weights[1][1])[:, order]
    assert (np.abs(np.log(variances).mean(0) - np.log(optimum.variances)) < tolerance).all()
    assert (np.log(variances).std(0) < tolerance).all()                    # W_sigma = 0 at the optimum
    assert abs(kl - optimum.kl) < 2 * 4 * np.sqrt(excess / beta)


@pytest.fixture(scope="module")
def trained():
    """A beta-VAE on synthetic_nonlinear, x, and its posterior."""
    dataset = data.load("synthetic_nonlinear")
    model = models.build("beta_vae", dataset.shape, network="mlp_synthetic", latents=2, likelihood="gaussian",
                         beta=0.01)
    training.fit(model, dataset, training.OPTIMIZERS["adam"](3e-3), steps=3_000, batch_size=128, log_every=3_000)
    x = tf.constant(dataset.images_at(np.arange(2_000)))
    return model, x, model.posterior(x)


def objective(model, x, posterior, rotation, seed=0):
    """Per-example objective with decoder Dec(U^T z), the noise drawn in the unrotated latents."""
    noise = posterior.stddev() * tf.random.stateless_normal(tf.shape(posterior.mean()), (seed, 0)) if isinstance(
        posterior, tfd.MultivariateNormalDiag) else tf.linalg.matvec(
            posterior.scale_tril, tf.random.stateless_normal(tf.shape(posterior.mean()), (seed, 0)))
    z = posterior.mean() + noise
    likelihood = model.likelihood(tf.matmul(z, tf.constant(rotation, tf.float32)))          # rows: (U^T z)^T = z^T U
    kl = objectives.kl(posterior, model.prior())
    return (objectives.reconstruction(likelihood, x) + model.beta * kl).numpy().astype(np.float64), kl.numpy()


def test_rotation_of_a_trained_model(trained):
    """rolinek Propositions 2 and 3: the objective does not see U, unless the posterior is kept diagonal."""
    model, x, posterior = trained
    U = np.linalg.qr(np.random.default_rng(6).standard_normal((2, 2)))[0]
    mean, stddev = posterior.mean().numpy().astype(np.float64), posterior.stddev().numpy().astype(np.float64)
    J = jacobians.jacobian(model.decoder, posterior.mean()).numpy().astype(np.float64)
    turned, covariance, turned_J = theory.rotate(mean, stddev[:, np.newaxis] ** 2 * np.eye(2), J, U)
    seen = jacobians.jacobian(lambda z: model.decoder(tf.matmul(z, tf.constant(U, tf.float32))),
                              tf.constant(turned, tf.float32)).numpy()
    np.testing.assert_allclose(turned_J, seen, atol=1e-4 * np.abs(J).max())                 # float32 networks

    def of(mean, lower):
        return tfd.MultivariateNormalTriL(tf.constant(mean, tf.float32), tf.constant(lower, tf.float32))

    # With a full covariance: the same KL exactly, and the same expected reconstruction, over 20 draws each.
    full, diagonal = (np.linalg.cholesky(c) for c in (covariance, theory.rotate(mean, stddev[:, np.newaxis] ** 2
                                                                                * np.eye(2), J, U, True)[1]))
    losses = {}
    for name, (q, rotation) in {"before": (posterior, np.eye(2)), "full": (of(turned, full), U),
                                "diagonal": (of(turned, diagonal), U)}.items():
        losses[name] = np.mean([objective(model, x, q, rotation, seed)[0] for seed in range(20)], 0)
    kl_after, kl_before = (objective(model, x, *q)[1] for q in ((of(turned, full), U), (posterior, np.eye(2))))
    np.testing.assert_allclose(kl_after, kl_before, rtol=1e-4, atol=1e-4)                   # float32
    change, error = {}, {}
    for name in ("full", "diagonal"):
        difference = losses[name] - losses["before"]
        change[name], error[name] = difference.mean(), difference.std() / np.sqrt(len(difference))
    assert abs(change["full"]) < 5 * error["full"]
    assert change["diagonal"] > 20 * error["diagonal"] and change["diagonal"] > 20 * abs(change["full"])

    # The same in closed form: the deterministic ELBO, and what the best diagonal posterior costs at either rotation
    s2, output = 0.5, model.decoder(posterior.mean()).numpy().astype(np.float64)
    at_mean = theory.log_likelihood(x.numpy(), output, s2)
    H, turned_H = (theory.gauss_newton_hessian(j, output, s2) for j in (J, turned_J))
    before = theory.deterministic_elbo(at_mean, H, mean, stddev[:, np.newaxis] ** 2 * np.eye(2), model.beta)
    after = theory.deterministic_elbo(at_mean, turned_H, turned, covariance, model.beta)
    np.testing.assert_allclose(after, before, rtol=1e-9)
    costs = [theory.diagonal_cost(theory.optimal_precision(h, model.beta)).mean() for h in (H, turned_H)]
    assert costs[1] > 3 * costs[0]
