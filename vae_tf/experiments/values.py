"""The values of a table's cells, and for how long their models were trained."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vae_tf.experiments import recipes, results
from vae_tf.experiments.tables import Cell, Table

ROUNDED = 0.001         # the share of a length that its rounding may take
Of = Callable[[Cell], list[results.Result]]     # returns the results of a cell, ordered by seed


class Share(NamedTuple):
    """For what part of its recipe's length a model was trained, and how many steps that were."""

    part: float
    steps: int

    def is_whole(self) -> bool:
        """Say whether the training is not shortened."""
        return self.part > 1 or are_equal_shares(self, Share(1.0, self.steps))


def find_by_length(table: Table, cell: Cell, found: Sequence[results.Result]) -> list[list[results.Result]]:
    """Return the results of a cell: a list for each length of training, longest first, ordered by seed."""
    if not cell.recipe:
        return [there] if (there := results.find_of_experiment(found, table.name)) else []
    flags = recipes.read_flags_if_possible(cell.recipe, cell.flags)
    return results.find_by_length(found, flags) if flags else []


def find_longest(table: Table, cell: Cell, found: Sequence[results.Result]) -> list[results.Result]:
    """Return the results of the longest training of a cell that any seed has, ordered by seed."""
    return next(iter(find_by_length(table, cell, found)), [])


def find_of_row(table: Table, row: str, found: Sequence[results.Result]) -> dict[str, list[results.Result]]:
    """Return {column: the results that a cell of a row shows, ordered by seed}.

    Models are compared at the same share of their recipes' lengths. The row shows the longest share that all of its
    models have, if that is no shortened training. Of shortened ones it shows the share of which each model has the most
    seeds, or the longest of several such. Without a common share, each cell shows its longest training.
    """
    cells = [cell for cell in table.cells if cell.row == row]
    lengths = {cell.column: find_by_length(table, cell, found) for cell in cells}
    # An untrained model, which has no share, is compared with any other.
    trained = {cell.column: by_share for cell in cells if (by_share := _group_by_share(cell, lengths[cell.column]))}
    shares = sorted({share for by_share in trained.values() for share in by_share}, reverse=True)
    choices = [(share, {column: _find_at(by_share, share) for column, by_share in trained.items()}) for share in shares]
    common = [(share.is_whole(), min(map(len, chosen.values())), chosen) for share, chosen in choices
              if all(chosen.values())]
    best = next((each for each in common if each[0]), None) or max(common, key=lambda each: each[1], default=None)
    longest = {column: next(iter(by_length), []) for column, by_length in lengths.items()}
    return {**longest, **(best[2] if best else {})}


def _group_by_share(cell: Cell, by_length: Sequence[list[results.Result]]) -> dict[Share, list[results.Result]]:
    """Return the results of a cell by their share of its recipe's length."""
    return {share: of for of in by_length if (share := find_share(cell, of)) is not None}


def _find_at(by_share: Mapping[Share, list[results.Result]], share: Share) -> list[results.Result]:
    """Return the results of a share of a recipe's length, those with the most seeds; none if there are none."""
    return max((of for other, of in by_share.items() if are_equal_shares(other, share)), key=len, default=[])


def are_equal_shares(*shares: Share) -> bool:
    """Say whether shares of a length are the same, but for rounding: a run is a whole number of steps."""
    parts = [share.part for share in shares]
    # Half a step was rounded at most of the longest, and half a step of the shortest.
    return max(parts) <= (1 + max(ROUNDED, 1.01 / min(share.steps for share in shares))) * min(parts)


def measure_length(cell: Cell, there: Sequence[results.Result]) -> tuple[float, float | None, str]:
    """Return how long a measured cell was trained, how long its recipe trains, or None, and the unit of both."""
    recipe = recipes.read(cell.recipe or "", cell.flags)
    if recipe.epochs is not None:
        return there[0]["epochs"], recipe.epochs, "epochs"
    return there[0]["steps"], recipe.steps, "steps"


def find_share(cell: Cell, there: Sequence[results.Result]) -> Share | None:
    """Return the share of its recipe's length for which a cell was trained; None without a length."""
    if not cell.recipe or not there:
        return None
    done, whole, _ = measure_length(cell, there)
    return Share(done / whole, there[0]["steps"]) if whole else None


def are_as_long(cells: Sequence[Cell], of: Of) -> bool:
    """Say whether cells that were trained at all were trained for the same share of their recipes' lengths."""
    shares = [share for share in (find_share(cell, of(cell)) for cell in cells) if share is not None]
    return not shares or are_equal_shares(*shares)


def read_values(table: Table, cell: Cell, name: str, of: Of) -> list[Any]:
    """Return the values of a metric in the results of a cell, one for each seed; None where it was not measured.

    A metric with over_largest (see `tables.Metric`) needs values of every model in the cell's row.
    """
    metric = table.get_metric(cell, name)
    if not metric.over_largest:
        return [results.read_value(result, metric) for result in of(cell)]
    if explain_not_comparable(table, cell, name, of):
        return [None for _ in of(cell)]
    shares = []
    for row in _read_parts(table, cell, name, of):
        largest = max(statistics.mean(value for value in each if value is not None) for each in row.values())
        shares.append([None if each is None else each / largest if largest else 0.0 for each in row[cell.column]])
    return [None if None in each else statistics.mean(each) for each in zip(*shares, strict=True)]


def explain_not_comparable(table: Table, cell: Cell, name: str, of: Of) -> str | None:
    """Say why a metric with over_largest has no value in a row, or return None."""
    row = [other for other in table.cells if other.row == cell.row]
    parts = _read_parts(table, cell, name, of)
    lacking = [other.column for other in row
               if any(all(value is None for value in part[other.column]) for part in parts)]
    if lacking or len(row) < 2:
        return f"it compares the models of a row, and {' and '.join(lacking) or 'another one'} has none"
    return None if are_as_long(row, of) else "it compares the models of a row, which were trained for different lengths"


def _read_parts(table: Table, cell: Cell, name: str, of: Of) -> list[dict[str, list[Any]]]:
    """Return, for each part of over_largest, the values by seed of each column of the cell's row."""
    def read(other: Cell, part: str) -> list[Any]:
        metric = table.get_metric(other, name)
        raw = dataclasses.replace(metric, read=f"{metric.read.rpartition('.')[0]}.{part}")
        return [results.read_value(result, raw) for result in of(other)]

    return [{other.column: read(other, part) for other in table.cells if other.row == cell.row}
            for part in table.metrics[name].over_largest]
