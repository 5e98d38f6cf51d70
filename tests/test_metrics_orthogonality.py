import keras
import numpy as np
import pytest
import reference
from scipy.stats import ortho_group

from vae_tf import activity, jacobians
from vae_tf.errors import InputError
from vae_tf.metrics import od_score
from vae_tf.metrics.orthogonality import DISTANCES, align, column_cosine, dto, hadamard_gap, variance_norm_relation

EPS = np.finfo(np.float32).eps


def gram(J):
    return np.swapaxes(J, 1, 2) @ J


def matrix(d, n=12, seed=0, singular=None):
    """J = U diag(s) V^T with well separated s, and V."""
    rng = np.random.default_rng(seed)
    V = ortho_group.rvs(d, random_state=rng) if d > 1 else np.ones((1, 1))
    U = np.linalg.qr(rng.standard_normal((n, d)))[0]
    return U * (np.arange(1, d + 1) if singular is None else singular) @ V.T, V


def rotation(degrees):
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[c, -s], [s, c]])


@pytest.mark.parametrize("d", range(2, 9))
def test_dto_is_the_integer_programs(d):
    drawn = [matrix(d, seed=seed) for seed in range(3)]
    expected = [np.linalg.norm(V - reference.nearest_signed_permutation(V)) for _, V in drawn]
    result = dto(gram(np.stack([J for J, _ in drawn])))
    # float64 throughout; V is determined to eps (s_1 / gap)^2
    np.testing.assert_allclose(result.parts["per_example"], expected, rtol=1e-11)
    assert result.score == pytest.approx(np.mean(expected), rel=1e-11)


def test_dto_of_ties_is_the_integer_programs():
    hadamard4 = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    householder = np.eye(3) - 2 / 3
    block = np.kron(np.eye(2), rotation(45))
    for V in (hadamard4, householder, block, rotation(45)):
        d = len(V)
        expected = np.linalg.norm(V - reference.nearest_signed_permutation(V))
        J = np.diag(np.arange(1, d + 1)) @ V.T
        np.testing.assert_allclose(dto(gram(J[np.newaxis])).score, expected, rtol=1e-11)


@pytest.mark.parametrize("metric", [dto, hadamard_gap, column_cosine])
@pytest.mark.parametrize("singular", [(3.0, 2.0, 1.0), (1.0, 1.0, 1.0), (1e4, 1.0, 1e-4)])
def test_orthogonal_columns_give_zero(metric, singular):
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 40, 3)))[0]
    J = U[:, :, [2, 0, 1]] * np.array(singular) * np.array([1, -1, 1])
    for precision in (np.float64, np.float32):              # Jacobians come in float32, their orthogonality rounded
        result = metric(gram(J.astype(precision).astype(np.float64)))
        np.testing.assert_array_less(result.parts["per_example"], EPS)
    distances = od_score({"one": gram(J), "other": gram(matrix(3)[0][np.newaxis])})
    assert distances["one"].score < EPS < distances["other"].score == 1


@pytest.mark.parametrize("degrees", [5, 30, -44])
def test_a_latent_space_rotated_by_a_known_angle(degrees):
    s1, s2 = 3.0, 1.0
    J = (np.eye(6, 2) * [s1, s2]) @ rotation(degrees)
    G, t = gram(J[np.newaxis]), np.deg2rad(abs(degrees))
    # V = R^T; ||R - I||_F^2 = 4 (1 - cos t)
    np.testing.assert_allclose(dto(G).score, 2 * np.sqrt(1 - np.cos(t)), rtol=1e-12)
    norms = np.sqrt([s1**2 * np.cos(t)**2 + s2**2 * np.sin(t)**2, s1**2 * np.sin(t)**2 + s2**2 * np.cos(t)**2])
    np.testing.assert_allclose(hadamard_gap(G).score, np.log(norms.prod() / (s1 * s2)), rtol=1e-12)
    cosine = (s1**2 - s2**2) * np.sin(t) * np.cos(t) / norms.prod()
    np.testing.assert_allclose(column_cosine(G).score, cosine, rtol=1e-12)
    parts = od_score({"model": G})["model"].parts
    np.testing.assert_allclose([parts["d_u"], parts["d_sigma"], parts["d_v"]],
                               [4 * (1 - np.cos(t)), (s1 - norms[0])**2 + (s2 - norms[1])**2, 4 * (1 - np.cos(t))],
                               rtol=1e-11)
    # s_j^2 = 1 / ||c_j||^2, then one of them off by a factor e^2: log-variances spread by +-1
    stddevs = (1 / norms)[np.newaxis] * 0.1
    exact = variance_norm_relation(G, stddevs)
    np.testing.assert_allclose([exact.score, *exact.parts["slope"]], [0, 1], atol=1e-12)
    np.testing.assert_allclose(variance_norm_relation(G, stddevs * [np.e, 1]).score, 1, rtol=1e-12)


