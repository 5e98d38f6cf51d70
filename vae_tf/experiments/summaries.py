"""Summarise what was measured of a table's cells over seeds, and compare it with what the paper prints and claims."""

import copy
import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from vae_tf.experiments import claims, results, tables, values

INSIDE, ORDER, NEITHER, ALONE = "inside", "same order", "neither", "outside, order not known"
HOLDS, FAILS, SO_FAR = "holds", "does not hold", "holds so far"
NO_SCORE, UNKNOWN = "cannot be told", "not run"


@dataclasses.dataclass(frozen=True)
class Number:
    """A metric of a cell over seeds.

    values: the value of each seed that has one, a number or a list. A dead model has no value of a metric that means
        nothing for it.
    dead: the number of models that are dead or nearly dead.
    runs: the number of models.
    over_seeds: which number stands for all seeds, one of tables.OVER_SEEDS.
    """

    values: tuple[Any, ...]
    dead: int
    runs: int
    over_seeds: str = "mean"

    @property
    def is_scalar(self) -> bool:
        return bool(self.values) and all(isinstance(value, int | float) for value in self.values)

    @property
    def mean(self) -> float | None:
        """The mean over seeds, or the largest value; None where nothing was measured, or lists were."""
        if not self.is_scalar:
            return None
        return max(self.values) if self.over_seeds == "largest" else statistics.fmean(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None for fewer than two, and beside a largest value."""
        several = self.is_scalar and len(self.values) > 1 and self.over_seeds == "mean"
        return statistics.stdev(self.values) if several else None


class Summary:
    """A table and the results that belong to its cells.

    Attributes:
        table: tables.Table.
        of: {(row, column): results by seed}, those of `values.find_of_row`.
        longer: the same table with the results of its cells' longest trainings.
        longer_cells: the cells that have longer trainings than those that they show here.
    """

    def __init__(self, table: tables.Table, found: Sequence[results.Result]) -> None:
        self.table = table
        self.of = {(row, column): there for row in dict.fromkeys(cell.row for cell in table.cells)
                   for column, there in values.find_of_row(table, row, found).items()}
        self.longer = copy.copy(self)
        self.longer.of = {(cell.row, cell.column): values.find_longest(table, cell, found) for cell in table.cells}
        self.longer_cells = [cell for cell in table.cells if self.longer._get_results(cell) != self._get_results(cell)]

    def get_number(self, cell: tables.Cell, name: str) -> Number:
        """Return a metric of a cell over seeds."""
        there = self._get_results(cell)
        known = tuple(value for value in self._list_values(cell, name) if value is not None)
        return Number(known, sum(map(results.is_dead, there)), len(there), self.table.metrics[name].over_seeds)

    def list_pairs(self, cell: tables.Cell, x: str, y: str) -> tuple[list[Any], list[Any]]:
        """Return two metrics of a cell, of each seed that has both."""
        both = [pair for pair in zip(self._list_values(cell, x), self._list_values(cell, y), strict=True)
                if None not in pair]
        return [pair[0] for pair in both], [pair[1] for pair in both]

    def _list_values(self, cell: tables.Cell, name: str) -> list[Any]:
        """Return a metric of a cell for each seed, None where it has no value."""
        return values.read_values(self.table, cell, name, self._get_results)

    def is_measured(self, cell: tables.Cell, name: str) -> bool:
        """Say whether a number was measured, if only to say that the models are dead."""
        number = self.get_number(cell, name)
        return bool(number.values or number.dead)

    def explain_none(self, cell: tables.Cell, name: str) -> str:
        """Say why the runs of a cell have no value of a metric."""
        metric = self.table.get_metric(cell, name)
        section, *path = metric.read.split(".")
        key = results.find_key(metric) or ".".join(path[:1])
        entries = [result.get(section, {}).get(key) or {} for result in self.of[cell.row, cell.column]
                   if section in ("metrics", "polarised_regime")]
        told = [why for entry in entries if (why := entry.get("no_meaning") or entry.get("skipped"))]
        if not told and metric.over_largest:
            told = [why for why in [values.explain_not_comparable(self.table, cell, name, self._get_results)] if why]
        return told[0] if told else "it was not measured"

    def judge(self, cell: tables.Cell, name: str) -> str | None:
        """Return INSIDE, ORDER, NEITHER or ALONE for a number that is printed and measured, else None.

        page.RULE says what they mean.
        """
        mean = self.get_number(cell, name).mean
        if name not in cell.printed or mean is None:
            return None
        printed, spread = cell.printed[name]
        least = 0.5 * 10.0 ** -self.table.metrics[name].decimals
        if abs(mean - printed) <= max(spread or 0, least) + 1e-9:
            return INSIDE
        ordered = [(mean - other.mean) * (printed - at) > 0 for at, other in self._list_peers(cell, name)
                   if other.mean is not None and at != printed]
        return ALONE if not ordered else ORDER if all(ordered) else NEITHER

    def _list_peers(self, cell: tables.Cell, name: str) -> list[tuple[float, Number]]:
        """Return (printed number, Number) of the models in a cell's row, or else in its column, trained as long."""
        others = [each for each in self.table.cells if each is not cell and name in each.printed]
        row = [each for each in others if each.row == cell.row]
        return [(each.printed[name][0], self.get_number(each, name))
                for each in row or [each for each in others if each.column == cell.column]
                if self.are_as_long([cell, each])]

    def measure_length(self, cell: tables.Cell) -> tuple[float, float | None, str]:
        """Return how long a measured cell was trained, how long its recipe trains, or None, and the unit of both."""
        return values.measure_length(cell, self._get_results(cell))

    def find_share(self, cell: tables.Cell) -> values.Share | None:
        """Return the share of its recipe's length for which a cell was trained; None without a length."""
        return values.find_share(cell, self._get_results(cell))

    def are_as_long(self, cells: Sequence[tables.Cell]) -> bool:
        """Say whether cells that were trained at all were trained for the same share of their recipes' lengths."""
        return values.are_as_long(cells, self._get_results)

    def _get_results(self, cell: tables.Cell) -> list[results.Result]:
        return self.of[cell.row, cell.column]

    def check(self, check: claims.Check) -> tuple[str, list[str]]:
        """Return HOLDS, FAILS, SO_FAR, NO_SCORE or UNKNOWN for a claim, with a line for each cell or row."""
        cells = self.list_cells(check)
        judged = [self._check_order(check, row) for row in dict.fromkeys(cell.row for cell in cells)
                  ] if check.rising else [self._check_bounds(check, cell) for cell in cells]
        states, lines = [holds for holds, _, _ in judged], [line for _, _, line in judged if line]
        state = (FAILS if False in states else (NO_SCORE if lines else UNKNOWN) if True not in states
                 else HOLDS if all(complete for _, complete, _ in judged) else SO_FAR)
        return state, lines

    def list_cells(self, check: claims.Check) -> list[tables.Cell]:
        """List the cells that a claim is about."""
        columns = check.columns or tuple(itertools.chain(*check.rising))
        return [cell for cell in self.table.cells
                if (not check.rows or cell.row in check.rows) and (not columns or cell.column in columns)]

    def _find_mean(self, cell: tables.Cell, name: str) -> float | None:
        """Return the mean that a claim is about; None where less than half of the runs have the metric."""
        number = self.get_number(cell, name)
        return None if 2 * len(number.values) < number.runs else number.mean

    def _explain_lack(self, cell: tables.Cell, name: str) -> str:
        """Say why a claim cannot be told of a cell that was run."""
        number = self.get_number(cell, name)
        some = f" in {number.runs - len(number.values)} of {number.runs} runs" if number.values else ""
        return f"no score{some} ({self.explain_none(cell, name)})"

    def _check_bounds(self, check: claims.Check, cell: tables.Cell) -> tuple[bool | None, bool, str]:
        """Return whether a number is within bounds (None without one), whether it was measured, and a line of runs."""
        place = "" if len(self.table.cells) == 1 else f"{cell.row}, {cell.column}: "
        if (mean := self._find_mean(cell, check.metric)) is None:
            return None, False, place + self._explain_lack(cell, check.metric) if self.of[cell.row, cell.column] else ""
        inside = (-math.inf if check.low is None else check.low) <= mean <= (
            math.inf if check.high is None else check.high)
        return inside, True, place + format_value(mean, self.table.metrics[check.metric].decimals)

    def _check_order(self, check: claims.Check, row: str) -> tuple[bool | None, bool, str]:
        """Return whether a row's columns rise from group to group, or None; whether all are measured; and a line."""
        decimals, groups, complete = self.table.metrics[check.metric].decimals, [], True
        told = [cell for group in check.rising for cell in self.table.cells if cell.row == row and cell.column in group
                and self._find_mean(cell, check.metric) is not None]
        if not self.are_as_long(told):
            shares = [(cell.column, self.find_share(cell)) for cell in told]
            return None, False, f"{row}: trained for different shares of their length (" + ", ".join(
                f"{column} {share.part:.3g}" for column, share in shares if share is not None) + ")"
        for group in check.rising:
            means = [(cell, self._find_mean(cell, check.metric)) for cell in self.table.cells
                     if cell.row == row and cell.column in group]
            complete &= all(mean is not None for _, mean in means)
            groups.append([(cell, mean) for cell, mean in means if mean is not None])
        groups = [group for group in groups if group]
        ran = [cell for group in check.rising for cell in self.table.cells if cell.row == row and cell.column in group
               and self.get_number(cell, check.metric).runs]
        lack = "".join(f"; {cell.column} {self._explain_lack(cell, check.metric)}" for cell in ran if cell not in told)
        if len(groups) < 2:
            return None, complete and not groups, f"{row}: {lack[2:]}" if lack else ""
        pairs = [(low, high) for one, other in itertools.pairwise(groups) for low in one for high in other]
        close = [f"{one.column} and {other.column}" for (one, _), (other, _) in pairs
                 if are_close(self.get_number(one, check.metric), self.get_number(other, check.metric))]
        lack += f"; less than two standard errors apart: {'; '.join(close)}" if close else ""
        single = [cell.column for cell in told if cell.recipe and len(self.get_number(cell, check.metric).values) == 1]
        lack += ("" if not single else "; one seed each, and so no standard error" if len(single) == len(told) else
                 f"; one seed of {', '.join(single)}, and so no standard error")
        return all(low < high for (_, low), (_, high) in pairs), complete, f"{row}: " + ", then ".join(
            ", ".join(f"{cell.column} {format_value(mean, decimals)}" for cell, mean in group) for group in groups
        ) + lack


def are_close(one: Number, other: Number) -> bool:
    """Return whether two means over several seeds each differ by no more than two standard errors of the difference."""
    if one.mean is None or other.mean is None or one.spread is None or other.spread is None:
        return False
    error = math.hypot(one.spread / math.sqrt(len(one.values)), other.spread / math.sqrt(len(other.values)))
    return abs(one.mean - other.mean) <= 2 * error


def describe_length(summary: Summary, cell: tables.Cell) -> str:
    """Say how long a cell was trained, out of how long if it was shortened, and which runs early stopping ended."""
    runs = summary.of[cell.row, cell.column]
    early = sorted(run["stopped_at"] for run in runs if "stopped_at" in run)
    ends = list(dict.fromkeys(f"{step:,}" for step in early[:1] + early[-1:]))
    stopped = f" ({len(early)} stopped early, at step{'s' * (len(ends) > 1)} {' to '.join(ends)})" if early else ""
    return f"{describe_set_length(summary, cell)}{stopped}"


def describe_set_length(summary: Summary, cell: tables.Cell) -> str:
    """Say for how long a cell was set to train, whether or not early stopping ended its runs before."""
    if not summary.of[cell.row, cell.column][0]["steps"]:
        return "untrained"
    done, whole, unit = summary.measure_length(cell)
    if is_shortened(summary, cell):
        return f"{done:,g} of {whole:,g} {unit}"
    share = summary.find_share(cell)
    # A run is a whole number of steps, so that its epochs need not be whole.
    rounded = share is not None and values.are_equal_shares(share, values.Share(1.0, share.steps))
    return f"{whole if rounded else done:,g} {unit}"


def is_shortened(summary: Summary, cell: tables.Cell) -> bool:
    """Say whether a cell was trained for less time than its recipe says."""
    share = summary.find_share(cell)
    return share is not None and not share.is_whole()


def list_claims(summary: Summary) -> list[str]:
    """Return a line for each claim of a table: whether it holds, what it says, and what was measured."""
    lines = []
    for check in summary.table.checks:
        state, measured = summary.check(check)
        lines.append(f"{state}: {check.says}" + (f" {summary.table.metrics[check.metric].label}: "
                                                 f"{'; '.join(measured)}" if measured else ""))
    return lines


def format_value(value: float, decimals: int = 2) -> str:
    """Write a number with so many decimals, or with two significant digits where decimals would hide it."""
    if value and (abs(value) < 10.0 ** -decimals or abs(value) >= 1e5):
        return f"{value:.2g}"
    return f"{value:.{decimals}f}"


def format_spread(spread: float, decimals: int) -> str:
    """Write a spread with so many decimals, or with two significant digits where it would be 0 with them."""
    return f"{spread:.{decimals}f}" if round(spread, decimals) else format_value(spread, decimals)
