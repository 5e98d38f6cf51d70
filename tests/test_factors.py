"""Metrics against some of the factors, by name."""

import json

import numpy as np
import pytest

from vae_tf import evaluation
from vae_tf.errors import InputError

NAMES = ("shape", "scale", "x")
ONE_OF_A_KIND = ("mig", "mcc", "sap", "disentanglement_score", "irs", "mig_posterior")


def scored_codes(rows=150):
    """Codes of three factors, of which they hold the last two."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, rows) for size in (3, 4, 5)], -1)
    means = factors[:, 1:] + 0.3 * rng.standard_normal((rows, 2))
    return evaluation.Codes(means, factors, stddev=np.full(means.shape, 0.3), factor_names=NAMES)


def test_metrics_look_at_the_factors_named_alone():
    codes = scored_codes()
    some = evaluation.score(codes, ONE_OF_A_KIND, quick=True, factors=("x", "scale"))
    swapped = codes._replace(factors=codes.factors[:, [2, 1]], factor_names=None)
    alone = evaluation.score(swapped, ONE_OF_A_KIND, quick=True)
    assert some.factors == ("x", "scale") and alone.factors == ("v1", "v2")
    assert set(some.results) == set(ONE_OF_A_KIND) and not some.skipped
    for name in ONE_OF_A_KIND:
        assert some.results[name].score == pytest.approx(alone.results[name].score, abs=1e-9), name
        assert some.chance_level[name] == pytest.approx(alone.chance_level[name], abs=1e-9), name


def test_a_factor_that_no_latent_holds_lowers_a_score_until_it_is_left_out():
    codes = scored_codes()
    every = evaluation.score(codes, ["mig_posterior"], quick=True)
    some = evaluation.score(codes, ["mig_posterior"], quick=True, factors=("scale", "x"))
    gap = every.results["mig_posterior"].parts["gap"]
    assert every.factors == NAMES
    assert some.results["mig_posterior"].score == pytest.approx(gap[1:].mean(), abs=1e-9)
    assert some.results["mig_posterior"].score > every.results["mig_posterior"].score + 0.1


def test_the_samples_per_value_reach_the_metrics_of_the_posterior():
    names = ["mig_posterior", "mig_sup_posterior", "elbo_decomposition"]
    scored = evaluation.score(scored_codes(), names, quick=True, factors=("shape", "scale"),
                              samples_per_value=30)
    assert [scored.results[name].parts["samples"] for name in ("mig_posterior", "mig_sup_posterior")] == [4 * 30] * 2


def test_the_subset_stands_in_the_numbers():
    some = evaluation.score(scored_codes(), ["mig"], quick=True, factors=("x",))
    assert json.loads(evaluation.as_json(some))["factors"] == ["x"]
    without = evaluation.score(evaluation.Codes(np.eye(50)), ["active_units"], quick=True)
    assert json.loads(evaluation.as_json(without))["factors"] is None


@pytest.mark.parametrize(("factors", "message"), [
    (("colour",), "factors: expected names of shape, scale, x; got 'colour'"),
    ((), "factors: expected names of shape, scale, x; got none"),
    (("x", "scale", "x"), "factors: expected each name once; got x, scale, x"),
])
def test_factors_that_are_not_there_are_named(factors, message):
    with pytest.raises(InputError, match=message):
        evaluation.score(scored_codes(), ["mig"], factors=factors)


def test_codes_without_factors_have_none_to_name():
    with pytest.raises(InputError, match="expected none, because there are no factors; got 'x'"):
        evaluation.score(evaluation.Codes(np.eye(50)), ["active_units"], factors=("x",))


def test_names_from_a_file(tmp_path):
    codes = scored_codes()
    np.savez(tmp_path / "my.npz", codes=codes.mean, factors=codes.factors, factor_names=NAMES)
    assert evaluation.read_codes(tmp_path / "my.npz", examples=100).factor_names == NAMES
    np.savez(tmp_path / "my.npz", codes=codes.mean, factors=codes.factors, factor_names=NAMES[:2])
    with pytest.raises(InputError, match=r"expected factor_names to have an entry per factor; got \(2,\)"):
        evaluation.read_codes(tmp_path / "my.npz", examples=100)