def test_a_single_example_has_no_standard_error():
    G = np.array([[[2.0, 0.5], [0.5, 1.0]]])
    assert np.isnan(dto(G).parts["standard_error"]) and dto(np.repeat(G, 2, 0)).parts["standard_error"] == 0


def test_signs_and_order_of_latents_change_nothing():
    rng = np.random.default_rng(1)
    J = rng.standard_normal((20, 9, 4))
    stddevs = rng.uniform(0.1, 0.9, (20, 4))
    order, sign = [2, 0, 3, 1], np.array([1, -1, -1, 1])
    a, b = gram(J), gram(J[:, :, order] * sign)
    for metric in (dto, hadamard_gap, column_cosine):
        np.testing.assert_allclose(metric(a).parts["per_example"], metric(b).parts["per_example"], rtol=1e-9)
    np.testing.assert_allclose(variance_norm_relation(a, stddevs).parts["per_example"],
                               variance_norm_relation(b, stddevs[:, order]).parts["per_example"], rtol=1e-9)
    np.testing.assert_allclose([*od_score({"m": a})["m"].parts.values()], [*od_score({"m": b})["m"].parts.values()],
                               rtol=1e-9)


def test_od_distances_are_those_of_the_svd_and_the_polar_factor():
    J = np.stack([matrix(4, seed=seed, singular=[5, 3, 2, 0.5])[0] for seed in range(6)])
    expected = np.mean([reference.od_distances(M) for M in J], 0)
    parts = od_score({"m": gram(J)})["m"].parts
    np.testing.assert_allclose([parts["d_u"], parts["d_sigma"], parts["d_v"]], expected, rtol=1e-7)  # sqrtm's error


def test_od_score_is_normalised_over_the_models_in_any_order():
    grams = {name: gram(matrix(3, seed=seed)[0][np.newaxis]) for seed, name in enumerate("abc")}
    scores = od_score(grams)
    again = od_score(dict(reversed(grams.items())))
    raw = {name: np.array([*result.parts.values()]) for name, result in scores.items()}
    largest = np.max([*raw.values()], axis=0)
    for name, result in scores.items():
        assert result.score == again[name].score == pytest.approx(np.mean(raw[name] / largest))
    assert od_score({"a": grams["a"]})["a"].score == 1
    one_latent = od_score({"a": grams["a"]}, active={"a": np.array([True, False, False])})["a"]
    assert one_latent.score == 0 == one_latent.parts["d_v"]


def test_column_cosine_and_gap_are_their_definitions():
    J = np.random.default_rng(2).standard_normal((7, 5, 3))
    cosine, gap = column_cosine(gram(J)).parts["per_example"], hadamard_gap(gram(J)).parts["per_example"]
    for M, c, h in zip(J, cosine, gap, strict=True):
        pairs = [abs(M[:, i] @ M[:, j]) / np.linalg.norm(M[:, i]) / np.linalg.norm(M[:, j])
                 for i in range(3) for j in range(i)]
        np.testing.assert_allclose(c, np.mean(pairs), rtol=1e-12)
        product = np.prod([np.linalg.norm(column) for column in M.T])
        np.testing.assert_allclose(h, np.log(product / np.prod(np.linalg.svd(M)[1])), rtol=1e-12)


