"""Whatever stands in the arrays of a file: they are data or codes that can be computed with, or refused in one line."""

import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from outcomes import check_outcome, read_corpus

from vae_tf import data, evaluation
from vae_tf.errors import InputError

NUMBERS = (0.0, 1.0, -1.0, 0.5, 255.0, 1e3, 1e15, 1e30, 3e38, 1e155, 1e308, 1e-15, 1e-30, 1e-320, np.inf, -np.inf,
           np.nan)
DTYPES = ("float64", "float32", "float16", "int64", "uint8", "int8", "uint64", "bool", "complex128", "U3", "S2",
          "m8[s]", "M8[s]")


@strategies.composite
def arrays(draw, rank):
    """Arrays of any type, mostly of a rank, with numbers of any size."""
    sizes = strategies.sampled_from((0, 1, 2, 3, 9, 9, 9))
    usual = strategies.tuples(strategies.just(9), *[strategies.sampled_from((1, 2, 3, 8))] * (rank - 1))
    shape = draw(strategies.one_of(usual, usual, usual, strategies.lists(sizes, max_size=4).map(tuple)))
    numbers = np.array([draw(strategies.sampled_from(NUMBERS)) for _ in range(5)])
    dtype = draw(strategies.sampled_from(DTYPES))
    values = np.resize(numbers, shape) if np.prod(shape) else np.zeros(shape)
    if draw(strategies.booleans()):
        values = np.where(np.abs(values) <= 255, values, 1.0)
    with np.errstate(all="ignore"):
        return values.astype(np.int64).astype(dtype) if dtype[:2] in ("m8", "M8") else values.astype(dtype)


@strategies.composite
def files(draw, main, others):
    """{name: array} of a file whose main array is there, and some of the others."""
    chosen = {draw(strategies.sampled_from(sorted(main))),
              *draw(strategies.sets(strategies.sampled_from(sorted(others))))}
    found = {name: draw(arrays({**main, **others}[name])) for name in sorted(chosen)}
    if draw(strategies.booleans()):
        for name in found.keys() & {"factor_kinds"}:
            found[name] = np.array([draw(strategies.sampled_from(("ordinal", "continuous", "cyclic", "?")))] * 2)
    return found


def attempt(read, path):
    """(exit code, error, result) of reading a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            return 0, "", read(path)
    except InputError as error:
        return 2, str(error), None


def is_finite(array):
    return array is None or bool(np.isfinite(array).all())


@hypothesis.settings(max_examples=15 * hypothesis.settings().max_examples)
@hypothesis.given(files({"images": 4, "data": 2}, {"factors": 2, "u": 2, "factor_names": 1, "factor_kinds": 1}))
def test_any_arrays_are_data_or_refused(tmp_path_factory, found):
    path = tmp_path_factory.getbasetemp() / "any.npz"
    np.savez(path, **found)
    code, error, dataset = attempt(lambda path: data.load(str(path)), path)
    check_outcome(code, "", error)
    if dataset is not None:
        rows = np.arange(len(dataset))
        x = dataset.images_at(rows)
        assert len(rows) and x.shape == (len(rows), *dataset.shape) and is_finite(x)
        assert np.square(x, dtype=np.float32).sum() < np.inf
        assert is_finite(dataset.u_at(rows) if dataset.u_at else None)
        assert is_finite(dataset.factors_at(rows) if dataset.factors else None)
        assert data.choose_settings(dataset)["likelihood_variance"] > 1e-38


@hypothesis.settings(max_examples=15 * hypothesis.settings().max_examples)
@hypothesis.given(files({"codes": 2}, {"factors": 2, "stddev": 2, "factor_names": 1, "factor_kinds": 1}))
def test_any_arrays_are_codes_or_refused(tmp_path_factory, found):
    path = tmp_path_factory.getbasetemp() / "codes.npz"
    np.savez(path, **found)
    code, error, codes = attempt(lambda path: evaluation.read_codes(path, 100), path)
    check_outcome(code, "", error)
    if codes is not None:
        assert is_finite(codes.mean) and is_finite(codes.stddev) and is_finite(codes.factors)
        assert codes.stddev is None or (codes.stddev >= 0).all()


@pytest.mark.parametrize("case", read_corpus("values"), ids=lambda case: str(case["arrays"])[:60])
def test_the_corpus_is_refused_by_name(tmp_path, case):
    np.savez(tmp_path / "any.npz", **{name: np.full(shape, value, dtype)
                                      for name, (dtype, shape, value) in case["arrays"].items()})
    read = {"dataset": lambda path: data.load(str(path)), "codes": lambda path: evaluation.read_codes(path, 100)}
    code, error, _ = attempt(read[case["what"]], tmp_path / "any.npz")
    assert code == 2
    check_outcome(code, "", error, names=case["names"])


@pytest.mark.parametrize(("given", "message"), [
    ({"x": [[1.0]]}, "x: expected uint8 images .*; got list"),
    ({"x": np.ones((3, 2), int)}, "x: .* got int64 of shape"),
    ({"x": np.ones((0, 2), np.float32)}, "x: expected"), ({"x": np.ones((3, 4, 4), np.uint8)}, "x: expected"),
    ({"x": np.float32([[1, np.nan], [1, 1]])}, "x: expected finite numbers; got nan in row 0"),
    ({"values": np.ones((2, 1))}, r"values: expected 3 rows, .*; got shape \(2, 1\)"),
    ({"values": np.ones((3, 0))}, "values: expected 3 rows, one for each example, of at least one column"),
    ({"values": np.ones(3)}, "values: expected an array of real numbers"), ({"u": "u"}, "u: expected an array of real"),
    ({"values": np.array([[np.inf], [1], [2]])}, "values: expected finite numbers, or NaN for a missing one; got inf"),
    ({"values": np.full((3, 1), np.nan)}, "values: expected a value of each factor in some row; got NaN alone in"),
    ({"values": np.ones((3, 1)), "raw": np.array([[np.nan], [1], [2]])}, "raw: expected as many columns as values"),
    ({"u": np.full((3, 1), np.inf, np.float32)}, "u: expected finite numbers; got inf in row 0"),
])
def test_arrays_of_a_dataset_are_checked_where_they_enter(given, message):
    with pytest.raises(InputError, match=f"^{message}"):
        data.from_arrays("any", **{"x": np.ones((3, 2), np.float32), **given})
