"""Tables as text for a terminal: the list of all tables, and the numbers of one."""

import statistics
import textwrap
from collections.abc import Sequence

from vae_tf.console import format_clock, name_program
from vae_tf.experiments import recipes, results, tables, values
from vae_tf.experiments.summaries import Summary, format_spread, format_value

WIDTH = 110


def list_tables(found: Sequence[results.Result]) -> list[str]:
    """Return lines that say of every table what it shows, how much is measured, and its cost at budget "full"."""
    lines = []
    for name, table in tables.load_readable().items():
        numbers = table.list_numbers()
        summary = Summary(table, found)
        measured = sum(bool(summary.get_number(*number).values) for number in numbers)
        runs = sum(map(len, summary.of.values()))
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


def describe_cost(table: tables.Table, found: Sequence[results.Result]) -> str:
    """Say what a table costs at its full length, in hours of one process, judged by the seconds in its results."""
    if table.measure:
        there = results.find_of_experiment(found, table.name)
        seconds = [each for each in (result["seconds"].get("scoring") for result in there) if each]
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
    of = [result for result in values.find_longest(table, cell, found) if result["seconds"].get("training") is not None
          and result["epochs"]]
    if not of:
        return None
    recipe = recipes.read(cell.recipe, cell.flags)
    ratio = {result["seed"]: (recipe.epochs / result["epochs"] if recipe.epochs else recipe.steps / result["steps"]
                              if recipe.steps else 1) for result in of}
    return statistics.mean(seconds["training"] / (seconds.get("replicas") or 1) * ratio[result["seed"]]
                           + (seconds.get("scoring") or 0) for result in of for seconds in [result["seconds"]])


def name_machines(table: tables.Table, found: Sequence[results.Result]) -> str:
    """Name the kinds of machines that the results of a table come from."""
    return "; ".join(sorted({result["machine"] for cell in table.cells
                                for result in values.find_longest(table, cell, found)}))


def list_numbers(table: tables.Table, found: Sequence[results.Result]) -> list[str]:
    """Return a table's numbers beside the printed ones as lines: mean and deviation over seeds, seeds, length.

    Those of longer trainings, which the page tells below a table's rows, are the last lines.
    """
    head = ("", "", "", "paper", "here", "seeds", "length")
    rows = [head]
    compared = Summary(table, found)
    longer = [(compared.longer, *number) for number in table.list_numbers() if number[0] in compared.longer_cells]
    for summary, cell, name in [*((compared, *number) for number in table.list_numbers()), *longer]:
        metric, number, shown = table.metrics[name], summary.get_number(cell, name), summary.of[cell.row, cell.column]
        missing = next(filter(None, (results.find_missing_entry(result, table.get_metric(cell, name))
                                     for result in shown)), None)
        ours = (format_number((number.mean, number.spread), metric.decimals) if number.mean is not None
                else "drawn" if number.values else "not run" if not shown
                else "dead" if all(map(results.is_dead, shown)) else f"no entry {missing}" if missing else "no score")
        length = f"{shown[0]['epochs']:g} epochs" if shown and "epochs" in shown[0] else ""
        rows.append((cell.row, cell.column, metric.label, format_number(cell.printed.get(name), metric.decimals),
                     ours, str(len(number.values) or len(shown) or ""), length))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def format_number(number: tuple[float, float | None] | None, decimals: int) -> str:
    """Write a number and its spread as text."""
    if number is None:
        return "-"
    mean, deviation = number
    return format_value(mean, decimals) + (f" +- {format_spread(deviation, decimals)}" if deviation is not None else "")
