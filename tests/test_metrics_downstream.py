"""Accuracy of predicting factors from few labels."""

import numpy as np
from codes import noisy

from vae_tf import metrics


def test_downstream_accuracy_grows_with_labels_and_cuts_sizes_to_what_there_is():
    codes, factors = noisy(400)
    parts = metrics.downstream_logistic(codes, factors).parts
    np.testing.assert_array_equal(parts["labels"], [10, 100, 267, 267])
    assert parts["mean_accuracy"][0] < parts["mean_accuracy"][-1]
    assert np.isnan(parts["efficiency"])


def test_efficiency_is_the_accuracy_at_100_labels_over_that_at_10_000():
    codes, factors = noisy(15_000)
    for more in ((), (1_000_000,)):     # a size that is cut to what there is
        found = metrics.downstream_logistic(codes, factors[:, 2:], sizes=(10_000, 100, *more))
        many, few = found.parts["mean_accuracy"][:2]
        assert found.parts["efficiency"] == few / many < 1


def test_the_score_is_that_of_the_largest_number_of_labels_in_any_order():
    codes, factors = noisy(400)
    found = metrics.downstream_logistic(codes, factors, sizes=(200, 10))
    assert found.score == found.parts["mean_accuracy"][0] > found.parts["mean_accuracy"][1]
    assert found.score == metrics.downstream_logistic(codes, factors, sizes=(200, 10), score_alone=True).score
