"""What a metric returns, and what its inputs pass: checks, bins, classes."""

import dataclasses
import warnings

import numpy as np

from vae_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class Result:
    """A metric's score, the parts it is made of (arrays by name), and what the score means in a line."""

    name: str
    score: float
    parts: dict
    meaning: str

    def __str__(self):
        return f"{self.name} = {self.score:.4g}: {self.meaning}"


def checked(codes, factors=None):
    """codes as finite float64 [N, d] and factors as finite [N, K].

    Raises:
        InputError: which argument, what was expected, what came.
    """
    codes = _matrix("codes", codes)
    if factors is None:
        return codes, None
    factors = _matrix("factors", factors, keep_integers=True)
    if len(factors) != len(codes):
        raise InputError(f"factors: expected {len(codes)} rows, as many as codes; got {len(factors)}")
    return codes, factors


def _matrix(name, array, keep_integers=False):
    array = np.asarray(array)
    array = array.astype(np.int64) if array.dtype == bool else array
    if array.ndim != 2 or not array.size or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{name}: expected a non-empty array of real numbers [N, columns]; "
                         f"got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite values; got {np.count_nonzero(~np.isfinite(array))} NaN or infinite")
    return array if keep_integers and np.issubdtype(array.dtype, np.integer) else array.astype(np.float64)


def discretised(column, bins=20, binning="equal_width"):
    """A column [N] in `bins` bins: integers 0..bins-1; a constant column gives 0.

    binning: "equal_width" over the column's range, or "quantile", as many examples in each. Bins are closed
    below, the last one also above.

    Raises:
        InputError: no such binning, or fewer than one bin.
    """
    if binning not in ("equal_width", "quantile"):
        raise InputError(f"binning: expected equal_width or quantile; got {binning!r}")
    if bins < 1:
        raise InputError(f"bins: expected at least 1; got {bins}")
    if column.min() == column.max():
        return np.zeros(len(column), np.int64)
    edges = (np.linspace(column.min(), column.max(), bins + 1) if binning == "equal_width"
             else np.quantile(column, np.linspace(0, 1, bins + 1)))
    return np.digitize(column, edges[1:-1])


def classes(factors, bins=20):
    """Factors [N, K] as classes 0, 1, ...: integers renumbered, floats in `bins` equal-width bins.

    Raises:
        InputError: an integer factor most of whose values occur once; no class can be learned from those.
    """
    if not np.issubdtype(factors.dtype, np.integer):
        factors = np.stack([discretised(column, bins) for column in factors.T], -1)
    renumbered = np.stack([np.unique(column, return_inverse=True)[1] for column in factors.T], -1)
    for k, size in enumerate(renumbered.max(0) + 1):
        if size > max(len(factors) / 2, 2):
            raise InputError(f"factors: expected integers that recur; got {size} distinct values of factor {k} in "
                             f"{len(factors)} rows; give a continuous factor as floats, or more rows")
    return renumbered


def varying(metric, factors):
    """Which factors [N, K] vary, bool [K]; warns of those that do not.

    Raises:
        InputError: none does.
    """
    varies = (factors != factors[:1]).any(0)
    if not varies.any():
        raise InputError("factors: expected at least one that varies; all are constant")
    if not varies.all():
        warnings.warn(f"{metric} leaves out the constant factors {np.flatnonzero(~varies).tolist()}", stacklevel=3)
    return varies
