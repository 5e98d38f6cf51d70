"""The rows of history: means of the objective's terms, and TensorBoard logs of them and of pictures."""

import contextlib
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from vae_tf.errors import InputError
from vae_tf.training.images import DESCRIPTIONS
from vae_tf.typing import Tensor

STEPS = "row steps"     # name of a checkpoint's entry: how many steps of an unfinished row are done


class Row:
    """The row in the making: sums of the objective's terms, each [S], over the steps since the last row.

    A run that is stopped amid a row keeps them in its checkpoint, so that the row is the same once it goes on. Where a
    run has ended at that very step, its row is whole, and `ended` says so: replicas may be killed when some have.

    Args:
        names: the names of the terms.
        replicas: S.
        states: the checkpoint of each replica that the run goes on from, or None.
    """

    def __init__(self, names: Sequence[str], replicas: int, states: Sequence[Mapping[str, Any]] | None = None) -> None:
        self.names, self.replicas = names, replicas
        self._start()
        unfinished = [state for state in states or () if STEPS in state]
        if states and unfinished:
            self.steps = int(unfinished[0][STEPS])
            self.ended = [STEPS not in state for state in states]
            missing = [name for name in names for state in unfinished if f"row {name}" not in state]
            if missing:
                raise InputError(f"checkpoint: expected an array row {missing[0]}; got none: another version of vae_tf "
                                 "wrote it; --restart starts over in a new folder")
            self.totals = {name: tf.constant([state.get(f"row {name}", np.float32(0)) for state in states])
                           for name in names}

    def _start(self) -> None:
        self.totals = {name: tf.zeros(self.replicas) for name in self.names}
        self.ended = [False] * self.replicas
        self.steps = self.timed = 0         # steps of the row, and those of them that this process made
        self.seconds = 0.0

    def add(self, steps: int, totals: dict[str, Tensor], seconds: float) -> None:
        """Add some steps, which took so many seconds; totals are the sums with them."""
        self.totals = totals
        self.steps += steps
        self.timed += steps
        self.seconds += seconds

    def finish(self, step: int, batch_size: int) -> list[dict[str, Any]]:
        """End the row at a step, and start the next; returns the row of every replica.

        Its rate is that of the steps which this process made, and 0 if it made none.
        """
        means = {name: total.numpy() / np.float32(self.steps) for name, total in self.totals.items()}
        rate = batch_size * self.timed / self.seconds if self.timed else 0.0
        self._start()
        return [{"step": step, "examples_per_second": rate, **{name: float(mean[i]) for name, mean in means.items()}}
                for i in range(self.replicas)]

    def collect_state(self, replica: int) -> dict[str, Any]:
        """Return what the checkpoint of a replica keeps of an unfinished row."""
        if not self.steps:
            return {}
        return {STEPS: self.steps, **{f"row {name}": total.numpy()[replica] for name, total in self.totals.items()}}


class Writers:
    """While entered, writes the TensorBoard logs of runs.

    The logs repeat the history, so a run goes on without them if they cannot be written.
    """

    def __init__(self, folders: Sequence[pathlib.Path]) -> None:
        self.folders = folders

    def __enter__(self) -> "Writers":
        self.writers: list[Any] = []
        with self._giving_up():
            self.writers = [tf.summary.create_file_writer(str(run / "tensorboard")) for run in self.folders]
        return self

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Warn if TensorFlow cannot write what is asked while entered, and write no more."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            self.writers = []
            reason = (getattr(error, "message", None) or str(error)).strip().splitlines()[0]
            warnings.warn(f"the TensorBoard logs of {self.folders[0]} cannot be written ({reason}); training goes on "
                          "without them", stacklevel=2)

    def write_rows(self, rows: Sequence[dict[str, Any] | None]) -> None:
        """Write the row of every run, or nothing for None."""
        with self._giving_up():
            self._write_events(rows)

    def _write_events(self, rows: Sequence[dict[str, Any] | None]) -> None:
        for writer, row in zip(self.writers, rows, strict=False):
            if row is None:
                continue
            # All scalars are one event: tf.summary.scalar would take longer than the steps of a small network.
            # Summaries that are written one after another merge into one, as repeated fields do.
            event = b"".join(scalar_pb(name, value).SerializeToString() for name, value in row.items())
            with writer.as_default():
                tf.summary.experimental.write_raw_pb(event, step=row["step"])

    def write_images(self, step: int, images: Mapping[str, Tensor]) -> None:
        """Write pictures of every run at a step, {name: [S, H, W, C]}, which images.DESCRIPTIONS describes."""
        with self._giving_up():
            for i, writer in enumerate(self.writers):
                with writer.as_default():
                    for name, pictures in images.items():
                        tf.summary.image(name, pictures[i:i + 1], step=step, description=DESCRIPTIONS[name])

    def __exit__(self, *error: Any) -> None:
        with self._giving_up():
            for writer in self.writers:
                writer.close()
