"""DCI: importances of scikit-learn's trees, and scores of importances."""

import numpy as np
import pytest
import reference
from codes import noisy

from vae_tf import metrics
from vae_tf.metrics import splitting
from vae_tf.metrics.importance import concentration


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
