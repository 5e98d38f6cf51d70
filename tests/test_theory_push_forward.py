"""The push-forward density against areas of images, and when it splits by latent."""

import numpy as np
import pytest
import reference
import scipy.linalg
from scipy.stats import multivariate_normal

from vae_tf import metrics, theory


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
        turned, _, rotated = theory.rotate(z, np.eye(3), J, U)
        assert theory.push_forward_log_density(turned, rotated) == pytest.approx(
            theory.push_forward_log_density(z, J), rel=1e-12)
        assert theory.split_error(turned, rotated) > 0.01
    gram = np.stack([rotated.T @ rotated])
    assert metrics.hadamard_gap(gram).score == pytest.approx(theory.split_error(turned, rotated), rel=1e-9)
