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
