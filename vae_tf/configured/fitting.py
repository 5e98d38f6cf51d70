"""Train the model of a configuration."""

import contextlib
import math
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from vae_tf import data, devices, models, networks, objectives, training
from vae_tf.configuration import Configuration, Settings
from vae_tf.configured.building import build_model
from vae_tf.errors import InputError
from vae_tf.models import Autoencoder
from vae_tf.train_step import Compiled
from vae_tf.typing import Tensor

# Steps of a dense network on vectors, of all replicas together, from which on they repay the time that XLA takes to
# compile them; and the length of vectors from which on it trains linear networks no faster.
REPAYING, LONG = 10_000, 100


def fit(configs: Sequence[Configuration], built: Sequence[Autoencoder], dataset: data.Dataset,
        run_dirs: Sequence[pathlib.Path | None], settings: Settings,
        strategy: tf.distribute.Strategy, validation: data.Dataset | None = None) -> list[list[dict[str, Any]]]:
    """Train models as configured; see training.fit. All of `built` have the weights to export in the end.

    Args:
        configs: one per model; they differ in seed and beta alone.
        built: the model of each.
        dataset: the training data.
        run_dirs: the folder of each run; None keeps nothing.
        settings: how often history and checkpoints are written.
        strategy: shares the work of a single model out over devices.
        validation: the validation part; None where the configuration asks for no validation.

    Returns:
        The history of each.
    """
    config = configs[0]
    # Replicas train on one device.
    shared = strategy is not devices.choose_strategy("one_device") and len(configs) == 1
    with strategy.scope() if shared else contextlib.nullcontext():
        rate = training.schedule_learning_rate(config.learning_rate_schedule, config.learning_rate, config.steps,
                                               config.learning_rate_warmup_steps)
        optimizer = training.make_optimizer(config.optimizer, rate, config.precision, config.optimizer_epsilon)
        model = build_model(config, dataset) if shared else built[0]
    options = {**_choose_options(config, settings), **_choose_validation(config, settings, validation),
               "images_every": settings.images_every if dataset.is_image else 0}      # a flagfile may be of other data
    if len(configs) > 1:
        if training.CALLBACKS:
            warnings.warn("callbacks of extensions follow runs that are trained alone; these replicas have none",
                          stacklevel=2)
        return training.fit_replicas(built, dataset, optimizer, seeds=[each.seed for each in configs],
                                     run_dirs=run_dirs, configs=[each.as_json() for each in configs],
                                     jit_compile=choose_compiled(config, dataset, len(configs)), **options)
    history = training.fit(model, dataset, optimizer, seed=config.seed, run_dir=run_dirs[0],
                           config=config.as_json(), callbacks=_make_callbacks(config, run_dirs[0], strategy),
                           jit_compile=not shared and choose_compiled(config, dataset), **options)
    if shared:
        built[0].set_weights(model.get_weights())
    return [history]


def choose_compiled(config: Configuration, dataset: data.Dataset, count: int = 1) -> Compiled:
    """Return what of the training step of a number of models that are trained as one program XLA compiles."""
    if config.jit_compile != "auto":
        return config.jit_compile == "true"
    network = networks.NETWORKS[config.network]
    # Somebody else's model may have operations that XLA does not know.
    is_ours = models.MODELS[config.model].__module__.startswith(f"{models.__name__}.")
    is_wide = count == 1 and network.wide and dataset.is_image
    if tf.config.list_physical_devices("GPU"):      # whose steps are so short that it waits for the next operation
        return is_ours and (is_wide or (network.narrow and not network.linear))
    if is_wide:     # TensorFlow multiplies large matrices as fast as XLA, and updates weights by adam at once
        return False if config.optimizer == "adam" else "updates"
    # XLA multiplies matrices of 16 bits at the rate of float32; with a penalty on the Jacobian it is faster for some
    # networks and slower for others.
    return (is_ours and config.precision == "float32" and config.jacobian_penalty == "none"
            and isinstance(network, networks.Dense) and not dataset.is_image and config.steps * count >= REPAYING
            and not (network.linear and math.prod(dataset.shape) >= LONG))


def _make_callbacks(config: Configuration, run_dir: pathlib.Path | None,
                    strategy: tf.distribute.Strategy) -> list[keras.callbacks.Callback]:
    """Return the callbacks that extensions have registered; none without a folder, and on machines that write none.

    Raises:
        InputError: a callback cannot be made, such as that of a tracker which does not find its server.
    """
    if run_dir is None or not devices.is_chief(strategy):
        return []
    callbacks = []
    for make in training.CALLBACKS:
        try:
            callbacks.append(make(config.as_json(), run_dir))
        except Exception as error:          # somebody else's function may raise anything
            raise InputError(f"the callback {getattr(make, '__name__', make)} of an extension cannot be made "
                             f"({type(error).__name__}: {error})") from error
    return callbacks


def _choose_validation(config: Configuration, settings: Settings, validation: data.Dataset | None) -> dict[str, Any]:
    """Return the fields of a training schedule that say how often to validate, and what follows from it."""
    if validation is None:
        return {}
    return {"validation": validation, "validate_every": config.validate_every, "early_stopping": config.early_stopping,
            "restore_best": settings.export_weights == "best"}


def _choose_options(config: Configuration, settings: Settings) -> dict[str, Any]:
    """Return the fields of a training schedule, without jit_compile and validation."""
    def watch(model: Autoencoder, x: Tensor, u: Tensor | None) -> Mapping[str, Tensor]:
        return objectives.polarised_kl(model.posterior(x, u), model.prior(u), config.active_threshold)

    options = {"steps": config.steps, "batch_size": config.batch_size, "warmup_steps": config.beta_warmup_steps,
               "clip_gradients": config.clip_gradients, "log_every": settings.log_every,
               "checkpoint_every": settings.checkpoint_every}
    if 0 < settings.polarised_every <= config.steps and models.find(config.model).has_prior:
        return {**options, "watch": watch, "watch_every": settings.polarised_every}
    return options
