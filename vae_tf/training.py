"""fit: steps, rows of history, checkpoints, resume.

Randomness is a function of (seed, step): which examples form a step and which noise they get derive from
the seed and the step alone. A resumed run is therefore the same run, and so is a run on other devices.
"""

import pathlib
import time

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks, devices, models, networks, replicas, runs
from vae_tf.batches import batches, permutation, shared_out
from vae_tf.console import Progress, StopRequest
from vae_tf.errors import InputError
from vae_tf.rows import Row, Writers
from vae_tf.train_step import make_train_steps

OPTIMIZERS = {"adam": keras.optimizers.Adam, "adagrad": keras.optimizers.Adagrad,
              "rmsprop": keras.optimizers.RMSprop, "sgd": keras.optimizers.SGD}

WATCHED_EXAMPLES = 500
CALL_SECONDS = 0.5          # of training per call from Python, between which a request to stop is seen


def optimizer(name, learning_rate, precision="float32", epsilon=None):
    """A Keras optimizer, a key of OPTIMIZERS; float16 needs its loss scaled, lest small gradients vanish.

    epsilon is added to what the step is divided by; None for Keras' 1e-7.
    """
    checks.choice("optimizer", name, OPTIMIZERS)
    checks.number("learning_rate", learning_rate, above=0)
    checks.choice("precision", precision, networks.DTYPES)
    if epsilon is not None and name == "sgd":
        raise InputError(f"optimizer_epsilon: sgd divides by nothing; got {epsilon}; optimizers with it: "
                         f"{', '.join(kind for kind in OPTIMIZERS if kind != 'sgd')}")
    made = OPTIMIZERS[name](learning_rate, **({} if epsilon is None else {"epsilon": epsilon}))
    return keras.optimizers.LossScaleOptimizer(made) if precision == "mixed_float16" else made


class NonFiniteError(RuntimeError):
    """The loss or a weight became NaN or infinite; the message names the step and the last good checkpoint."""


class DataError(RuntimeError):
    """Examples could not be read; the message names the step and the last good checkpoint."""


def fit(model, dataset, optimizer, *, seed=0, run_dir=None, callbacks=(), **options):
    """Train `model` up to step `steps`; with a run_dir, go on from its newest checkpoint.

    Args:
        model: a models.Autoencoder, built under the tf.distribute strategy that is to train it, if any.
        dataset: a data.Dataset.
        optimizer: a Keras optimizer.
        seed: of the order of examples and of the noise.
        run_dir: where history.csv, tensorboard/ and checkpoints go; None keeps nothing.
        callbacks: Keras callbacks. Row i of the history is what they call epoch i, the row is its logs;
            model.stop_training ends the run, and model.optimizer is the optimizer.
        options: of fit_replicas.

    Returns:
        The history: a list of dicts, each with step, examples_per_second and the mean terms since the last.
        It ends before `steps` if the process was asked to stop (SIGINT, SIGTERM, SIGHUP). The steps after its last
        row are then in the checkpoint alone, and so are the sums that the next row needs.

    Raises:
        NonFiniteError, DataError: see there.
        InputError: the run is past `steps` already, or the batch cannot be shared out.
    """
    strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else model.distribute_strategy
    with strategy.scope():
        if tf.distribute.has_strategy() and not optimizer.built:        # it belongs to where it was made: make it here
            optimizer = type(optimizer).from_config(optimizer.get_config())
        program = replicas.Single(model, optimizer, seed)
        return _fit(program, dataset, strategy, [run_dir], callbacks, **options)[0]