def test_ignored_latents_are_left_out():
    J = np.random.default_rng(3).standard_normal((4, 8, 3))
    padded = np.insert(np.insert(J, 1, 0, axis=2), 4, 0, axis=2)
    for metric in (dto, hadamard_gap, column_cosine):
        np.testing.assert_allclose(metric(gram(padded)).parts["per_example"], metric(gram(J)).parts["per_example"],
                                   rtol=1e-12)
    stddevs = np.random.default_rng(4).uniform(0.1, 0.5, (4, 5))
    np.testing.assert_allclose(
        variance_norm_relation(gram(padded), stddevs).parts["per_example"],
        variance_norm_relation(gram(J), stddevs[:, [0, 2, 3]]).parts["per_example"], rtol=1e-12)
    nothing = np.zeros((2, 3, 3))
    assert dto(nothing).score == column_cosine(nothing).score == hadamard_gap(nothing).score == 0
    with pytest.raises(InputError, match="two latents that the decoder listens to"):
        variance_norm_relation(nothing, np.full((2, 3), 0.1))


def test_active_latents_alone_are_looked_at():
    J = np.random.default_rng(5).standard_normal((6, 8, 4))
    stddevs = np.tile([0.1, 1.0, 0.5, 0.98], (6, 1))
    active = activity.is_narrow(stddevs)
    assert active.tolist() == [True, False, True, False]
    factors = np.stack([np.diag(row) for row in stddevs])
    for metric, *given in [(dto,), (hadamard_gap,), (column_cosine,), (variance_norm_relation, stddevs),
                           (variance_norm_relation, factors)]:
        expected = metric(gram(J[:, :, [0, 2]]), *(stddevs[:, [0, 2]] for _ in given)).score
        result = metric(gram(J), *given, active=active)
        assert result.score == pytest.approx(expected, rel=1e-12)
        assert result.parts["active"].tolist() == active.tolist()


