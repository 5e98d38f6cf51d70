"""Checks of arguments. Each check returns the value, or raises an InputError of one line that names the argument."""

import inspect
import math
import numbers
import os
import pathlib
import sys
from collections.abc import Collection
from typing import Any

from vae_tf.errors import InputError

LONGEST_NAME = 255      # bytes of a file's name on all usual file systems
# Numbers that float32 and int32 hold, because TensorFlow computes with them.
LARGEST_FLOAT, SMALLEST_FLOAT, LARGEST_INTEGER = 3.4e38, 1.2e-38, 2**31 - 1


def check_function(name: str, value: Any, takes: Any) -> None:
    """Refuse a value that cannot be called with as many arguments as `takes` lists; Ellipsis stands for any."""
    if not callable(value):
        raise InputError(f"{name}: expected a function; got {describe(value)}")
    if takes is Ellipsis:
        return
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):     # functions written in C may have none
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        count = f"{len(takes)} argument{'s' * (len(takes) != 1)}"
        raise InputError(f"{name}: expected a function that takes {count}; got one that does not: {error}") from None


def describe(value: Any) -> str:
    """Return a value in a few words, however long it is: its text, an array's shape, or its class."""
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"{type(value).__name__} of shape {tuple(shape)}"
    try:
        text = repr(value)
    except ValueError:          # a whole number of more than 4,300 digits
        text = "..."
    kind = type(value).__name__
    return text if len(text) <= 100 and text.isprintable() else (
        f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind} of {len(text)} characters")


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Check that a value is one of the names in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}; got {describe(value)}")
    return value


def check_whole(name: str, value: Any, low: float, high: float = math.inf) -> int:
    """Check that a value is a whole number, Python's or NumPy's, from low to high; returns Python's."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        bounds = f", {low:,} to {high:,}" if high < math.inf else f", {low:,} or more" if low > -math.inf else ""
        raise InputError(f"{name}: expected a whole number{bounds}; got {describe(value)}")
    return int(value)


def check_number(name: str, value: Any, low: float = -math.inf, above: float = -math.inf,
                 high: float = math.inf) -> float:
    """Check that a value is a finite number, at least `low`, more than `above` and at most `high`."""
    finite = isinstance(value, numbers.Real) and not isinstance(value, bool) and _is_finite(value)
    if not finite or value < low or value <= above or value > high:
        bound = f", {low:g} or more" if low > -math.inf else f" above {above:g}" if above > -math.inf else ""
        bound += f", at most {high:g}" if high < math.inf else ""
        raise InputError(f"{name}: expected a finite number{bound}; got {describe(value)}")
    return value


def check_path(name: str, value: Any) -> Any:
    """Check that a value is a text or a pathlib.Path that a file system can hold, and TensorFlow, which takes UTF-8.

    An empty path is refused: it is an unset variable of a shell, and would mean the root.
    """
    if not isinstance(value, str | pathlib.PurePath):
        raise InputError(f"{name}: expected a name or path; got {describe(value)}")
    text = str(value)
    if not text.strip():
        raise InputError(f"{name}: expected a name or path; got an empty one")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"{name}: expected a name or path in UTF-8, without null characters; got {text!r}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InputError(f"{name}: expected letters of the encoding {sys.getfilesystemencoding()}, which files' names "
                         f"have here; got {text!r}; PYTHONUTF8=1 sets UTF-8") from None
    if any(len(part.encode()) > LONGEST_NAME for part in text.split("/")):
        raise InputError(f"{name}: expected names of files and folders of at most {LONGEST_NAME} bytes; got "
                         f"{describe(text)}")
    return value


def _is_finite(value: numbers.Real) -> bool:
    """Return whether a number is finite as a float, which a whole number of 400 digits is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_shape(name: str, value: Any) -> tuple[int, ...]:
    """Check that a value is the shape of an example, (H, W, C) or (n,); returns it in Python's whole numbers."""
    sizes = tuple(value) if isinstance(value, tuple | list) else ()
    if len(sizes) not in (1, 3) or not all(isinstance(size, numbers.Integral) and int(size) > 0 for size in sizes):
        raise InputError(f"{name}: expected the sizes of an example, (height, width, channels) or (n,); "
                         f"got {describe(value)}")
    return tuple(map(int, sizes))