def fit_replicas(models, dataset, optimizer, *, seeds, run_dirs=None, **options):
    """Train S models of one kind as one program: model i as `fit` would with seeds[i] and run_dirs[i].

    Args:
        models: S models.Autoencoder that differ in weights and beta alone.
        dataset: a data.Dataset.
        optimizer: a Keras optimizer that treats every weight alone, such as those of OPTIMIZERS.
        seeds: of the order of examples and of the noise, one each.
        run_dirs: where each keeps its run; None keeps nothing.
        options: steps, the updates in all; batch_size, examples per update and model; warmup_steps, over which beta
            grows linearly from 0; clip_gradients, the largest norm of each model's whole gradient, 0 for any;
            jit_compile, with XLA; log_every, steps per row of history; checkpoint_every, steps per checkpoint; watch,
            called as watch(model, x, u) every watch_every steps with 500 training examples at
            most, chosen by seed and the same all through a run: it returns numbers by name, which join the step's row.

    Returns, raises: as `fit`; a list of histories. One loss that is not finite stops all.
    """
    run_dirs = [None] * len(models) if run_dirs is None else run_dirs
    for name, given in (("seeds", seeds), ("run_dirs", run_dirs)):
        if not 0 < len(given) == len(models):
            raise InputError(f"{name}: expected one per model, {len(models)}; got {len(given)}")
    if len({pathlib.Path(run).resolve() for run in run_dirs if run}) < sum(map(bool, run_dirs)):
        raise InputError(f"run_dirs: expected a folder of its own per model; got {', '.join(map(str, run_dirs))}")
    if tf.distribute.has_strategy():
        raise InputError("strategy: replicas train on one device; call fit_replicas outside of a strategy's scope")
    program = replicas.Stacked(models, optimizer, seeds)
    return _fit(program, dataset, tf.distribute.get_strategy(), run_dirs, (), **options)


