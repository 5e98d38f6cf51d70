"""Rows of history while training: means of the objective's terms, and TensorBoard logs of them."""

import numpy as np
import tensorflow as tf

STEPS = "row steps"     # in a checkpoint: how many steps of an unfinished row are done


class Row:
    """The row in the making: sums of the objective's terms, each [S], over the steps since the last row.

    A run that is stopped amid a row keeps them in its checkpoint, so that the row is the same once it goes on.

    Args:
        names: of the terms.
        replicas: S.
        states: the checkpoint of each replica that the run goes on from, or None.
    """

    def __init__(self, names, replicas, states=None):
        self.names, self.replicas = names, replicas
        self._start()
        if states and STEPS in states[0]:
            self.steps = int(states[0][STEPS])
            self.totals = {name: tf.constant([state[f"row {name}"] for state in states]) for name in names}

    def _start(self):
        self.totals = {name: tf.zeros(self.replicas) for name in self.names}
        self.steps = self.timed = 0         # of the row, and those of them that this process made
        self.seconds = 0.0

    def add(self, steps, totals, seconds):
        """Add so many steps; totals are the new sums."""
        self.totals = totals
        self.steps += steps
        self.timed += steps
        self.seconds += seconds

    def finish(self, step, batch_size):
        """The row of every replica, as it is at a step; the next one starts."""
        means = {name: total.numpy() / np.float32(self.steps) for name, total in self.totals.items()}
        rate = batch_size * self.timed / self.seconds
        self._start()
        return [{"step": step, "examples_per_second": rate, **{name: float(mean[i]) for name, mean in means.items()}}
                for i in range(self.replicas)]

    def state(self, replica):
        """What the checkpoint of a replica keeps of an unfinished row."""
        if not self.steps:
            return {}
        return {STEPS: self.steps, **{f"row {name}": total.numpy()[replica] for name, total in self.totals.items()}}


class Writers:
    """While entered, a function that writes the row of every run to its TensorBoard logs."""

    def __init__(self, folders):
        self.writers = [tf.summary.create_file_writer(str(run / "tensorboard")) for run in folders]

    def __enter__(self):
        return self._write

    def _write(self, rows):
        for writer, row in zip(self.writers, rows, strict=False):
            with writer.as_default():
                for name, value in row.items():
                    tf.summary.scalar(name, value, step=row["step"])

    def __exit__(self, *error):
        for writer in self.writers:
            writer.close()
