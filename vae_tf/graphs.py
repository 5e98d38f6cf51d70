"""How a function of models becomes a graph."""

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

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
    own = all(map(is_own, models))
    return tf.function(tf.autograph.experimental.do_not_convert(function) if own else function, **options)


def is_own(model: Any) -> bool:
    """Say whether no code of a model, a function or the model of a method comes from outside of the package."""
    return _list_packages(model) <= {*WRITTEN_AS_GRAPHS}


def inline(function: Any, **specs: tf.TensorSpec) -> Callable[..., Any]:
    """Return a function of a SavedModel as one that puts its operations, with constants for weights, into a graph.

    Such a function takes less time to differentiate twice: what is called as a whole is differentiated as a whole, with
    gradients of its weights. It can be called in graphs alone, and `tf.gradients` differentiates it, not a tape.
    A function with gradients of its own is returned as it is, because these belong to its own graph.

    Args:
        function: a restored function, whose outputs are a dict.
        specs: its arguments by name.
    """
    called = function.get_concrete_function(**specs)
    frozen = convert_variables_to_constants_v2(called, lower_control_flow=False)
    definition, names = frozen.graph.as_graph_def(), [output.name for output in frozen.outputs]
    nodes = itertools.chain(definition.node, *(each.node_def for each in definition.library.function))
    if any("_gradient_op_type" in node.attr for node in nodes):
        return function

    def put_operations(*tensors: tf.Tensor) -> Any:
        inputs = {each.name: tensor for each, tensor in zip(frozen.inputs, tensors, strict=True)}
        outputs = tf.graph_util.import_graph_def(definition, inputs, return_elements=names)
        return tf.nest.pack_sequence_as(called.structured_outputs, outputs)

    return put_operations


def _list_packages(model: Any) -> set[str]:
    """Return the packages that define a model, a function or the model of a method."""
    model = getattr(model, "__self__", model)
    kinds = [model] if inspect.isfunction(model) else type(model).__mro__
    return {kind.__module__.partition(".")[0] for kind in kinds}
