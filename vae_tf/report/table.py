"""The scores as tables on a terminal, of any width, in colour or without."""

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vae_tf import verdicts
from vae_tf.evaluation import Evaluation
from vae_tf.report.rows import Row, gather_skipped, list_groups

SPREADS = """\
± is the standard error of a mean over x, and [low, high] a 95 % interval from half-samples of x, for the score of \
this many x, its bias included: more x may score outside it. Both are of this one trained model: how far apart models \
of other seeds are, only other seeds tell (--compare)."""
NARROW = 100        # columns, below which what a score means stands under it and not beside it
NAME, NUMBERS = 24, 41
FEWEST, MOST = 40, 140      # columns that text is laid out for


def write_table(evaluation: Evaluation, width: int = MOST) -> str:
    """Write the scores as text: first what the model is worth, then a line for each score with its meaning."""
    described = [] if evaluation.verdict is None else [Text(verdicts.describe(evaluation.verdict))]
    return write_plain(Group(*(Padding(text, (0, 2)) for text in described), make_tables(evaluation, width)), width)


def write_plain(shown: RenderableType, width: int) -> str:
    """Write what rich can show as plain text of a width, without spaces at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, emoji=False, markup=False,
                      legacy_windows=False)
    console.print(shown)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())     # type: ignore[attr-defined]


def make_tables(evaluation: Evaluation, width: int) -> RenderableType:
    """Make the table of each group of scores, as rich shows it, and the list of what was not scored."""
    parts: list[RenderableType] = [Padding(Text(SPREADS, "dim"), (0, 2))]
    for heading, rows in list_groups(evaluation).items():
        parts += [Padding(Text(heading, "bold"), (0, 2)), make_table(rows, width)]
    skipped = gather_skipped(evaluation)
    if skipped:
        parts += [Padding(Text("not scored", "bold"), (0, 2)),
                  *(Padding(_hang(f"{why}: {', '.join(names)}"), (0, 2, 0, 4)) for why, names in skipped.items())]
    return Group(*parts)


def make_table(rows: Sequence[Row], width: int) -> RenderableType:
    """Make a table of scores: name, number, and meaning, which stands below where the terminal is narrow."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=NAME, no_wrap=True)
    if width < NARROW:
        table.add_column(overflow="fold")
        lines: list[RenderableType] = []
        for row in rows:
            line = Table.grid(padding=(0, 1, 0, 0))
            line.add_column(width=NAME, no_wrap=True)
            line.add_column(overflow="fold")
            line.add_row(Text(row.name, "bold"), Text(row.numbers))
            lines += [Padding(line, (0, 0, 0, 2)), Padding(Text(row.meaning, "dim"), (0, 2, 0, 6))]
        return Group(*lines)
    table.add_column(width=NUMBERS, overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(Text(row.name, "bold"), Text(row.numbers), Text(row.meaning, "dim"))
    return Padding(table, (0, 2))


def _hang(text: str) -> RenderableType:
    """Return a text whose further lines are indented."""
    table = Table.grid()
    table.add_column(width=2)
    table.add_column(overflow="fold")
    table.add_row("-", Text(text))
    return table
