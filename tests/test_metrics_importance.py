"""DCI: importances of scikit-learn's trees and of binned ones, and scores of importances."""

import numpy as np
import pytest
import reference
from codes import noisy

from vae_tf import metrics
from vae_tf.metrics import boosted_trees, splitting
from vae_tf.metrics.importance import concentration


@pytest.mark.parametrize("shape", [(3, 1), (3, 4), (32, 1), (40, 4)])
def test_histograms_are_accumulated_over_bins(shape):
    # Sums of whole numbers below 2^24 are exact in float32, in any order.
    histograms = np.random.default_rng(0).integers(0, 100, (2, boosted_trees.BINS, *shape)).astype(np.float32)
    np.testing.assert_array_equal(boosted_trees._accumulate(histograms.copy()), np.cumsum(histograms, 1))


def test_dci_scores_of_an_importance_matrix():
    importance = np.random.default_rng(0).dirichlet(np.ones(4), 3).T
    disentanglement, completeness = reference.dci_scores(importance)
    # The published code adds 1e-11 before the entropy: 1e-9 covers what that moves.
    assert concentration(importance)[0] == pytest.approx(disentanglement, abs=1e-9)
    assert concentration(importance.T)[1].mean() == pytest.approx(completeness, abs=1e-9)


@pytest.mark.parametrize("name", ["dci", "dci_forest"])
def test_the_place_and_unit_of_codes_do_not_count_for_trees_of_float32(name):
    """Around 1e8 float32 knows no differences of 1, and beyond 3e38 it is infinite; skewed codes keep their order."""
    codes, factors = noisy(60, sizes=(2, 3))
    scores = [metrics.METRICS[name].measure(metrics.Context(z, factors, score_alone=True)).score
              for z in (codes, 1e39 * (codes + 1e8), np.exp(10 * codes))]
    assert scores[1:] == pytest.approx(2 * scores[:1], abs=1e-6)
    codes[7, 0] = 1e39
    assert metrics.METRICS[name].measure(metrics.Context(codes, factors, score_alone=True)).score > 0


def test_dci_importance_is_sklearns():
    from sklearn.ensemble import GradientBoostingClassifier
    codes, factors = noisy(90, sizes=(2, 3))
    train, _ = splitting.split_rows(90, 1 / 3, 3)
    expected = np.stack([GradientBoostingClassifier(random_state=3).fit(codes[train], v[train]).feature_importances_
                         for v in factors.T], -1)
    np.testing.assert_allclose(metrics.dci(codes, factors, seed=3).parts["importance"], expected, atol=1e-12)


@pytest.mark.parametrize("together", [1, 6, 80], ids=["alone", "in two groups", "all"])
def test_binned_trees_of_factors_that_are_fitted_together_are_those_of_each_factor(monkeypatch, together):
    """They are equal bit for bit: each class has a column of its own, whose sums do not depend on other columns."""
    rng = np.random.default_rng(0)
    z, v = rng.standard_normal((200, 4)), np.stack([rng.integers(0, classes, 200) for classes in (2, 3, 5)], 1)
    v[:, 1] += z[:, 2] > 0.5
    monkeypatch.setattr(boosted_trees, "TOGETHER", together)
    fitted = boosted_trees.fit_each(z, v, 7)
    for each, column in zip(fitted, v.T, strict=True):
        alone = boosted_trees.fit(z, column, 7)
        np.testing.assert_array_equal(each.importance, alone.importance)
        np.testing.assert_array_equal(each.predict(z), alone.predict(z))
        np.testing.assert_array_equal(each.classes, np.unique(column))
    assert fitted[1].importance.argmax() == 2


@pytest.mark.parametrize("classes", [2, 3])
def test_binned_trees_of_one_latent_predict_what_sklearns_do(classes):
    """One latent cannot tie with another, and 240 values have bins of their own."""
    from sklearn.ensemble import GradientBoostingClassifier
    rng = np.random.default_rng(classes)
    z = rng.standard_normal((240, 1)).astype(np.float32).astype(np.float64)     # sklearn's exact trees see float32
    v = np.digitize(z[:, 0] + 0.7 * rng.standard_normal(240), np.linspace(-1, 1, classes + 1)[1:-1]) + 5
    ours, sklearns = boosted_trees.fit(z, v), GradientBoostingClassifier(random_state=0).fit(z, v)
    np.testing.assert_array_equal(ours.classes, sklearns.classes_)
    # Between two thresholds that are equally good, rounding decides: it may move a row or two.
    assert np.mean(ours.predict(z) == sklearns.predict(z)) >= 1 - 3 / 240
    assert ours.score(z, v) == np.mean(ours.predict(z) == v) < 1     # they do not learn all by heart


