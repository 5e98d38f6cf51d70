"""What a program shows on a terminal, and the signals it gets from there."""

import signal
import sys
import time

import numpy as np


class StopRequest:
    """While entered, SIGINT and SIGTERM set `requested` instead of killing; a second SIGINT kills."""

    def __enter__(self):
        self.requested = False
        self._before = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._request)
        except ValueError:      # not in the main thread: leave the signals alone
            pass
        return self

    def _request(self, number, frame):
        self.requested = True
        signal.signal(number, self._before[number])

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Progress:
    """One line on a terminal, rewritten; elsewhere a line every 10 seconds."""

    def __init__(self, steps, replicas=1, quiet=False):
        self.steps = steps
        self.replicas = replicas
        self.quiet = quiet
        self.started = self.shown = time.monotonic()
        self.first = None
        self.live = sys.stderr.isatty()

    def show(self, rows):
        """One line for all replicas: the means of their terms."""
        if self.quiet:
            return
        row = {name: np.mean([row[name] for row in rows]) for name in rows[0]}
        row["step"] = rows[0]["step"]
        now = time.monotonic()
        self.first = self.first or (row["step"], now)      # the first chunk holds the compilation
        since, elapsed = row["step"] - self.first[0], now - self.first[1]
        left = f"{_clock((self.steps - row['step']) * elapsed / since)} left" if since else "compiled"
        rate = f"{self.replicas * row['examples_per_second']:,.0f} examples/s"
        terms = [f"{name} {value:.4g}" for name, value in row.items() if name not in ("step", "examples_per_second")]
        line = "  ".join([f"step {row['step']:,}/{self.steps:,}", *terms, rate, left])
        if self.live:
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self.shown >= 10 or row["step"] == self.steps:
            print(line, file=sys.stderr, flush=True)
            self.shown = now

    def end(self):
        if self.live and not self.quiet:
            print(file=sys.stderr)


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
