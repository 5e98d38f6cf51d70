"""Explicitness against the published protocol, and ROC areas against loops."""

import numpy as np
import pytest
import reference
from codes import EXACT, noisy
from sklearn.linear_model import LogisticRegression

from vae_tf import metrics
from vae_tf.metrics import readout, splitting


def test_explicitness_equals_the_published_protocol():
    codes, factors = noisy(300)
    train, test = splitting.split_rows(300, 1 / 3, 0)
    expected = reference.explicitness(codes[train], factors[train], codes[test], factors[test])
    assert metrics.explicitness(codes, factors).score == pytest.approx(expected, abs=EXACT)


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


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_newton_steps_reach_the_optimum_of_scikit_learn(unit, monkeypatch):
    """Of 14 classes and 20 latents, of which one is another's copy and one is constant."""
    monkeypatch.setattr(readout, "ROWS", 300)       # so that the Hessian is a sum of three parts
    rng = np.random.default_rng(0)
    v = rng.integers(0, 14, 800) * 3
    z = rng.standard_normal((800, 18)) + np.sin(v[:, np.newaxis] * np.arange(18))
    twice = unit * np.hstack([z, z[:, :1], np.full((800, 1), 2.5)])
    assert readout.FEW_WEIGHTS >= 21 * 14
    learner = readout.fit_logistic(twice, v)
    # scikit-learn is given what is equivalent: a latent and its copy share a weight, so that half of its square is
    # penalised; the constant latent gets none; and the penalty of smaller weights is larger.
    z[:, 0] *= np.sqrt(2)
    expected = LogisticRegression(C=unit**2, solver="newton-cholesky", max_iter=1_000, tol=1e-10).fit(z, v)
    np.testing.assert_array_equal(learner.classes_, expected.classes_)
    # The last of Newton's steps promises less than 1e-6 of the objective, and the next one, as steps converge
    # quadratically, less than 1e-9; with an old Hessian it is 1e-12 and a tenth of that. What a step promises is a sum
    # over examples, of the variance under p of the change in the scores; that bounds the square of the change in a
    # probability. The objective is below N log C.
    left = np.sqrt(1e-9 * len(v) * np.log(14))
    np.testing.assert_allclose(learner.predict_proba(twice), expected.predict_proba(z), rtol=0, atol=left)


def test_newton_steps_fit_classes_that_can_be_told_apart():
    v = np.repeat(np.arange(30), 20)
    z = np.random.default_rng(0).standard_normal((600, 9)) * 0.01
    z[:, 0], z[:, 1] = 10 * np.sin(v / 30 * 2 * np.pi), 10 * np.cos(v / 30 * 2 * np.pi)
    assert readout.fit_logistic(z, v).score(z, v) == 1


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_newton_steps_take_codes_in_any_unit(unit):
    """A latent's unit is far from that of the others, and another is nearly its copy; scipy warns of such equations."""
    v = np.repeat(np.arange(30), 20)
    z = np.random.default_rng(0).standard_normal((600, 9)) * 0.01
    z[:, 0], z[:, 1] = 10 * np.sin(v / 30 * 2 * np.pi), 10 * np.cos(v / 30 * 2 * np.pi)
    z[:, 2] = z[:, 3] * (1 + 1e-12)
    z[:, 2:4] *= unit
    assert readout.fit_logistic(z, v).score(z, v) > 0.95                # the penalty leaves some neighbours together
    assert readout.fit_logistic(1e8 * z, v).score(1e8 * z, v) == 1      # next to no penalty


