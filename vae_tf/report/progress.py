"""The progress line of an evaluation."""

import sys
import time

from vae_tf.console import format_clock, join_parts

EVERY = 10      # seconds between two lines where there is no terminal


class Progress:
    """The progress of scoring, with the time left: one line that is rewritten, or a line every 10 seconds in a pipe.

    Scoring has two parts, codes and then the decoder, which count from one on each.
    """

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.shown = time.monotonic()
        self.first = (0, self.shown)
        self.part = (0, 0)          # the number done and the total, last time

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` pieces of work are done."""
        now = time.monotonic()
        if total != self.part[1] or done < self.part[0]:
            self.first = (done, now)        # the pieces before may have been kept from an earlier evaluation
        self.part = (done, total)
        since, elapsed = done - self.first[0], now - self.first[1]
        left = f", {format_clock((total - done) * elapsed / since)} left" if since > 0 else ""
        line = join_parts("", f"{'  ' * self.live}scoring: {done:,} of {total:,}", [left], "", self.live)
        if self.live:
            print(f"\r{line}\033[K", end="\r\033[K" if done == total else "", file=sys.stderr, flush=True)
        elif now - self.shown >= EVERY:
            print(line, file=sys.stderr, flush=True)
            self.shown = now
