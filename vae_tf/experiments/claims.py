"""Claims that a paper makes in words or by an order of its models, written so that they can be tested."""

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

from vae_tf.errors import InputError
from vae_tf.experiments.entries import Entries


@dataclasses.dataclass(frozen=True)
class Check:
    """A claim that a paper makes in words or by an order of its models, and that the measured numbers can test.

    says: the claim, in a sentence.
    metric: the name of the metric that the claim is about; its mean over seeds is tested.
    low, high: the bounds within which the metric must lie in every cell, or in the cells of `rows` and `columns`.
    rising: groups of columns. The metric must rise from each group to the next, in every row or in those of `rows`;
        such a claim has no bounds.
    """

    says: str
    metric: str
    low: float | None = None
    high: float | None = None
    rising: tuple[tuple[str, ...], ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def read(where: str, data: Any, metrics: Collection[str], cells: Sequence[Any]) -> Check:
    """Read the claim that an entry of `checks` describes; raise InputError if it cannot be tested."""
    entries = Entries(where, data)
    check = Check(entries.take("says", str), entries.take("metric", str), entries.take("low", float, None),
                  entries.take("high", float, None), _read_groups(entries),
                  entries.take_texts("rows"), entries.take_texts("columns"))
    entries.refuse_others()
    if (check.low is None and check.high is None) == (not check.rising):
        raise InputError(f"{where}: expected bounds (low, high, or both), or groups of columns in `rising`")
    if check.rising and len(check.rising) < 2:
        raise InputError(f"{where}.rising: expected at least two groups of columns; got one")
    if not all(bound is None or math.isfinite(bound) for bound in (check.low, check.high)) or (
            check.low is not None and check.high is not None and check.low > check.high):
        raise InputError(f"{where}: expected finite bounds, low no larger than high; got {check.low} and {check.high}")
    ordered = [name for group in check.rising for name in group]
    for name, value, choices in (("metric", check.metric, tuple(metrics)),
                                 *(("rows", row, [cell.row for cell in cells]) for row in check.rows),
                                 *(("columns", column, [cell.column for cell in cells])
                                   for column in (*check.columns, *ordered))):
        if value not in choices:
            raise InputError(f"{where}.{name}: expected one of {', '.join(dict.fromkeys(choices))}; got {value!r}")
    if len(set(ordered)) < len(ordered):
        raise InputError(f"{where}.rising: expected each column once; got {', '.join(ordered)}")
    return check


def _read_groups(entries: Entries) -> tuple[tuple[str, ...], ...]:
    groups = entries.take("rising", list, [])
    if not all(isinstance(group, list) and group and all(isinstance(name, str) for name in group) for group in groups):
        raise InputError(f"{entries.name_place('rising')}: expected lists of columns, such as [['VAE'], ['AE']]; "
                         f"got {groups!r}")
    return tuple(tuple(group) for group in groups)
