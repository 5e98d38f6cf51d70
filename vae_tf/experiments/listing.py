"""Tables as text for a terminal: the list of all tables, and the numbers of one."""

import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from vae_tf.console import format_clock, name_program
from vae_tf.experiments import recipes, results, tables

WIDTH = 110


def list_tables(found: Sequence[results.Result]) -> list[str]:
    """Return lines that say of every table what it shows, how much is measured, and its cost at budget "full"."""
    lines = []
    for name, table in tables.load_readable().items():
        numbers = table.list_numbers()
        measured = sum(any(value is not None for value in read_values(table, cell, metric, found))
                       for cell, metric in numbers)
        runs = sum(len(find_of_cell(table, cell, found)) for cell in table.cells)
        of = f"{measured} of {len(numbers)} numbers measured" + (f", {runs} runs" if runs and not table.measure else "")
        lines += [f"{name}  {table.paper}, {table.where}: {table.title}",
                  *textwrap.wrap(table.shows, WIDTH, initial_indent="    ", subsequent_indent="    "),
                  f"    {of}; {describe_cost(table, found)}"]
    lines += list_mistakes()
    return [*lines, "", f"{name_program()} NAME runs one; --budget=quick takes minutes; --help says more"]


def list_mistakes() -> list[str]:
    """Return a line for every table that cannot be read."""
    lines = []
    for name in sorted(set(tables.list_names()) - tables.load_readable().keys()):
        try:
            tables.load(name)
        except tables.InputError as error:
            lines.append(f"{name}  cannot be read: {error}")
    return lines


def find_of_cell(table: tables.Table, cell: tables.Cell, found: Sequence[results.Result]) -> list[results.Result]:
    """Return the results that a cell shows, one for each seed."""
    if not cell.recipe:
        return results.find_of_experiment(found, table.name)
    flags = recipes.read_flags_if_possible(cell.recipe, cell.flags)
    return results.find_of_cell(found, flags) if flags else []


def read_values(table: tables.Table, cell: tables.Cell, name: str, found: Sequence[results.Result]) -> list[Any]:
    """Return the values of a metric in the results of a cell, one for each seed, as `results.read_values` does."""
    return results.read_values(table, cell, name, lambda other: find_of_cell(table, other, found))


def describe_cost(table: tables.Table, found: Sequence[results.Result]) -> str:
    """Say what a table costs at its full length, in hours of one process, judged by the seconds in its results."""
    if table.measure:
        seconds = [result["seconds"]["scoring"] for result in results.find_of_experiment(found, table.name)]
        return f"{format_clock(seconds[0])} on {name_machines(table, found)}" if seconds else "its cost is not known"
    known, unknown = 0.0, 0
    for cell in table.cells:
        per_seed = estimate_seconds(table, cell, found)
        known, unknown = known + table.seeds * (per_seed or 0), unknown + (per_seed is None)
    if unknown == len(table.cells):
        return "its cost is not known"
    return (f"{'more than ' * bool(unknown)}{known / 3600:.1f} hours of one process on {name_machines(table, found)}"
            + (f" ({unknown} of {len(table.cells)} cells not known)" if unknown else ""))


def estimate_seconds(table: tables.Table, cell: tables.Cell, found: Sequence[results.Result]) -> float | None:
    """Return the seconds for one seed of a cell at the length of its recipe, or None if no result tells."""
    of = [result for result in find_of_cell(table, cell, found) if result["seconds"].get("training") is not None
          and result["epochs"]]
    if not of:
        return None
    recipe = recipes.read(cell.recipe, cell.flags)
    ratio = {result["seed"]: (recipe.epochs / result["epochs"] if recipe.epochs else recipe.steps / result["steps"]
                              if recipe.steps else 1) for result in of}
    return statistics.mean(result["seconds"]["training"] / result["seconds"]["replicas"] * ratio[result["seed"]]
                           + result["seconds"]["scoring"] for result in of)


def name_machines(table: tables.Table, found: Sequence[results.Result]) -> str:
    """Name the kinds of machines that the results of a table come from."""
    return " and ".join(sorted({result["machine"] for cell in table.cells
                                for result in find_of_cell(table, cell, found)}))


def list_numbers(table: tables.Table, found: Sequence[results.Result]) -> list[str]:
    """Return a table's numbers beside the printed ones as lines: mean and deviation over seeds, seeds, length."""
    head = ("", "", "", "paper", "here", "seeds", "length")
    rows = [head]
    for cell, name in table.list_numbers():
        metric = table.metrics[name]
        values = [value for value in read_values(table, cell, name, found) if value is not None]
        of, shown = [value for value in values if isinstance(value, int | float)], find_of_cell(table, cell, found)
        missing = next(filter(None, (results.find_missing_entry(result, table.get_metric(cell, name))
                                     for result in shown)), None)
        ours = (format_spread(compute_mean(of), metric.decimals) if of else "drawn" if values else "not run"
                if not shown else "dead" if all(map(results.is_dead, shown)) else f"no entry {missing}" if missing
                else "no score")
        length = f"{shown[0]['epochs']:g} epochs" if shown and "epochs" in shown[0] else ""
        rows.append((cell.row, cell.column, metric.label, format_spread(cell.printed.get(name), metric.decimals),
                     ours, str(len(of) or len(shown) or ""), length))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def compute_mean(of: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the standard deviation of numbers; the deviation of one number is None."""
    return statistics.mean(of), statistics.stdev(of) if len(of) > 1 else None


def format_spread(number: tuple[float, float | None] | None, decimals: int) -> str:
    """Write a number and its spread as text."""
    if number is None:
        return "-"
    mean, deviation = number
    return f"{mean:.{decimals}f}" + (f" +- {deviation:.{decimals}f}" if deviation is not None else "")
