"""How a function of models becomes a graph."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

WRITTEN_AS_GRAPHS = ("vae_tf", "keras", "tensorflow", "builtins")     # packages in which no `if` depends on a tensor


def trace(function: Callable[..., Any], models: Iterable[Any], **options: Any) -> Any:
    """Return a `tf.function`, for which AutoGraph rewrites code only if a model's class comes from outside.

    AutoGraph rewrites the source of all that the function calls, which takes longer than to train a small model for
    some steps. The package's own models need no rewriting.

    Args:
        function: takes and returns tensors.
        models: what the function calls: models, or functions such as a decoder.
        options: the arguments of `tf.function`.
    """
    own = all(_list_packages(model) <= {*WRITTEN_AS_GRAPHS} for model in models)
    return tf.function(tf.autograph.experimental.do_not_convert(function) if own else function, **options)


def _list_packages(model: Any) -> set[str]:
    """Return the packages that define a model, a function or the model of a method."""
    model = getattr(model, "__self__", model)
    kinds = [model] if inspect.isfunction(model) else type(model).__mro__
    return {kind.__module__.partition(".")[0] for kind in kinds}
