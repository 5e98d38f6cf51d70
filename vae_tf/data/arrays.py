"""Make a dataset of the user's own arrays, read from an .npz file."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import kinds
from vae_tf.data import dataset, functions, in_memory, large, npz, stored
from vae_tf.errors import InputError, make_printable
from vae_tf.typing import Array, Booleans, Floats, Integers

Arrays = dict[str, Any]         # {name: array}

# Squares of numbers of this size, summed over an example, are numbers in float32; and so are their inverses.
LARGEST, SMALLEST = 1e15, 1e-15
KNOWN = ("images", "data", "factors", "factor_names", "factor_kinds", "u", "file_names")
ROUNDED = 0.499 / 255           # how far floats may be beyond [0, 1]: no farther than rounds to 0 or 255
# Networks start with weights for numbers of about 1: at this size, exponentials in the objective soon overflow.
LARGE = 1e3


def read_dataset(path: str) -> dataset.Dataset:
    """Return a Dataset from `images` [N, H, W, C] or `data` [N, n], optional `factors` [N, K] and `u` [N, |u|].

    Images are integers (0..255, or 0..1 if no pixel is above 1) or floats in [0, 1]. Factors of integers are ordinal,
    and so are floats that are whole numbers and recur, with a warning; other floats are continuous. `factor_kinds` [K],
    of kinds.KINDS, or one text for all, says otherwise; names may be given as `factor_names` [K]. NaN is a missing
    value, with a warning; a factor without any value is left out. Without u, the factors that no example lacks, scaled
    to [0, 1], are u. `file_names` [N] are what warnings and errors call the examples. A warning names arrays that are
    none of these.

    Raises:
        InputError: an array is wrong; the line names it, what was expected and what was given.
    """
    read = npz.read("dataset", path, leave=("images", "data"))
    made = make_dataset(path, read)
    if unknown := [make_printable(name) for name in read if name not in KNOWN]:
        warnings.warn(f"dataset: {path}: arrays that are not used: {', '.join(unknown)}; known names are "
                      f"{', '.join(KNOWN)}", stacklevel=3)
    return made


def make_dataset(path: str, arrays: Arrays, parts: Mapping[str, range] | None = None) -> dataset.Dataset:
    """Return a Dataset from arrays by name, as `read_dataset` describes them.

    Args:
        path: where they come from.
        arrays: {name: array}.
        parts: published "train" and "test" ranges.
    """
    arrays = _leave_out_empty(path, arrays)
    if ("images" in arrays) == ("data" in arrays):
        raise InputError(f"dataset: {path}: expected one array `images` [N, H, W, C] or `data` [N, n]; "
                         f"got {', '.join(arrays) or 'no arrays'}")
    name = "images" if "images" in arrays else "data"
    given = arrays[name]
    convert = functools.partial(convert_images if name == "images" else _convert_data, path)
    if isinstance(given, stored.StoredArray):
        examples_at, size = large.make_examples_at(given, convert), given.shape[0]
        x = examples_at(large.spread(size, given.row_size))
    else:
        x = convert(given)
        size = len(x)
    if not x.size:
        raise InputError(f"dataset: {path}: expected at least one example of one value, got shape {x.shape}")
    if name == "data":
        _check_size(path, name, x)
    if name == "data" and _find_largest(x) > LARGE:
        warnings.warn(f"dataset: {path}: the data reach {_find_largest(x):.3g} in size; networks start with "
                      "weights for numbers of about 1, so training may fail; divide the data by their standard "
                      "deviation", stacklevel=3)
    raw, values, factors = _read_factors(path, arrays, size)
    u = _match_rows(path, "u", arrays, size).astype(np.float32) if "u" in arrays else None
    if isinstance(given, stored.StoredArray):
        known_by = (given.shape, given.dtype.str, given.checksum, x, *(each for each in (raw, u) if each is not None),
                    *in_memory.describe_choice(factors))
        return functions.from_function(str(path), examples_at, size, values, factors, u, raw=raw, made_by=known_by)
    return in_memory.from_arrays(str(path), x, values, factors, u, dict(parts or {}), raw=raw)


def _read_factors(path: str, arrays: Arrays, examples: int) -> tuple[Any, Any, list[dataset.Factor]]:
    """Return the factors [N, K] as they are given and with classes numbered from 0, and what each of them is.

    Floats come as float32, as the fingerprint of the data has them, unless distinct classes would become one, or a
    continuous factor would lose more than a thousandth of its range.
    """
    if "factors" not in arrays:
        return None, None, []
    missing = _find_missing(arrays["factors"])
    given_factors = arrays["factors"] if missing is None else np.where(missing, 0, arrays["factors"])
    raw = _match_rows(path, "factors", arrays | {"factors": given_factors}, examples, np.float64)
    if missing is not None:
        raw[missing.reshape(raw.shape)] = np.nan
    names = npz.read_names(f"dataset: {path}", "factor_names",
                           arrays.get("factor_names", [f"v{k + 1}" for k in range(raw.shape[1])]))
    if len(names) != raw.shape[1]:
        raise InputError(f"dataset: {path}: expected {raw.shape[1]} factor_names, got {len(names)}")
    factors, given = [], arrays.get("factor_kinds")
    values = raw.astype(np.int64 if np.issubdtype(raw.dtype, np.integer) else np.float64)       # makes a copy
    single = raw.astype(np.float32) if raw.dtype.kind == "f" else raw
    exact = False           # whether a continuous factor needs float64
    with kinds.name_factors(names):
        decided = npz.decide_kinds(f"dataset: {path}", values, given)
    for k, (name, kind) in enumerate(zip(names, decided, strict=True)):
        size = None
        if kind != "continuous":
            rows = slice(None) if missing is None else ~missing.reshape(raw.shape)[:, k]
            known, values[rows, k] = np.unique(values[rows, k], return_inverse=True)
            size, kind = len(known), "ordinal" if given is None else kind
            single = single if len(np.unique(single[rows, k])) == size else raw
        elif _is_blurred(raw[:, k]):
            exact, single = True, raw
        factors.append(dataset.Factor(name, size, kind))
    whole = missing is None and all(factor.size for factor in factors)
    kept: Any = np.int64 if whole else np.float64 if exact else np.float32
    return single, values.astype(kept, copy=False), factors


def _is_blurred(column: Array) -> bool:
    """Return whether float32 blurs a column [N]: a number moves by a thousandth of the range, or half of them merge."""
    known = column[~np.isnan(column)] if column.dtype.kind == "f" else column
    single = known.astype(np.float32)
    moved = np.abs(single.astype(np.float64) - known).max()
    span = float(known.max()) - float(known.min())
    return bool(span and moved > 1e-3 * span) or 2 * len(np.unique(single)) < len(np.unique(known))


def _find_missing(factors: Array) -> Any:
    """Return which values of factors are NaN, bool of their shape; None if none is."""
    missing = np.isnan(factors) if factors.dtype.kind == "f" else np.zeros(0, bool)
    return missing if missing.any() else None


def _leave_out_empty(path: str, arrays: Arrays) -> Arrays:
    """Return arrays by name, without the factors that have no value at all; warnings name all that lack values."""
    arrays = {name: array.reshape(-1) if name == "factor_names" or (name == "factor_kinds" and array.ndim) else array
              for name, array in arrays.items()}
    factors = arrays.get("factors")
    if factors is None or factors.ndim not in (1, 2) or (found := _find_missing(factors)) is None:
        return arrays
    missing = found.reshape(len(factors), -1)
    names = arrays.setdefault("factor_names", np.array([f"v{k + 1}" for k in range(missing.shape[1])]))
    empty, names = missing.all(0), npz.read_texts(names)
    for k in np.flatnonzero(missing.any(0)):
        what = ("is left out: it has no value (NaN throughout)" if empty[k] else
                f"has no value (NaN) in {_list_rows(missing[:, k], _find_names(arrays, len(factors)))}, "
                "which scores leave out"
                + ("" if "u" in arrays else ", and it is no part of u"))
        warnings.warn(f"dataset: {path}: factor {make_printable(names[k]) if k < len(names) else k} {what}",
                      stacklevel=3)
    if empty.all():
        return {name: array for name, array in arrays.items() if name not in ("factors", "factor_names")}
    reduced = arrays | {"factors": factors.reshape(len(factors), -1)[:, ~empty]}
    for name in ("factor_names", "factor_kinds"):
        if name in arrays and arrays[name].shape == empty.shape:
            reduced[name] = arrays[name][~empty]
    return reduced


def _find_names(arrays: Arrays, examples: int) -> list[str] | None:
    """Return the names of the files that examples were read from; None if they are not known."""
    names = npz.read_texts(arrays.get("file_names", []))
    return [make_printable(name) for name in names] if len(names) == examples else None


def _list_rows(chosen: Booleans, names: Sequence[str] | None = None, most: int = 5) -> str:
    """Return the names or numbers of the rows where `chosen`, bool [N], is true, in words; the first if many are."""
    rows = np.flatnonzero(chosen)
    listed = ", ".join(names[row] if names else str(row) for row in rows[:most]) + (", ..." if len(rows) > most else "")
    if len(rows) == 1:
        return listed if names else f"row {listed}"
    return f"{len(rows):,} {'images' if names else 'rows'} ({listed})"


def _convert_data(path: str, data: Any, masks: bool | None = None, names: Sequence[str] | None = None) -> Floats:
    """Return vectors as float32 [N, n]; `masks` is for images alone, and errors call rows by their `names`."""
    converted = _convert_floats(path, "data", data, 2, names=names)
    if _find_largest(converted) > LARGEST:
        _check_size(path, "data", converted, names)
    return converted.astype(np.float32)


def convert_images(path: str, images: Any, masks: bool | None = None, names: Sequence[str] | None = None) -> Integers:
    """Return images as uint8 [N, H, W, C], 0 to 255, of any array that can only mean such images.

    Args:
        path: where they come from, for errors.
        images: integers or floats.
        masks: whether images of integers hold 0 and 1 alone; None if that is to be told from them.
        names: what errors call the images, instead of their rows.
    """
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if images.ndim != 4 or not all(images.shape[1:]):
        raise InputError(f"dataset: {path}: expected images [N, H, W, C], got shape {images.shape}")
    if images.shape[1] in (1, 3) and images.shape[3] > 4:
        raise InputError(f"dataset: {path}: expected images [N, H, W, C], with the channels last; got shape "
                         f"{images.shape}, which looks like [N, C, H, W]; store images.transpose(0, 2, 3, 1)")
    if images.dtype.kind in "bui":
        low, high = (images.min(), images.max()) if images.size else (0, 0)
        if low < 0 or high > 255:
            raise InputError(f"dataset: {path}: expected images as integers from 0 to 255 or as floats in [0, 1], "
                             f"got integers from {low} to {high}")
        if masks and high > 1:
            raise InputError(f"dataset: {path}: expected images of 0 and 1 alone, like all that were looked at first, "
                             f"got {high}")
        images = images.astype(np.uint8, copy=False)
        if masks or (masks is None and high <= 1):
            images *= np.uint8(255)         # done in place, because images may take most of the memory
        return images
    images = _convert_floats(path, "images", images, 4, names=names)
    low, high = (images.min(), images.max()) if images.size else (0, 1)
    if low < -ROUNDED or high > 1 + ROUNDED:
        hint = ("; divide them by 255" if low >= 0 and 2 < high <= 255 else
                "; clip them to [0, 1]" if low >= -0.5 and high <= 1.5 else "")
        raise InputError(f"dataset: {path}: expected images as integers from 0 to 255 or as floats in [0, 1], "
                         f"got floats in [{low:g}, {high:g}]{hint}")
    images *= 255                           # done in place, on the copy that _convert_floats has made
    return np.rint(images, out=images).astype(np.uint8)


def _convert_floats(path: str, name: str, array: Any, rank: int, kind: type = np.float32,
                    names: Sequence[str] | None = None) -> Any:
    """Return real numbers as an array of this rank: integers unchanged, truth values as 0 and 1, floats as `kind`.

    They must all be within the range of float32. `names` are what the error calls rows, see `_list_rows`.
    """
    array = array.astype(np.uint8) if array.dtype == bool else array
    if array.dtype.kind not in "uif" or array.ndim != rank:
        raise InputError(f"dataset: {path}: expected {name} as real numbers of rank {rank}, "
                         f"got {array.dtype} of shape {array.shape}")
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        kept = array.astype(np.float32)
    bad = ~np.isfinite(kept)
    if bad.any():
        beyond = np.isfinite(array) & bad
        what = ("values beyond float32, whose range ends at 3.4e+38, such as "
                f"{array[beyond][0]:g}" if beyond.any() else "NaN or infinite values")
        columns = f", in column {np.argmax(bad.any(0))} first" if rank == 2 and array.shape[1] > 1 else ""
        rows = _list_rows(bad.reshape(len(bad), -1).any(1), names)
        raise InputError(f"dataset: {path}: expected finite {name}, got {np.count_nonzero(bad)} {what}{columns}, "
                         f"in {rows}")
    return kept if kind is np.float32 else array.astype(kind)


def _check_size(path: str, name: str, array: Any, names: Sequence[str] | None = None) -> None:
    """Raise InputError for numbers [N, n] that are too large or, all of them, too small to compute with."""
    largest = _find_largest(array)
    if largest == 0 or SMALLEST <= largest <= LARGEST:
        return
    row, column = np.unravel_index(np.argmax(np.abs(array.astype(np.float64))), array.shape)
    place = names[int(row)] if names else f"row {row}"
    raise InputError(f"dataset: {path}: expected {name} from {SMALLEST:g} to {LARGEST:g} in size, for their squares to "
                     f"be numbers, got at most {array[row, column]:.17g}, in {place}, column {column}; use other "
                     "units, or leave it out")


def _find_largest(array: Any) -> float:
    """Return the largest size of a number in an array, without a copy of the array; 0 for an empty one."""
    return max(abs(float(array.max())), abs(float(array.min()))) if array.size else 0.0


def _match_rows(path: str, name: str, arrays: Arrays, examples: int, kind: type = np.float32) -> Any:
    """Return the array of this name with a row for each example, [N, ...]; one of rank 1 becomes a column."""
    array = arrays[name]
    array = array[:, np.newaxis] if array.ndim == 1 else array
    names = _find_names(arrays, len(array) if array.ndim else 0)
    array = _convert_floats(path, name, array, 2, kind, names)
    if not array.shape[1]:
        raise InputError(f"dataset: {path}: expected {name} of at least one column, got shape {array.shape}")
    _check_size(path, name, array, names)
    if len(array) != examples:
        raise InputError(f"dataset: {path}: expected {examples} rows of {name}, one per example, got {len(array)}")
    return array
