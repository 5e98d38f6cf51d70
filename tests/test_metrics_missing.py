"""What metrics make of examples that lack the value of a factor."""

import warnings

import numpy as np
import pytest
from codes import noisy

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import missing

BY_FACTOR = [name for name, metric in metrics.METRICS.items() if metric.by_factor and metric.cost != "minutes"]
TOGETHER = ["mcc", "mig_sup", "weak_mcc", "irs", "mig_sup_posterior"]       # one of each kind of need; all go one way
CODES, FACTORS = noisy(300)
KINDS = ("ordinal", "categorical", "ordinal")


def lacking():
    """The factors as floats: the first one lacks every fourth value, the second every fifth, the third none."""
    factors = FACTORS.astype(float)
    factors[::4, 0] = factors[2::5, 1] = np.nan
    return factors


def measure(name, codes, factors, kinds=KINDS):
    with warnings.catch_warnings(action="ignore"):
        return metrics.METRICS[name].measure(metrics.Context(codes, factors, kinds, np.full(codes.shape, 0.1)))


@pytest.mark.parametrize("name", BY_FACTOR)
def test_a_metric_by_factor_is_the_mean_of_the_scores_of_single_factors(name):
    """The declaration promises it, which data that lack nothing show. With missing values each factor has its rows."""
    whole = measure(name, CODES, FACTORS)
    alone = [measure(name, CODES, FACTORS[:, [k]], KINDS[k:k + 1]).score for k in range(3)]
    assert whole.score == pytest.approx(np.mean(alone), abs=1e-9)

    factors = lacking()
    known = ~np.isnan(factors)
    found = measure(name, CODES, factors)
    for k in range(2):
        alone[k] = measure(name, CODES[known[:, k]], factors[known[:, k]][:, [k]], KINDS[k:k + 1]).score
    assert found.score == np.mean(alone)
    assert tuple(found.parts["used"]) == (225, 240, 300)
    assert found.meaning.endswith("(each factor of its own 225 to 300 of 300 examples)") and "\n" not in found.meaning
    assert {*found.parts} == {*whole.parts, "used"}
    for part in {*whole.parts} - {"labels", "mean_accuracy", "marginal_entropy"}:      # these are not by factor
        assert np.shape(found.parts[part]) == np.shape(whole.parts[part]), part


@pytest.mark.parametrize("name", TOGETHER)
def test_other_metrics_use_the_examples_that_lack_no_factor(name):
    factors = lacking()
    complete = ~np.isnan(factors).any(1)
    found = measure(name, CODES, factors)
    assert found.score == measure(name, CODES[complete], FACTORS[complete]).score
    assert found.parts["used"] == complete.sum() == 180
    assert found.meaning.endswith("(of the 180 of 300 examples that lack no factor)") and "\n" not in found.meaning


def test_a_part_that_no_factor_has_is_nan_without_a_warning():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (300, 2)).astype(float)
    factors[0, 0] = np.nan
    context = metrics.Context(codes=rng.normal(size=(300, 3)), factors=factors, kinds=("ordinal", "ordinal"))
    with warnings.catch_warnings(action="error"):       # efficiency needs 10,000 labels
        result = metrics.METRICS["downstream_logistic"].measure(context)
    assert np.isnan(result.parts["efficiency"]) and np.isfinite(result.score)


@pytest.mark.parametrize("name", ["linear_r2", "mig"])      # MIG needs no rows to be tested on
@pytest.mark.parametrize(("names", "called"), [(None, "1"), (tuple("xyz"), "y")])
def test_a_factor_of_too_few_values_is_left_out_and_named(names, called, name):
    factors = lacking()
    factors[3:, 1] = np.nan
    context = metrics.Context(CODES, factors, KINDS, factor_names=names)
    with pytest.warns(UserWarning, match=f"{name} leaves out factor {called}, of which 2 of 300 examples"):
        found = metrics.METRICS[name].measure(context)
    by_factor = found.parts["gap" if name == "mig" else "per_factor"]
    assert np.isnan(by_factor[1]) and np.isfinite(np.delete(by_factor, 1)).all()
    assert found.score == pytest.approx(np.nanmean(by_factor))
    assert found.meaning.endswith("(each factor of its own 225 to 300 of 300 examples)")


@pytest.mark.parametrize("name", ["mig", "mcc", "irs"])
def test_factors_without_examples_to_go_by_are_refused_in_one_line(name):
    factors = lacking()
    factors[:, 1:] = np.nan
    if name == "mig":
        assert np.isfinite(measure(name, CODES, factors).score)
        factors[:] = np.nan
    with pytest.raises(InputError, match=f"factors: {name} expects .*examples that have a value") as caught:
        measure(name, CODES, factors)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"metrics\.measure leaves out examples whose factor is missing"):
        metrics.mig(CODES, lacking())


def test_parts_that_factors_do_not_share_are_lists():
    factors = np.stack([np.arange(60.0) % 3, np.arange(60.0) % 2, np.full(60, np.nan)], -1)
    factors[:5, 1] = np.nan

    def count(context):
        classes, counts = np.unique(context.factors, return_counts=True)
        return metrics.Result("counted", 0.5, {"best": f"class {classes[counts.argmax()]:g}", "counts": counts,
                                               "rows": len(context.factors)}, "1: equal")

    context = metrics.Context(np.zeros((60, 2)), factors)
    with pytest.warns(UserWarning, match="counted leaves out factor 2"):
        parts = missing.measure("counted", count, True, context, np.isnan(factors)).parts
    assert parts["best"] == ["class 0", "class 1", None] and parts["counts"] == [[20, 20, 20], [27, 28], None]
    assert parts["rows"] == 57.5        # the mean over the factors that have a number
