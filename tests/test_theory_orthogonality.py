"""What orthogonal columns save, which variances suit them, and which components they identify."""


import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from vae_tf import theory
from vae_tf.errors import InputError

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
    with pytest.raises(InputError, match=r"jacobians: expected full column rank .* rank 1: leave passive latents out"):
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
