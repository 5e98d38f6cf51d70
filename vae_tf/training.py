"""fit: batches, the training step, checkpoints, resume.

Randomness is a function of (seed, step): which examples form step t and which noise they get derive from
the seed and t alone. A resumed run is therefore the same run.
"""

import csv
import functools
import json
import os
import pathlib
import signal
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from vae_tf import models
from vae_tf.errors import InputError

OPTIMIZERS = {"adam": keras.optimizers.Adam, "adagrad": keras.optimizers.Adagrad,
              "rmsprop": keras.optimizers.RMSprop, "sgd": keras.optimizers.SGD}

KEPT_CHECKPOINTS = 2
WATCHED_EXAMPLES = 500


class NonFiniteError(RuntimeError):
    """The loss or a weight became NaN or infinite; the message names the step and the last good checkpoint."""


@functools.lru_cache(maxsize=4)
def _permutation(n, seed, epoch):
    return np.random.default_rng([seed, epoch]).permutation(n)


def indices_of_step(n, batch_size, seed, step):
    """Which of n examples form a step, int64 [batch_size]; every epoch is a permutation of its own.

    A function of its arguments alone. A batch may straddle two epochs.
    """
    position = step * batch_size + np.arange(batch_size)
    return np.concatenate([_permutation(n, seed, int(epoch))[position[position // n == epoch] % n]
                           for epoch in np.unique(position // n)])


def batches(dataset, batch_size, seed, start, stop, with_u=False):
    """The examples of steps start..stop-1 as a tf.data.Dataset of (step, x) or (step, x, u)."""
    columns = [(dataset.images_at, dataset.shape, tf.uint8 if dataset.is_image else tf.float32)]
    if with_u:
        columns.append((dataset.u_at, (dataset.u_size,), tf.float32))
    dtypes = [dtype for _, _, dtype in columns]

    def examples(step):
        indices = indices_of_step(len(dataset), batch_size, seed, step)
        return [at(indices) for at, _, _ in columns]

    def fetch(step):
        arrays = tf.numpy_function(examples, [step], dtypes)
        return step, *(tf.ensure_shape(array, (batch_size, *shape))
                       for array, (_, shape, _) in zip(arrays, columns, strict=True))

    return tf.data.Dataset.range(start, stop).map(fetch, num_parallel_calls=2).prefetch(8)


def make_train_steps(model, optimizer, *, seed, warmup_steps=0, jit_compile=False):
    """A compiled function (iterator, count) -> (steps done, terms of the last, mean terms).

    It runs `count` steps inside one graph and stops early at a loss that is not finite.
    """
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=jit_compile)
    def train_step(step, x, u=None):
        warmup = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1) / warmup_steps) if warmup_steps else 1.0
        with tf.GradientTape() as tape:
            terms = model.objective(models.unit_range(x), u, seed=tf.stack([seed, tf.cast(step, tf.int32)]),
                                    warmup=warmup, training=True)
            terms = {name: tf.reduce_mean(term) for name, term in terms.items()}
        optimizer.apply_gradients(zip(tape.gradient(terms["loss"], variables), variables, strict=True))
        return terms

    @tf.function(reduce_retracing=True)
    def train_steps(iterator, count):
        terms = train_step(*next(iterator))
        totals, done = terms, tf.constant(1, tf.int64)
        while done < count and tf.math.is_finite(terms["loss"]):
            terms = train_step(*next(iterator))
            totals = {name: totals[name] + terms[name] for name in totals}
            done += 1
        return done, terms, {name: total / tf.cast(done, tf.float32) for name, total in totals.items()}

    return train_steps


def fit(model, dataset, optimizer, *, steps, batch_size, seed=0, run_dir=None, warmup_steps=0, jit_compile=False,
        log_every=50, checkpoint_every=1000, watch=None, watch_every=500):
    """Train `model` up to step `steps`; with a run_dir, go on from its newest checkpoint.

    Args:
        model: a models.VAE.
        dataset: a data.Dataset.
        optimizer: a Keras optimizer.
        steps: how many updates there are in all.
        batch_size: examples per update.
        seed: of the order of examples and of the noise.
        run_dir: where history.csv, tensorboard/ and checkpoints go; None keeps nothing.
        warmup_steps: beta grows linearly from 0 over as many steps.
        jit_compile: compile the step with XLA.
        log_every: steps per row of history.
        checkpoint_every: steps per checkpoint.
        watch: called as watch(model, x, u), x as the model takes it and u None unless the model has one; returns
            numbers by name, which join the step's row. It sees the same training examples all through a run, 500 at
            most, chosen by seed.
        watch_every: steps per call of watch, at multiples.

    Returns:
        The history: a list of dicts, each with step, examples_per_second and the mean terms since the last.
        It ends before `steps` if the process was asked to stop (SIGINT, SIGTERM).

    Raises:
        NonFiniteError: see there.
        InputError: the run is past `steps` already.
    """
    optimizer.build(model.trainable_variables)
    run = pathlib.Path(run_dir) if run_dir else None
    step, history = restore(run, model, optimizer) if run else (0, [])
    if step > steps:
        raise InputError(f"steps: {run} is at step {step} already; expected at least as many, got {steps}; "
                         "--restart starts over in a new folder")
    train_steps = make_train_steps(model, optimizer, seed=seed, warmup_steps=warmup_steps, jit_compile=jit_compile)
    iterator = iter(batches(dataset, batch_size, seed, step, steps, with_u=bool(model.u_size)))
    watched = _watched(model, dataset, seed) if watch else ()
    stops = (log_every, checkpoint_every, *([watch_every] if watch else []))
    progress = Progress(steps)
    writer = tf.summary.create_file_writer(str(run / "tensorboard")) if run else tf.summary.create_noop_writer()
    with StopRequest() as stop, writer.as_default():
        while step < steps:
            started = time.perf_counter()
            # Stop at multiples, so that rows and checkpoints do not depend on where a run was resumed.
            count = min(steps, *((step // every + 1) * every for every in stops)) - step
            done, last, mean = train_steps(iterator, tf.constant(count, tf.int64))
            step += int(done)
            if not np.isfinite(last["loss"]):
                raise NonFiniteError(_non_finite(step, last, run))
            row = {"step": step, "examples_per_second": batch_size * count / (time.perf_counter() - started),
                   **{name: float(value) for name, value in mean.items()}}
            progress.show(row)
            if watch and step % watch_every == 0:
                row.update({name: float(value) for name, value in watch(model, *watched).items()})
            history.append(row)
            for name, value in row.items():
                tf.summary.scalar(name, value, step=step)
            if run and (step % checkpoint_every == 0 or step == steps or stop.requested):
                save(run, model, optimizer, step, history, last)
            if stop.requested:
                break
    progress.end()
    return history


def _watched(model, dataset, seed):
    """(x, u) of the examples that fit's watch sees: the first of the first epoch."""
    indices = _permutation(len(dataset), seed, 0)[:WATCHED_EXAMPLES]
    return (models.unit_range(tf.constant(dataset.images_at(indices))),
            tf.constant(dataset.u_at(indices)) if model.u_size else None)


def differences(run_dir, config):
    """How a stored configuration differs from this one: {name: (stored, now)}; `steps` may grow."""
    path = pathlib.Path(run_dir) / "config.json"
    if not path.exists():
        return {}
    stored = json.loads(path.read_text())
    return {name: (stored.get(name), config.get(name)) for name in sorted({*stored, *config})
            if stored.get(name) != config.get(name) and name != "steps"}


def write_config(run_dir, config):
    """Write runs/NAME/config.json: everything the run depends on."""
    write_whole(pathlib.Path(run_dir) / "config.json", lambda file: file.write(json.dumps(config, indent=2).encode()))


def write_whole(path, write):
    """Write a file that appears whole or not at all: aside, then renamed. write takes a binary file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def save(run, model, optimizer, step, history, terms):
    """Write checkpoints/STEP.npz (weights, optimiser, step) and history.csv; keep the newest two checkpoints."""
    arrays = {name: variable.numpy() for name, variable in _state(model, optimizer).items()}
    bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if bad:
        raise NonFiniteError(_non_finite(step, terms, run, f"weights that are not finite: {bad[0]}"))
    write_history(run, history)      # before the checkpoint: a restored step always has its rows
    write_whole(run / "checkpoints" / f"{step:09d}.npz", lambda file: np.savez(file, **arrays))
    for old in sorted((run / "checkpoints").glob("[0-9]*.npz"))[:-KEPT_CHECKPOINTS]:
        old.unlink()


def restore(run, model, optimizer):
    """Load the newest checkpoint that is whole; returns its step (0 if there is none) and the history up to it."""
    for path in sorted((run / "checkpoints").glob("[0-9]*.npz"), reverse=True):
        try:
            with np.load(path) as file:     # checks a CRC per array
                arrays = {name: file[name] for name in file.files}
        except Exception as error:          # whatever a torn file makes of zipfile and numpy
            print(f"warning: {path} is damaged ({error}); going back to the one before", file=sys.stderr)
            continue
        for name, variable in _state(model, optimizer).items():
            variable.assign(arrays[name])
        step = int(path.stem)
        return step, read_history(run, step)
    return 0, []


def _state(model, optimizer):
    """Every variable of a run by its place; Keras's own names count up with every layer a process makes."""
    owned = {"model": model.variables, "optimizer": optimizer.variables}
    return {f"{owner} {i}": variable for owner, variables in owned.items() for i, variable in enumerate(variables)}


def write_history(run, history):
    """Write history.csv, a line per row; what a row lacks is an empty cell."""
    columns = list(dict.fromkeys(name for row in history for name in row))

    def write(file):
        rows = [[repr(row[name]) if name in row else "" for name in columns] for row in history]
        file.write("".join(",".join(cells) + "\n" for cells in [columns, *rows]).encode())

    write_whole(run / "history.csv", write)


def read_history(run, step):
    """The rows of history.csv up to `step`."""
    try:
        with open(run / "history.csv", newline="") as file:
            rows = [{k: int(v) if k == "step" else float(v) for k, v in row.items() if v}
                    for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    return [row for row in rows if row["step"] <= step]


def _non_finite(step, terms, run, what="a loss that is not finite"):
    checkpoints = sorted((run / "checkpoints").glob("[0-9]*.npz")) if run else []
    last = f"last good checkpoint: {checkpoints[-1]}" if checkpoints else "no checkpoint was written before it"
    values = ", ".join(f"{name} {float(value):g}" for name, value in terms.items())
    return f"step {step}: {what} ({values}); {last}. Try a smaller --learning_rate or --beta"


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

    def __init__(self, steps):
        self.steps = steps
        self.started = self.shown = time.monotonic()
        self.first = None
        self.live = sys.stderr.isatty()

    def show(self, row):
        now = time.monotonic()
        self.first = self.first or (row["step"], now)      # the first chunk holds the compilation
        since, elapsed = row["step"] - self.first[0], now - self.first[1]
        left = f"{_clock((self.steps - row['step']) * elapsed / since)} left" if since else "compiled"
        rate = f"{row['examples_per_second']:,.0f} examples/s"
        terms = [f"{name} {value:.4g}" for name, value in row.items() if name not in ("step", "examples_per_second")]
        line = "  ".join([f"step {row['step']:,}/{self.steps:,}", *terms, rate, left])
        if self.live:
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self.shown >= 10 or row["step"] == self.steps:
            print(line, file=sys.stderr, flush=True)
            self.shown = now

    def end(self):
        if self.live:
            print(file=sys.stderr)


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
