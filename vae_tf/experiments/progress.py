"""Show how far the tasks of an experiment are, and how long they will still take."""

import pathlib
import re
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vae_tf.console import format_clock, join_parts
from vae_tf.experiments import recipes, results, scheduling

EVERY = 30      # seconds between lines where there is no terminal
TAIL = 2_000    # bytes at the end of a log that say how far a task is


class Progress:
    """A line that is rewritten on a terminal, or printed every 30 seconds elsewhere; and a line for each task's end."""

    def __init__(self, tasks: Sequence[Any], found: Iterable[results.Result]) -> None:
        self.tasks = {task.label: task for task in tasks}
        self.known = {task.label: estimate_seconds(task, found) for task in tasks}
        self.seen: dict[str, tuple[float, int]] = {}        # when a task's steps were first seen, and how many
        self.paces: dict[str, float] = {}                   # seconds of a step of tasks that are or were at work
        self.ended: set[str] = set()
        self.started = time.monotonic()
        self.shown = 0.0
        self.live = sys.stderr.isatty()

    def show(self, outcomes: Mapping[str, tuple[str, str]], logs: Mapping[str, str], workers: int) -> None:
        """Show the state of all tasks; `scheduling.run` says what the arguments are."""
        now = time.monotonic()
        for label in outcomes.keys() - self.ended:
            state, why = outcomes[label]
            elapsed = format_clock(now - self.started)
            self._print(f"{state:<7} {label}{f': {why}' if why else ''} ({elapsed})", stays=True)
            self.ended.add(label)
        if self.live or now - self.shown >= EVERY:
            self.shown = now
            reached = {label: read_steps(logs[label]) for label in self.tasks.keys() - outcomes.keys()}
            at_work = [f"{label} at step {steps:,} of {self.tasks[label].steps:,}"
                       for label, steps in sorted(reached.items()) if steps]
            self._print(join_parts("; ", f"{len(outcomes)} of {len(self.tasks)} tasks done", at_work[:2],
                                   self.left(reached, now, workers), self.live), stays=not self.live)

    def left(self, reached: Mapping[str, int], now: float, workers: int) -> str:
        """Estimate the time left, in words, from the pace of tasks at work and from earlier results.

        Earlier results may be of another machine, or of one that was busy. So they are multiplied by how much
        slower the tasks of this command are, in the median.
        """
        for label, steps in reached.items():
            since, first = self.seen.setdefault(label, (now, steps)) if steps else (now, 0)
            if steps > first:
                self.paces[label] = (now - since) / (steps - first)
        ratios = [pace / known for label, pace in self.paces.items() if (known := self.known[label][0])]
        slower = statistics.median(ratios) if ratios else 1
        seconds, unknown = [], 0
        for label, steps in reached.items():
            task = self.tasks[label]
            training, scoring = (None if known is None else slower * known for known in self.known[label])
            training = self.paces.get(label, training)
            unknown += scoring is None or (training is None and task.steps > 0)
            seconds.append((training or 0) * (task.steps - steps) + (scoring or 0) * len(task.seeds))
        least = max(sum(seconds) / workers, *seconds, 0)
        if unknown and not least:
            return "time left not known yet"
        return f"{'at least ' * bool(unknown)}{format_clock(least)} left"

    def end(self) -> None:
        """Clear the line on the terminal."""
        if self.live:
            print(end="\r\033[K", file=sys.stderr, flush=True)

    def _print(self, line: str, stays: bool) -> None:
        start, end = ("\r\033[K", "\n" if stays else "") if self.live else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)


def estimate_seconds(task: Any, found: Iterable[results.Result]) -> tuple[float | None, float | None]:
    """Return the seconds of a training step, all seeds of a task together, and of scoring one seed; None if unknown.

    They are medians, because a run that was paused, or had a busy machine, took longer than others will.
    """
    flags = recipes.read(task.recipe, task.flags).flags if task.recipe else None
    seconds = [{**result["seconds"], "steps": result.get("stopped_at", result["steps"])} for result in found
               if flags and result.get("flags") == flags]
    training = [each["training"] / each["steps"] / (each.get("replicas") or 1) for each in seconds
                if each.get("training") and each["steps"]]
    scoring = [each["scoring"] for each in seconds if each.get("scoring")]
    return (statistics.median(training) * len(task.seeds) if training else None,
            statistics.median(scoring) if scoring else None)


def read_steps(log: str) -> int:
    """Return the last step that the end of a log names, or 0."""
    try:
        with pathlib.Path(log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            tail = file.read().decode(errors="replace")
    except FileNotFoundError:
        return 0
    told = re.findall(r"^step ([\d,]+)/", tail.rpartition(scheduling.STARTED)[2], re.MULTILINE)
    return int(told[-1].replace(",", "")) if told else 0
