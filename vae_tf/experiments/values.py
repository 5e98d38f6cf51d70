"""The values of a table's cells, and for how long their models were trained."""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from vae_tf.experiments import recipes, results
from vae_tf.experiments.tables import Cell, Table

Of = Callable[[Cell], list[results.Result]]     # returns the results of a cell, ordered by seed


def find_results(table: Table, cell: Cell, found: Sequence[results.Result]) -> list[results.Result]:
    """Return the results that a cell shows, one for each seed, ordered by it."""
    if not cell.recipe:
        return results.find_of_experiment(found, table.name)
    flags = recipes.read_flags_if_possible(cell.recipe, cell.flags)
    return results.find_of_cell(found, flags) if flags else []


def measure_length(cell: Cell, there: Sequence[results.Result]) -> tuple[float, float | None, str]:
    """Return how long a measured cell was trained, how long its recipe trains, or None, and the unit of both."""
    recipe = recipes.read(cell.recipe or "", cell.flags)
    if recipe.epochs is not None:
        return there[0]["epochs"], recipe.epochs, "epochs"
    return there[0]["steps"], recipe.steps, "steps"


def find_share(cell: Cell, there: Sequence[results.Result]) -> float | None:
    """Return the share of its recipe's length for which a cell was trained, 1 at most; None without a length."""
    if not cell.recipe or not there:
        return None
    done, whole, _ = measure_length(cell, there)
    # A run is a whole number of steps, so that its epochs need not be whole.
    return None if whole is None else 1.0 if done >= 0.999 * whole else done / whole


def are_as_long(cells: Sequence[Cell], of: Of) -> bool:
    """Say whether cells that were trained at all were trained for the same share of their recipes' lengths."""
    shares = [share for share in (find_share(cell, of(cell)) for cell in cells) if share is not None]
    return not shares or max(shares) <= 1.001 * min(shares)


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
    metric = table.get_metric(cell, name)
    raw = [dataclasses.replace(metric, read=f"{metric.read.rpartition('.')[0]}.{part}") for part in metric.over_largest]
    return [{other.column: [results.read_value(result, each) for result in of(other)]
             for other in table.cells if other.row == cell.row} for each in raw]
