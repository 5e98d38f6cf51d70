"""Code outside of this package that adds models, networks, datasets or metrics to it.

Such code is a module that calls `models.register`, `networks.register`, `data.register`, `metrics.register` or
`training.register_callback` when it is imported. It is found in two ways: an installed package names it as an entry
point of the group `vae_tf.extensions`, or the environment variable VAE_TF_EXTENSIONS names it, among others separated
by commas.
"""

import functools
import importlib
import importlib.metadata
import os
import pathlib
from collections.abc import Callable
from typing import Any

from vae_tf.errors import InputError

GROUP = "vae_tf.extensions"             # group of entry points
VARIABLE = "VAE_TF_EXTENSIONS"          # variable of the environment


def are_named() -> bool:
    """Return whether an entry point or the environment names extensions."""
    return bool(importlib.metadata.entry_points(group=GROUP) or os.environ.get(VARIABLE))


@functools.cache
def load() -> tuple[str, ...]:
    """Import all extensions, once in a process; returns what they are called.

    Programs call it before they define flags, so that the names that extensions register are choices of flags.

    Raises:
        InputError: an extension cannot be imported; the line names it and says why.
    """
    names = []
    for point in importlib.metadata.entry_points(group=GROUP):
        _import(f"entry point {point.name} of {GROUP}, {point.value}", point.load)
        names.append(point.name)
    for name in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
        _import(f"{VARIABLE}: {name}", functools.partial(importlib.import_module, name))
        names.append(name)
    return tuple(names)


def _import(called: str, load: Callable[[], Any]) -> None:
    try:
        load()
    except Exception as error:          # somebody else's module may raise anything
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        lies_here = isinstance(error, ModuleNotFoundError) and pathlib.Path(f"{error.name}.py").is_file()
        hint = "; PYTHONPATH=. has Python look for modules in this folder" if lies_here else ""
        raise InputError(f"{called} cannot be imported ({reason}){hint}") from error
