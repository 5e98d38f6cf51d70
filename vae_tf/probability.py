"""The distributions of TensorFlow Probability, which is imported when the first of them is used.

    from vae_tf import probability as tfd

Its import takes about a third as long as that of TensorFlow itself, and the program that scores an export uses none of
its distributions.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Return what tensorflow_probability.distributions has of that name."""
    if name.startswith("__"):       # what Python and others ask every module for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tensorflow_probability").distributions, name)
