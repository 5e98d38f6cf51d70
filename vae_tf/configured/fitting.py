"""Train the model of a configuration."""

import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from vae_tf import data, devices, models, networks, objectives, training
from vae_tf.configuration import Configuration, Settings
from vae_tf.configured.building import build_model
from vae_tf.models import Autoencoder
from vae_tf.typing import Tensor


def fit(configs: Sequence[Configuration], built: Sequence[Autoencoder], dataset: data.Dataset,
        run_dirs: Sequence[pathlib.Path | None], settings: Settings,
        strategy: tf.distribute.Strategy) -> list[list[dict[str, Any]]]:
    """Train models as configured; see training.fit. All of `built` have the trained weights in the end.

    Args:
        configs: one per model; they differ in seed and beta alone.
        built: the model of each.
        dataset: the training data.
        run_dirs: the folder of each run; None keeps nothing.
        settings: how often history and checkpoints are written.
        strategy: shares the work of a single model out over devices.

    Returns:
        The history of each.
    """
    config = configs[0]
    # Replicas train on one device.
    shared = strategy is not devices.choose_strategy("one_device") and len(configs) == 1
    with strategy.scope() if shared else contextlib.nullcontext():
        optimizer = training.make_optimizer(config.optimizer, config.learning_rate, config.precision,
                                            config.optimizer_epsilon)
        model = build_model(config, dataset) if shared else built[0]
    options = _choose_options(config, settings)
    if len(configs) > 1:
        return training.fit_replicas(built, dataset, optimizer, seeds=[each.seed for each in configs],
                                     run_dirs=run_dirs, configs=[each.as_json() for each in configs],
                                     jit_compile=config.jit_compile == "true", **options)
    auto = networks.NETWORKS[config.network].faster_compiled and dataset.is_image
    history = training.fit(model, dataset, optimizer, seed=config.seed, run_dir=run_dirs[0],
                           config=config.as_json(),
                           jit_compile=auto if config.jit_compile == "auto" else config.jit_compile == "true",
                           **options)
    if shared:
        built[0].set_weights(model.get_weights())
    return [history]


def _choose_options(config: Configuration, settings: Settings) -> dict[str, Any]:
    """Return the fields of a training schedule, without jit_compile."""
    def watch(model: Autoencoder, x: Tensor, u: Tensor | None) -> Mapping[str, Tensor]:
        return objectives.polarised_kl(model.posterior(x, u), model.prior(u), config.active_threshold)

    options = {"steps": config.steps, "batch_size": config.batch_size, "warmup_steps": config.beta_warmup_steps,
               "clip_gradients": config.clip_gradients, "log_every": settings.log_every,
               "checkpoint_every": settings.checkpoint_every}
    if settings.polarised_every and models.find(config.model).has_prior:
        return {**options, "watch": watch, "watch_every": settings.polarised_every}
    return options
