"""Tables and figures of papers, tables/NAME.toml: what is printed, and how each cell is measured here.

A table is data alone, so adding one needs no code. `read` returns a Table, or names the mistake in its file.
"""

import contextlib
import dataclasses
import math
import pathlib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vae_tf import files
from vae_tf.errors import InputError
from vae_tf.experiments import claims, recipes
from vae_tf.experiments.entries import Entries, is_a, take_positive

FOLDER = pathlib.Path(__file__).parent / "tables"
LARGEST = 2**24         # bytes of a table's file
MOST_DECIMALS = 15      # that a float64 has
BETTER = ("higher", "lower", "neither")
OVER_SEEDS = ("mean", "largest")
SHORTENED = ("quick", "standard")       # budgets that cells describe; "full" is the recipe as it stands
BUDGETS = (*SHORTENED, "full")
SERIES = ("row", "column", "cell")
FIGURES = ("scatter", "lines", "bars", "histograms", "points")
OVER_NUMBERS = ("scatter", "lines")         # whose x is a number of a run: a metric or a flag


@dataclasses.dataclass(frozen=True)
class Metric:
    """A number that is read out of a result.

    read: its path in the result, such as "metrics.dto.score"; see results.read_value.
    better: which direction is better, one of BETTER.
    evaluate: flags of evaluate.py with which it is measured, such as --examples=5000.
    decimals: the number of decimals that are printed; without a printed spread, half of the last decimal is the spread.
    over_largest: parts that stand beside what `read` names. The number is then the mean of these parts, each divided by
        its largest mean over seeds in the row, as bhowal's OD-score is: a comparison of the models of a row.
    over_seeds: which number stands for all seeds, one of OVER_SEEDS; p values, which are not averaged, need "largest".
    """

    name: str
    label: str
    better: str
    read: str
    evaluate: tuple[str, ...] = ()
    decimals: int = 2
    over_largest: tuple[str, ...] = ()
    over_seeds: str = "mean"


@dataclasses.dataclass(frozen=True)
class Budget:
    """How a cell is shortened: its epochs or steps (None for those of the recipe), and the number of seeds."""

    epochs: float | None = None
    steps: int | None = None
    seeds: int | None = None


@dataclasses.dataclass(frozen=True)
class Cell:
    """One model of a table: a recipe, trained with some seeds, and the numbers that the paper prints for it.

    recipe: flags/<recipe>.flags; None in an experiment that trains nothing, which a function measures.
    flags: flags of train.py, which come after those of the recipe.
    printed: {name of a metric: (number, its spread or None)}; empty where a figure prints no number.
    budgets: {"quick" or "standard": Budget}; a budget that is missing does not run the cell.
    needs: what must be downloaded first, and how; "" for nothing.
    read: {name of a metric: path}, where this cell reads it from another place than the others do.
    """

    row: str
    column: str
    recipe: str | None = None
    flags: tuple[str, ...] = ()
    printed: Mapping[str, tuple[float, float | None]] = dataclasses.field(default_factory=dict)
    budgets: Mapping[str, Budget] = dataclasses.field(default_factory=dict)
    needs: str = ""
    read: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A drawing of a table's numbers.

    kind: one of FIGURES.
    x, y: names of metrics; x may be the name of a flag, such as beta. Those of histograms and points each read
        {label: {"x": [...], "y": [...]}} of the first seed; x is then what stands below the axis.
    series: what tells the lines or colours apart, one of SERIES.
    """

    kind: str
    x: str
    y: tuple[str, ...]
    series: str = "column"
    title: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    name: the name of its file, by which it is known everywhere.
    where: where it is printed, such as "Table 2".
    shows: what it shows, in a sentence.
    seeds: the number of seeds of every cell at budget "full".
    spread: what the printed +- is.
    measure: "module:function" of an experiment that trains nothing, or None; the function takes no arguments and
        returns {name: {"score": number, ...}}, which becomes `metrics` of the result.
    """

    name: str
    title: str
    paper: str
    where: str
    shows: str
    metrics: Mapping[str, Metric]
    cells: tuple[Cell, ...]
    seeds: int = 1
    spread: str = ""
    measure: str | None = None
    figures: tuple[Figure, ...] = ()
    checks: tuple[claims.Check, ...] = ()
    notes: tuple[str, ...] = ()

    def list_numbers(self) -> list[tuple[Cell, str]]:
        """Return (cell, name of a metric) of every number to measure: the printed ones, or all if none is."""
        return [(cell, name) for cell in self.cells for name in (cell.printed or self.metrics)]

    def choose_length(self, cell: Cell, budget: str, seeds: int | None = None) -> tuple[str, int] | None:
        """Return a cell's length as a flag ("" for the recipe's own) and its number of seeds; None if it is not run."""
        chosen = Budget() if budget == "full" else cell.budgets.get(budget)
        if chosen is None:
            return None
        flag = (f"--epochs={chosen.epochs:g}" if chosen.epochs else f"--steps={chosen.steps}" if chosen.steps else "")
        return flag, seeds or chosen.seeds or self.seeds

    def get_metric(self, cell: Cell, name: str) -> Metric:
        """Return a metric with the path from which a cell reads it."""
        return dataclasses.replace(self.metrics[name], read=cell.read.get(name, self.metrics[name].read))


