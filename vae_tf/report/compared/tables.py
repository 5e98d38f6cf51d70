"""Means and spreads of groups of models as tables: for a terminal, and as CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vae_tf.errors import make_printable
from vae_tf.report.compared.groups import Groups
from vae_tf.report.numbers import format_number
from vae_tf.report.table import NARROW

NAME, CELL, NARROW_CELL = 22, 20, 16        # columns of a terminal: the name of a score, a mean with its spread
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
         "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
         **{sign: f"\\{sign}" for sign in "&%$#_{}"}}


def explain_spread(groups: Groups) -> str:
    """Say what stands in a table of means, and what its spreads are over."""
    return (f"Mean ± standard deviation {groups.spread}; (2/3): 2 of 3 models have the score, and it means something "
            "for them. Chance: what codes score that have nothing to do with the factors, mean over models.")


def make_cells(groups: Groups, scores: Sequence[str]) -> dict[str, list[str]]:
    """Return {score: a cell for each group, and the chance level last}, as text; "" where there is no number."""
    return {name: [*(_describe(row, name) for row in groups.means), _average_chance(groups, name)] for name in scores}


def list_counts(groups: Groups) -> list[str]:
    """Return what stands below the label of each group: the number of its models."""
    return [f"{row['models']} model{'s' * (row['models'] != 1)}" for row in groups.means]


def make_compared_table(groups: Groups, scores: Sequence[str], width: int) -> RenderableType:
    """Make the table of a comparison as rich shows it: a row for each score, a column for each group.

    Groups that do not fit beside each other follow below.
    """
    cells = make_cells(groups, scores)
    headings = [Text(f"{label}\n{count}", "bold") for label, count in zip(groups.labels, list_counts(groups),
                                                                          strict=True)]
    headings.append(Text("chance", "bold"))
    shown = [i for i in range(len(headings)) if i < len(groups.labels) or any(row[-1] for row in cells.values())]
    cell = CELL if width >= NARROW else NARROW_CELL
    fitting = max(1, (width - NAME - 3) // (cell + 1))
    parts: list[RenderableType] = []
    for start in range(0, len(shown), fitting):
        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_column(width=NAME, overflow="fold")
        for _ in shown[start:start + fitting]:
            table.add_column(width=cell, overflow="fold")
        table.add_row(Text("score"), *(headings[i] for i in shown[start:start + fitting]))
        for name, row in cells.items():
            table.add_row(Text(name), *(Text(row[i] or "-") for i in shown[start:start + fitting]))
        parts += [Padding(table, (1, 0, 0, 2))]
    return Group(*parts, Padding(Text(explain_spread(groups), "dim"), (0, 2)))


def write_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as CSV: a column for each name, an empty cell where a row lacks it."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: make_printable(value) if isinstance(value, str) else value for name, value in row.items()}
                     for row in rows)
    return text.getvalue()


def write_markdown(groups: Groups, scores: Sequence[str]) -> str:
    """Write the table of a comparison as Markdown."""
    def write(cells: Sequence[str]) -> str:
        return "| " + " | ".join(re.sub(r"([\\|<>*_`\[\]])", r"\\\1", cell) for cell in cells) + " |"

    headings = ["score", *(f"{label} ({count})" for label, count in zip(groups.labels, list_counts(groups),
                                                                        strict=True)), "chance"]
    lines = [write(headings), "|---" + "|--:" * (len(headings) - 1) + "|",
             *(write([name, *row]) for name, row in make_cells(groups, scores).items())]
    return "\n".join([*lines, "", explain_spread(groups), ""])


def write_latex(groups: Groups, scores: Sequence[str]) -> str:
    """Write the table of a comparison as LaTeX, for the package booktabs."""
    def write(cells: Iterable[str]) -> str:
        return "  " + " & ".join(_escape_latex(cell) for cell in cells) + r" \\"

    lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{l{'r' * (len(groups.means) + 1)}}}", r"  \toprule",
             write(["", *groups.labels, "chance"]), write(["", *list_counts(groups), ""]), r"  \midrule",
             *(write([name, *row]) for name, row in make_cells(groups, scores).items()), r"  \bottomrule",
             r"\end{tabular}", *(f"% {line}" for line in explain_spread(groups).splitlines())]
    return "\n".join([*lines, ""])


def _describe(row: Mapping[str, Any], name: str) -> str:
    """Write the mean of a score of a group with its spread, and of how many models it is unless of all."""
    mean, spread, count = (row.get(f"{name}_{part}") for part in ("mean", "spread", "count"))
    if mean is None:
        return ""
    text = format_number(mean) if abs(mean) < 100 else f"{mean:.4g}"
    text += "" if spread is None else f" ± {format_number(spread) if abs(spread) < 100 else f'{spread:.3g}'}"
    return text if count == row["models"] else f"{text} ({count}/{row['models']})"


def _average_chance(groups: Groups, name: str) -> str:
    values = [row[f"{name}_chance"] for row in groups.rows if row.get(f"{name}_chance") is not None]
    return format_number(float(np.mean(values))) if values else ""


def _escape_latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text).replace("±", r"$\pm$")
