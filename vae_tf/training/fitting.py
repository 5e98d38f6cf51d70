"""Train one model with `fit`, or several of one kind as one program with `fit_replicas`."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from vae_tf import arguments, data, devices, replicas, runs
from vae_tf.arguments import PathLike
from vae_tf.errors import InputError
from vae_tf.models import Autoencoder
from vae_tf.training.loop import Loop
from vae_tf.training.schedule import Schedule

History = list[dict[str, Any]]


@arguments.check_arguments
def fit(model: Autoencoder, dataset: data.Dataset, optimizer: keras.optimizers.Optimizer, *,
        seed: arguments.FromZero = 0, run_dir: PathLike | None = None, config: Mapping[str, Any] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (), **options: Any) -> History:
    """Train `model` up to step `steps`; with a run_dir, go on from its newest checkpoint.

    The checkpoint holds the optimizer's state, too: a learning rate other than the given one is used with a warning.

    Args:
        model: a models.Autoencoder, built under the tf.distribute strategy that is to train it, if any.
        dataset: the examples to train on.
        optimizer: a Keras optimizer. One that was not made under the strategy is made again from its configuration, so
            that the next `fit` with it begins anew.
        seed: the seed for the order of examples and for the noise.
        run_dir: the folder for history.csv, tensorboard/ and checkpoints/; None keeps nothing. No other process may
            train in it meanwhile.
        config: the run's configuration as JSON has it, which goes into config.json of that folder; None for none.
        callbacks: Keras callbacks. Row i of the history is what they call epoch i, the row is its logs;
            model.stop_training ends the run, and model.optimizer is the optimizer while it lasts.
        options: the fields of schedule.Schedule.

    Returns:
        The history: a list of dicts, each with step, examples_per_second and the mean terms since the last.
        It ends before `steps` if the process was asked to stop (SIGINT, SIGTERM, SIGHUP). The steps after its last
        row are then in the checkpoint alone, and so are the sums that the next row needs.

    Raises:
        NonFiniteError: the loss or a weight became NaN or infinite.
        DataError: examples could not be read.
        InputError: the run is past `steps` already, the batch cannot be shared out, the optimizer must be made under
            the strategy, another process trains in `run_dir`, what is there is damaged, of another run or of another
            optimizer, or a callback sets a beta, an option or a penalty of the model.
    """
    if any(isinstance(callback, keras.callbacks.SwapEMAWeights) for callback in callbacks):
        raise InputError("callbacks: expected none that changes weights between steps; got a SwapEMAWeights; a model "
                         "ends with its optimizer's averages without one")
    strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else model.distribute_strategy
    with strategy.scope(), _hold([run_dir], strategy):
        program = replicas.Single(model, _take_into_scope(optimizer), seed)
        configs = None if config is None else [config]
        loop = Loop(program, dataset, strategy, [run_dir], Schedule(**options), configs)
        model.note_data(data.describe(dataset), seed)
        before = _count_steps_before(model, run_dir)
        history = loop.run(callbacks)[0]
        model.note_steps(before + loop.step)
        return history


@arguments.check_arguments
def fit_replicas(models: Sequence[Autoencoder], dataset: data.Dataset, optimizer: keras.optimizers.Optimizer, *,
                 seeds: Sequence[arguments.FromZero], run_dirs: Sequence[PathLike | None] | None = None,
                 configs: Sequence[Mapping[str, Any]] | None = None, **options: Any) -> list[History]:
    """Train S models of one kind as one program: model i as `fit` would with seeds[i] and run_dirs[i].

    Args:
        models: S models.Autoencoder that differ in weights and beta alone.
        dataset: the examples to train on.
        optimizer: a Keras optimizer that treats every weight alone, such as those of OPTIMIZERS.
        seeds: S seeds for the order of examples and for the noise.
        run_dirs: the folder of each model's run; None keeps nothing.
        configs: the configuration of each run, as `fit` has it; None for none.
        options: the fields of schedule.Schedule.

    Returns:
        A list of histories, each as `fit` returns it.

    Raises:
        NonFiniteError: one loss or weight became NaN or infinite, which stops all models.
        DataError: examples could not be read.
        InputError: numbers of arguments that differ, another optimizer, a run that is past `steps` already, or a
            strategy in scope.
    """
    folders = [None] * len(models) if run_dirs is None else list(run_dirs)
    for name, given in (("seeds", seeds), ("run_dirs", folders), ("configs", models if configs is None else configs)):
        if not 0 < len(given) == len(models):
            raise InputError(f"{name}: expected one per model, {len(models)}; got {len(given)}")
    if len({pathlib.Path(run).resolve() for run in folders if run}) < sum(map(bool, folders)):
        raise InputError(f"run_dirs: expected a folder of its own per model; got {', '.join(map(str, folders))}")
    if tf.distribute.has_strategy():
        raise InputError("strategy: replicas train on one device; call fit_replicas outside of a strategy's scope")
    program = replicas.stack(models, optimizer, seeds, compiled=options.get("jit_compile") is True)
    strategy = tf.distribute.get_strategy()
    before = [_count_steps_before(model, folder) for model, folder in zip(models, folders, strict=True)]
    with _hold(folders, strategy):
        loop = Loop(program, dataset, strategy, folders, Schedule(**options), configs)
        histories = loop.run()
    for model, seed, steps in zip(models, seeds, before, strict=True):
        model.note_data(data.describe(dataset), seed)
        model.note_steps(steps + loop.step)
    return histories


def _take_into_scope(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return an optimizer of the strategy in scope: one that was made under another strategy is made again.

    Raises:
        InputError: its configuration does not say all that it is.
    """
    parts = (optimizer, getattr(optimizer, "inner_optimizer", optimizer))       # of a LossScaleOptimizer
    if all(part._distribution_strategy is tf.distribute.get_strategy() for part in parts):
        return optimizer
    with contextlib.suppress(Exception):        # of functions, schedules and classes of the user's
        if not any(part.built or hasattr(part, "_exclude_from_weight_decay") for part in parts):
            return type(optimizer).from_config(optimizer.get_config())
    raise InputError("optimizer: expected one that is made under the model's strategy, in strategy.scope(); got a "
                     f"{type(optimizer).__name__} from elsewhere, which cannot be made again from its configuration")


def _count_steps_before(model: Autoencoder, run_dir: PathLike | None) -> int:
    """Return how many steps a model has made that a training will not count: none in a folder, which counts all."""
    return 0 if run_dir else model.describe_origin()["steps"]


@contextlib.contextmanager
def _hold(folders: Sequence[PathLike | None], strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Hold the folders of runs while entered, in the process that writes into them; see runs.hold."""
    with contextlib.ExitStack() as held:
        for folder in folders if devices.is_chief(strategy) else ():
            if folder:
                held.enter_context(runs.hold(pathlib.Path(folder)))
        yield
