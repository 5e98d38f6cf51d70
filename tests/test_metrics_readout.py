"""Explicitness against the published protocol, and ROC areas against loops."""

import numpy as np
import pytest
import reference
from codes import EXACT, noisy

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
