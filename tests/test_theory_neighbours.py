"""The stochastic loss to first order, and neighbours in data and latent space."""

import itertools

import numpy as np
import pytest
from scipy.special import erf

from vae_tf import theory
from vae_tf.errors import InputError


def by_quadrature(f, M, variances):
    """sum_j E f_j((M eps)_j)^2: (M eps)_j is normal, so a rule of 80 points is exact for smooth f."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    spread = np.sqrt((M**2) @ variances)
    return sum(weights @ f(j, s * nodes) ** 2 for j, s in enumerate(spread)) / np.sqrt(2 * np.pi)


def test_the_stochastic_loss_to_first_order():
    """bhowal Lemma 1 for tanh(a + b_j), and with f(0) = 0 for the f that Proposition 4 defines."""
    rng = np.random.default_rng(5)
    M, b, variances = rng.standard_normal((4, 3)), np.array([0.4, -1.0, 0.0, 2.0]), np.array([0.02, 0.01, 0.03])
    value = np.tanh(b)
    slope, curvature = 1 - value**2, -2 * value * (1 - value**2)
    for shift in (np.zeros(4), value):                              # f = tanh(a + b), and tanh(a + b) - tanh(b)
        errors = []
        for scale in (1.0, 0.1, 0.01):
            exact = by_quadrature(lambda j, a, s=shift: np.tanh(a + b[j]) - s[j], M, scale * variances)
            first = theory.stochastic_loss(M, scale * variances, value - shift, slope, curvature)
            errors.append(abs(first - exact))
        assert errors[1] < errors[0] / 50 and errors[2] < errors[1] / 80         # second order in the variances
    # With f(0) = 0 it is the linear decoder's: E ||J eps||^2 with J = f' M (rolinek (17)).
    J = slope[:, np.newaxis] * M
    assert theory.stochastic_loss(M, variances, 0.0, slope, curvature) == pytest.approx((J**2).sum(0) @ variances)
    # One function with a closed form of its own: E erf(a)^2 = 2/pi arcsin(2 v / (1 + 2 v)) (Williams 1997).
    v = 1e-4
    exact = 2 / np.pi * np.arcsin(2 * v / (1 + 2 * v))
    assert by_quadrature(lambda j, a: erf(a), np.ones((1, 1)), np.array([v])) == pytest.approx(exact, rel=1e-10)
    assert theory.stochastic_loss(np.ones((1, 1)), [v], 0.0, 2 / np.sqrt(np.pi), 0.0) == pytest.approx(exact, rel=3 * v)


def test_nearest_neighbours_are_the_cheapest_to_be_confused_with():
    """bhowal Proposition 6 and Lemma 13, against every choice of two others."""
    x = np.random.default_rng(6).standard_normal((7, 3))
    near = theory.nearest_neighbours(x, 2)
    losses = theory.confusion_loss(x, near)
    for i in range(7):
        others = [j for j in range(7) if j != i]
        slow = {pair: sum(((x[j] - x[i]) ** 2).sum() for j in pair) for pair in itertools.combinations(others, 2)}
        assert losses[i] == pytest.approx(min(slow.values())) and tuple(sorted(near[i])) == min(slow, key=slow.get)
    copies = np.zeros((5, 2))
    for i, row in enumerate(theory.nearest_neighbours(copies, 2)):
        assert i not in row and len(set(row)) == 2
    with pytest.raises(InputError, match="neighbours: expected 1 to 6, fewer than there are examples; got 7"):
        theory.nearest_neighbours(x, 7)


def test_a_lower_kl_takes_neighbours_means_together_and_their_samples_apart():
    """bhowal Theorem 2 (b), Dist falls with the KL, fails at optima of the linear VAE: posteriors widen."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((400, 2)) * [2.0, 1.0] @ np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]
    x -= x.mean(0)
    near, C = theory.nearest_neighbours(x, 3), np.cov(x.T, bias=True)
    kls, distances, apart = [], [], []
    for beta in (0.01, 0.1, 0.5, 1.0, 3.0, 10.0):
        o = theory.linear_beta_vae(C, 2, beta, 0.5)
        mean, variance = x @ o.encoder.T, np.broadcast_to(o.variances, (400, 2))
        kls.append(o.kl)
        distances.append(theory.neighbour_distance(mean, variance, near).mean())
        apart.append(((mean[near] - mean[:, np.newaxis]) ** 2).sum((1, 2)).mean())
        z = mean + np.sqrt(variance) * rng.standard_normal((300, 400, 2))
        again = mean + np.sqrt(variance) * rng.standard_normal((300, 400, 2))      # drawn apart from z
        sampled = sum(((z - again[:, near[:, k]]) ** 2).sum(-1) for k in range(3)).mean(1)
        assert abs(sampled.mean() - distances[-1]) < 5 * sampled.std() / np.sqrt(len(sampled))
    assert (np.diff(kls) < 0).all() and (np.diff(apart) < 0).all()                   # the means do come together
    assert (np.diff(distances) > 0).all()                                            # and Dist rises all the way
    assert kls[-1] == 0 and distances[-1] == pytest.approx(3 * 2 * 2)                # to 2 d per neighbour
    # With few and distant examples the means decide, and Dist falls at first.
    far = np.diag([8.0, 4, 2])
    few = theory.nearest_neighbours(far, 1)
    sparse = [theory.neighbour_distance(far @ o.encoder.T, np.broadcast_to(o.variances, (3, 2)), few).mean()
              for o in (theory.linear_beta_vae(np.cov(far.T, bias=True), 2, b, 0.5) for b in (0.5, 3.0))]
    assert sparse[1] < sparse[0]