def _fit(program, dataset, strategy, run_dirs, callbacks, *, steps, batch_size, warmup_steps=0, clip_gradients=0,
         jit_compile=False, log_every=50, checkpoint_every=1000, watch=None, watch_every=500):
    checks.whole("steps", steps, 0)
    checks.whole("batch_size", batch_size, 1)
    checks.whole("warmup_steps", warmup_steps, 0)
    checks.number("clip_gradients", clip_gradients, 0)
    for name, every in (("log_every", log_every), ("checkpoint_every", checkpoint_every), ("watch_every", watch_every)):
        checks.whole(name, every, 1)
    _check_data(program, dataset)
    folders = [pathlib.Path(run_dir) for run_dir in run_dirs if run_dir]
    step, states, histories = runs.restore(folders) if folders else (0, None, [[] for _ in run_dirs])
    if step > steps:
        raise InputError(f"steps: {folders[0]} is at step {step} already; expected at least as many, got {steps}; "
                         "--restart starts over in a new folder")
    if states:
        program.assign(states)
    chief = devices.is_chief(strategy)
    written = folders if chief else []
    model = program.models[0]
    failures: list = []
    iterator = shared_out(strategy, batch_size, lambda shares: batches(
        dataset, batch_size, program.seeds, step, steps, bool(model.u_size), shares, failures))
    train_steps, names = make_train_steps(program, iterator.element_spec, warmup_steps=warmup_steps,
                                          clip_gradients=clip_gradients, jit_compile=jit_compile)
    row = Row(names, len(program.models), states)
    watched = [_watched(model, dataset, seed) for seed in program.seeds] if watch else []
    stops = (log_every, checkpoint_every, *([watch_every] if watch else []))
    agreed, pace = _agreement(strategy, chief), 1
    progress = Progress(steps, len(program.models), quiet=not chief)
    keras_callbacks = _callbacks(callbacks, program)
    stopping = False
    with StopRequest() as stop, Writers(written) as write:
        while step < steps and not stopping:
            started = time.perf_counter()
            # Rows end at multiples, so that they and checkpoints do not depend on where a run was resumed.
            row_ends = min(steps, *((step // every + 1) * every for every in stops))
            if row.seconds == 0:
                keras_callbacks.on_epoch_begin(len(histories[0]))
            try:
                count = tf.constant(min(pace, row_ends - step), tf.int64)
                done, last, totals = train_steps(iterator, count, row.totals)
                done = int(done)
            except tf.errors.OpError as error:
                if not failures:
                    raise
                failed, reason = failures[0]
                raise DataError(f"step {failed}: its examples could not be read ({type(reason).__name__}: {reason}); "
                                f"{_last_good(folders)}") from error
            step += done
            stop.worth_saving = True
            if not np.isfinite(last["loss"]).all():
                raise NonFiniteError(_non_finite(step, last, program, folders))
            seconds = time.perf_counter() - started
            row.add(done, totals, seconds)
            if step == row_ends:
                rows = row.finish(step, batch_size)
                progress.show(rows)
                if watch and step % watch_every == 0:
                    program.publish()
                    for each, replica, examples in zip(rows, program.models, watched, strict=True):
                        each.update({name: float(value) for name, value in watch(replica, *examples).items()})
                for history, each in zip(histories, rows, strict=True):
                    history.append(each)
                write(rows)
                keras_callbacks.on_epoch_end(len(histories[0]) - 1, dict(rows[0]))      # Keras writes into it
            stopping, seconds = agreed(stop.requested or model.stop_training, seconds)
            # A request to stop is seen between calls: they grow towards CALL_SECONDS.
            pace = max(1, min(8 * pace, int(CALL_SECONDS * done / seconds)))
            if folders and (step % checkpoint_every == 0 or step == steps or stopping):
                states = program.state()
                _check_finite(states, step, last, program, folders)
                for i, (run, state, history) in enumerate(zip(written, states, histories, strict=False)):
                    runs.save(run, step, {**state, **row.state(i)}, history)
    program.publish()
    keras_callbacks.on_train_end()
    progress.end()
    return histories


def _check_data(program, dataset):
    """Raise InputError for seeds that are none, or data that the models cannot take."""
    for seed in program.seeds:
        checks.whole("seed", seed, 0, 2**31 - 1)
    model = program.models[0]
    wanted = [tuple(each.shape[1:]) for each in model.encoder.inputs]
    got = [tuple(dataset.shape), (dataset.u_size,)][:len(wanted)]
    if not len(dataset) or wanted != got:
        raise InputError(f"dataset: expected examples of shape {wanted[0]}"
                         + (f" with u of size {model.u_size}" if model.u_size else "")
                         + f"; got {len(dataset):,} of shape {dataset.shape} with u of size {dataset.u_size}")


def _agreement(strategy, chief):
    """A function (flag, seconds) -> (whether the flag is set in any worker, the chief's seconds), the same in all."""
    if devices.workers(strategy) == 1:
        return lambda flag, seconds: (flag, seconds)
    summed = tf.function(lambda values: strategy.reduce("SUM", strategy.run(tf.identity, args=(values,)), axis=None))

    def agreed(flag, seconds):
        flags, seconds = summed(tf.constant([flag, seconds if chief else 0], tf.float32)).numpy()
        return flags > 0, float(seconds)

    return agreed


def _callbacks(callbacks, program):
    """Keras callbacks, told of a program that Keras does not run."""
    model = program.models[0]
    model.stop_training = False
    if callbacks:
        model.compile(optimizer=program.optimizer)
    started = keras.callbacks.CallbackList(list(callbacks), add_history=False, add_progbar=False, model=model)
    started.on_train_begin()
    return started


def _watched(model, dataset, seed):
    """(x, u) of the examples that fit's watch sees: the first of the first epoch."""
    indices = permutation(len(dataset), seed, 0)[:WATCHED_EXAMPLES]
    return (models.unit_range(tf.constant(dataset.images_at(indices))),
            tf.constant(dataset.u_at(indices)) if model.u_size else None)


def _check_finite(states, step, terms, program, folders):
    for seed, state in zip(program.seeds, states, strict=True):
        bad = [name for name, array in state.items() if not np.isfinite(array).all()]
        if bad:
            raise NonFiniteError(_non_finite(step, terms, program, folders,
                                             f"weights of seed {seed} that are not finite, {bad[0]}"))


def _non_finite(step, terms, program, folders, what="a loss that is not finite"):
    values = []
    for i, model in enumerate(program.models):
        if len(program.models) == 1 or not np.isfinite(terms["loss"][i]):
            replica = f"seed {program.seeds[i]}, beta {model.beta:g}: " if len(program.models) > 1 else ""
            values.append(replica + ", ".join(f"{name} {float(value[i]):g}" for name, value in terms.items()))
    listed = f" ({'; '.join(values)})" if values else ""
    return f"step {step}: {what}{listed}; {_last_good(folders)}. Try a smaller --learning_rate or --beta"


def _last_good(folders):
    path = runs.newest(folders[0]) if folders else None
    return f"last good checkpoint: {path}" if path else "no checkpoint was written before it"
