"""Support vector machines of a single latent against scikit-learn's, and against what their optimum must satisfy."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from vae_tf.metrics import one_latent_svm

COST = 0.01


def draw(classes, rows=600, scale=1.0, shift=0.0):
    """Return values of a latent that follows its classes, and the classes, which differ in size."""
    rng = np.random.default_rng(classes)
    v = np.minimum(rng.integers(0, classes, rows), rng.integers(0, classes, rows))
    v[:classes] = np.arange(classes)
    return scale * (np.sin(v) + 0.4 * rng.standard_normal(rows)) + shift, v


@pytest.mark.parametrize(("classes", "scale", "shift"), [
    (2, 1, 0), (2, 30, -5), (3, 0.01, 0), (3, 1, 20), (40, 1, 0.5), (40, 100, 0)])
def test_weights_are_those_of_scikit_learn(classes, scale, shift):
    z, v = draw(classes, scale=scale, shift=shift)
    learner = LinearSVC(C=COST, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    learner.fit(z[:, np.newaxis], v)
    balanced = COST * len(v) / (classes * np.bincount(v))
    rest = balanced[::-1] if classes == 2 else np.full(classes, COST)
    w, b = one_latent_svm._fit(z, v, balanced, rest)
    if classes == 2:            # scikit-learn keeps the machine of the second class alone
        w, b = w[1:], b[1:]
    np.testing.assert_allclose(w, learner.coef_[:, 0], rtol=1e-5, atol=1e-7 / scale)
    np.testing.assert_allclose(b, learner.intercept_, rtol=1e-5, atol=1e-6)
    predicted = one_latent_svm.predict_classes(z, v, z[:200], COST)
    assert np.mean(predicted == learner.predict(z[:200, np.newaxis])) > 0.99    # but where two machines tie


@pytest.mark.parametrize("scale", [1e-50, 1e-3, 1e3, 1e50])
def test_the_gradient_is_zero_at_any_scale(scale):
    z, v = draw(5, scale=scale)
    weight = COST * len(v) / (5 * np.bincount(v))
    w, b = one_latent_svm._fit(z, v, weight, np.full(5, COST))
    for c in range(5):
        y = np.where(v == c, 1, -1)
        loss = np.maximum(0, 1 - y * (w[c] * z + b[c])) * np.where(v == c, weight[c], COST)
        # In units in which z is about 1, w is scale times as large, and its penalty 1 / scale^2 times.
        by_w = w[c] / scale - 2 * np.sum(loss * y * z) / scale
        assert abs(by_w) < 1e-8 and abs(b[c] - 2 * np.sum(loss * y)) < 1e-8


def test_a_constant_latent_predicts_what_scikit_learn_does_and_classes_keep_their_names():
    v = np.array([7, 7, 7, -2, 30])
    constant = np.full((5, 1), 3.0)
    learner = LinearSVC(C=COST, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000).fit(constant, v)
    assert (one_latent_svm.predict_classes(constant[:, 0], v, np.full(4, 3.0), COST)
            == learner.predict(constant)[0]).all()
    assert (one_latent_svm.predict_classes(np.arange(3.0), np.full(3, 9), np.arange(2.0), COST) == 9).all()
    z, v = draw(3)
    named = np.array([30, -2, 7])
    learner = LinearSVC(C=1.0, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    predicted = learner.fit(z[:, np.newaxis], named[v]).predict(z[:, np.newaxis])
    assert np.mean(one_latent_svm.predict_classes(z, named[v], z, 1.0) == predicted) > 0.99
