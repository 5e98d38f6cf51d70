"""The terminal of a program: streams that may go away, signals, and how far training is.

It imports nothing slow, so that a program can call `start` before anything else.
"""

import atexit
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Handler = Callable[[int, Any], Any]

# Signals that ask a program to stop; Windows lacks some of them.
STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to stop; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Stream(io.FileIO):
    """A file descriptor that drops what it cannot write: a closed pipe or a full disk must not cost a run."""

    def write(self, text: Any) -> int:
        try:
            return super().write(text) or len(text)
        except OSError:
            return len(text)


def start() -> None:
    """Prepare the process of a program; to be called before its slow imports.

    What is printed to a closed, broken or full stream is dropped. Until `interrupts` is entered, Ctrl-C ends the
    process at once: there is nothing to tidy up yet, and a KeyboardInterrupt amid imports is pages of traceback.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:     # closed; the next file that is opened must not take its place
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = _Stream(descriptor, "w", closefd=False)
        given = getattr(sys, name)      # None for one that was closed
        by_line = name == "stderr" or raw.isatty() or getattr(given, "write_through", False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding=getattr(given, "encoding", None),
                                  errors="backslashreplace", line_buffering=by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    atexit.register(_end_by_signal)     # the first to be registered is the last to run


_stopped_by: list[int] = []


def _end_by_signal() -> None:
    for number in _stopped_by:
        sys.stdout.flush()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def handle_stops(handler: Handler) -> dict[int, Any]:
    """Have `handler` called for every signal that asks to stop, but those that the parent had ignored (nohup).

    Returns {signal: handler before}; empty outside of the main thread, where signals cannot be handled.
    """
    try:
        return {number: signal.signal(number, handler) for number in STOPS
                if signal.getsignal(number) != signal.SIG_IGN}
    except ValueError:
        return {}


def run(program: str, main: Callable[[], Any]) -> None:
    """Call main(); a request to stop is one line, after everything has been tidied up, and ends the process by signal.

    A second request ends it at once.
    """
    def interrupt(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Interrupted(number)

    handle_stops(interrupt)
    try:
        main()
    except Interrupted as stop:
        print(f"{program}: stopped by {stop}", file=sys.stderr)
        _stopped_by.append(stop.number)
        sys.exit(128 + stop.number)


class StopRequest:
    """While entered, SIGINT, SIGTERM and SIGHUP set `requested`; a second one does what it would have done before.

    So does the first one until `worth_saving` is set.
    """

    def __enter__(self) -> "StopRequest":
        self.requested = self.worth_saving = False
        self._before = handle_stops(self._request)
        return self

    def _request(self, number: int, frame: Any) -> None:
        self.requested = True
        signal.signal(number, self._before[number])
        if not self.worth_saving:
            signal.raise_signal(number)

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Progress:
    """One line on a terminal, rewritten; elsewhere a line every 10 seconds."""

    def __init__(self, steps: int, replicas: int = 1, quiet: bool = False) -> None:
        self.steps = steps
        self.replicas = replicas
        self.quiet = quiet
        self.started = self.shown = time.monotonic()
        self.first: tuple[int, float] | None = None
        self.live = sys.stderr.isatty()

    def show(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """One line for all replicas: the means of their terms."""
        if self.quiet:
            return
        row = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
        row["step"] = rows[0]["step"]
        now = time.monotonic()
        self.first = self.first or (row["step"], now)      # the first chunk holds the compilation
        since, elapsed = row["step"] - self.first[0], now - self.first[1]
        left = f"{format_clock((self.steps - row['step']) * elapsed / since)} left" if since else "compiled"
        rate = f"{self.replicas * row['examples_per_second']:,.0f} examples/s"
        terms = [f"{name} {value:.4g}" for name, value in row.items() if name not in ("step", "examples_per_second")]
        line = "  ".join([f"step {row['step']:,}/{self.steps:,}", *terms, rate, left])
        if self.live:
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self.shown >= 10 or row["step"] == self.steps:
            print(line, file=sys.stderr, flush=True)
            self.shown = now

    def end(self) -> None:
        if self.live and not self.quiet:
            print(file=sys.stderr)


def format_clock(seconds: float) -> str:
    """Seconds as 4:05, or as 1:04:05 from an hour on."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
