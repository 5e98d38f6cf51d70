"""Read devices, configurations and settings from train.py's flags."""

import dataclasses
import itertools
from typing import Any

import tensorflow as tf
from absl.flags import FlagValues

from vae_tf import data, defaults, devices, export, models, networks
from vae_tf.checks import LARGEST_INTEGER
from vae_tf.cli import training_effects
from vae_tf.cli.contradictions import check_train_flags, read_betas
from vae_tf.cli.effects import check_effects, find_idle
from vae_tf.cli.exports import find_export
from vae_tf.configuration import NUMERICS, SETTINGS, Configuration, Settings
from vae_tf.errors import InputError

# Fields of a configuration that no flag gives.
WITHOUT_FLAG = ("data_fingerprint", "keras", "options", "init_from_weights", "numerics")
CHECKSUM = 16       # hexadecimal digits of a checksum that tell weights apart


def read_settings(flags: FlagValues) -> Settings:
    """Return the settings that flags give."""
    given: dict[str, Any] = {name: flags[name].value for name in SETTINGS}
    return Settings(**given)


def choose_strategy(flags: FlagValues) -> tf.distribute.Strategy:
    """Return the tf.distribute strategy of --strategy; to be called before TensorFlow computes anything.

    Raises:
        InputError: there is no such hardware or cluster, or it cannot do what other flags ask.
    """
    try:
        chosen = devices.choose_strategy(flags.strategy)
    except InputError as error:
        raise InputError(f"--{error}") from None
    count = chosen.num_replicas_in_sync
    if count > 1 and (flags.replicas or flags.sweep_beta):
        raise InputError(f"--strategy: replicas train on one device; got {count} devices; "
                         "give --strategy=one_device, or neither --replicas nor --sweep_beta")
    if flags.jit_compile == "true" and chosen is not devices.choose_strategy("one_device"):
        raise InputError(f"--jit_compile: XLA compiles for one device without a strategy; got {count} "
                         f"device{'s' * (count > 1)} under --strategy={flags.strategy}; expected auto or false")
    if flags.batch_size % count:
        raise InputError(f"--batch_size: {count} devices share each batch evenly; expected a multiple of {count}, "
                         f"got {flags.batch_size}")
    return chosen


def configure_all(flags: FlagValues, dataset: data.Dataset) -> dict[str, Configuration]:
    """Return {suffix of the name: configuration}: one for each model to train, such as each seed or value of beta.

    Raises:
        InputError: flags that do not go together, or what cannot be trained as replicas.
    """
    config = configure(flags, dataset)
    betas: list[Any] = [*read_betas(flags)] or [None]
    seeds = range(config.seed, config.seed + flags.replicas) if flags.replicas else [None]
    configs = {}
    for beta, seed in itertools.product(betas, seeds):
        suffix = ("" if beta is None else f"-beta{beta:g}") + ("" if seed is None else f"-seed{seed}")
        configs[suffix] = dataclasses.replace(config, beta=config.beta if beta is None else beta,
                                              seed=config.seed if seed is None else seed)
    return configs


def configure(flags: FlagValues, dataset: data.Dataset) -> Configuration:
    """Return the configuration of one run; what flags leave open is filled in to suit the data.

    Raises:
        InputError: flags that do not go together.
    """
    check_train_flags(flags)
    # Those of a flagfile, which are ignored. What --polarised_every shows may change amid a run.
    idle = find_idle(training_effects.list_effects(), flags) - {"active_threshold"}
    given: dict[str, Any] = {field.name: flags[field.name].default if field.name in idle else flags[field.name].value
                             for field in dataclasses.fields(Configuration) if field.name not in WITHOUT_FLAG}
    suited = {**data.choose_settings(dataset), **_read_init_from(given)}
    if flags.epochs is not None:
        suited["steps"] = _count_steps(flags.epochs, len(dataset), flags.batch_size)
    given.update({name: value for name, value in suited.items() if given[name] is None})
    if given["learning_rate"] is None:
        given["learning_rate"] = defaults.choose_learning_rate(given["network"], dataset.shape)
    given["split"] = dataset.part.how if dataset.part else dataset.choose_split(given["split"])
    if given["likelihood"] == "bernoulli" and not dataset.is_image:
        raise InputError(f"--likelihood: bernoulli needs images; {dataset.name} has float vectors; "
                         "choices: gaussian, gaussian_learned")
    kind = models.find(given["model"])
    options = {option.name: flags[option.name].value for option in models.list_options().values()
               if option in kind.options or option.in_every_configuration}
    config = Configuration(**given, data_fingerprint=dataset.fingerprint, keras=networks.KERAS, options=options,
                           numerics=NUMERICS)
    kind.check_configuration(config, len(dataset))
    _check_lengths(config)
    check_effects(training_effects.WITH_DATA, flags, training_effects.Training(config, dataset))
    return config


def _check_lengths(config: Configuration) -> None:
    """Raise InputError for validations or a warm-up that do not fit into the steps."""
    if 0 < config.steps < config.validate_every:
        raise InputError(f"--validate_every: expected at most the {config.steps:,} steps of training, or there is no "
                         f"validation; got {config.validate_every:,}")
    if config.learning_rate_warmup_steps >= max(config.steps, 1):
        raise InputError(f"--learning_rate_warmup_steps: expected fewer than the {config.steps:,} steps of training; "
                         f"got {config.learning_rate_warmup_steps:,}")


def _count_steps(epochs: float, examples: int, batch_size: int) -> int:
    """Return the number of steps in some passes over the data."""
    steps = epochs * examples / batch_size
    if steps > LARGEST_INTEGER:
        raise InputError(f"--epochs: expected at most {LARGEST_INTEGER:,} steps; got {epochs:g} passes over "
                         f"{examples:,} examples, which are {steps:.3g} steps of {batch_size:,}")
    return max(1, round(steps))


def _read_init_from(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the export that --init_from names says of the model; `given` gets its version and weights.

    Raises:
        InputError: there is no such export.
    """
    if not given["init_from"]:
        return {}
    path, card = find_export("--init_from", given["init_from"], export.TRAINED_FURTHER)
    given["init_from"], recipe = str(path), card["recipe"]
    given["init_from_weights"] = card.get("weights_sha256", "")[:CHECKSUM] or None
    if recipe["network"] not in networks.NETWORKS:
        raise InputError(f"--init_from: expected an export with a network of {', '.join(networks.NETWORKS)}; "
                         f"{given['init_from']} has {recipe['network']!r}; go on with it in Python, or name the "
                         "extension that it is of")
    return {name: recipe[name] for name in ("network", "latents", "likelihood")}
