"""DCI by Lasso and by forests, and DCI-ES, against slow loops and the formula of the public code."""

import numpy as np
import pytest
from codes import SIZES, grid, noisy, standardised
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold

from vae_tf import metrics
from vae_tf.metrics.dci_variants import DEPTHS, TREES, measure_explicitness
from vae_tf.metrics.splitting import TEST_SHARE, split_rows


def find_lasso(z, v, penalty, sweeps=500):
    """The least of |v - z w|^2 / 2N + penalty |w|_1, one weight after the other."""
    weights = np.zeros(z.shape[1])
    for _ in range(sweeps):
        for j in range(z.shape[1]):
            rest = v - z @ weights + z[:, j] * weights[j]
            slope = z[:, j] @ rest / len(z)
            weights[j] = np.sign(slope) * max(0, abs(slope) - penalty) / (z[:, j] @ z[:, j] / len(z))
    return weights


def concentrate(table):
    """1 - entropy of each row, to base of their length, by loops; and the share of each row."""
    rows = []
    for row in table:
        shares = [value / sum(row) for value in row if value > 0]
        rows.append(1 + sum(share * np.log(share) for share in shares) / np.log(len(row)))
    return np.array(rows), table.sum(1) / table.sum()


def test_lasso_is_what_loops_over_weights_give():
    codes, factors = noisy(300)
    train, test = split_rows(300, TEST_SHARE, 2)
    z = (codes - codes[train].mean(0)) / codes[train].std(0)
    v = (factors - factors[train].mean(0)) / factors[train].std(0)
    result = metrics.dci_lasso(codes, factors, seed=2)
    parts = result.parts
    importance = np.array([find_lasso(z[train], v[train, k], parts["penalty"][k]) for k in range(3)]).T
    # scikit-learn stops within 1e-4 of the least squared error, whose curvature at the least is of order 1.
    np.testing.assert_allclose(parts["importance"], np.abs(importance), atol=5e-3)
    error = np.sqrt(np.mean((z[test] @ importance - v[test])**2, 0)) / v[test].std(0)
    np.testing.assert_allclose(parts["accuracy"], 1 - error, atol=5e-3)
    per_latent, share = concentrate(parts["importance"])
    assert result.score == pytest.approx(per_latent @ share, abs=1e-9)
    assert parts["completeness"] == pytest.approx(np.mean(concentrate(parts["importance"].T)[0]), abs=1e-9)

    # The penalty is the best of 100, from the least that leaves no weight down to a thousandth of it.
    largest = np.abs(z[train].T @ v[train, 0]).max() / len(train)
    penalties = largest * np.logspace(0, -3, 100)
    folds = list(KFold(5).split(train))

    def measure_error(penalty):
        return np.mean([np.mean((Lasso(penalty).fit(z[train][a], v[train, 0][a]).predict(z[train][b])
                                 - v[train, 0][b])**2) for a, b in folds])

    assert min(np.abs(penalties / parts["penalty"][0] - 1)) < 1e-9
    # A solution is within 1e-4 of the least, in units of the variance of v, which is 1; two are compared.
    assert measure_error(parts["penalty"][0]) < min(map(measure_error, penalties)) + 2e-4


def test_forests_importances_are_what_their_trees_give():
    codes, factors = noisy(200)
    train, test = split_rows(200, TEST_SHARE, 5)
    result = metrics.dci_forest(codes, factors, seed=5)
    for k in range(3):
        forest = RandomForestClassifier(TREES, max_features=None, random_state=5).fit(codes[train], factors[train, k])
        taken = np.zeros(4)
        for tree in (each.tree_ for each in forest.estimators_):
            inner = np.flatnonzero(tree.children_left >= 0)
            gain = np.zeros(4)
            for node in inner:
                left, right = tree.children_left[node], tree.children_right[node]
                gain[tree.feature[node]] += sum(
                    sign * tree.weighted_n_node_samples[i] * tree.impurity[i]
                    for sign, i in ((1, node), (-1, left), (-1, right)))
            taken += gain / gain.sum() / TREES
        np.testing.assert_allclose(result.parts["importance"][:, k], taken, atol=1e-9)
        assert result.parts["accuracy"][k] == np.mean(forest.predict(codes[test]) == factors[test, k])
    per_latent, share = concentrate(result.parts["importance"])
    assert result.score == pytest.approx(per_latent @ share, abs=1e-9)


@pytest.mark.parametrize(("of_guess", "losses", "expected"), [
    (0.75, [0.7, 0.5, 0.55, 0.3, 0.2], 0.6088888888888889),
    (1.0, [0.9, 0.9, 0.9, 0.4, 0.0], 0.08),
    (0.5, [0.05] * 5, 1.0),
])
def test_explicitness_is_that_of_the_public_code(of_guess, losses, expected):
    """The numbers are compute_explitcitness of metrics/explitcitness.py in github.com/andreinicolicioiu/DCI-ES.

    Its losses are the least of all smaller capacities, and its max_area is (last - first capacity) * baseline_loss,
    as in the class Explitcitness there.
    """
    assert measure_explicitness(DEPTHS, np.array(losses), of_guess) == pytest.approx(expected, abs=1e-12)


def test_explicitness_has_its_marks():
    depths = np.array(DEPTHS)
    assert measure_explicitness(depths, 0.8 * (16 - depths) / 15, 0.8) == pytest.approx(0)      # a straight line
    late = np.where(depths < 16, 0.8, 0.0)
    assert measure_explicitness(depths, late, 0.8) == pytest.approx(1 - 2 * (7 + 8 / 2) / 15)


def test_explicitness_sees_codes_that_take_deep_trees():
    """v is the parity of four bits of z: no tree of depth 3 or less learns it, one of depth 4 can."""
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(900, 1))
    plain, hidden = (z[:, 0] > 0.5).astype(int), (16 * z[:, 0]).astype(int) % 2
    easy, hard = (metrics.dci_es(z, v[:, np.newaxis]).parts for v in (plain, hidden))
    assert easy["explicitness"] > 0.99 and easy["size"] == 1
    assert hard["explicitness"] < 0.85
    assert min(easy["informativeness"], hard["informativeness"]) > 0.95
    assert (np.diff(np.minimum.accumulate(hard["loss"][:, 0])) <= 0).all() and hard["loss"][0, 0] > 0.3


def test_perfect_and_rotated_codes():
    factors = grid(*SIZES, copies=5)
    rng = np.random.default_rng(0)
    noise = 0.05 * rng.standard_normal((len(factors), 3))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    for name, low in (("dci_lasso", 0.9), ("dci_forest", 0.95), ("dci_es", 0.95)):
        perfect = metrics.METRICS[name](standardised(factors) + noise, factors)
        assert perfect.score > low and perfect.parts["completeness"] > low and perfect.parts["informativeness"] > 0.9
        turned = metrics.METRICS[name](standardised(factors) @ rotation + noise, factors)
        assert turned.score < 0.7 * perfect.score
