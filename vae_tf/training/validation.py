"""The objective on examples that training does not see, and the weights with which it was lowest.

A validation uses the same examples, the same batches and the same noise every time. Two validations therefore differ
by the weights alone, which is what early stopping compares. The noise depends on the seed and on the number of a
batch's first example, as in `evaluate` of Keras' loops.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import data, graphs, models, replicas, runs, splitting
from vae_tf.data.spreading import draw_to_score
from vae_tf.errors import InputError
from vae_tf.typing import Array, Tensor

MOST_EXAMPLES = 5_000
MANY_BATCHES = 10
PREFIX = "validation_"          # of the terms in a row of history
LOSS = "validation_loss"

Rows = Sequence[Mapping[str, Any]]


def find_best(history: Rows) -> Mapping[str, Any] | None:
    """Return the row with the lowest loss of the validation part; the first of equals, None if no loss is finite."""
    return min((row for row in history if math.isfinite(row.get(LOSS, math.nan))), key=lambda row: row[LOSS],
               default=None)


def count_since_best(history: Rows) -> int:
    """Return the number of validations after the best one."""
    best = find_best(history)
    return sum(LOSS in row and (best is None or row["step"] > best["step"]) for row in history)


def has_ended(history: Rows, steps: int, early_stopping: int = 0) -> bool:
    """Return whether a run has made all of its steps, or was stopped early."""
    made = history[-1]["step"] if history else 0
    return made >= steps or 0 < early_stopping <= count_since_best(history)


class Validation:
    """The validations of a program, and the best weights of each replica.

    Args:
        program: what is trained.
        dataset: the examples of the validation part, of which 5,000 are drawn if there are more.
        batch_size: the largest number of examples of a batch.
        early_stopping: how many validations without improvement stop a replica; 0 for any number.
        histories: the rows of each replica before the step from which training goes on.
        states: the checkpoint of each replica at that step, or None.

    Raises:
        InputError: a checkpoint does not hold the best weights of its history.
    """

    def __init__(self, program: replicas.Program, dataset: data.Dataset, batch_size: int, early_stopping: int,
                 histories: Sequence[Rows], states: Sequence[Mapping[str, Array]] | None) -> None:
        self.program, self.early_stopping = program, early_stopping
        self.measure = _make_measure(program, dataset, batch_size)
        best = [find_best(history) for history in histories]
        self.lowest = [math.inf if row is None else row[LOSS] for row in best]
        self.waited = [count_since_best(history) for history in histories]
        self.weights: list[dict[str, Array]] = [{} for _ in histories]
        for i, (now, row) in enumerate(zip(program.collect_weights(), best, strict=True)):
            if states:
                kept = {name: states[i][runs.BEST + name] for name in now if runs.BEST + name in states[i]}
                if len(kept) != (0 if row is None else len(now)):
                    raise InputError("checkpoint: expected the weights of the best validation in history.csv, or none "
                                     "where there was no validation; got others: history.csv was deleted or changed; "
                                     "restore the file, or --restart starts over in a new folder")
                self.weights[i] = kept

    def has_stopped(self, replica: int) -> bool:
        """Return whether a replica was stopped early."""
        return 0 < self.early_stopping <= self.waited[replica]

    def add_terms(self, rows: Sequence[dict[str, Any]]) -> None:
        """Validate; add the terms to the row of each replica, and keep the weights of those that have improved."""
        terms = {name: values.numpy() for name, values in self.measure().items()}
        improved = []
        for i, row in enumerate(rows):
            if self.has_stopped(i):
                continue
            row.update({PREFIX + name: float(values[i]) for name, values in terms.items()})
            if math.isfinite(row[LOSS]) and row[LOSS] < self.lowest[i]:
                self.lowest[i], self.waited[i] = row[LOSS], 0
                improved.append(i)
            else:
                self.waited[i] += 1
        weights = self.program.collect_weights() if improved else []
        for i in improved:
            self.weights[i] = {name: np.array(array) for name, array in weights[i].items()}

    def collect_state(self, replica: int) -> dict[str, Array]:
        """Return what the checkpoint of a replica keeps: its best weights."""
        return {runs.BEST + name: array for name, array in self.weights[replica].items()}

    def restore_best(self) -> None:
        """Set the model of each replica to its best weights; one without any keeps its last."""
        self.program.assign_weights({i: weights for i, weights in enumerate(self.weights) if weights})


def choose_size(examples: int, batch_size: int) -> int:
    """Return the size of the batches of a validation: `batch_size`, which leaves out fewer examples than a batch.

    Where there are few batches, that may be many: the examples are then divided evenly if that leaves out fewer.
    """
    largest = min(batch_size, examples)
    if examples >= MANY_BATCHES * largest:
        return largest
    return max((largest, examples // -(-examples // largest)), key=lambda size: (examples // size * size, size))


def _make_measure(program: replicas.Program, dataset: data.Dataset, batch_size: int
                  ) -> Callable[[], Mapping[str, Tensor]]:
    """Return a function that gives the means of the objective's terms over the validation part, {name: [S]}.

    All batches are of one size, see `choose_size`, because terms such as a total correlation depend on it. Where
    there are more examples than are used, some are drawn, because the first may all have the same factors.
    """
    examples = min(len(dataset), MOST_EXAMPLES)
    size = choose_size(examples, batch_size)
    count = examples // size
    order = np.arange(len(dataset)) if len(dataset) == examples else draw_to_score(len(dataset), examples, 0)
    indices = order[:count * size]
    columns = [dataset.images_at(indices)]
    if program.models[0].u_size and dataset.u_at:
        columns.append(dataset.u_at(indices))
    columns = [column if column.dtype == np.uint8 else column.astype(np.float32) for column in columns]    # as batches
    stacked = [tf.constant(column.reshape(count, size, *column.shape[1:])) for column in columns]
    replicas_in_all = len(program.models)

    def measure_batch(first: Tensor, x: Tensor, u: Tensor = None) -> dict[str, Tensor]:
        x, u = (None if each is None else tf.concat([each] * replicas_in_all, 0) for each in (x, u))
        noise = program.draw_noise(first, x, training=False)
        return program.compute_terms(noise, models.scale_to_unit_range(x), u, 1.0, training=False)

    traced = graphs.trace(measure_batch, program.models)
    with splitting.in_parts(replicas_in_all == 1):
        names = traced.get_concrete_function(tf.constant(0), *(column[0] for column in stacked)).structured_outputs

    @tf.function
    def measure(*columns: Tensor) -> dict[str, Tensor]:
        totals = {name: tf.zeros(replicas_in_all) for name in names}
        for number in tf.range(count):
            terms = traced(number * size, *(column[number] for column in columns))
            totals = {name: totals[name] + terms[name] for name in totals}
        return {name: total / count for name, total in totals.items()}

    run = measure.get_concrete_function(*stacked)
    return lambda: run(*stacked)
