"""The distributions of TensorFlow Probability, which is imported when the first of them is used.

    from vae_tf import probability as tfd

Its import takes a fifth of the time of TensorFlow's own, and what scores an export uses none of its distributions.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Return what tensorflow_probability.distributions has of that name."""
    if name.startswith("__"):       # what Python and others ask every module for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tensorflow_probability").distributions, name)