def list_names() -> list[str]:
    """Return the names of all tables, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Table:
    """Load a table by its name, or from a file whose path ends in .toml.

    Raises:
        InputError: there is no such table, or its file has a mistake.
    """
    if name.endswith(".toml"):
        return read(name)
    if name not in list_names():
        raise InputError(f"NAME: expected a table or figure, one of {', '.join(list_names())}, or the path of a file "
                         f"NAME.toml; got {name!r}")
    return read(FOLDER / f"{name}.toml")


def load_readable() -> dict[str, Table]:
    """Return all tables that can be read, by name, so that a mistake in one does not hide the others."""
    found = {}
    for name in list_names():
        with contextlib.suppress(InputError):
            found[name] = load(name)
    return found


def read(path: str | pathlib.Path) -> Table:
    """Read the table that a file describes.

    Raises:
        InputError: the line names the file and the entry, what was expected and what came.
    """
    path = pathlib.Path(path)
    try:
        data = tomllib.loads(files.read_bytes(path, LARGEST).decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: expected a table in TOML; {error.strerror}") from None
    except (ValueError, RecursionError) as error:       # of TOML, of Unicode, or of brackets in brackets
        raise InputError(f"{path}: expected a table in TOML; {error}") from None
    try:
        return _read_table(path.stem, data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_table(name: str, data: Any) -> Table:
    entries = Entries("", data)
    metrics = {key: _read_metric(key, value) for key, value in entries.take("metrics", dict).items()}
    if not metrics:
        raise InputError("metrics: expected at least one [metrics.NAME]; got none")
    cells = tuple(_read_cell(f"cells[{i}]", value, metrics) for i, value in enumerate(entries.take("cells", list)))
    figures = tuple(_read_figure(f"figures[{i}]", value, metrics, cells)
                    for i, value in enumerate(entries.take("figures", list, [])))
    checks = tuple(claims.read(f"checks[{i}]", value, metrics, cells)
                   for i, value in enumerate(entries.take("checks", list, [])))
    texts = {key: entries.take(key, str) for key in ("title", "paper", "where", "shows")}
    table = Table(name=name, metrics=metrics, cells=cells, figures=figures, checks=checks,
                  seeds=take_positive(entries, "seeds", 1), spread=entries.take("spread", str, ""),
                  measure=entries.take("measure", str, None), notes=entries.take_texts("notes"), **texts)
    entries.refuse_others()
    _check_measured(table)
    return table


def _check_measured(table: Table) -> None:
    """Raise InputError unless every cell says, in one way, how it is measured."""
    if table.measure is not None and table.measure.count(":") != 1:
        raise InputError(f"measure: expected module:function; got {table.measure!r}")
    if not table.cells:
        raise InputError("cells: expected at least one [[cells]]; got none")
    for i, cell in enumerate(table.cells):
        if (cell.recipe is None) == (table.measure is None):
            raise InputError(f"cells[{i}].recipe: expected a recipe, or a function to measure the whole table; got "
                             + ("neither" if cell.recipe is None else f"{cell.recipe!r} and {table.measure!r}"))
    places = [(cell.row, cell.column) for cell in table.cells]
    for i, place in enumerate(places):
        if place in places[:i]:
            raise InputError(f"cells[{i}]: expected one cell per row and column; got {' / '.join(place)} again")
    for i, cell in enumerate(table.cells):
        if cell.recipe is None:
            continue
        try:
            recipes.read(cell.recipe, cell.flags)
        except InputError as error:
            raise InputError(f"cells[{i}]: {error}") from None


def _read_metric(name: str, data: Any) -> Metric:
    entries = Entries(f"metrics.{name}", data)
    better = entries.take("better", str)
    if better not in BETTER:
        raise InputError(f"metrics.{name}.better: expected one of {', '.join(BETTER)}; got {better!r}")
    decimals = entries.take("decimals", int, 2)
    if not 0 <= decimals <= MOST_DECIMALS:
        raise InputError(f"metrics.{name}.decimals: expected 0 to {MOST_DECIMALS}; got {decimals}")
    over_seeds = entries.take("over_seeds", str, "mean")
    if over_seeds not in OVER_SEEDS:
        raise InputError(f"metrics.{name}.over_seeds: expected one of {', '.join(OVER_SEEDS)}; got {over_seeds!r}")
    metric = Metric(name, entries.take("label", str), better, entries.take("read", str),
                    entries.take_flags("evaluate"), decimals, entries.take_texts("over_largest"), over_seeds)
    entries.refuse_others()
    return metric


def _read_cell(where: str, data: Any, metrics: Collection[str]) -> Cell:
    entries = Entries(where, data)
    printed = {name: _read_printed(f"{where}.printed.{name}", value)
               for name, value in entries.take("printed", dict, {}).items()}
    read = entries.take("read", dict, {})
    for entry, given in (("printed", printed), ("read", read)):
        for name in given:
            if name not in metrics:
                raise InputError(f"{where}.{entry}: expected names of {', '.join(metrics)}; got {name!r}")
    budgets = {name: _read_budget(f"{where}.{name}", value) for name in SHORTENED
               if (value := entries.take(name, dict, None)) is not None}
    recipe = entries.take("recipe", str, None)
    cell = Cell(row=entries.take("row", str), column=entries.take("column", str),
                recipe=recipe and recipe.removesuffix(".flags"), flags=entries.take_flags("flags"), printed=printed,
                budgets=budgets, needs=entries.take("needs", str, ""), read=read)
    entries.refuse_others()
    return cell


def _read_printed(where: str, value: Any) -> tuple[float, float | None]:
    numbers = value if isinstance(value, list) else [value]
    if (len(numbers) not in (1, 2) or not all(is_a(number, float) and math.isfinite(number) for number in numbers)
            or min(numbers[1:], default=0) < 0):
        raise InputError(f"{where}: expected a number, or [number, spread]; got {value!r}")
    return float(numbers[0]), float(numbers[1]) if len(numbers) == 2 else None


def _read_budget(where: str, data: Any) -> Budget:
    entries = Entries(where, data)
    epochs = entries.take("epochs", float, None)
    steps, seeds = (take_positive(entries, name, None) for name in ("steps", "seeds"))
    if epochs is not None and (epochs <= 0 or steps is not None):
        raise InputError(f"{where}: expected epochs above 0, or steps, not both; got epochs = {epochs}"
                         + (f" and steps = {steps}" if steps else ""))
    entries.refuse_others()
    return Budget(epochs, steps, seeds)


def _read_figure(where: str, data: Any, metrics: Collection[str], cells: Sequence[Cell]) -> Figure:
    entries = Entries(where, data)
    figure = Figure(entries.take("kind", str), entries.take("x", str), entries.take_texts("y"),
                    entries.take("series", str, "column"), entries.take("title", str, ""),
                    entries.take("log_x", bool, False), entries.take("log_y", bool, False))
    entries.refuse_others()
    for name, value, choices in (("kind", figure.kind, FIGURES), ("series", figure.series, SERIES),
                                 *(("y", name, tuple(metrics)) for name in figure.y)):
        if value not in choices:
            raise InputError(f"{where}.{name}: expected one of {', '.join(choices)}; got {value!r}")
    if figure.kind in OVER_NUMBERS and figure.x not in metrics:
        for cell in cells:
            flags = recipes.read_flags_if_possible(cell.recipe, cell.flags) if cell.recipe else {}
            if flags is not None and figure.x not in flags:
                raise InputError(f"{where}.x: expected a metric of {', '.join(metrics)}, or a flag that the recipe of "
                                 f"every cell sets; got {figure.x!r}, which that of {cell.row}, {cell.column} does not")
    return figure
