"""The linear autoencoder and PPCA by EM."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal

from vae_tf import theory
from vae_tf.errors import InputError


def covariance_of(n, seed):
    A = np.random.default_rng(seed).standard_normal((n, n + 2))
    return A @ A.T / n


def test_a_linear_autoencoder_is_pca_up_to_any_mixing():
    """rolinek (6), (7): against an optimiser with all weights free, which stops at another mixing of the same plane."""
    C, rng = covariance_of(5, 0), np.random.default_rng(0)
    Y, encoder, loss = theory.linear_autoencoder(C, 2)
    np.testing.assert_allclose(Y.T @ Y, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(encoder, Y.T, atol=1e-12)
    assert theory.autoencoder_loss(C, Y, encoder) == pytest.approx(loss, rel=1e-12)
    found = minimize(lambda flat: theory.autoencoder_loss(C, flat[:10].reshape(5, 2), flat[10:].reshape(2, 5)),
                     rng.standard_normal(20), method="BFGS", options={"gtol": 1e-7})
    assert loss == pytest.approx(found.fun, rel=1e-9) and found.fun >= loss - 1e-12
    free, free_encoder = found.x[:10].reshape(5, 2), found.x[10:].reshape(2, 5)
    np.testing.assert_allclose(free @ free_encoder, Y @ encoder, atol=1e-4)      # the root of what the optimiser leaves
    assert np.abs(free.T @ free - np.diag(np.diag(free.T @ free))).max() > 0.01  # its latents are not PCA's
    x = rng.multivariate_normal(np.zeros(5), C, 100_000)
    for G in (rng.standard_normal((2, 2)), np.diag([2.0, 0.1]) @ np.linalg.qr(rng.standard_normal((2, 2)))[0]):
        mixed, mixed_encoder, same = theory.linear_autoencoder(C, 2, G)
        assert same == loss == pytest.approx(theory.autoencoder_loss(C, mixed, mixed_encoder), rel=1e-9)
        np.testing.assert_allclose(mixed_encoder, np.linalg.pinv(mixed), atol=1e-9)              # Y' = Y^+, Example 1
        squared = ((x - x @ mixed_encoder.T @ mixed.T) ** 2).sum(1)
        assert abs(squared.mean() - loss) < 5 * squared.std() / np.sqrt(len(x))
    with pytest.raises(InputError, match="mixing: expected an invertible matrix"):
        theory.linear_autoencoder(C, 2, np.ones((2, 2)))
    with pytest.raises(InputError, match="latents: expected 1 to 5"):
        theory.linear_autoencoder(C, 6)


def test_a_rotation_keeps_the_reconstruction_and_loses_the_meaning():
    """rolinek (5): its matrix is a rotation to the two digits printed; the autoencoder does not see it, a VAE does."""
    printed = np.array([[0.75, 0.25, 0.61], [0.25, 0.75, -0.61], [-0.61, 0.61, 0.50]])
    U = Rotation.from_rotvec(-np.pi / 3 * np.array([1, 1, 0]) / np.sqrt(2)).as_matrix()
    U = U if np.abs(U - printed).max() < 0.01 else U.T
    np.testing.assert_allclose(U, printed, atol=0.005)
    C = np.diag([4.0, 2, 1, 0.1])
    _, encoder, loss = theory.linear_autoencoder(C, 3)
    turned, turned_encoder, same = theory.linear_autoencoder(C, 3, U.T)          # the encoder is followed by U
    np.testing.assert_allclose(turned_encoder, U @ encoder, atol=1e-12)
    assert theory.autoencoder_loss(C, turned, turned_encoder) == pytest.approx(loss) == same
    assert (np.sort(np.abs(turned_encoder), 1)[:, -2] > 0.5).all()               # every latent mixes two directions
    # The linear VAE's optimum has one direction to a latent; after U all latents share all three, and it is worse.
    o = theory.linear_beta_vae(C, 3, 1.0, 0.1)
    assert theory.turn_angle(C, o.decoder @ U.T, 1.0, 0.1) > 29
    worse = theory.linear_terms(C, o.decoder @ U.T, *theory.linear_encoder(o.decoder @ U.T, 1.0, 0.1), 0.1)
    assert sum(worse) > o.reconstruction + o.kl + 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_ppca_by_em_climbs_to_the_closed_form_but_for_a_rotation(seed):
    C = covariance_of(6, 3)
    exact = theory.ppca(C, 2)
    fitted, likelihoods = theory.ppca_by_em(C, 2, seed=seed)
    assert (np.diff(likelihoods) > -1e-12 * abs(likelihoods[-1])).all() and len(likelihoods) > 10      # never falls
    # It stops where a step gains 1e-12 of the likelihood, at a rate that leaves some hundred times that to gain.
    assert fitted.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-9) == likelihoods[-1]
    assert fitted.noise_variance == pytest.approx(exact.noise_variance, rel=1e-3)
    np.testing.assert_allclose(fitted.weights @ fitted.weights.T, exact.weights @ exact.weights.T, atol=1e-3)
    assert np.abs((fitted.weights.T @ fitted.weights)[0, 1]) > 0.01              # columns are not orthogonal: R is free
    first = theory.ppca_by_em(C, 2, steps=1, seed=seed)[0]
    assert first.log_likelihood == pytest.approx(em_step(C, 2, seed), rel=1e-9)


def em_step(C, latents, seed):
    """One step of EM with data in place of moments: 6 points whose covariance is C, expectations example by example."""
    x = np.sqrt(len(C)) * np.linalg.cholesky(C).T
    s2 = np.trace(C) / len(C)
    W = np.sqrt(s2) * np.random.default_rng(seed).standard_normal((len(C), latents))
    E = s2 * np.linalg.inv(W.T @ W + s2 * np.eye(latents))
    means = [np.linalg.inv(W.T @ W + s2 * np.eye(latents)) @ W.T @ point for point in x]
    W = sum(np.outer(p, m) for p, m in zip(x, means, strict=True)) @ np.linalg.inv(
        sum(E + np.outer(m, m) for m in means))
    s2 = np.mean([p @ p - 2 * m @ W.T @ p + np.trace((E + np.outer(m, m)) @ W.T @ W)
                  for p, m in zip(x, means, strict=True)]) / len(C)
    return np.mean(multivariate_normal(np.zeros(len(C)), W @ W.T + s2 * np.eye(len(C))).logpdf(x))


def test_ppca_by_em_refuses_what_has_no_maximum():
    x = np.random.default_rng(0).standard_normal((30, 2)) @ np.ones((2, 5))
    with pytest.raises(InputError, match="covariance: expected noise that 1 latents do not explain"):
        theory.ppca_by_em(np.cov(x.T), 1)
    with pytest.raises(InputError, match="latents: expected 1 to 2, fewer than the size of the data; got 3"):
        theory.ppca_by_em(np.eye(3), 3)