@pytest.mark.parametrize("classes", [2, 3])
def test_binned_trees_have_sklearns_importances_but_for_ties(classes):
    """Seeds decide ties, so the means over seeds agree within their standard error."""
    from sklearn.ensemble import GradientBoostingClassifier
    rng = np.random.default_rng(1)
    z = rng.standard_normal((240, 4)).astype(np.float32).astype(np.float64)
    v = np.digitize(z @ [2, 1, 0.5, 0] + rng.standard_normal(240), np.linspace(-1, 1, classes + 1)[1:-1])
    seeds = range(12)
    ours = np.array([boosted_trees.fit(z, v, seed).importance for seed in seeds])
    sklearns = np.array([GradientBoostingClassifier(random_state=seed).fit(z, v).feature_importances_
                         for seed in seeds])
    np.testing.assert_allclose(ours.sum(1), 1)
    error = np.sqrt((ours.var(0, ddof=1) + sklearns.var(0, ddof=1)) / len(seeds))
    # 4 of 22 degrees of freedom is passed once in 1,600; 0.002 covers the rounding of float32 where gains are close.
    assert (abs(ours.mean(0) - sklearns.mean(0)) < 4 * error + 0.002).all()


def test_chance_decides_between_copies_of_a_latent_in_each_node():
    """The shares of two copies differ from seed to seed as those of scikit-learn's trees do."""
    from sklearn.ensemble import GradientBoostingClassifier
    rng = np.random.default_rng(1)
    v = rng.integers(0, 6, 160)
    z = np.repeat((v + 0.8 * rng.standard_normal(160)).astype(np.float32)[:, np.newaxis], 2, 1)
    ours = np.std([boosted_trees.fit(z, v, seed).importance[0] for seed in range(12)], ddof=1)
    sklearns = np.std([GradientBoostingClassifier(random_state=seed).fit(z, v).feature_importances_[0]
                       for seed in range(12)], ddof=1)
    # A quotient of two standard deviations of 12 that are equal is beyond 2.5 once in 500; with one order for all
    # nodes of a round it was 3.
    assert 1 / 2.5 < ours / sklearns < 2.5


@pytest.mark.parametrize("seed", [0, 3])
def test_trees_learn_classes_of_three_examples(seed):
    """Of 8,000 examples, three of one class lie apart; three of another lie anywhere."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(8000, 5))
    v = (z[:, 0] > 0).astype(int)
    rare = rng.permutation(8000)[:6]
    v[rare] = 2 + np.arange(6) // 3
    z[rare[:3], 1] += 8
    trees = boosted_trees.fit(z, v)
    assert trees.score(z, v) == 1
    assert trees.importance[0] > 0.98       # without LONGEST it is 0.94 and 0.69


def test_trees_without_a_split_have_no_importance():
    trees = boosted_trees.fit(np.zeros((10, 2)), np.arange(10) % 2)
    np.testing.assert_array_equal(trees.importance, 0)


def test_concentration_by_hand():
    score, each, weight = concentration(np.array([[1.0, 0], [0.5, 0.5], [0, 0]]))
    np.testing.assert_allclose(each, [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(weight, [0.5, 0.5, 0], atol=1e-12)
    assert score == pytest.approx(0.5)
    assert concentration(np.zeros((3, 2)))[0] == 0
    assert concentration(np.ones((3, 1)))[0] == 1


def test_dci_is_seeded():
    codes, factors = noisy(90, sizes=(2, 3))
    for name in ("dci", "dci_fast"):
        first, second = (metrics.METRICS[name](codes, factors, seed=1) for _ in range(2))
        assert first.score == second.score
        assert first.score != metrics.METRICS[name](codes, factors, seed=2).score


@pytest.mark.parametrize("name", ["dci_fast", "dci_forest"])
def test_informativeness_is_the_accuracy_on_new_rows(name):
    rng = np.random.default_rng(0)
    codes, factors = rng.standard_normal((120, 3)), rng.integers(0, 3, (120, 1))     # there is nothing to learn
    parts = metrics.METRICS[name](codes, factors).parts
    assert parts["informativeness"] == parts["accuracy"].mean() < 0.6 < 0.9 < parts["informativeness_train"]


@pytest.mark.parametrize(("examples", "bins"), [(255, 255), (256, 60), (1_000, 100), (2_000, 200), (3_000, 255)])
def test_bins_hold_about_as_many_examples_each(examples, bins):
    """Each of 255 values has a bin of its own. Of more values, ten are in a bin where that makes 60 to 255 bins."""
    values = np.random.default_rng(0).standard_normal((examples, 1)) ** 3
    edges, = boosted_trees.fit(values, np.arange(examples) % 2)._edges
    counts = np.bincount(np.searchsorted(edges, values[:, 0]))
    assert counts.tolist() == pytest.approx([examples / bins] * bins, abs=1.01)