def test_one_latent_has_nothing_to_be_orthogonal_to():
    G = gram(np.random.default_rng(6).standard_normal((5, 7, 1)))
    assert dto(G).score == hadamard_gap(G).score == column_cosine(G).score == 0
    assert od_score({"m": G})["m"].score == 0
    with pytest.raises(InputError, match="needs two latents"):
        variance_norm_relation(G, np.full((5, 1), 0.1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_more_latents_than_data_dimensions(n):
    rng = np.random.default_rng(7)
    J, order = rng.standard_normal((10, n, 4)), [3, 1, 0, 2]
    # V's columns of the null space are arbitrary: the distance must not depend on how LAPACK picks them
    distance = dto(gram(J)).parts["per_example"]
    np.testing.assert_allclose(distance, dto(gram(J[:, :, order])).parts["per_example"], rtol=1e-9)
    one = np.linalg.svd(J[0], full_matrices=False)[2][0]
    if n == 1:      # one direction v: ||v - e_k||, k its largest entry
        np.testing.assert_allclose(distance[0], np.sqrt(2 - 2 * np.abs(one).max()), rtol=1e-9)
        np.testing.assert_allclose(column_cosine(gram(J)).score, 1, rtol=1e-12)
    with pytest.raises(InputError, match="d > n"):
        hadamard_gap(gram(J))


def test_examples_with_dependent_columns_are_said_to_be_left_out():
    J = np.random.default_rng(8).standard_normal((5, 6, 3))
    J[2, :, 1] = 2 * J[2, :, 0]
    with pytest.warns(UserWarning, match="leaves out 1 of 5"):
        result = hadamard_gap(gram(J))
    assert np.isposinf(result.parts["per_example"]).tolist() == [False, False, True, False, False]
    assert result.score == pytest.approx(hadamard_gap(gram(J[[0, 1, 3, 4]])).score)


def test_aligned_reproduces_the_matrix():
    J, _ = matrix(5)
    svd = align(gram(J[np.newaxis]))
    V, s = svd.V[0], svd.singular[0]
    np.testing.assert_allclose(V * s**2 @ V.T, gram(J[np.newaxis])[0], atol=1e-12)
    assert (np.diag(V) > 0).all() and svd.stretched.all()


@pytest.mark.parametrize(("call", "message"), [
    (lambda G, s: dto(np.full_like(G, np.nan)), "gram: expected finite values; got 45 NaN"),
    (lambda G, s: dto(G[0]), r"gram: expected .*\[N, d, d\].*got \(3, 3\)"),
    (lambda G, s: dto(G, [True, False]), r"active: expected 3 booleans, one for each latent; got"),
    (lambda G, s: dto(G, [0.1, 0.1, 1.0]), "active: expected 3 booleans"),
    (lambda G, s: dto(G, np.zeros(3, bool)), "one of them true at least; got .False False False"),
    (lambda G, s: variance_norm_relation(G, s[:2]), r"stddevs: expected shape \(5, 3\)"),
    (lambda G, s: variance_norm_relation(G, 0 * s), "stddevs: expected finite positive"),
    (lambda G, s: variance_norm_relation(G, np.nan * s), "stddevs: expected finite"),
    (lambda G, s: od_score({}), "expected a dict of at least one model"),
])
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises(InputError, match=message):
        call(gram(np.random.default_rng(9).standard_normal((5, 6, 3))), np.full((5, 3), 0.1))


def test_the_slope_is_that_of_a_regression_on_the_norms():
    rng = np.random.default_rng(10)
    G, stddevs = gram(rng.standard_normal((6, 9, 4))), rng.uniform(0.1, 0.9, (6, 4))
    x, y = -np.log(np.diagonal(G, axis1=1, axis2=2)), 2 * np.log(stddevs)
    found = variance_norm_relation(G, stddevs).parts
    np.testing.assert_allclose(found["slope"], [np.polyfit(*row, 1)[0] for row in zip(x, y, strict=True)], rtol=1e-9)
    np.testing.assert_allclose(found["per_example"], (y - x).std(1), rtol=1e-9)


def test_variances_of_a_full_covariance_are_its_diagonal():
    rng = np.random.default_rng(11)
    G, L = gram(rng.standard_normal((6, 9, 4))), np.tril(rng.uniform(0.1, 0.9, (6, 4, 4)))
    marginal = np.sqrt(np.diagonal(L @ L.swapaxes(1, 2), axis1=1, axis2=2))
    assert variance_norm_relation(G, L).score == pytest.approx(variance_norm_relation(G, marginal).score, rel=1e-12)


@pytest.mark.parametrize("metric", [dto, hadamard_gap, column_cosine])
def test_standard_errors_are_those_of_means_over_examples(metric):
    parts = metric(gram(np.random.default_rng(12).standard_normal((50, 9, 4)))).parts
    assert parts["standard_error"] == pytest.approx(parts["per_example"].std(ddof=1) / np.sqrt(50), rel=1e-12)


def test_dto_of_a_comparison_is_over_all_latents_and_the_other_distances_over_the_active_ones():
    G, active = gram(np.random.default_rng(13).standard_normal((5, 8, 3))), np.array([True, False, True])
    assert {name: of(G, active) for name, of in DISTANCES.items()} == {
        "dto": dto(G).score, "dto_active": dto(G, active).score, "column_cosine": column_cosine(G, active).score,
        "hadamard_gap": hadamard_gap(G, active).score}


@pytest.mark.parametrize("d", [4, 6])
def test_dependent_columns_of_a_decoder_in_float32(d):
    """A decoder through 3 units has a Jacobian of rank 3; in float32 the other directions are not exactly 0."""
    keras.utils.set_random_seed(0)
    decoder = keras.Sequential([keras.Input((d,)), keras.layers.Dense(3), keras.layers.Dense(1200, "relu"),
                                keras.layers.Dense(1200, "relu"), keras.layers.Dense(100)])
    gram = jacobians.gram(decoder, np.random.default_rng(0).standard_normal((10, d)).astype(np.float32)).numpy()
    assert (align(gram).stretched.sum(1) == 3).all()
    with pytest.raises(InputError, match="dependent in every example"):
        hadamard_gap(gram)
