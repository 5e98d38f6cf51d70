"""Conditions on factors in words, such as shape=2,x>16, and the examples that meet all of them."""

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf.errors import InputError
from vae_tf.typing import Array, Booleans

# How a split says that the examples that meet conditions are held out.
PREFIX = "hold_out:"
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "=": operator.eq, "<": operator.lt, ">": operator.gt}
EXACT = 1e16        # whole numbers below are written without an exponent
FORM = f"{PREFIX} and conditions NAME{{=,!=,<,<=,>,>=}}NUMBER on factors, such as {PREFIX}shape=2,x>16"


class Condition(NamedTuple):
    """A factor by its name, a key of COMPARISONS, and the number that the factor is compared with."""

    factor: str
    comparison: str
    number: float

    def __str__(self) -> str:
        whole = self.number.is_integer() and abs(self.number) < EXACT
        return f"{self.factor}{self.comparison}{int(self.number) if whole else self.number!r}"


def read(split: str) -> tuple[Condition, ...]:
    """Return the conditions of a split that starts with PREFIX.

    Raises:
        InputError: the text has another form.
    """
    found = []
    for part in split.removeprefix(PREFIX).split(","):
        name, *rest = (piece.strip() for piece in re.split("(<=|>=|!=|=|<|>)", part, maxsplit=1))
        try:
            number = float(rest[1]) if name and rest else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"split: expected {FORM}; got {part!r}")
        found.append(Condition(name, rest[0], number))
    return tuple(found)


def write(conditions: Sequence[Condition]) -> str:
    """Return the split of conditions, in one form for all ways to write them."""
    return PREFIX + ",".join(map(str, conditions))


def find_matches(conditions: Sequence[Condition], names: Sequence[str], values: Array | None) -> Booleans:
    """Return which examples meet all conditions, bool [N].

    Args:
        conditions: as `read` returns them.
        names: the names of the factors.
        values: [N, K]; None for data without factors.

    Raises:
        InputError: no such factor, or no example or every example meets the conditions.
    """
    for condition in conditions:
        if values is None or condition.factor not in names:
            raise InputError(f"split: expected conditions on {', '.join(names) or 'factors, of which there are none'}; "
                             f"got {condition}")
    columns = [(np.asarray(values)[:, names.index(name)], comparison, number)
               for name, comparison, number in conditions]
    # An example that lacks the value meets no condition on it, not even !=.
    with np.errstate(over="ignore"):        # numbers beyond those of float32, such as 1e39, are infinite there
        matches = np.all([COMPARISONS[comparison](column, number) & ~np.isnan(column)
                          for column, comparison, number in columns], axis=0)
    if matches.all() or not matches.any():
        spans = {name: (np.nanmin(column), np.nanmax(column)) for (name, *_), (column, *_) in
                 zip(conditions, columns, strict=True) if not np.isnan(column).all()}
        raise InputError(f"split: expected conditions that some examples meet and others do not; "
                         f"{'all' if matches.all() else 'none'} of {len(matches):,} meet "
                         f"{', '.join(map(str, conditions))}, where "
                         + (", ".join(f"{name} is from {low:g} to {high:g}" for name, (low, high) in spans.items())
                            or "all values are missing"))
    return matches
