"""Codes so large or so small that their squares are no numbers are refused; what float64 can square is scored."""

import warnings

import numpy as np
import pytest

from vae_tf import metrics
from vae_tf.errors import InputError

CHEAP = metrics.list_default_names()


def scored(name, scale, factors_scale=1):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, 3, 90), rng.integers(0, 4, 90)], -1)
    codes = (factors + 0.3 * rng.standard_normal(factors.shape)) * scale
    if factors_scale != 1:
        factors = factors * factors_scale
    with warnings.catch_warnings(action="ignore"):
        context = metrics.Context(codes, factors, stddevs=np.full(codes.shape, 0.3 * np.max(scale)))
        return metrics.METRICS[name].measure(context).score


@pytest.mark.parametrize("name", metrics.list_names("metrics"))
def test_what_cannot_be_squared_is_refused_in_a_line(name):
    for scale, size in (([1, 1e100], r"\de\+100"), ([1, 1e-200], r"\de-200"), ([1, 1e300], r"\de\+300")):
        with pytest.raises(InputError, match=r"codes: expected values from 1e-60 to 1e\+60 in size, .*; got at most "
                                             r"[\d.]+e[+-]\d+ in column 1; use other units") as error:
            scored(name, scale)
        assert "\n" not in str(error.value) and size[-3:] in str(error.value)
    if metrics.METRICS[name].is_supervised:
        with pytest.raises(InputError, match="factors: expected values from 1e-60"):
            scored(name, 1, 1e200)


@pytest.mark.parametrize("name", CHEAP)
def test_what_can_be_squared_is_scored(name):
    """At the ends of the range each metric ends with a number; those that do not mind scale, with the same one."""
    large, one, small = (scored(name, scale) for scale in (2.0**190, 1, 2.0**-190))
    assert np.isfinite([large, small]).all()
    if name in ("mig", "modularity", "mcc", "disentanglement_score", "explicitness", "total_correlation",
                "mutual_information", "irs"):
        assert [large, small] == pytest.approx([one, one], abs=1e-9)


def test_what_cannot_be_squared_is_named():
    codes, factors = np.random.default_rng(0).standard_normal((20, 2)), np.arange(20)[:, np.newaxis] % 2
    with pytest.raises(InputError, match=r"stddevs: expected values from .*; got at most 1e-200 in column 0"):
        metrics.mig_posterior(codes, np.full(codes.shape, 1e-200), factors)


def test_zeros_are_no_small_numbers():
    assert metrics.mcc(np.zeros((5, 1)), np.arange(5)[:, np.newaxis] / 7).score == 0
    assert metrics.mcc(np.array([[0, 1e-300, 1.0]]).T, np.array([[0, 0.1, 1]]).T).score > 0.9
