"""Checks of arguments. Each check returns the value, or raises an InputError of one line that names the argument."""

import math
import numbers
from collections.abc import Collection
from typing import Any

from vae_tf.errors import InputError


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Check that a value is one of the names in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}: expected one of {', '.join(choices)}; got {value!r}")
    return value


def check_whole(name: str, value: Any, low: float, high: float = math.inf) -> Any:
    """Check that a value is a whole number, Python's or NumPy's, from low to high."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        to = f"to {high:,}" if high < math.inf else "or more"
        raise InputError(f"{name}: expected a whole number, {low:,} {to}; got {value!r}")
    return value


def check_number(name: str, value: Any, low: float = -math.inf, above: float = -math.inf) -> float:
    """Check that a value is a finite number, at least `low` and more than `above`."""
    finite = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not finite or value < low or value <= above:
        bound = f", {low:g} or more" if low > -math.inf else f" above {above:g}" if above > -math.inf else ""
        raise InputError(f"{name}: expected a finite number{bound}; got {value!r}")
    return value


def check_shape(name: str, value: Any) -> tuple[int, ...]:
    """Check that a value is the shape of an example, (H, W, C) or (n,)."""
    sizes = tuple(value) if isinstance(value, tuple | list) else ()
    if len(sizes) not in (1, 3) or not all(isinstance(size, numbers.Integral) and int(size) > 0 for size in sizes):
        raise InputError(f"{name}: expected the sizes of an example, (height, width, channels) or (n,); got {value!r}")
    return sizes
