"""The Result that a metric returns, and the preparation of a metric's inputs: checks, bins, classes."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from vae_tf import checks
from vae_tf import kinds as factor_kinds
from vae_tf.arguments import LARGEST, Bins, to_array
from vae_tf.errors import InputError

EXACT = 2**53           # the size up to which float64 tells all whole numbers apart
SMALLEST = 1e-60        # the fourth power of a number of this size stays within the range of float64


@dataclasses.dataclass(frozen=True)
class Result:
    """A metric's score, the parts it is made of (arrays by name), and what the score means in a line."""

    name: str
    score: float
    parts: dict[str, Any]
    meaning: str

    def __str__(self) -> str:
        return f"{self.name} = {self.score:.4g}: {self.meaning}"


@overload
def check_arrays(codes: np.ndarray, factors: np.ndarray, name: str = ...) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def check_arrays(codes: np.ndarray, factors: np.ndarray | None = ..., name: str = ...,
                 ) -> tuple[np.ndarray, np.ndarray | None]: ...


def check_arrays(codes: np.ndarray, factors: np.ndarray | None = None, name: str = "codes",
                 ) -> tuple[np.ndarray, np.ndarray | None]:
    """Return codes as finite float64 [N, d] and factors as finite [N, K], of a size that can be squared.

    Args:
        codes: anything that NumPy takes for an array [N, d].
        factors: anything that NumPy takes for an array [N, K], or None.
        name: the name of the argument that the codes came as.

    Raises:
        InputError: which argument, what was expected, what came.
    """
    codes = _check_matrix(name, codes)
    if factors is None:
        return codes, None
    factors = check_factors(factors)
    if len(factors) != len(codes):
        raise InputError(f"factors: expected {len(codes)} rows, as many as codes; got {len(factors)}")
    return codes, factors


def check_factors(factors: np.ndarray) -> np.ndarray:
    """Return factors [N, K] as `check_arrays` does, or raise InputError."""
    return _check_matrix("factors", factors, keep_integers=True)


def _check_matrix(name: str, array: np.ndarray, keep_integers: bool = False) -> np.ndarray:
    array = to_array(name, array)
    array = array.astype(np.int64) if array.dtype == bool else array
    if array.ndim != 2 or not array.size or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{name}: expected a non-empty array of real numbers [N, columns]; "
                         f"got {array.dtype} of shape {array.shape}")
    size = np.abs(array.astype(np.float64, copy=False))
    peak = size.max()
    # Of floats, the largest in size is not finite if any is not; of other types, such as spans of time, it may be.
    if not (array.dtype.kind == "f" and np.isfinite(peak)) and not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite values; got {np.count_nonzero(~np.isfinite(array))} NaN or infinite"
                         + "; metrics.measure leaves out examples whose factor is missing (NaN)" * (name == "factors"))
    # NumPy takes long to find the largest of each column, which is needed only where the first row leaves a doubt.
    largest = size.max(0) if (size[0] < SMALLEST).any() or peak > LARGEST else size[0]
    beyond = np.flatnonzero((largest > LARGEST) | ((largest > 0) & (largest < SMALLEST)))
    if len(beyond):
        raise InputError(f"{name}: expected values from {SMALLEST:g} to {LARGEST:g} in size, for their squares to be "
                         f"numbers; got at most {largest[beyond[0]]:g} in column {beyond[0]}; use other units")
    if not (keep_integers and np.issubdtype(array.dtype, np.integer)):
        return array.astype(np.float64)
    return _bring_near_zero(array) if peak > EXACT else array


def _bring_near_zero(array: np.ndarray) -> np.ndarray:
    """Return integers whose columns begin at 0 where floats would not tell their values apart, and could if they did.

    No metric of factors depends on where their values begin.
    """
    array = array.copy()
    for column, low, high in zip(array.T, array.min(0).tolist(), array.max(0).tolist(), strict=True):
        if max(abs(low), abs(high)) > EXACT >= high - low:
            column -= np.array(low, array.dtype)
    return array


def estimate_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of values [N]; NaN for fewer than two, which have none."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def discretise(column: np.ndarray, bins: Bins = 20, binning: str = "equal_width") -> np.ndarray:
    """Return a column [N] in `bins` bins, as integers 0..bins-1; a constant column gives 0.

    Bins are closed below, and the last one also above.

    Args:
        column: [N].
        bins: the number of bins.
        binning: "equal_width" over the column's range, or "quantile", with as many examples in each bin.

    Raises:
        InputError: no such binning, or fewer than one bin.
    """
    checks.check_choice("binning", binning, ("equal_width", "quantile"))
    if column.min() == column.max():
        return np.zeros(len(column), np.int64)
    edges = (np.linspace(column.min(), column.max(), bins + 1) if binning == "equal_width"
             else np.quantile(column, np.linspace(0, 1, bins + 1)))
    return np.digitize(column, edges[1:-1])


def find_classes(factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None) -> np.ndarray:
    """Return factors [N, K] as classes 0, 1, ...: discrete ones renumbered, others in `bins` equal-width bins.

    Args:
        factors: [N, K].
        bins: the number of bins of a continuous factor.
        kinds: see `vae_tf.kinds.decide`.

    Raises:
        InputError: a discrete factor most of whose values occur once; no class can be learned from those.
    """
    kinds = factor_kinds.decide(factors, kinds)
    check_recurring(factors, kinds, [kind != "continuous" for kind in kinds])
    columns = [discretise(column, bins) if kind == "continuous" else column
               for column, kind in zip(factors.T, kinds, strict=True)]
    return np.stack([np.unique(column, return_inverse=True)[1] for column in columns], -1)


def check_recurring(factors: np.ndarray, kinds: Sequence[str], classified: Sequence[bool]) -> None:
    """Raise InputError if a factor [N, K] that is classified has values most of which occur once."""
    for k, column in enumerate(factors.T):
        if classified[k] and not factor_kinds.recurs(column):
            raise InputError(f"factors: expected classes that recur; got {len(np.unique(column))} distinct values of "
                             f"factor {factor_kinds.tell_factor(k)}, which is {kinds[k]}, in {len(factors)} rows; give "
                             "more rows, or say that its kind is continuous")


def find_varying(metric: str, factors: np.ndarray, *parts: np.ndarray) -> np.ndarray:
    """Return which factors [N, K] vary, bool [K], and warn of those that do not.

    Args:
        metric: the name of the metric that leaves out the others.
        factors: of all rows.
        parts: indices of rows, in each of which a factor has to vary, too.

    Raises:
        InputError: none does.
    """
    constant = (factors == factors[:1]).all(0)
    varies = np.all([~constant, *((rows != rows[:1]).any(0) for rows in (factors[part] for part in parts))], axis=0)
    if constant.all():
        raise InputError("factors: expected at least one that varies; all are constant")
    if not varies.any():
        raise InputError(f"factors: expected at least one that varies among the rows that {metric} learns from or "
                         "tests, which are a part of all; more rows may help")
    if constant.any():
        warnings.warn(f"{metric} leaves out constant factors: {factor_kinds.tell_factors(constant)}", stacklevel=3)
    if (rare := ~constant & ~varies).any():
        warnings.warn(f"{metric} leaves out factors that are constant in the training or the test part of the rows: "
                      f"{factor_kinds.tell_factors(rare)}", stacklevel=3)
    return varies
