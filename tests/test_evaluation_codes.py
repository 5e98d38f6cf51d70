"""Codes from files."""

import json

import numpy as np
import pytest
from scored_codes import codes_and_factors

from vae_tf import evaluation, metrics
from vae_tf.errors import InputError


def test_codes_from_a_file(tmp_path):
    codes, factors = codes_and_factors(200)
    np.savez(tmp_path / "my.npz", codes=codes.astype(np.float32), factors=factors, stddev=np.ones(codes.shape))
    read = evaluation.read_codes(tmp_path / "my.npz", examples=100)
    assert read.mean.shape == read.stddev.shape == (150, 2)
    rows = {(*code, *factor) for code, factor in zip(codes.astype(np.float32).tolist(), factors.tolist(), strict=True)}
    assert {(*code, *factor) for code, factor in zip(read.mean.tolist(), read.factors.tolist(), strict=True)} <= rows


def test_arrays_of_other_names_are_named(tmp_path):
    codes, factors = codes_and_factors(60)
    np.savez(tmp_path / "my.npz", codes=codes, labels=factors)
    with pytest.warns(UserWarning, match=r"arrays that are not used: labels; known names are codes, factors"):
        assert evaluation.read_codes(tmp_path / "my.npz", examples=100).factors is None


def test_names_of_factors_may_be_bytes_and_differ(tmp_path):
    codes, factors = codes_and_factors(200)
    assert factors.shape[1] == 2
    for names in (["form", "size"], np.array([b"form", b"size"])):
        np.savez(tmp_path / "my.npz", codes=codes, factors=factors, factor_names=names,
                 factor_kinds=np.array([b"cyclic", b"ordinal"]))
        read = evaluation.read_codes(tmp_path / "my.npz", examples=100)
        assert read.factor_names == ("form", "size") and read.kinds == ("cyclic", "ordinal")
    np.savez(tmp_path / "my.npz", codes=codes, factors=factors, factor_names=["form", "form"])
    with pytest.raises(InputError, match=r"codes: .*my\.npz: expected factor_names that differ; got form, form"):
        evaluation.read_codes(tmp_path / "my.npz", examples=100)


def test_a_text_is_the_kind_of_all_factors(tmp_path):
    codes, factors = codes_and_factors(60)
    for kind in ("ordinal", np.array(b"ordinal")):
        np.savez(tmp_path / "my.npz", codes=codes, factors=factors, factor_kinds=kind)
        assert evaluation.read_codes(tmp_path / "my.npz", examples=100).kinds == ("ordinal", "ordinal")


def test_factors_may_lack_values(tmp_path):
    codes, factors = codes_and_factors(200)
    factors = factors.astype(float)
    factors[::5, 0] = np.nan
    np.savez(tmp_path / "my.npz", codes=codes, factors=factors)
    with pytest.warns(UserWarning, match="are whole numbers that recur"):
        read = evaluation.read_codes(tmp_path / "my.npz", examples=200)
    assert np.isnan(read.factors).sum() == 40 and set(read.kinds) == {"categorical"}
    scored = evaluation.score(read, ["mig", "mcc"], examples=200, quick=True)
    assert scored.results["mig"].parts["used"].tolist() == [160, 200] and scored.results["mcc"].parts["used"] == 160
    assert set(scored.interval) == set(scored.chance_level) == {"mig", "mcc"}
    assert json.loads(evaluation.as_json(scored))["metrics"]["mcc"]["used"] == 160


def test_as_many_codes_are_read_as_are_asked_for(tmp_path):
    codes, factors = codes_and_factors(200)
    np.savez(tmp_path / "my.npz", codes=codes, factors=factors)
    assert len(evaluation.read_codes(tmp_path / "my.npz").mean) == 200
    assert len(evaluation.read_codes(tmp_path / "my.npz", 100).mean) == 150
    for options, message in (({"examples": 0}, "examples: expected a whole number, 1 to"),
                             ({"seed": -1}, "seed: expected a whole number, 0 to")):
        with pytest.raises(InputError, match=message):
            evaluation.read_codes(tmp_path / "my.npz", **options)


def test_names_of_factors_may_be_an_array():
    codes, factors = codes_and_factors(60)
    found = evaluation.score(evaluation.Codes(codes, factors, factor_names=np.array(["a", "b"])), ["mcc"], quick=True)
    assert found.factors == ("a", "b")


def test_whether_a_metric_has_an_interval_does_not_depend_on_the_others():
    """It is of the 30 rows that the metric looks at, which are too few, though others look at 45."""
    codes, factors = codes_and_factors(45)
    for names in (["mig"], ["mig", "explicitness"]):
        assert "mig" not in evaluation.score(evaluation.Codes(codes, factors), names, examples=30).interval


class Table:
    """Numbers as pandas and TensorFlow hold them: NumPy takes them for an array, but no rows can be drawn from them."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("kind", [np.ndarray.tolist, Table])
def test_codes_may_be_lists_and_other_tables(kind):
    codes, factors = codes_and_factors(60)
    factors = np.where(np.arange(60)[:, np.newaxis] % 5, factors, np.nan)
    kinds, names = ("ordinal", "ordinal"), ("mig", "mcc", "mig_posterior")
    scores = []
    for table in (np.asarray, kind):
        given = table(codes), table(factors), kinds, table(np.full(codes.shape, 0.4))
        scored = evaluation.score(evaluation.Codes(*given), names, examples=50, quick=True, jobs=1).results
        alone, skipped = metrics.measure(names, metrics.Context(*given))
        assert not skipped
        scores.append([results[name].score for results in (scored, alone) for name in names])
    assert scores[0] == scores[1]


@pytest.mark.parametrize(("arrays", "message"), [
    ({"codes": np.zeros((3, 2)), "factors": [[np.nan], [np.inf], [1]]}, "factors: expected finite values; got 1 NaN"),
    ({"z": np.zeros((3, 2))}, r"expected an array `codes` \[N, d\], .* got z"),
    ({"codes": np.full((3, 2), np.nan)}, "codes: expected finite values; got 6 NaN or infinite"),
    ({"codes": np.zeros((3, 2)), "factors": np.zeros((2, 1))}, "factors: expected 3 rows"),
    ({"codes": np.zeros((3, 2)), "stddev": np.ones((3, 1))}, r"expected stddev of shape \(3, 2\)"),
    ({"codes": np.zeros((3, 2)), "stddev": 1 - np.eye(3, 2, -1)}, "stddev: expected numbers above 0; got 0 in row 1, "
                                                                  "column 0"),
    ({"codes": np.zeros((3, 2)), "factors": np.zeros((3, 1)), "factor_kinds": ["nominal"]},
     r"^codes: .*my\.npz: factor_kinds: expected one of categorical, ordinal, cyclic, continuous for each of 1 "
     "factors; got nominal"),
    ({"codes": np.zeros((3, 2)), "factors": np.zeros((3, 2)), "factor_kinds": ["ordinal"]},
     "for each of 2 factors; got ordinal"),
])
def test_bad_files_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "my.npz", **arrays)
    with pytest.raises(InputError, match=message):
        evaluation.read_codes(tmp_path / "my.npz", examples=10)


def test_missing_file_and_unknown_metric():
    with pytest.raises(InputError, match=r"codes: no file nowhere\.npz"):
        evaluation.read_codes("nowhere.npz", examples=10)
    with pytest.raises(InputError, match=r"metrics: expected names of mig, .*; got 'mug'"):
        evaluation.score(evaluation.Codes(*codes_and_factors(20)), ["mug"])
