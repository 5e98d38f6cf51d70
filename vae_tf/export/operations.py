"""Find operations of a SavedModel that touch files, by reading saved_model.pb without running any of it.

A SavedModel is a program in TensorFlow's operations. What is refused here are operations that could read or write
files, run Python or talk to other machines. That is no sandbox: a model may still take all the time and memory there
is, and TensorFlow is not proof against a graph made to attack it.
"""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from vae_tf import files
from vae_tf.errors import InputError, make_printable

# Operations that have a state, but do nothing outside of the model.
HARMLESS = ("Assert", "AssignVariableOp", "DisableCopyOnRead", "If", "NoOp", "Placeholder", "ReadVariableOp",
            "StatefulPartitionedCall", "VarHandleOp", "While")
# Operations that reach outside, or end the process, though TensorFlow counts them as stateless and they take no text.
REACHES_OUT = ("Abort", "ImmutableConst", "PyFuncStateless", "XlaCustomCall", "XlaCustomCallV2")
# An attribute of operations for debugging, which names files or servers to write to.
WRITES_TO = "debug_urls"
# Operations that read and write the variables, allowed in functions that the saver alone can call.
SAVER = ("MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename", "StaticRegexFullMatch", "StringJoin")
LARGEST = 2**31         # bytes of saved_model.pb, as protocol buffers have
TEXT = 7        # tensorflow.DataType.DT_STRING; a file's name comes as text


def find_suspicious(path: str | pathlib.Path) -> list[str]:
    """Return the operations of exported/NAME/VERSION that could reach outside of the model, [name, ...], sorted.

    Operations that TensorFlow's registry does not know count. So do those that have a state or handle text, but for
    a few: whatever opens a file takes its name as text.

    Raises:
        InputError: saved_model.pb cannot be read.
    """
    file = pathlib.Path(path) / "saved_model.pb"
    try:
        saved = saved_model_pb2.SavedModel.FromString(files.read_bytes(file, LARGEST))
    except (OSError, DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a SavedModel"
        raise InputError(f"{file} cannot be read ({reason}); export the model again") from None
    found: set[str] = set()
    for meta_graph in saved.meta_graphs:
        graph = meta_graph.graph_def
        functions = {function.signature.name: function.node_def for function in graph.library.function}
        saving = _find_saving(meta_graph, functions)
        found |= {node.op for node in graph.node if _is_reaching_out(node.op, functions)}
        for name, nodes in functions.items():
            allowed = SAVER if name in saving else ()
            found |= {node.op for node in nodes if _is_reaching_out(node.op, functions) and node.op not in allowed}
    return sorted(found)


def check_operations(path: str | pathlib.Path) -> None:
    """Raise InputError if a SavedModel has operations that could reach outside of it; the line lists them."""
    found = find_suspicious(path)
    if found:
        raise InputError(f"{make_printable(path)}: its graph could reach outside of the model, by the operations "
                         f"{make_printable(', '.join(found))}; a SavedModel is a program: load it only if you trust "
                         "where it comes from, with --trust_export, in Python with trust=True")


def _find_saving(meta_graph: Any, functions: Mapping[str, Any]) -> set[str]:
    """Return the names of the functions that the saver calls, and that neither a node nor a user of the model can call.

    TensorFlow loads a model without an object graph as one of TensorFlow 1, and runs the saver's functions to do so.
    With an object graph it reads the variables by itself, and offers users the functions that the object graph names.
    """
    if not meta_graph.HasField("object_graph_def"):
        return set()
    graph, saver, objects = meta_graph.graph_def, meta_graph.saver_def, meta_graph.object_graph_def
    of_saver = {name.split(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name)}
    saving = _find_reached([node for node in graph.node if node.name in of_saver], functions)
    offered = {*objects.concrete_functions, *(node.bare_concrete_function.concrete_function_name
                                              for node in objects.nodes)}
    offered.update(*(node.function.concrete_functions for node in objects.nodes))
    # A gradient is called by a name that is no function's.
    offered |= {gradient.gradient_func for gradient in (*graph.library.gradient, *graph.library.registered_gradients)}
    rest = [node for node in graph.node if node.name not in of_saver]
    rest += [node for name, nodes in functions.items() if name not in saving or name in offered for node in nodes]
    return saving - offered - _find_reached(rest, functions)


def _find_reached(nodes: Iterable[Any], functions: Mapping[str, Any]) -> set[str]:
    """Return the names of the functions that nodes call, directly or through other functions."""
    reached: set[str] = set()
    waiting = list(nodes)
    while waiting:
        for name in _list_called(waiting.pop()):
            if name in functions and name not in reached:
                reached.add(name)
                waiting += functions[name]
    return reached


def _list_called(node: Any) -> Iterator[str]:
    yield node.op       # a node may call a function as if it were an operation
    for attribute in node.attr.values():
        yield from [attribute.func.name, *(function.name for function in attribute.list.func)]


def _is_reaching_out(name: str, functions: Mapping[str, Any]) -> bool:
    operation = op_def_registry.get(name)
    if operation is None:
        return name not in functions        # the operations of a function are examined one by one
    if name in REACHES_OUT or any(attribute.name == WRITES_TO for attribute in operation.attr):
        return True
    handles_text = any(argument.type == TEXT for argument in (*operation.input_arg, *operation.output_arg))
    return (operation.is_stateful or handles_text) and name not in HARMLESS
