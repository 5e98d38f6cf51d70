"""The datasets by name, and the settings that suit each of them. `register` adds one, from here or from outside."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vae_tf import checks
from vae_tf.data.dataset import Dataset
from vae_tf.data.spreading import sample_evenly
from vae_tf.errors import InputError

Loader = Callable[[str | None, int], Dataset]

# The settings that a dataset may declare, by flag.
SETTINGS = ("network", "latents", "steps", "likelihood", "likelihood_variance", "learning_rate")

# Settings for data that declare none, such as the user's own. The convolutions take images of any size.
OTHER_IMAGES = {"network": "conv_locatello", "latents": 10, "steps": 10_000}
OTHER_VECTORS = {"network": "mlp_synthetic", "latents": 5, "steps": 10_000}
OTHER_VARIANCE = 0.02       # the likelihood variance of a vector, in units of its entries' mean variance


class Prepared(NamedTuple):
    """What is known of a dataset that a builder of TensorFlow Datasets must have prepared before it can be loaded.

    builder: the name of the builder. licence: of the data. examples, shape, factors: as the Dataset has them.
    """

    builder: str
    licence: str
    examples: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]


class Entry(NamedTuple):
    """A dataset that `load` knows.

    load: called with data_dir and seed, see `data.load`.
    suited: {flag: value} of what it is trained with unless flags say otherwise; names of SETTINGS.
    prepared: what is known of it without loading it; None for data that a program makes.
    """

    load: Loader
    suited: Mapping[str, Any]
    prepared: Prepared | None


DATASETS: dict[str, Entry] = {}


def register(name: str, load: Loader, *, suited: Mapping[str, Any] | None = None,
             prepared: Prepared | None = None) -> None:
    """Add a dataset to DATASETS; --dataset and `load` then know it by this name.

    Args:
        name: the name of the dataset, which `data.load` gives to the Dataset that `load` returns.
        load: a function (data_dir, seed) -> Dataset, which ignores what it has no use for.
        suited: {flag: value} of what the dataset is best trained with, names of SETTINGS; what it leaves out is as for
            data of one's own.
        prepared: what is known of data that a builder of TensorFlow Datasets prepares; None for data that a program
            makes, whose licence is that of the program.

    Raises:
        InputError: the name is another dataset's, `load` is no such function, or there is no such setting.
    """
    checks.check_function("load", load, ("data_dir", "seed"))
    there = DATASETS.get(name)
    if there is not None and _name_place(there.load) != _name_place(load):
        raise InputError(f"dataset: {name!r} is taken by {_name_place(there.load)}; expected a name of its own for "
                         f"{_name_place(load)}")
    unknown = sorted(set(suited or {}) - set(SETTINGS))
    if unknown:
        raise InputError(f"suited: expected settings of {', '.join(SETTINGS)}; got {unknown[0]!r} for {name}")
    DATASETS[name] = Entry(load, dict(suited or {}), prepared)


def is_path(name: str) -> bool:
    """Return whether a dataset's name is the path of the user's own data: of an .npz file, or of a folder."""
    return name not in DATASETS and (name.endswith(".npz") or os.path.isdir(name))


def _name_place(load: Loader) -> str:
    """Return the module and the name of a loader: of a functools.partial its function's, of an object its class's."""
    function = getattr(load, "func", load)
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def choose_settings(dataset: Dataset) -> dict[str, Any]:
    """The settings that suit a dataset, by flag: network, latents, steps, likelihood, likelihood_variance and, for
    some, learning_rate."""
    known = DATASETS[dataset.name].suited if dataset.name in DATASETS else {}
    if dataset.is_image:
        return {"likelihood": "bernoulli", "likelihood_variance": 0.5, **OTHER_IMAGES, **known}
    settings = {"likelihood": "gaussian", **OTHER_VECTORS, **known}
    if "likelihood_variance" not in settings:
        variance = OTHER_VARIANCE * float(sample_evenly(dataset).var(0).mean())
        settings["likelihood_variance"] = float(f"{variance:.3g}") or 0.5
    return settings
