"""What the inputs of metrics pass: checks, bins, classes."""

import numpy as np
import pytest
from codes import grid

from vae_tf import evaluation, metrics
from vae_tf.errors import InputError
from vae_tf.metrics import result


def test_integers_that_do_not_recur_are_refused():
    with pytest.raises(InputError, match=r"factors: expected classes that recur; got 100 distinct values of factor 1"):
        metrics.mig(np.zeros((100, 2)), np.stack([np.arange(100) % 2, np.arange(100)], -1))


def test_bins_and_binnings():
    column = np.array([0.0, 1, 2, 3, 4, 100])
    np.testing.assert_array_equal(result.discretise(column, 2), [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(result.discretise(column, 2, "quantile"), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(result.discretise(np.ones(3)), [0, 0, 0])
    with pytest.raises(InputError, match="binning: expected one of equal_width, quantile; got 'log'"):
        metrics.mig(np.zeros((4, 1)), grid(2, copies=2), binning="log")
    with pytest.raises(InputError, match="bins: expected a whole number, 1 to 1,000; got 0"):
        metrics.mig(np.zeros((4, 1)), grid(2, copies=2), bins=0)


@pytest.mark.parametrize("codes", [[1.0, 2.0], np.zeros((0, 3)), [["a"]], np.zeros((2, 2), complex)])
def test_codes_of_another_kind_are_refused(codes):
    with pytest.raises(InputError, match=r"codes: expected a(n| non-empty) array of (real )?numbers"):
        metrics.mig(codes, [[0], [1]])


@pytest.mark.parametrize("call", [metrics.mig, metrics.check_arrays, metrics.Context,
                                  lambda codes, factors: evaluation.score(evaluation.Codes(codes, factors), ["mig"])])
def test_masked_values_are_refused(call):
    """NumPy gave the numbers beneath the mask, such as -1, which passed for a class."""
    factors = grid(2, 3, copies=2)
    with pytest.raises(InputError, match=r"^factors: expected an array without masked values; got some .*; give NaN"):
        call(factors / 1.0, np.ma.masked_greater(factors, 1))
    with pytest.raises(InputError, match=r"^factors: expected an array without masked values"):
        call(factors / 1.0, list(np.ma.masked_greater(factors, 1)))