def test_newton_steps_go_on_where_float32_hides_directions():
    """Of codes with heavy tails in eight units, where a Hessian of float32 has curvatures below 0."""
    rng = np.random.default_rng(3)
    v = rng.integers(0, 6, 600)
    v[:6] = np.arange(6)
    z = 10 * rng.normal(size=(6, 8))[v] + rng.normal(size=(600, 8))
    z *= np.exp(2 * rng.normal(size=(600, 1))) * 10.0 ** np.arange(-4, 4)
    best = LogisticRegression(solver="newton-cholesky", max_iter=1_000, tol=1e-10).fit(z, v)
    # Steps end where they promise less than 1e-6 of 1 and the objective.
    assert measure_loss(readout.fit_logistic(z, v), z, v) == pytest.approx(measure_loss(best, z, v), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("tail", "seed", "rtol"), [
    (4, 7, 1e-6), (4, 19, 1e-6), (4, 22, 1e-6),
    (5, 1, 1e-3), (6, 101, 1e-3),       # no Newton step leads on; L-BFGS is stopped where the slope is 1e-4
])
def test_codes_with_heavy_tails(tail, seed, rtol):
    """Far examples are known for certain, and hide the curvature of all others."""
    rng = np.random.default_rng(seed)
    v = rng.integers(0, 6, 400)
    v[:6] = np.arange(6)
    z = 15 * rng.normal(size=(6, 15))[v] + rng.normal(size=(400, 15))
    z *= np.exp(tail * rng.normal(size=(400, 1)))
    best = LogisticRegression(max_iter=5_000, tol=1e-10).fit(z, v)
    assert measure_loss(readout.fit_logistic(z, v), z, v) == pytest.approx(measure_loss(best, z, v), rel=rtol)


@pytest.mark.parametrize("seed", [0, 1])
def test_columns_with_heavy_tails(seed):
    """Newton's steps run out near the optimum, further from which L-BFGS stops."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2_000, 8))
    v = np.digitize(z[:, 0], np.quantile(z[:, 0], np.arange(1, 6) / 6))
    z *= np.exp(5 * rng.normal(size=z.shape))
    other = LogisticRegression(max_iter=1_000).fit(z, v)
    assert measure_loss(readout.fit_logistic(z, v), z, v) < 0.95 * measure_loss(other, z, v)


def test_two_classes_of_which_one_is_rare():
    z = np.random.default_rng(0).standard_normal((10_000, 2))
    v = (z[:, 0] > np.sort(z[:, 0])[-4]).astype(int)        # three examples
    best = LogisticRegression(max_iter=5_000, tol=1e-10).fit(z, v)
    assert measure_loss(readout.fit_logistic(z, v), z, v) == pytest.approx(measure_loss(best, z, v), rel=1e-6)


def test_the_complement_of_a_probability_of_nearly_1_is_the_sum_of_the_others():
    p = np.array([[1.0, 1e-17, 2e-17], [0.2, 0.5, 0.3]])
    np.testing.assert_allclose(readout._complement(p), [[3e-17, 1, 1], [0.8, 0.5, 0.7]], rtol=1e-12)


def measure_loss(learner, z, v):
    """The objective of scikit-learn's logistic regression, at its default penalty."""
    scores = z @ learner.coef_.T + learner.intercept_
    scores = np.hstack([np.zeros_like(scores), scores]) if len(learner.classes_) == 2 else scores
    scores -= scores.max(1, keepdims=True)
    likely = scores[np.arange(len(v)), v] - np.log(np.exp(scores).sum(1))
    return (learner.coef_**2).sum() / 2 - likely.sum()


@pytest.mark.parametrize(("classes", "latents", "atol"), [
    (2, 6, 1e-8), (6, 10, 1e-8),        # codes around 1e6 are rounded by 1e-10; scores add so many, with weights of 1
    (50, 15, 1e-3),                     # L-BFGS, which is stopped where the slope is 1e-4
])
def test_logistic_regressions_do_not_mind_where_codes_lie(classes, latents, atol):
    rng = np.random.default_rng(0)
    v = rng.integers(0, classes, 3000)
    z = rng.normal(size=(classes, latents))[v] + rng.normal(size=(3000, latents))
    expected = readout.fit_logistic(z, v).predict_proba(z)
    far = z + 1e6
    np.testing.assert_allclose(readout.fit_logistic(far, v).predict_proba(far), expected, rtol=0, atol=atol)


def test_areas_of_the_training_part_are_of_the_training_part():
    codes, factors = noisy(300)
    train, _ = splitting.split_rows(300, 1 / 3, 0)
    parts = metrics.explicitness(codes, factors).parts
    z = (codes - codes[train].mean(0)) / codes[train].std(0)
    expected = []
    for v in factors.T:
        learner = readout.fit_logistic(z[train], v[train])
        expected.append(readout.mean_roc_area(v[train], learner.predict_proba(z[train]), learner.classes_))
    np.testing.assert_allclose(parts["per_factor_train"], expected, atol=1e-12)
    assert (parts["per_factor_train"] != parts["per_factor"]).all()
