"""How a function of models becomes a graph."""

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
        models: the models whose methods the function calls.
        options: the arguments of `tf.function`.
    """
    modules = {kind.__module__.partition(".")[0] for model in models for kind in type(model).__mro__}
    own = modules <= {*WRITTEN_AS_GRAPHS}
    return tf.function(tf.autograph.experimental.do_not_convert(function) if own else function, **options)
