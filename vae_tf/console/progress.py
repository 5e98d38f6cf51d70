"""The progress line of training."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


class Progress:
    """The progress of training: on a terminal, one line that is rewritten; elsewhere a line every 10 seconds."""

    def __init__(self, steps: int, replicas: int = 1, quiet: bool = False) -> None:
        self.steps = steps
        self.replicas = replicas
        self.quiet = quiet
        self.started = self.shown = time.monotonic()
        self.first: tuple[int, float] | None = None
        self.live = sys.stderr.isatty()
        self.validated: dict[str, float] = {}       # the terms of the last validation, which not every row has

    def show(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show one line for all replicas: the means of their terms, and those of the last validation.

        Where no replica has a row, there is nothing to show.
        """
        if self.quiet or not rows:
            return
        row = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
        row["step"] = rows[0]["step"]
        self.validated.update({name: value for name, value in row.items() if name.startswith("validation_")})
        now = time.monotonic()
        self.first = self.first or (row["step"], now)      # the first chunk includes the compilation
        since, elapsed = row["step"] - self.first[0], now - self.first[1]
        left = f"{format_clock((self.steps - row['step']) * elapsed / since)} left" if since else "compiled"
        rate = f"{self.replicas * row['examples_per_second']:,.0f} examples/s"
        terms = [f"{name} {value:.4g}" for name, value in {**row, **self.validated}.items()
                 if name not in ("step", "examples_per_second")]
        line = join_parts("  ", f"step {row['step']:,}/{self.steps:,}", [*terms, rate], left, self.live)
        if self.live:
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self.shown >= 10 or row["step"] == self.steps:
            print(line, file=sys.stderr, flush=True)
            self.shown = now

    def end(self) -> None:
        if self.live and not self.quiet:
            print(file=sys.stderr)


def join_parts(between: str, first: str, middle: Sequence[str], last: str, live: bool) -> str:
    """Return the parts of a line; of one that is rewritten on a terminal, those parts alone that fit into its width.

    A terminal breaks a line that is too long, and would rewrite its end alone. The parts in the middle are left out
    from behind.
    """
    parts, width = list(middle), _measure_width() if live else sys.maxsize
    while len(line := between.join([first, *parts, last])) > width and parts:
        parts.pop()
    return line[:width]


def _measure_width() -> int:
    """Return how many characters fit into a line of the terminal of standard error, but for the cursor's own."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return columns - 1 if columns else sys.maxsize


def format_clock(seconds: float) -> str:
    """Return seconds as 4:05, or as 1:04:05 from an hour on."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
