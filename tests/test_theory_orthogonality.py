"""Linear autoencoders, PPCA by EM, and what orthogonal columns save and identify."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from scipy.special import erf
from scipy.stats import multivariate_normal, norm

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


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_the_joint_problem_has_one_minimum_with_orthogonal_columns_everywhere():
    """rolinek Theorem 2 over three examples: from every start an optimiser ends at the closed form (a), (b)."""
    J, budget = np.random.default_rng(0).standard_normal((3, 4, 2)), 5.0
    V, variances, minimum = theory.joint_precision_allocation(J, budget)
    assert -np.log(variances).sum() == pytest.approx(budget)
    turned = J @ V
    np.testing.assert_allclose((turned[..., 0] * turned[..., 1]).sum(1), 0, atol=1e-12)

    def loss(flat):
        angles, log_variances = flat[:3], np.append(flat[3:], -budget - flat[3:].sum()).reshape(3, 2)
        squared = [((J[i] @ turn(angles[i])) ** 2).sum(0) for i in range(3)]
        return sum(np.log(squared[i] @ np.exp(log_variances[i])) for i in range(3))

    assert sum(np.log((turned[i] ** 2).sum(0) @ variances[i]) for i in range(3)) == pytest.approx(minimum, rel=1e-12)
    rng, shares = np.random.default_rng(1), []
    for _ in range(6):
        found = minimize(loss, 2 * rng.standard_normal(8), method="BFGS", options={"gtol": 1e-9})
        assert found.fun == pytest.approx(minimum, abs=1e-10) and found.fun >= minimum - 1e-12
        for i in range(3):
            columns = J[i] @ turn(found.x[i])
            assert abs(columns[:, 0] @ columns[:, 1]) < 1e-3               # the root of the objective's precision
        shares.append(found.x[3] + found.x[4])
    assert np.std(shares) > 0.1                                            # how examples share the budget is open
    one = theory.joint_precision_allocation(J[:1] @ V[:1], budget)         # already orthogonal: Corollary 1
    assert np.exp(one[2]) == pytest.approx(theory.precision_allocation(J[0] @ V[0], budget)[1], rel=1e-12)
    with pytest.raises(InputError, match=r"jacobian: expected full column rank .* rank 1: leave passive latents out"):
        theory.joint_precision_allocation(np.ones((1, 4, 2)), 1.0)


def test_orthogonal_columns_need_less_kl_for_the_same_loss():
    """bhowal Lemma 5, by an optimiser of the KL under a bound on E ||J eps||^2, before and after the rotation."""
    J, loss = np.random.default_rng(2).standard_normal((5, 3)), 0.7
    orthogonal = J @ np.linalg.svd(J)[2].T

    def least_kl(M):
        squared = (M**2).sum(0)

        def kl(free):                  # variances in shares of the loss: ||c_j||^2 s_j^2 = loss * softmax
            shares = np.exp(np.append(free, 0) - np.logaddexp.reduce(np.append(free, 0)))
            return -np.log(loss * shares / squared).sum() / 2

        return minimize(kl, np.ones(2), options={"gtol": 1e-10}).fun

    saving = theory.kl_saving(J)
    assert saving == pytest.approx(least_kl(J) - least_kl(orthogonal), abs=1e-9) and saving > 0.1
    assert saving == pytest.approx(theory.split_error(np.zeros(3), J), rel=1e-9)      # the Hadamard gap
    assert theory.kl_saving(orthogonal) == pytest.approx(0, abs=1e-12)
    # The proof's last bound, log Sing(M_D) - log Sing(M_ortho) > 0, is 0: rotations leave singular values.
    np.testing.assert_allclose(np.linalg.svd(J)[1], np.linalg.svd(orthogonal)[1], rtol=1e-12)
    batch = theory.kl_saving(np.stack([J, orthogonal]))
    np.testing.assert_allclose(batch, [saving, 0], atol=1e-12)


def test_a_linear_vae_identifies_the_components_of_its_data():
    """allen Corollary 1.1: the decoder's columns are the components, up to signs and order; W's own are not."""
    rng = np.random.default_rng(3)
    W, s2 = rng.standard_normal((8, 3)), 0.3
    found = theory.components(W)
    assert found.identified.all()
    D = theory.linear_beta_vae(W @ W.T + s2 * np.eye(8), 3, 1.0, s2).decoder
    P, error = theory.match_components(found.directions * found.scales, D)
    assert error < 1e-9
    np.testing.assert_array_equal(np.abs(P).sum(0), 1)
    assert theory.match_components(W, D)[1] > 0.1
    # They are independent: along them x - noise is N(0, scale^2), Theorem 1 and its first remark.
    x = rng.standard_normal((200_000, 3)) @ W.T @ found.directions
    np.testing.assert_allclose(np.cov(x.T), np.diag(found.scales**2), atol=6 * found.scales[0] ** 2 / np.sqrt(200_000))
    # With equal singular values another decoder gives the same data, and nothing tells which one did.
    even = np.linalg.qr(W)[0] * 2
    other = even @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert not theory.components(even).identified.any()
    np.testing.assert_allclose(even @ even.T, other @ other.T, atol=1e-12)
    assert theory.match_components(even, other)[1] > 0.1
    assert list(theory.components(np.diag([3.0, 3, 1])).identified) == [False, False, True]


def curves(z):
    """A decoder R^2 -> R^4 with orthogonal columns everywhere, whose slopes differ; x and J."""
    x = np.array([np.sinh(z[0]), z[0], 2 * z[1] + z[1] ** 3, np.cos(z[1])])
    return x, scipy.linalg.block_diag([[np.cosh(z[0])], [1.0]], [[2 + 3 * z[1] ** 2], [-np.sin(z[1])]])


def test_components_are_matched_over_decoders_of_one_density():
    """With f, f after a signed permutation, and f after a rotation that keeps the density (allen Corollary 2.1)."""
    rng = np.random.default_rng(4)
    swap, R = np.array([[0.0, -1], [1, 0]]), turn(0.5)
    for z in rng.standard_normal((5, 2)):
        J = curves(z)[1]
        assert theory.components(J).identified.all()
        for U, orthogonal in ((swap, True), (R, False)):
            G = J @ U.T                                    # of g(z') = f(U^T z') at z' = U z: the same point
            assert theory.push_forward_log_density(U @ z, G) == pytest.approx(theory.push_forward_log_density(z, J))
            P, error = theory.match_components(J, G)
            assert (error < 1e-12) == orthogonal == (theory.kl_saving(G) < 1e-12)
            if orthogonal:
                np.testing.assert_allclose(theory.push_forward_factors(z, J) @ np.abs(P),
                                           theory.push_forward_factors(U @ z, G), atol=1e-12)
    # Where slopes are everywhere the same the rotated decoder has orthogonal columns, too: not identified.
    even = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    assert theory.kl_saving(even @ R.T) < 1e-12 and theory.match_components(even, even @ R.T)[1] > 0.1
    assert not theory.components(even).identified.any()


def polar(z):
    """Two independent normal latents as radius and angle of a standard normal point of the plane; x and J."""
    r, angle = np.sqrt(-2 * norm.logsf(z[0])), 2 * np.pi * norm.cdf(z[1])
    across, along = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    slopes = [norm.pdf(z[0]) / (norm.sf(z[0]) * r), 2 * np.pi * norm.pdf(z[1]) * r]
    return r * across, np.column_stack([slopes[0] * across, slopes[1] * along])


def test_distinct_slopes_do_not_identify_a_decoder():
    """allen Corollary 2.1, its second sentence: data from `polar`, whose slopes are distinct functions of z, are those
    of the decoder x = z, whose columns are orthogonal as well, and whose posterior is exactly normal."""
    rng, errors = np.random.default_rng(8), []
    for z in rng.standard_normal((20, 2)):
        x, J = polar(z)
        numeric = np.stack([(polar(z + e)[0] - polar(z - e)[0]) / 2e-6 for e in 1e-6 * np.eye(2)], -1)
        np.testing.assert_allclose(J, numeric, rtol=1e-6, atol=1e-7)
        assert theory.kl_saving(J) < 1e-12 and theory.components(J).identified.all()
        # One density on one manifold: the standard normal's of the plane, which has the decoder x = z.
        density = theory.push_forward_log_density(z, J)
        assert density == pytest.approx(multivariate_normal(np.zeros(2)).logpdf(x), rel=1e-9)
        assert density == pytest.approx(theory.push_forward_log_density(x, np.eye(2)), rel=1e-9)
        errors.append(theory.match_components(J, np.eye(2))[1])
    assert min(errors) > 0.05 and np.median(errors) > 0.5


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
