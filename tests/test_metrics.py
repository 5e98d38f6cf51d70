"""Metrics against slow oracles, hand-computed numbers, and codes whose score is known."""

import warnings

import numpy as np
import pytest
import reference

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import readout, result, splitting
from vae_tf.metrics.importance import concentration

EXACT = 1e-6      # what is asked of the published protocols


def noisy(rows=400, seed=0, sizes=(3, 4, 5)):
    """Codes that follow factors, mixed and with noise."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, rows) for size in sizes], -1)
    mixing = rng.standard_normal((len(sizes), 4)) / 3 + np.eye(len(sizes), 4)
    return factors / factors.std(0) @ mixing + 0.3 * rng.standard_normal((rows, 4)), factors


def grid(*sizes, copies=1):
    """Every combination of factor values, `copies` times: int [N, K]."""
    cells = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))
    return np.tile(cells, (copies, 1))


# The published protocols, and slow oracles


def test_information_metrics_equal_the_published_protocol():
    codes, factors = noisy()
    assert metrics.mig(codes, factors).score == pytest.approx(reference.mig(codes, factors), abs=EXACT)
    assert metrics.mig_sup(codes, factors).score == pytest.approx(reference.mig_sup(codes, factors), abs=EXACT)
    assert metrics.modularity(codes, factors).score == pytest.approx(reference.modularity(codes, factors), abs=EXACT)


def test_sap_equals_the_published_protocol():
    codes, factors = noisy(300)
    train, test = splitting.split_rows(300, 1 / 3, 0)
    table = reference.sap_matrix(codes[train], factors[train], codes[test], factors[test])
    top = np.sort(table, axis=0)
    sap = metrics.sap(codes, factors)
    np.testing.assert_allclose(sap.parts["score_matrix"], table, atol=EXACT)
    assert sap.score == pytest.approx((top[-1] - top[-2]).mean(), abs=EXACT)


def test_sap_of_continuous_factors_is_a_gap_of_squared_correlations():
    codes, factors = noisy()
    train, _ = splitting.split_rows(len(codes), 1 / 3, 0)
    r = np.corrcoef(codes[train].T, factors[train].T)[:4, 4:]
    top = np.sort(r**2, axis=0)
    assert metrics.sap(codes, factors, kinds="continuous").score == pytest.approx((top[-1] - top[-2]).mean(), abs=1e-12)


def test_explicitness_equals_the_published_protocol():
    codes, factors = noisy(300)
    train, test = splitting.split_rows(300, 1 / 3, 0)
    expected = reference.explicitness(codes[train], factors[train], codes[test], factors[test])
    assert metrics.explicitness(codes, factors).score == pytest.approx(expected, abs=EXACT)


def test_unsupervised_scores_equal_the_published_protocol():
    codes, _ = noisy()
    total, distance, normalised = reference.gaussian_correlations(codes)
    wasserstein = metrics.METRICS["wasserstein_correlation"](codes)
    assert metrics.METRICS["total_correlation"](codes).score == pytest.approx(total, abs=EXACT)
    assert wasserstein.score == pytest.approx(distance, abs=EXACT)
    assert wasserstein.parts["normalised"] == pytest.approx(normalised, abs=EXACT)
    pairs = [reference.mutual_information(reference.binned(a).tolist(), reference.binned(b).tolist())
             for i, a in enumerate(codes.T) for j, b in enumerate(codes.T) if i != j]
    assert metrics.METRICS["mutual_information"](codes).score == pytest.approx(np.mean(pairs), abs=EXACT)


@pytest.mark.parametrize("regression", [False, True])
def test_disentanglement_score_against_loops(regression):
    codes, factors = noisy(200)
    train, test = splitting.split_rows(200, 0.2, 0)
    scored = metrics.disentanglement_score(codes, factors, kinds="ordinal" if regression else "categorical")
    performance = [[reference.neighbour_performance(z[train], v[train], z[test], v[test], regression)
                    for v in factors.T] for z in codes.T]
    np.testing.assert_allclose(scored.parts["performance"], performance, atol=1e-12)
    normaliser = [v[test].std() if regression else np.bincount(v[test]).max() / len(test) for v in factors.T]
    np.testing.assert_allclose(scored.parts["normaliser"], normaliser, atol=1e-12)
    top = np.sort(performance, axis=0)
    assert scored.score == pytest.approx(np.mean((top[-1] - top[-2]) / normaliser), abs=1e-12)


def test_dci_scores_of_an_importance_matrix():
    importance = np.random.default_rng(0).dirichlet(np.ones(4), 3).T
    disentanglement, completeness = reference.dci_scores(importance)
    # The published code adds 1e-11 before the entropy: 1e-9 covers what that moves.
    assert concentration(importance)[0] == pytest.approx(disentanglement, abs=1e-9)
    assert concentration(importance.T)[1].mean() == pytest.approx(completeness, abs=1e-9)


def test_dci_importance_is_sklearns():
    from sklearn.ensemble import GradientBoostingClassifier
    codes, factors = noisy(90, sizes=(2, 3))
    train, _ = splitting.split_rows(90, 1 / 3, 3)
    expected = np.stack([GradientBoostingClassifier(random_state=3).fit(codes[train], v[train]).feature_importances_
                         for v in factors.T], -1)
    np.testing.assert_allclose(metrics.dci(codes, factors, seed=3).parts["importance"], expected, atol=1e-12)


def test_mcc_tries_every_matching():
    codes, factors = noisy()
    assert metrics.mcc(codes, factors).score == pytest.approx(reference.mcc(codes, factors), abs=1e-12)


def test_spearman_of_mcc_sees_through_warping():
    _, factors = noisy()
    warped = np.exp(3.0 * factors)
    assert metrics.mcc(warped, factors).score < 0.95
    assert metrics.mcc(warped, factors).parts["spearman"] == pytest.approx(1)


# Hand-computed


def test_mig_by_hand():
    # v over 4 rows, z0 = v, z1 tells {0, 1} from {2, 3}: I(z1; v0) = log 2 of H(v0) = log 4, so the gap is 1/2.
    factors = np.array([[0], [1], [2], [3]]).repeat(3, 0)
    codes = np.concatenate([factors, factors // 2], axis=1).astype(float)
    scored = metrics.mig(codes, factors)
    assert scored.score == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(scored.parts["mutual_information"][:, 0], [np.log(4), np.log(2)], atol=1e-12)


def test_modularity_by_hand():
    # z0 = v0, z1 = both factors: deviation 0 and 1 of K - 1 = 1; a dead z2 counts 0.
    factors = grid(2, 2, copies=3)
    codes = np.stack([factors[:, 0], 2 * factors[:, 0] + factors[:, 1], np.zeros(12)], -1)
    scored = metrics.modularity(codes, factors)
    np.testing.assert_allclose(scored.parts["per_latent"], [1, 0, 0], atol=1e-12)
    assert scored.parts["active_only"] == pytest.approx(0.5)


def test_concentration_by_hand():
    score, each, weight = concentration(np.array([[1.0, 0], [0.5, 0.5], [0, 0]]))
    np.testing.assert_allclose(each, [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(weight, [0.5, 0.5, 0], atol=1e-12)
    assert score == pytest.approx(0.5)
    assert concentration(np.zeros((3, 2)))[0] == 0
    assert concentration(np.ones((3, 1)))[0] == 1


def test_total_correlation_by_hand():
    z = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert metrics.METRICS["total_correlation"](z).score == pytest.approx(0, abs=1e-12)
    turned = np.stack([z[:, 0], 0.6 * z[:, 0] + 0.8 * z[:, 1]], -1)      # correlation 0.6
    assert metrics.METRICS["total_correlation"](turned).score == pytest.approx(-0.5 * np.log(1 - 0.36), abs=1e-12)
    # Eigenvalues 1 + r and 1 - r of a covariance with unit diagonal, here times 4/3: N - 1 for N.
    expected = 4 / 3 * (4 - 2 * (np.sqrt(1.6) + np.sqrt(0.4)))
    assert metrics.METRICS["wasserstein_correlation"](turned).score == pytest.approx(expected, abs=1e-12)


def test_mutual_information_of_copies_is_their_entropy():
    z = np.repeat(np.arange(4.0), 5)[:, np.newaxis]
    assert metrics.METRICS["mutual_information"](np.hstack([z, z])).score == pytest.approx(np.log(4), abs=1e-12)


def test_active_units_by_hand():
    codes = np.array([[0.0, 0, 5], [0.3, 0.1, 5]])       # variances 0.0225, 0.0025, 0
    assert metrics.active_units(codes).score == 1


# Perfect, useless, duplicated, rotated, partly dead codes

SIZES = (3, 4, 5)
PERFECT_SCORES = {
    "mig": 1, "mig_sup": 1, "modularity": 1, "mcc": 1, "explicitness": 1, "dci_fast": 1, "downstream_logistic": 1,
    "beta_vae_score": 1, "factor_vae_score": 1, "irs": 1, "total_correlation": 0, "wasserstein_correlation": 0,
    "mutual_information": 0,
}


def standardised(factors):
    return (factors - factors.mean(0)) / factors.std(0)


def score(name, codes, factors):
    with warnings.catch_warnings(action="ignore"):
        return metrics.METRICS[name].measure(metrics.Context(codes, factors)).score


@pytest.mark.parametrize("name", PERFECT_SCORES)
def test_perfect_codes(name):
    factors = grid(*SIZES, copies=5)
    scaled = 30 * standardised(factors)      # far from the regularisation of logistic regression
    unscaled = standardised(factors)
    # Boosted trees go on splitting where rounding alone is left to gain.
    assert score(name, unscaled if name == "wasserstein_correlation" else scaled, factors) == pytest.approx(
        PERFECT_SCORES[name], abs=1e-4 if name == "dci_fast" else 1e-6)


def test_perfect_codes_in_regression_exceed_one():
    # rolinek S65-S71: a useless latent's kNN has rmse std sqrt(1 + 1/k), so the gap is 1.095 std at k = 5.
    v = np.random.default_rng(0).uniform(size=(20_000, 2))
    scored = metrics.disentanglement_score(v, v)
    assert scored.score == pytest.approx(np.sqrt(1.2), abs=0.02)     # 4,000 test rows: 1/sqrt(4,000) = 0.016
    assert scored.parts["bounded"] == pytest.approx(1, abs=1e-3)
    # ... and in classification they reach the number of classes.
    factors = grid(4, 4, copies=100)
    assert metrics.disentanglement_score(factors.astype(float), factors).score > 2


@pytest.mark.parametrize("name", ["mig", "mig_sup", "mcc", "sap", "dci_fast", "disentanglement_score"])
def test_useless_codes(name):
    rng = np.random.default_rng(0)
    factors = grid(*SIZES, copies=50)
    assert score(name, rng.standard_normal((len(factors), 4)), factors) < 0.1


@pytest.mark.parametrize(("name", "chance"), [("explicitness", 1 / 2), ("beta_vae_score", 1 / 3),
                                              ("factor_vae_score", 1 / 3)])
def test_useless_codes_score_chance(name, chance):
    factors = grid(*SIZES, copies=50)
    codes = np.random.default_rng(0).standard_normal((len(factors), 4))
    # 1,000 test rows in 12 classes, or 5,000 votes; a vote that is wrong by luck of the pool is wrong every time.
    assert score(name, codes, factors) == pytest.approx(chance, abs=0.06)


@pytest.mark.parametrize("name", ["mig", "disentanglement_score", "sap"])
def test_duplicated_codes_leave_no_gap(name):
    factors = grid(*SIZES, copies=10)
    codes = standardised(factors)
    assert score(name, np.hstack([codes, codes]), factors) == pytest.approx(0, abs=1e-12)


def test_duplicated_codes_keep_what_does_not_count_copies():
    factors = grid(*SIZES, copies=10)
    codes = np.tile(standardised(factors), 2)
    for name in ("mig_sup", "modularity", "irs"):
        assert score(name, codes, factors) == pytest.approx(1, abs=1e-12)
    completeness = metrics.dci_fast(codes, factors).parts["completeness"]
    assert metrics.dci_fast(codes, factors).score == pytest.approx(1) and completeness <= 1


def test_duplicated_codes_have_infinite_total_correlation():
    codes = np.tile(np.random.default_rng(0).standard_normal((100, 2)), 2)
    with pytest.warns(UserWarning, match="linear function"):
        assert metrics.METRICS["total_correlation"](codes).score == np.inf


@pytest.mark.parametrize("name", ["mig", "mig_sup", "modularity", "mcc", "disentanglement_score", "sap", "dci_fast",
                                  "factor_vae_score", "irs"])
def test_rotated_codes_score_less(name):
    factors = grid(*SIZES, copies=20)
    codes = standardised(factors)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    assert score(name, codes @ rotation, factors) < score(name, codes, factors) - 0.05


def test_rotation_fools_the_beta_vae_score():
    factors = grid(*SIZES, copies=20)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    assert score("beta_vae_score", 30 * standardised(factors) @ rotation, factors) > 0.8       # chance is 1/3


@pytest.mark.parametrize("name", ["mig", "mig_sup", "mcc", "disentanglement_score", "sap", "dci_fast", "explicitness",
                                  "downstream_logistic", "factor_vae_score", "irs", "total_correlation",
                                  "wasserstein_correlation"])
def test_dead_latents_change_nothing(name):
    factors = grid(*SIZES, copies=10)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    codes = standardised(factors) @ rotation
    padded = np.hstack([codes, np.full((len(codes), 2), 0.1)])
    assert score(name, padded, factors) == pytest.approx(score(name, codes, factors), abs=0.02)


# The traps


def test_one_outlier_ruins_equal_width_bins_and_not_quantiles():
    factors = grid(5, 5, copies=20)
    codes = standardised(factors) + 0.01 * np.random.default_rng(0).standard_normal(factors.shape)
    spoilt = codes.copy()
    spoilt[0] = 1e6
    assert metrics.mig(codes, factors).score > 0.95
    assert metrics.mig(spoilt, factors).score < 0.05
    assert metrics.mig(spoilt, factors, binning="quantile").score > 0.9


@pytest.mark.parametrize(("rows", "floor"), [(10_000, 0.010), (1_000, 0.10)])
def test_noise_floor_of_mig(rows, floor):
    """Chance codes know (bins - 1)(values - 1) / 2N nats of a factor; their gap is far less, and never 0."""
    sizes, seeds, latents = np.array((3, 6, 40, 32, 32)), 5, 10
    scores = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        scores.append(metrics.mig(rng.uniform(size=(rows, latents)), rng.integers(0, sizes, (rows, 5))))
    nats = np.mean([s.parts["mutual_information"].mean(0) for s in scores], axis=0)
    freedom = 19 * (sizes - 1)       # 2N I is chi-squared; the next order is 1/6 over the expected count of a cell
    error = 5 * np.sqrt(2 * freedom / (seeds * latents)) / freedom + 20 * sizes / (6 * rows)
    dense = rows / (20 * sizes) >= 5        # that expansion needs some examples in every cell
    assert (np.abs(nats / (freedom / (2 * rows)) - 1) < error)[dense].all()
    assert nats[2] / np.log(40) == pytest.approx(floor, rel=0.2)      # the largest factor's share of its entropy
    assert 0 < np.mean([s.score for s in scores]) < floor / 10


def test_dci_is_seeded():
    codes, factors = noisy(90, sizes=(2, 3))
    for name in ("dci", "dci_fast"):
        first, second = (metrics.METRICS[name](codes, factors, seed=1) for _ in range(2))
        assert first.score == second.score
        assert first.score != metrics.METRICS[name](codes, factors, seed=2).score


def test_a_constant_code_does_not_win_factor_vaes_argmin():
    factors = grid(*SIZES, copies=10)
    codes = np.hstack([standardised(factors), np.full((len(factors), 1), 0.3)])
    scored = metrics.factor_vae_score(metrics.sampler(codes, factors))
    assert scored.score == 1
    assert scored.parts["votes"][3].sum() == 0 and not scored.parts["active"][3]


def test_factor_vae_score_without_active_latents_is_zero():
    factors = grid(*SIZES)
    with pytest.warns(UserWarning, match="no latent"):
        assert metrics.factor_vae_score(metrics.sampler(1e-3 * factors, factors)).score == 0


def test_irs_counts_active_latents():
    factors = grid(*SIZES, copies=2)
    codes = np.hstack([7 * standardised(factors), np.zeros((len(factors), 2))])
    scored = metrics.irs(metrics.sampler(codes, factors))
    assert scored.parts["active_latents"] == 3 and scored.score == pytest.approx(1)


def test_a_class_absent_from_the_test_part_does_not_crash_explicitness():
    codes, factors = noisy(300)
    train, test = splitting.split_rows(300, 1 / 3, 0)
    factors = factors.copy()
    factors[test, 0] = np.minimum(factors[test, 0], 1)      # class 2 of factor 0 is in the training part alone
    factors[train, 1] = np.minimum(factors[train, 1], 2)    # class 3 of factor 1 in the test part alone
    assert 0.5 < metrics.explicitness(codes, factors).score <= 1


def test_roc_area_of_the_classes_there_are():
    v, known = np.array([0, 0, 1, 1]), np.array([0, 1, 5])
    probability = np.array([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.4, 0.6, 0.0], [0.1, 0.7, 0.2]])
    expected = np.mean([reference.roc_area(v == c, probability[:, c]) for c in (0, 1)])
    assert readout.mean_roc_area(v, probability, known) == pytest.approx(expected)
    assert np.isnan(readout.mean_roc_area(np.zeros(4, int), probability, known))


@pytest.mark.parametrize("rows", [9, 1_000, 10_000])       # rounding grows with the number of rows
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-30])
def test_mcc_of_a_constant_latent_is_zero(rows, value):
    factors = np.random.default_rng(0).integers(0, 3, (rows, 2))
    assert metrics.mcc(np.full((rows, 2), value), factors).score == 0
    half = metrics.mcc(np.column_stack([factors[:, 0], np.full(rows, value)]), factors)
    assert half.parts["correlation"][1].max() == 0 and half.score == pytest.approx(0.5)


# Interventions


def test_a_sampler_that_encodes_when_asked():
    factors = grid(*SIZES, copies=2)
    encoded = metrics.Sampler(lambda indices: standardised(factors)[indices], factors)
    for metric in [metrics.beta_vae_score, metrics.factor_vae_score, metrics.irs]:
        assert metric(encoded).score == metric(metrics.sampler(standardised(factors), factors)).score


def test_beta_vae_score_needs_two_factors():
    with pytest.raises(InputError, match="at least two"):
        metrics.beta_vae_score(metrics.sampler(np.random.default_rng(0).standard_normal((20, 2)), grid(4, copies=5)))


# Inputs


ALL = sorted(metrics.names("metrics"))
HEAVY = [name for name in ALL if metrics.METRICS[name].cost == "minutes"]
UNSUPERVISED = [name for name in ALL if not metrics.METRICS[name].is_supervised]


def called(name, codes, factors):
    return metrics.METRICS[name].measure(metrics.Context(codes, factors, stddevs=np.full(np.shape(codes), 0.1)))


@pytest.mark.parametrize("name", ALL)
def test_nan_and_infinity_are_refused(name):
    codes, factors = noisy(60)
    for bad in (np.nan, np.inf):
        codes[3, 1] = bad
        with pytest.raises(InputError, match="codes: expected finite values; got 1 NaN or infinite"):
            called(name, codes, factors)


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSUPERVISED])
def test_shapes_that_disagree_and_constant_factors_are_refused(name):
    codes, factors = noisy(60)
    with pytest.raises(InputError, match="factors: expected 60 rows, as many as codes; got 59"):
        called(name, codes, factors[:-1])
    if name != "mcc":
        with pytest.raises(InputError, match="factors: expected"):
            called(name, codes, np.full((60, 2), 7))
    else:
        assert called(name, codes, np.full((60, 2), 7)).score == 0


@pytest.mark.parametrize("codes", [[1.0, 2.0], np.zeros((0, 3)), [["a"]], np.zeros((2, 2), complex)])
def test_codes_of_another_kind_are_refused(codes):
    with pytest.raises(InputError, match=r"codes: expected a non-empty array of real numbers \[N, columns\]"):
        metrics.mig(codes, [[0], [1]])


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSUPERVISED + HEAVY])
def test_a_constant_factor_is_left_out(name):
    codes, factors = noisy(120)
    more = np.hstack([factors, np.full((120, 1), 3)])
    with warnings.catch_warnings(action="ignore"):
        scored = called(name, codes, more).score
    assert np.isfinite(scored)
    if name != "mcc":       # which counts it as a factor that no latent follows
        assert scored == pytest.approx(called(name, codes, factors).score, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if name not in HEAVY])
def test_float_factors_of_10_000_values_and_one_latent_and_five_rows(name):
    """Each gives a finite score, or one clear error."""
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(10_000, 2))
    quick = {"dci_fast": 500, "explicitness": 2_000, "downstream_logistic": 2_000}.get(name, 10_000)
    quick = 1_000 if name in ("mig_posterior", "mig_sup_posterior", "elbo_decomposition") else quick
    assert np.isfinite(called(name, v[:quick], v[:quick]).score)
    codes, factors = noisy(200)
    with warnings.catch_warnings(action="ignore"):
        assert np.isfinite(called(name, codes[:, :1], factors).score)
        try:
            assert np.isfinite(called(name, codes[:5], factors[:5]).score)
        except InputError as error:
            assert "\n" not in str(error) and "expected" in str(error)


def test_integers_that_do_not_recur_are_refused():
    with pytest.raises(InputError, match=r"factors: expected classes that recur; got 100 distinct values of factor 1"):
        metrics.mig(np.zeros((100, 2)), np.stack([np.arange(100) % 2, np.arange(100)], -1))


def test_bins_and_binnings():
    column = np.array([0.0, 1, 2, 3, 4, 100])
    np.testing.assert_array_equal(result.discretised(column, 2), [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(result.discretised(column, 2, "quantile"), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(result.discretised(np.ones(3)), [0, 0, 0])
    with pytest.raises(InputError, match="binning: expected equal_width or quantile; got 'log'"):
        metrics.mig(np.zeros((4, 1)), grid(2, copies=2), binning="log")
    with pytest.raises(InputError, match="bins: expected at least 1; got 0"):
        result.discretised(column, 0)


def test_bad_arguments_name_themselves():
    codes, factors = noisy(60)
    with pytest.raises(InputError, match="stddevs: expected values above 0"):
        metrics.mig_posterior(codes, np.zeros(codes.shape), factors)
    with pytest.raises(InputError, match="sizes: expected"):
        metrics.downstream_logistic(codes, factors, sizes=())
    with pytest.raises(InputError, match="neighbours: expected at most 48"):
        metrics.disentanglement_score(codes, factors, neighbours=50)
    with pytest.raises(InputError, match=r"conditional: expected entropies \[d, K\]"):
        metrics.mig_from_entropies([1.0], [[1.0, 2.0]], [1.0])
    with pytest.raises(InputError, match="modularity expects at least two"):
        metrics.modularity(codes, factors[:, :1])


def test_downstream_accuracy_grows_with_labels_and_cuts_sizes_to_what_there_is():
    codes, factors = noisy(400)
    parts = metrics.downstream_logistic(codes, factors).parts
    np.testing.assert_array_equal(parts["labels"], [10, 100, 267, 267])
    assert parts["mean_accuracy"][0] < parts["mean_accuracy"][-1]
    assert np.isnan(parts["efficiency"])


def test_results_print_in_one_line():
    codes, factors = noisy(60)
    for name in ("mig", "irs", "mig_posterior"):
        assert str(called(name, codes, factors)).startswith(f"{name} = 0.")
