"""What train.py's flags choose from, known without TensorFlow: models with their options, networks, and so on.

The registries of these need TensorFlow, whose import takes seconds, and neither --help nor a refused flag should wait
for it. So choices.json, beside this file, holds what the registries of this package declare. A test holds the file to
the registries, and `python -m vae_tf.cli.choices` writes it anew.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from vae_tf import extensions, files
from vae_tf.options import Option

PATH = pathlib.Path(__file__).with_name("choices.json")
KINDS = {kind.__name__: kind for kind in (str, int, float, bool)}


class Model(NamedTuple):
    """What a model declares that flags depend on; `models.Autoencoder` describes each attribute."""

    has_prior: bool
    default_beta: float | None
    beta_term: str
    weighs_kl_by_beta: bool
    warms_up: bool
    options: tuple[Option, ...]


class Choices(NamedTuple):
    """The names that flags choose from, in the order of --help."""

    models: Mapping[str, Model]
    networks: tuple[str, ...]
    narrow_networks: tuple[str, ...]
    split_networks: tuple[str, ...]     # which train on parts of batches, see vae_tf.splitting
    likelihoods: tuple[str, ...]
    optimizers: tuple[str, ...]
    schedules: tuple[str, ...]
    warmed_up: tuple[str, ...]      # the schedules that may begin with a warm-up
    penalties: tuple[str, ...]
    precisions: tuple[str, ...]
    strategies: tuple[str, ...]
    default_model: str


def find() -> Choices:
    """Return what the registries declare where they are imported or extended, and what the file holds elsewhere."""
    return gather() if "vae_tf.models" in sys.modules or extensions.are_named() else read()


def gather() -> Choices:
    """Return what the registries declare; imports TensorFlow."""
    from vae_tf import devices, distributions, models, networks, penalties, training

    kinds = {name: Model(kind.has_prior, kind.default_beta, kind.beta_term, kind.weighs_kl_by_beta(),
                         kind.warms_up(), kind.options)
             for name, kind in models.MODELS.items()}
    narrow, split = (tuple(name for name, maker in networks.NETWORKS.items() if getattr(maker, kind))
                     for kind in ("narrow", "split"))
    return Choices(kinds, tuple(networks.NETWORKS), narrow, split, distributions.LIKELIHOODS,
                   tuple(training.OPTIMIZERS), tuple(training.SCHEDULES), training.WARMED_UP, penalties.PENALTIES,
                   networks.DTYPES, tuple(devices.STRATEGIES), models.DEFAULT)


def read() -> Choices:
    """Return what the file holds."""
    given = json.loads(PATH.read_text())
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    known["models"] = {name: Model(**{**model, "options": tuple(map(_read_option, model["options"]))})
                       for name, model in given["models"].items()}
    return Choices(**known)


def write(path: pathlib.Path = PATH) -> None:
    """Write the file from the registries."""
    found = gather()
    kinds = {name: {**model._asdict(), "options": [_describe_option(option) for option in model.options]}
             for name, model in found.models.items()}
    files.write_text(path, json.dumps({**found._asdict(), "models": kinds}, indent=1) + "\n")


def _read_option(given: dict[str, Any]) -> Option:
    return Option(**{**given, "kind": KINDS[given["kind"]], "choices": tuple(given["choices"])})


def _describe_option(option: Option) -> dict[str, Any]:
    return {**dataclasses.asdict(option), "kind": option.kind.__name__}


if __name__ == "__main__":
    write()
