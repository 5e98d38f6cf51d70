"""disentanglement_score and sap against loops and the published protocol."""

import numpy as np
import pytest
import reference
from codes import EXACT, grid, noisy

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import single_latents, splitting


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


def test_the_unit_of_a_continuous_factor_does_not_count_for_sap():
    x = np.random.default_rng(0).normal(size=(300, 2))
    scores = [metrics.sap(x, x * scale).score for scale in (1.0, 1e-9, 1e9)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-9)        # up to rounding
    assert scores[0] > 0.9


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


@pytest.mark.parametrize("levels", [5, 20])
def test_equal_codes_take_turns_as_neighbours(levels):
    """The same five had been everybody's neighbours, others for codes of the opposite sign: .1 apart."""
    codes, factors = noisy(2_000)
    steps = np.rint(codes / np.ptp(codes, axis=0) * levels)
    far = np.vstack([steps[:-1], np.full((1, steps.shape[1]), 1e10)])       # one row is an outlier
    saturated = (1 / (1 + np.exp(-40 * codes.astype(np.float32)))).astype(np.float64)      # many 1.0, and some 1e-20
    told_apart = single_latents._tell_apart(saturated, 5, 0)
    assert np.unique(saturated[:, 0], return_counts=True)[1].max() > 100
    assert np.unique(told_apart[:, 0], return_counts=True)[1].max() < 6
    for z in (steps, steps + 1e9, far):
        scores = [metrics.disentanglement_score(sign * z, factors).score for sign in (1, -1)]
        assert scores[0] == pytest.approx(scores[1], abs=0.01)      # 4 of the 400 test rows
        assert scores[0] == pytest.approx(metrics.disentanglement_score(steps, factors).score, abs=0.01)


def test_classes_that_do_not_recur_are_refused():
    """Perfect codes had the score 0, which the report took for an answer; as continuous factors they have 1."""
    factors = np.random.default_rng(0).integers(0, 100_000, (1_000, 2))
    with pytest.raises(InputError, match=r"factors: expected classes that recur; got \d+ distinct values of factor 0"):
        metrics.disentanglement_score(factors / 1.0, factors)
    assert metrics.disentanglement_score(factors / 1.0, factors, "continuous").parts["bounded"] > 0.98


def test_perfect_codes_in_regression_exceed_one():
    # rolinek S65-S71: a useless latent's kNN has rmse std sqrt(1 + 1/k), so the gap is 1.095 std at k = 5.
    v = np.random.default_rng(0).uniform(size=(20_000, 2))
    scored = metrics.disentanglement_score(v, v)
    assert scored.score == pytest.approx(np.sqrt(1.2), abs=0.02)     # 4,000 test rows: 1/sqrt(4,000) = 0.016
    assert scored.parts["bounded"] == pytest.approx(1, abs=1e-3)
    # ... and in classification they reach the number of classes.
    factors = grid(4, 4, copies=100)
    assert metrics.disentanglement_score(factors.astype(float), factors).score > 2


def test_one_latent_is_held_against_the_commonest_class():
    v = np.repeat([0, 1], [300, 100])[:, np.newaxis]
    scored = metrics.disentanglement_score(v.astype(float), v, "categorical")
    share = scored.parts["normaliser"].item()
    assert 0.5 < share < 1 and scored.parts["performance"].item() == 1
    assert scored.score == pytest.approx((1 - share) / share, abs=1e-12)
    assert scored.parts["bounded"] == pytest.approx(1, abs=1e-12)


def test_the_bounded_part_of_perfect_classes_is_1():
    v = np.repeat([0, 1], [300, 100])[:, np.newaxis]
    assert metrics.disentanglement_score(v.astype(float), v, "categorical").parts["bounded"] == pytest.approx(1)


def test_the_seed_decides_which_of_equal_codes_are_neighbours():
    codes = np.zeros((20, 1))
    first, again, other = (single_latents._tell_apart(codes, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


@pytest.mark.parametrize(("shares", "value", "predicted"), [
    ((0.3, 0.7), 0, 0), ((0.7, 0.3), 0, 0), ((0.7, 0.3), 5, 1), ((0.2, 0.5, 0.3), 0, 1), ((0.2, 0.5, 0.3), 5, 1)])
def test_what_a_constant_latent_predicts_for_sap(shares, value, predicted):
    v = np.repeat(np.arange(len(shares)), np.multiply(shares, 600).astype(int))[:, np.newaxis]
    test = splitting.split_rows(len(v), splitting.TEST_SHARE, 0)[1]
    assert metrics.sap(np.full((len(v), 1), float(value)), v).score == pytest.approx(np.mean(v[test] == predicted))
