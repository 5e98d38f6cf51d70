"""The signatures that a server offers: functions with bounds on the size of a request, and finite outputs."""

import inspect
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from vae_tf.export.checking import check_shape, require
from vae_tf.export.functions import Functions
from vae_tf.export.limits import check_bounds
from vae_tf.typing import Tensor

SIGNATURES = ("encode", "encode_floats", "encode_factors", "decode", "reconstruct", "sample", "traverse", "jacobian")


def make_signatures(functions: Functions, limits: Mapping[str, int]) -> dict[str, Any]:
    """Return the signatures of a model by name; "serving_default" is "encode".

    Args:
        functions: the model's functions.
        limits: how much one request may ask, see limits.compute_limits.
    """
    named = {name: _make_signature(name, getattr(functions, name), limits) for name in SIGNATURES
             if hasattr(functions, name)}
    return {"serving_default": named["encode"], **named}


def _make_signature(name: str, function: Any, limits: Mapping[str, int]) -> Any:
    specs = {spec.name: spec for spec in function.input_signature}

    def signature(*values: Tensor) -> dict[str, Tensor]:
        inputs = {key: check_shape(spec, value) for (key, spec), value in zip(specs.items(), values, strict=True)}
        bounded = check_bounds(name, inputs, limits)
        outputs = function(*(bounded[key] for key in specs))
        floats = [part for key in specs if inputs[key].dtype.is_floating
                  for part in (f"{key} up to", tf.reduce_max(abs(inputs[key])))]
        return {key: require(value, is_usable(key, value), f"{key} came out NaN, infinite, or 0 where it must be "
                             "positive; the weights cannot be used, or the inputs are too large:", *floats)
                for key, value in outputs.items()}

    # This is no concrete function: `save` would trace again, in a context of its own, all functions that it calls.
    parameters = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD) for key in specs]
    signature.__signature__ = inspect.Signature(parameters)         # type: ignore[attr-defined]
    return tf.function(signature, autograph=False, input_signature=[*specs.values()])


def is_usable(key: str, value: Tensor) -> Tensor:
    """Return whether an output is finite and, if it is a standard deviation, positive."""
    finite = tf.math.is_finite(value)
    return tf.reduce_all(finite & (value > 0) if key.endswith("stddev") else finite)
