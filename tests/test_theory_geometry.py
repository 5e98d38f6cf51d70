import numpy as np
import pytest
import reference
import scipy.linalg
import tensorflow as tf
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from vae_tf import data, jacobians, metrics, models, objectives, theory, training
from vae_tf.distributions import tfd

M1 = np.array([[4.0, 1], [-3, 1], [5, -1]])                                     # rolinek (24)


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


M2 = M1 @ turn(np.pi / 4).T


def test_the_worked_example_of_rolinek():
    np.testing.assert_allclose(M2, np.sqrt(2) * np.array([[1.5, 2.5], [-2, -1], [3, 2]]), atol=1e-12)
    np.testing.assert_allclose((M1**2).sum(0), [50, 3])
    np.testing.assert_allclose((M2**2).sum(0), [61 / 2, 45 / 2])
    for budget in (-1.0, 0.0, 3.0):
        variances, first = theory.precision_allocation(M1, budget)
        assert first == pytest.approx(2 * np.sqrt(150) * np.exp(-budget / 2))
        assert variances[0] / variances[1] == pytest.approx(3 / 50)
        assert -np.log(variances).sum() == pytest.approx(budget)
        assert (M1**2).sum(0) @ variances == pytest.approx(first)
        second = theory.precision_allocation(M2, budget)[1]
        assert second / first == pytest.approx(np.sqrt(61 * 45 / 4) / np.sqrt(150))
    # over all rotations the least is at orthogonal columns, where the product of the norms is the volume
    angles = np.linspace(0, np.pi / 2, 1001)
    least = min(theory.precision_allocation(M1 @ turn(a).T, 0.0)[1] for a in angles)
    volume = 2 * np.linalg.svd(M1, compute_uv=False).prod()
    assert volume <= least < volume * (1 + 1e-5) < theory.precision_allocation(M1, 0.0)[1]


def test_precision_allocation_against_an_optimiser():
    J, budget = np.random.default_rng(0).standard_normal((6, 4)), 2.0

    def loss(free):
        log_variance = np.append(free, -budget - free.sum())
        return (J**2).sum(0) @ np.exp(log_variance)

    found = minimize(loss, np.zeros(3), tol=1e-12)
    variances, minimum = theory.precision_allocation(J, budget)
    assert minimum == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(np.log(variances[:3]), found.x, atol=1e-5)       # the root of the objective's precision
    sampled = np.random.default_rng(1).standard_normal((200_000, 4)) * np.sqrt(variances) @ J.T
    squared = (sampled**2).sum(1)
    assert abs(squared.mean() - minimum) < 5 * squared.std() / np.sqrt(len(squared))


def test_push_forward_density_against_areas():
    """Brute force: the mass of a small square of z over the area of its image, cut into triangles by corner points."""
    decoder = reference.TanhDecoder(2, 3, seed=4)
    h = 1e-4
    for z in np.random.default_rng(0).standard_normal((20, 2)):
        corners = [decoder(z + h / 2 * np.array(offset)) for offset in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        area = sum(np.linalg.norm(np.cross(corners[i] - corners[0], corners[i + 1] - corners[0])) / 2 for i in (1, 2))
        mass = multivariate_normal(np.zeros(2)).pdf(z) * h**2
        density = theory.push_forward_log_density(z, decoder.jacobian(z))
        # edges are h long, known to 1e-16 |x| / h; the square's curvature is of order h^2 against 1
        assert density == pytest.approx(np.log(mass / area), abs=1e-6)


def test_push_forward_of_a_linear_decoder_is_a_gaussian_on_its_plane():
    W = np.random.default_rng(1).standard_normal((5, 3))
    U, S, _ = np.linalg.svd(W, full_matrices=False)
    z = np.random.default_rng(2).standard_normal((7, 3))
    expected = multivariate_normal(np.zeros(3), np.diag(S**2)).logpdf(z @ W.T @ U)      # x in the U-basis, allen (10)
    np.testing.assert_allclose(theory.push_forward_log_density(z, np.broadcast_to(W, (7, 5, 3))), expected, rtol=1e-12)


def orthogonal_decoder(z, basis):
    """Each latent bends along directions of its own: columns of J are orthogonal everywhere. Returns x and J."""
    curves = np.concatenate([np.sinh(z[:1]), z[1:2] ** 3 + z[1:2], np.sin(z[1:2]), np.tanh(z[2:])])
    J = scipy.linalg.block_diag(np.cosh(z[:1, np.newaxis]), [[3 * z[1] ** 2 + 1], [np.cos(z[1])]],
                                1 - np.tanh(z[2:, np.newaxis]) ** 2)
    return basis @ curves, basis @ J


def test_push_forward_factorises_for_orthogonal_columns_and_not_when_rotated():
    rng = np.random.default_rng(3)
    basis, U = np.linalg.qr(rng.standard_normal((6, 4)))[0], np.linalg.qr(rng.standard_normal((3, 3)))[0]
    for z in rng.standard_normal((10, 3)):
        J = orthogonal_decoder(z, basis)[1]
        numeric = np.stack([(orthogonal_decoder(z + e, basis)[0] - orthogonal_decoder(z - e, basis)[0]) / 2e-6
                            for e in 1e-6 * np.eye(3)], -1)
        np.testing.assert_allclose(J, numeric, rtol=1e-6, atol=1e-7)
        assert theory.split_error(z, J) == pytest.approx(0, abs=1e-12)
        # Each factor is the density of the curve that its latent draws alone: N(z_j) over the length of a step
        steps = [np.linalg.norm(orthogonal_decoder(z + e, basis)[0] - orthogonal_decoder(z - e, basis)[0]) / 2e-6
                 for e in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(theory.push_forward_factors(z, J),
                                   multivariate_normal(0).logpdf(z) - np.log(steps), atol=1e-6)
        # f(U^T z') at z' = U z is the same point of the same manifold: the density stays, the factors do not
        turned, _, rotated = theory.rotated(z, np.eye(3), J, U)
        assert theory.push_forward_log_density(turned, rotated) == pytest.approx(
            theory.push_forward_log_density(z, J), rel=1e-12)
        assert theory.split_error(turned, rotated) > 0.01
    gram = np.stack([rotated.T @ rotated])
    assert metrics.hadamard_gap(gram).score == pytest.approx(theory.split_error(turned, rotated), rel=1e-9)


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
    turned, covariance, turned_J = theory.rotated(mean, stddev[:, np.newaxis] ** 2 * np.eye(2), J, U)
    seen = jacobians.jacobian(lambda z: model.decoder(tf.matmul(z, tf.constant(U, tf.float32))),
                              tf.constant(turned, tf.float32)).numpy()
    np.testing.assert_allclose(turned_J, seen, atol=1e-4 * np.abs(J).max())                 # float32 networks

    def of(mean, lower):
        return tfd.MultivariateNormalTriL(tf.constant(mean, tf.float32), tf.constant(lower, tf.float32))

    # With a full covariance: the same KL exactly, and the same expected reconstruction, over 20 draws each.
    full, diagonal = (np.linalg.cholesky(c) for c in (covariance, theory.rotated(mean, stddev[:, np.newaxis] ** 2
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


def test_log_likelihood_does_not_see_a_rotation():
    """rolinek Proposition 2 where p(x) is known: a linear decoder."""
    W = np.random.default_rng(8).standard_normal((5, 3))
    U = np.linalg.qr(np.random.default_rng(9).standard_normal((3, 3)))[0]
    C = W @ W.T + 2 * np.eye(5)
    assert theory.linear_log_likelihood(C, W @ U.T, 0.7) == pytest.approx(theory.linear_log_likelihood(C, W, 0.7))
