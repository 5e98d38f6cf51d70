"""linear_r2 and weak_mcc against normal equations and scikit-learn, and on codes whose scores are known."""

import numpy as np
import pytest
from codes import noisy
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LinearRegression

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics.splitting import TEST_SHARE, split_rows


def test_linear_r2_is_that_of_a_regression_for_each_factor():
    codes, factors = noisy(300)
    train, test = split_rows(300, TEST_SHARE, 4)
    expected = [LinearRegression().fit(codes[train], v[train]).score(codes[test], v[test]) for v in factors.T]
    np.testing.assert_allclose(metrics.linear_r2(codes, factors, seed=4).parts["per_factor"], expected, atol=1e-10)


def test_weak_mcc_is_the_mean_canonical_correlation():
    codes, factors = noisy(300)
    train, test = split_rows(300, TEST_SHARE, 4)
    learner = CCA(3, max_iter=100_000, tol=1e-14).fit(codes[train], factors[train])
    z, v = learner.transform(codes[test], factors[test])
    expected = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(z.T, v.T, strict=True)]
    found = metrics.weak_mcc(codes, factors, seed=4)
    np.testing.assert_allclose(found.parts["per_pair"], expected, atol=1e-5)      # scikit-learn iterates
    assert found.score == pytest.approx(np.mean(expected), abs=1e-5)


def test_what_a_linear_map_hides_is_found_and_what_a_curve_hides_is_not():
    rng = np.random.default_rng(0)
    factors = rng.uniform(-1, 1, (4_000, 3))
    mixed = factors @ rng.standard_normal((3, 5))
    for name in ("linear_r2", "weak_mcc"):
        assert metrics.METRICS[name](mixed, factors).score == pytest.approx(1, abs=1e-9)
    assert metrics.mcc(mixed, factors).score < 0.95         # each latent mixes three factors
    # v is uncorrelated with v^2 where v is symmetric about 0: the standard error of 1,333 test rows is 0.03.
    curved = factors**2
    assert metrics.linear_r2(curved, factors).score < 0.03 and metrics.weak_mcc(curved, factors).score < 0.12


def test_fewer_latents_than_factors_constant_latents_and_copies():
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(600, 3))
    two = metrics.weak_mcc(factors[:, :2], factors)
    assert two.score == pytest.approx(2 / 3, abs=1e-9) and two.parts["per_pair"][2] == 0
    padded = np.hstack([factors, factors[:, :1], np.full((600, 1), 0.1)])
    assert metrics.weak_mcc(padded, factors).score == pytest.approx(1, abs=1e-9)
    assert metrics.linear_r2(padded, factors).score == pytest.approx(1, abs=1e-9)
    for name in ("linear_r2", "weak_mcc"):
        assert metrics.METRICS[name](np.full((600, 2), 0.1), factors).score == 0
    with pytest.warns(UserWarning, match=r"linear_r2 leaves out constant factors: \[1\]"):
        found = metrics.linear_r2(factors, factors * [1, 0, 1])
    assert found.score == pytest.approx(1, abs=1e-9) and np.isnan(found.parts["per_factor"][1])


def test_factors_that_follow_from_others_add_no_pair():
    """Indicators of a class sum to 1, so that one of them follows from the rest; the missing pair counted 0."""
    rng = np.random.default_rng(0)
    indicators = np.eye(3)[rng.integers(0, 3, 600)]
    found = metrics.weak_mcc(indicators @ rng.standard_normal((3, 3)), indicators)
    assert found.score == pytest.approx(1) and len(found.parts["per_pair"]) == 2
    assert metrics.weak_mcc(rng.standard_normal((600, 1)), indicators).parts["per_pair"][1] == 0    # a missing latent


def test_each_has_the_name_of_the_literature():
    assert [metrics.find_name(name) for name in ("strong_mcc", "cca")] == ["mcc", "weak_mcc"]


def test_a_factor_that_is_constant_in_a_part_of_the_split_is_said_to_be_left_out():
    codes, factors = np.random.default_rng(0).standard_normal((2, 12, 2))
    train, test = split_rows(12, TEST_SHARE, 0)
    factors[test, 0] = 1
    with pytest.warns(UserWarning, match=r"linear_r2 leaves out factors that are constant in the training or the test "
                                         r"part of the rows: \[0\]"):
        assert np.isnan(metrics.linear_r2(codes, factors).parts["per_factor"][0])
    factors[train, 1] = 2
    with pytest.raises(InputError, match="expected at least one that varies among the rows that linear_r2 learns from"):
        metrics.linear_r2(codes, factors)
