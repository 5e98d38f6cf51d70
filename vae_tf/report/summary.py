"""The summary that a terminal shows of an evaluation: an answer a line, and where the rest is."""

import sys
from collections.abc import Callable, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vae_tf.errors import make_printable
from vae_tf.report.answers import Answer
from vae_tf.report.table import FEWEST, MOST, write_plain


def make_summary(answers: Sequence[Answer]) -> RenderableType:
    """Make the summary of answers, as rich shows it: a word for each question, and its answer beside it."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for answer in answers:
        table.add_row(Text(answer.word, "bold"), Text(make_printable(answer.short)))
    return Padding(table, (0, 2))


def write_summary(answers: Sequence[Answer], width: int = MOST) -> str:
    """Write the summary of answers as plain text."""
    return write_plain(make_summary(answers), width)


def show(make: Callable[[int], RenderableType]) -> None:
    """Print what a function makes for a width: styled on a terminal, in bold alone, and plain and wide in a pipe.

    A pipe's width does not follow COLUMNS, which readline sets to 80 for the child processes of any shell or debugger.
    """
    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        console.width = min(max(console.width, FEWEST), MOST)
        console.print(make(console.width))
    else:
        print(write_plain(make(MOST), MOST))
