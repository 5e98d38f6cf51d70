"""Datasets whose arrays are in memory, and the fingerprints of what determines examples."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import checks, kinds
from vae_tf.data.columns import find_lacking, scale, take_complete
from vae_tf.data.dataset import Dataset, Factor
from vae_tf.errors import InputError
from vae_tf.typing import Array, Floats


def fingerprint(*contents: Any) -> str:
    """Return a SHA-256 of what determines a dataset's examples, hexadecimal; about 1 s per GB.

    Args:
        contents: arrays, whose dtype, shape and values count; and strings and numbers: for examples that a program
            makes, its name, its version and its seed, because floats need not be the same on every processor.
    """
    digest = hashlib.sha256()
    for content in contents:
        if isinstance(content, np.ndarray):
            little = np.ascontiguousarray(content, content.dtype.newbyteorder("<"))
            digest.update(f"{little.dtype.str} {little.shape}\n".encode())
            digest.update(little.reshape(-1).view(np.uint8).data)
        else:
            plain = content.item() if isinstance(content, np.generic) else content      # their repr differs
            digest.update(f"{plain!r}\n".encode())
    return digest.hexdigest()


def from_arrays(name: str, x: Array, values: Array | None = None, factors: Iterable[Factor] = (),
                u: Floats | None = None, parts: dict[str, range] | None = None, made_by: Sequence[Any] = (),
                raw: Array | None = None, complete_grid: bool = False) -> Dataset:
    """Return a Dataset from arrays in memory.

    Args:
        name: the name of the dataset.
        x: uint8 images [N, H, W, C] or float32 data [N, n].
        values: factor values [N, K], or None; NaN for a value that is missing.
        factors: a Factor per column of values.
        u: [N, |u|], or None for the factors that no example lacks, scaled to [0, 1].
        parts: published "train" and "test" ranges.
        made_by: what determines the examples, for their fingerprint, if a program makes them; by default the arrays
            themselves, the names and kinds of the factors, and the published parts.
        raw: the factors [N, K] as their owner has them, which u is scaled from; values by default.
        complete_grid: whether the examples are every combination of the factors.

    Raises:
        InputError: arrays of other shapes or types, without a row for each example, or numbers that are not finite;
            or factors that are not those of `values`; or other parts.
    """
    _check_arrays(x, {"values": values, "u": u, "raw": raw})
    for part in (parts or {}).values():
        if set(parts or {}) != {"train", "test"} or not part or min(part) < 0 or max(part) >= len(x):
            raise InputError(f"parts: expected ranges of the {len(x):,} examples for train and test; got {parts}")
    if values is not None and raw is not None and not np.array_equal(find_lacking(values), find_lacking(raw)):
        raise InputError("raw: expected as many columns as values, which lack a value (NaN) where those do; got shape "
                         f"{raw.shape}")
    raw, factors = values if raw is None else raw, tuple(factors)
    _check_factors(values, factors)
    identity = fingerprint(*(made_by or [*(array for array in (x, raw, u) if array is not None),
                                         *describe_choice(factors, parts)]))
    u_range = None
    if values is not None and (lacking := find_lacking(values)).any():
        factors = tuple(factor._replace(incomplete=bool(lacks))
                        for factor, lacks in zip(factors, lacking, strict=True))
    if u is None and raw is not None and (scaled := take_complete(raw)).shape[1]:
        u_range = scaled.min(0), scaled.max(0)
        u = scale(scaled, *u_range)
    return Dataset(name, len(x), x.shape[1:], x.__getitem__, factors,
                   None if values is None else values.__getitem__,
                   None if u is None else u.__getitem__, 0 if u is None else u.shape[1], u_range, parts or {},
                   complete_grid, fingerprint=identity)


def describe_choice(factors: Iterable[Factor], parts: Mapping[str, range] | None = None) -> list[str]:
    """Return what of a dataset decides which examples a split chooses, beside the arrays, for its fingerprint."""
    named = [(str(factor.name), str(factor.kind)) for factor in factors]
    ranges = sorted((str(name), part.start, part.stop, part.step) for name, part in (parts or {}).items())
    return [repr(each) for each in (named, ranges) if each]


def _check_factors(values: Array | None, factors: Sequence[Factor]) -> None:
    """Raise InputError unless there is a factor for each column of values [N, K], which has values of its kind."""
    for factor in factors:
        if not isinstance(factor, Factor) or not (factor.size is None or isinstance(factor.size, int | np.integer)):
            raise InputError(f"factors: expected data.Factor(name, size, kind), size None or whole; got {factor!r}")
        checks.check_choice(f"kind of factor {factor.name}", factor.kind, kinds.KINDS)
        if factor.size is not None and factor.kind == "continuous":
            raise InputError(f"factors: expected size None of the continuous factor {factor.name}; got {factor.size}")
    names = [factor.name for factor in factors]
    if len(set(names)) < len(names):
        raise InputError(f"factors: expected names that differ; got {', '.join(names)}")
    columns = 0 if values is None else values.shape[1]
    if len(factors) != columns:
        raise InputError(f"factors: expected one for each of the {columns} columns of values; got {len(factors)}")
    for factor, column in zip(factors, () if values is None else values.T, strict=True):
        if factor.size is None:
            continue
        given = column[~np.isnan(column)]
        wrong = given[(given < 0) | (given >= factor.size) | (given != np.rint(given))]
        if len(wrong):
            raise InputError(f"values: expected whole numbers from 0 to {factor.size - 1} of factor {factor.name}, "
                             f"which has {factor.size} values; got {wrong[0]:g}")


def _check_arrays(x: Any, columns: Mapping[str, Any]) -> None:
    """Raise InputError unless x are examples, and each array of columns that is given has a row for each of them."""
    kind, rank = getattr(x, "dtype", None), getattr(x, "ndim", 0)
    if not ((kind == np.uint8 and rank == 4) or (kind is not None and kind.kind == "f" and rank == 2)) or not x.size:
        raise InputError("x: expected uint8 images [N, H, W, C] or float32 data [N, n]; got "
                         + (type(x).__name__ if kind is None else f"{kind} of shape {x.shape}"))
    if kind == np.uint8 and x.max() == 1:
        raise InputError("x: expected uint8 images from 0 to 255; got 0 and 1 alone, which is nearly black; of masks, "
                         "give 255 * x")
    for name, array in {"x": x, **columns}.items():
        if array is None:
            continue
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "uif" or (name != "x" and array.ndim != 2):
            raise InputError(f"{name}: expected an array of real numbers [N, columns]; got "
                             f"{array.dtype if isinstance(array, np.ndarray) else type(array).__name__} of shape "
                             f"{np.shape(array)}")
        if len(array) != len(x) or not array.size:
            raise InputError(f"{name}: expected {len(x)} rows, one for each example, of at least one column; got shape "
                             f"{array.shape}")
        may_lack = name in ("values", "raw")
        if array.dtype.kind == "f" and (bad := ~np.isfinite(array) & ~(may_lack & np.isnan(array))).any():
            row = np.argwhere(bad)[0]
            raise InputError(f"{name}: expected finite numbers{', or NaN for a missing one' * may_lack}; got "
                             f"{array[tuple(row)]:g} in row {row[0]}")
        if array.dtype.kind == "f" and (empty := np.isnan(array).all(0)).any():
            raise InputError(f"{name}: expected a value of each factor in some row; got NaN alone in column "
                             f"{int(np.argmax(empty))}")
