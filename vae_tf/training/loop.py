"""The training loop: steps, rows of history, checkpoints, requests to stop."""

import itertools
import math
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks, data, devices, graphs, memory, models, replicas, runs
from vae_tf.console import Progress, StopRequest
from vae_tf.data.batches import distribute_batches, draw_permutation, make_batches
from vae_tf.errors import InputError
from vae_tf.train_step import make_train_steps
from vae_tf.training import failures
from vae_tf.training.agreement import Workers
from vae_tf.training.callbacks import tell_callbacks
from vae_tf.training.images import EXAMPLES, draw_pictures
from vae_tf.training.rows import Row, Writers
from vae_tf.training.schedule import Schedule
from vae_tf.training.validation import Validation

WATCHED_EXAMPLES = 500
CALL_SECONDS = 0.5          # seconds of training per call from Python; a request to stop is seen between calls


class Loop:
    """The training of a program, from where its runs are to the end of a schedule.

    Args:
        program: what is trained.
        dataset: the examples to train on.
        strategy: the tf.distribute strategy in scope.
        run_dirs: the folder of each replica's run, or None.
        schedule: how long, and how often what happens.
        configs: the configuration of each run as JSON has it, which is written into its folder; None writes none.

    Raises:
        InputError: data that the models cannot take, or a run that is past the schedule's steps. Nothing is written.
    """

    def __init__(self, program: replicas.Program, dataset: data.Dataset, strategy: tf.distribute.Strategy,
                 run_dirs: Sequence[str | pathlib.Path | None], schedule: Schedule,
                 configs: Sequence[Mapping[str, Any]] | None = None) -> None:
        for given in (dataset, schedule.validation):
            if given is not None:
                _check_data(program.models[0], given)
        if schedule.images_every and not dataset.is_image:
            raise InputError(f"images_every: expected 0 for data that are no images; got {schedule.images_every:,}")
        if schedule.jit_compile and tf.distribute.has_strategy():
            raise InputError("jit_compile: XLA compiles for one device without a strategy; expected False under a "
                             f"{type(strategy).__name__}; got {schedule.jit_compile!r}")
        memory.check_fits("batch_size", 4 * len(program.models) * schedule.batch_size * math.prod(dataset.shape),
                          "a batch", "ask for smaller batches")
        self.program, self.schedule = program, schedule
        self.folders = [pathlib.Path(run_dir) for run_dir in run_dirs if run_dir]
        self.step = 0
        self.histories: list[list[dict[str, Any]]] = [[] for _ in run_dirs]
        states: list[dict[str, Any]] | None = None
        if self.folders:
            self.step, states, self.histories = self._restore(configs)
        self.workers = Workers(strategy)
        with self.workers.explain_lost(self.step, self.folders):
            self.workers.check(flags=[configs, program.seeds, schedule.list_numbers()], checkpoint=[self.step, states])
        chief = devices.is_chief(strategy)
        self.written = self.folders if chief else []
        self.data_failures: list[tuple[int, Exception]] = []
        start, u_size = self.step, program.models[0].u_size
        self.iterator = distribute_batches(strategy, schedule.batch_size, lambda shares: make_batches(
            dataset, schedule.batch_size, program.seeds, start, schedule.steps, bool(u_size), shares,
            self.data_failures))
        self.train_steps, names = make_train_steps(
            program, self.iterator.element_spec, warmup_steps=schedule.warmup_steps,
            clip_gradients=schedule.clip_gradients, jit_compile=schedule.jit_compile)
        self.row = Row(names, len(program.models), states)
        self.watch = _make_watch(program, dataset, schedule.watch, WATCHED_EXAMPLES) if schedule.watch else None
        self.draw = _make_watch(program, dataset, draw_pictures, EXAMPLES) if schedule.images_every else None
        self.validation = None if schedule.validation is None else Validation(
            program, schedule.validation, schedule.batch_size, schedule.early_stopping, self.histories, states)
        self.progress = Progress(schedule.steps, len(program.models), quiet=not chief)
        self.configs = configs or ()
        for run, config in zip(self.written, self.configs, strict=False):
            runs.write_config(run, config)
        self.settings = [model.list_settings() for model in program.models]

    def run(self, callbacks: Sequence[keras.callbacks.Callback] = ()) -> list[list[dict[str, Any]]]:
        """Train to the end of the schedule, or until the process is asked to stop; returns the histories."""
        model = self.program.models[0]
        with tell_callbacks(callbacks, model, self.program.optimizer, self.schedule.count_rows()) as told:
            with StopRequest() as stop, Writers(self.written) as write:
                stopping, pace = self._have_all_stopped(), 1
                self._end_stopped_row(write, told)
                while self.step < self.schedule.steps and not stopping:
                    started = time.perf_counter()
                    row_end = self.schedule.find_row_end(self.step)
                    if self.row.seconds == 0:
                        told.on_epoch_begin(len(self.histories[0]))
                    self._check_settings()
                    done, terms, totals = self._advance(min(pace, row_end - self.step,
                                                            self.schedule.count_until_images(self.step)))
                    stop.worth_saving = True
                    failures.check_loss(self.program, self.step, terms, self.folders, self._list_counting())
                    seconds = time.perf_counter() - started
                    self.row.add(done, totals, seconds)
                    if self.step == row_end:
                        self._finish_row(write, told)
                    if self.draw and self.step % self.schedule.images_every == 0:
                        write.write_images(self.step, self.draw())
                    with self.workers.explain_lost(self.step, self.folders):
                        stopping, seconds = self.workers.agree(
                            stop.requested or model.stop_training or self._have_all_stopped(), seconds)
                    # A request to stop is seen between calls, so calls grow only until one takes CALL_SECONDS.
                    pace = max(1, min(8 * pace, int(CALL_SECONDS * done / seconds)))
                    if (self.step % self.schedule.checkpoint_every == 0 or self.step == self.schedule.steps
                            or stopping):
                        self._save(terms)
            ended = self.step == self.schedule.steps or self._have_all_stopped()
            if ended and self.step:     # before the first step, averages are 0
                self.program.average_weights()
            self.program.publish()
            told.on_train_end()
        if ended and self.validation and (self.schedule.restore_best or self.schedule.early_stopping):
            self.validation.restore_best()
        self.progress.end()
        return self.histories

    def _check_settings(self) -> None:
        """Raise InputError if a callback has set a beta, an option or a penalty, which the graph would not see."""
        for before, model in zip(self.settings, self.program.models, strict=True):
            for name, value in model.list_settings().items():
                if value != before[name]:
                    raise InputError(f"{name}: expected {checks.describe(before[name])} as long as training.fit runs; "
                                     f"got {checks.describe(value)}, from a callback; Keras' own fit takes another one"
                                     + ", and warmup_steps raises beta" * (name == "beta"))

    def _have_all_stopped(self) -> bool:
        """Return whether early stopping has ended the training of every replica."""
        return not any(self._list_going_on())

    def _list_going_on(self) -> list[bool]:
        """Return whether each replica goes on, because early stopping has not ended its training."""
        return [not (self.validation and self.validation.has_stopped(i)) for i in range(len(self.program.models))]

    def _list_counting(self) -> list[bool]:
        """Return whether the weights of each replica count: not where it was stopped early, and its best are kept."""
        return [on or not (self.validation and self.validation.weights[i])
                for i, on in enumerate(self._list_going_on())]

    def _restore(self, configs: Sequence[Mapping[str, Any]] | None
                 ) -> tuple[int, list[dict[str, Any]] | None, list[list[dict[str, Any]]]]:
        """Return the step, the states and the histories that the runs have come to; the program goes on from there."""
        step, states, histories = runs.restore(self.folders, configs)
        if step > self.schedule.steps:
            raise InputError(f"steps: {self.folders[0]} is at step {step} already; expected at least as many, got "
                             f"{self.schedule.steps}; --restart starts over in a new folder")
        if states:
            self.program.assign(states)
        return step, states, histories

    def _advance(self, count: int) -> tuple[int, dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Make some steps: (how many were made, terms of the last, sums of the row's terms)."""
        try:
            with self.workers.explain_lost(self.step, self.folders):
                made, terms, totals = self.train_steps(self.iterator, tf.constant(count, tf.int64), self.row.totals,
                                                       tf.constant(self._list_counting()))
                done = int(made)
        except tf.errors.OpError as error:
            if not self.data_failures:
                raise
            raise failures.explain_data_failure(self.data_failures, self.folders) from error
        self.step += done
        return done, terms, totals

    def _finish_row(self, write: Writers, told: keras.callbacks.CallbackList) -> None:
        """Add the row of every replica that goes on, and lacks it, to its history, and show it."""
        going_on = [on and not ended for on, ended in zip(self._list_going_on(), self.row.ended, strict=True)]
        rows = self.row.finish(self.step, self.schedule.batch_size)
        if self.validation and self.step % self.schedule.validate_every == 0:
            self.validation.add_terms(rows)
        self.progress.show(list(itertools.compress(rows, going_on)))
        if self.watch and self.step % self.schedule.watch_every == 0:
            for name, values in self.watch().items():
                for row, value in zip(rows, values.numpy(), strict=True):
                    row[name] = float(value)
        for history, row in itertools.compress(zip(self.histories, rows, strict=True), going_on):
            history.append(row)
        write.write_rows([row if on else None for row, on in zip(rows, going_on, strict=True)])
        told.on_epoch_end(len(self.histories[0]) - 1, dict(rows[0]))      # a copy, because Keras writes into it

    def _end_stopped_row(self, write: Writers, told: keras.callbacks.CallbackList) -> None:
        """End the row in which the run was stopped, if the schedule ends here, or the row of some replica has ended."""
        if self.row.steps and (self.step == self.schedule.steps or any(self.row.ended)):
            told.on_epoch_begin(len(self.histories[0]))
            self._finish_row(write, told)
            self._save({})

    def _save(self, terms: Mapping[str, tf.Tensor]) -> None:
        """Look at the weights of every replica, and write its checkpoint if its run has a folder."""
        states = self.program.collect_state()
        failures.check_weights(self.program, self.step, terms, self.folders, states, self._list_counting())
        for run, config in zip(self.written, self.configs, strict=False):
            if not runs.read_config(run):       # which a checkpoint is known by
                print(f"warning: {run}/config.json has gone and is written again; other files of this run may have "
                      "gone, too", file=sys.stderr)
                runs.write_config(run, config)
        for i, (run, state, history) in enumerate(zip(self.written, states, self.histories, strict=False)):
            best = self.validation.collect_state(i) if self.validation else {}
            runs.save(run, self.step, {**state, **self.row.collect_state(i), **best}, history, self.folders)


def _check_data(model: models.Autoencoder, dataset: data.Dataset) -> None:
    """Raise InputError for data that a model cannot take."""
    wanted = [tuple(each.shape[1:]) for each in model.encoder.inputs]
    got = [tuple(dataset.shape), (dataset.u_size,)][:len(wanted)]
    if not len(dataset) or wanted != got:
        raise InputError(f"dataset: expected examples of shape {wanted[0]}"
                         + (f" with u of size {model.u_size}" if model.u_size else "")
                         + f"; got {len(dataset):,} of shape {dataset.shape} with u of size {dataset.u_size}")
    model.check_examples("dataset", dataset)


def _make_watch(program: replicas.Program, dataset: data.Dataset, watch: replicas.Watch, examples: int
                ) -> Callable[[], Mapping[str, tf.Tensor]]:
    """Return a function that gives what `watch` sees of every replica, {name: [S, ...]}.

    Each replica is watched on the first `examples` of its first epoch.
    """
    indices = np.stack([draw_permutation(len(dataset), seed, 0)[:examples] for seed in program.seeds])
    u_at = dataset.u_at if program.models[0].u_size else None
    u = tf.constant(np.stack([u_at(row) for row in indices])) if u_at else None
    x = tf.constant(np.stack([dataset.images_at(row) for row in indices]))
    run = graphs.trace(lambda x, u: program.watch(watch, models.scale_to_unit_range(x), u), [*program.models, watch])
    return lambda: run(x, u)
