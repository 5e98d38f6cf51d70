"""Every metric of codes is tested for exactly what it declares of its range and of changes that leave it as it is.

yes: the score stays, to rounding. nearly: it stays but for what the learner does with ties, its solver's tolerance, or
noise drawn per latent. no: it changes, by more than `nearly` allows.
"""

import warnings

import numpy as np
import pytest

from vae_tf import metrics
from vae_tf.metrics.page import is_unchanged
from vae_tf.metrics.registry import CHANGES

ROWS = 600
NAMES = metrics.list_names("metrics")

EXACT = 1e-9        # float64 sums of ROWS terms of order 1
# A third of the rows is the test part: this is 4 of its 200. Monte Carlo with 10,000 samples of order 1: 0.01 twice.
NEARLY = 0.02


def example(seed=0):
    """Codes that follow three factors, correlated, with noise: no metric is at an end of its range."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, ROWS) for size in (3, 4, 5)], -1)
    mixing = np.array([[1.0, 0.2, 0.0, 0.3], [0.1, 0.8, 0.4, 0.0], [0.0, 0.3, 0.7, 0.2]])
    return factors / factors.std(0) @ mixing + 0.4 * rng.standard_normal((ROWS, 4)), factors


def changed(change, codes, factors):
    """Codes, the scale of their posterior, and factors after changes that keep what they say of each other."""
    unit = np.ones(4)
    if change == "permutation":
        return [(codes[:, [2, 0, 3, 1]], unit, factors)]
    if change == "sign":
        return [(codes * [-1, 1, -1, 1], unit, factors)]
    if change == "scale":       # powers of 2, which round nothing
        scale = 2.0 ** np.array([5, -12, 0, -9])
        return [(codes * scale, scale, factors)]
    if change == "warping":
        half = np.where([True, True, False, False], np.exp(3 * codes), codes)
        return [(warped, unit, factors) for warped in (half, 0.05 * np.arctan(codes))]
    names = np.array([7, -3, 40, 0, 12])
    return [(codes, unit, names[factors])]


def scored(name, codes, scale, factors):
    with warnings.catch_warnings(action="ignore"):
        context = metrics.Context(codes, factors, stddevs=np.full(codes.shape, 0.3) * scale)
        return metrics.METRICS[name].measure(context).score


def check_change(name, change, before):
    """A change that leaves a score as it is, or does not, as the metric declares."""
    difference = max(abs(scored(name, *case) - before) for case in changed(change, *example()))
    expected = is_unchanged(metrics.METRICS[name], change)
    assert {"yes": difference <= EXACT, "nearly": difference <= NEARLY, "no": difference > NEARLY,
            None: True}[expected], (name, change, difference)


def check_range(name, before):
    """Scores of usual, of useless and of perfect codes are in the range that the metric declares."""
    low, high = metrics.METRICS[name].range
    codes, factors = example()
    useless = np.random.default_rng(1).standard_normal(codes.shape)
    perfect = factors / factors.std(0)
    for score in (before, scored(name, useless, 1, factors), scored(name, perfect, 1, factors)):
        assert low <= score <= high, (name, score)


@pytest.fixture(scope="module")
def baseline():
    codes, factors = example()
    return {name: scored(name, codes, 1, factors) for name in NAMES}


def test_every_metric_of_the_package_declares_its_properties():
    assert all(metrics.METRICS[name].range and metrics.METRICS[name].unchanged_by is not None for name in NAMES)


def declared(degree, *changes):
    """[(metric, degree, those of some changes that leave it as it is to that degree)]"""
    found = [(name, degree, [change for change in changes if is_unchanged(metrics.METRICS[name], change) == degree])
             for name in NAMES]
    return [each for each in found if each[2]]


# Together, because some metrics learn for seconds. A scale comes last, as exponentials of scaled codes overflow. What
# ties do after a warping may add to what they do after another change.
@pytest.mark.parametrize(("name", "degree", "changes"), [
    *declared("yes", "relabelling", "permutation", "sign", "warping", "scale"),
    *declared("nearly", "relabelling", "permutation", "sign", "scale"), *declared("nearly", "warping")])
def test_changes_leave_a_score_as_it_is(name, degree, changes, baseline):
    codes, factors = example()
    cases = [(codes, np.ones(4), factors)]
    for change in changes:
        cases = [case for codes, _, factors in cases for case in changed(change, codes, factors)]
    for case in cases:
        assert abs(scored(name, *case) - baseline[name]) <= {"yes": EXACT, "nearly": NEARLY}[degree]


@pytest.mark.parametrize(("name", "change"), [
    (name, change) for name, _, changes in declared("no", *CHANGES) for change in changes
    if (name, change) != ("irs", "relabelling")])       # the example has too few classes
def test_other_changes_change_it(name, change, baseline):
    check_change(name, change, baseline[name])


@pytest.mark.parametrize(("classes", "unchanged"), [(20, True), (40, False)])
def test_relabelling_changes_irs_of_more_classes_than_it_has_bins(classes, unchanged):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, classes, (ROWS, 2))
    codes = factors + 0.3 * rng.standard_normal((ROWS, 2))
    relabelled = rng.permutation(classes)[factors]
    difference = abs(scored("irs", codes, 1, relabelled) - scored("irs", codes, 1, factors))
    assert difference <= EXACT if unchanged else difference > NEARLY


@pytest.mark.parametrize("name", NAMES)
def test_range(name, baseline):
    check_range(name, baseline[name])


@pytest.mark.parametrize("name", [name for name in NAMES if metrics.METRICS[name].range[1] == np.inf])
def test_what_is_unbounded_exceeds_one(name):
    _, factors = example()
    perfect = factors / factors.std(0)
    copies = np.hstack([perfect, perfect + 1e-3 * np.random.default_rng(0).standard_normal(perfect.shape)])
    codes = perfect if name == "disentanglement_score" else copies
    assert scored(name, codes, 1e-3, factors) > 1
