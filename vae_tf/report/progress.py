"""The progress line of an evaluation."""

import sys
import time

from vae_tf.console import format_clock, join_parts

EVERY = 10      # seconds between two lines where there is no terminal


class Progress:
    """The progress of scoring, with the time left: one line that is rewritten, or a line every 10 seconds in a pipe.

    Scoring has two parts, codes and the decoder, whose numbers of pieces differ. The codes are begun first, and go on
    once the decoder is done.
    """

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.shown = time.monotonic()
        self.parts: dict[int, tuple[int, float, int]] = {}      # by total: done and when, at first; done last time

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` pieces of work are done."""
        now = time.monotonic()
        at_first, began, last = self.parts.get(total, (done, now, 0))
        if done < last:         # of another model
            at_first, began = done, now
        self.parts[total] = (at_first, began, done)
        since = done - at_first         # the pieces before may have been kept from an earlier evaluation
        left = f", {format_clock((total - done) * (now - began) / since)} left" if since > 0 else ""
        line = join_parts("", f"{'  ' * self.live}scoring: {done:,} of {total:,}", [left], "", self.live)
        if self.live:
            print(f"\r{line}\033[K", end="\r\033[K" if done == total else "", file=sys.stderr, flush=True)
        elif now - self.shown >= EVERY:
            print(line, file=sys.stderr, flush=True)
            self.shown = now
