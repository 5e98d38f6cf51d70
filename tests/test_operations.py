"""A SavedModel is a program: which of its operations could reach outside of it."""

import json

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from vae_tf import export
from vae_tf.errors import InputError

X = [tf.TensorSpec((None, 3), tf.float32, name="x")]
SECRET = "/etc/hostname"


def reads(x):
    return {"mean": x + tf.cast(tf.strings.length(tf.io.read_file(SECRET)), tf.float32)}


def writes_in_a_loop(x):
    for _ in tf.range(tf.shape(x)[0]):
        tf.io.write_file("/tmp/planted", "text")
    return {"mean": x}


def lists(x):
    return {"mean": x + tf.cast(tf.size(tf.io.matching_files("/*")), tf.float32)}


def saves(x):
    tf.raw_ops.SaveV2(prefix="/tmp/planted", tensor_names=["x"], shape_and_slices=[""], tensors=[x])
    return {"mean": x}


def restores(x):
    return {"mean": x + tf.raw_ops.RestoreV2(prefix="/tmp/theirs", tensor_names=["x"], shape_and_slices=[""],
                                             dtypes=[tf.float32])[0]}


def runs_python(x):
    return {"mean": tf.ensure_shape(tf.numpy_function(lambda x: x, [x], tf.float32), (None, 3))}


def maps_memory(x):
    return {"mean": x + tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[], memory_region_name=SECRET)}


def logs(x):
    tf.print(x, output_stream="file:///tmp/planted")
    return {"mean": x}


def counts_nan(x):
    count = tf.raw_ops.DebugNanCount(input=x, tensor_name="x:0", debug_urls=["file:///tmp/planted"])
    return {"mean": x + tf.cast(count, tf.float32)}


def summarises(x):
    numbers = tf.raw_ops.DebugNumericSummary(input=x, tensor_name="x:0", debug_urls=["file:///tmp/planted"])
    return {"mean": x + tf.cast(numbers[0], tf.float32)}


def ends_the_process(x):
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="", exit_without_error=True)]):
        return {"mean": tf.identity(x)}


def computes(x):
    return {"mean": tf.cond(tf.reduce_any(x > 0), lambda: tf.nn.relu(x), lambda: x @ tf.transpose(x) @ x)}


def write(path, function):
    """Write a SavedModel whose signature `encode` is this function; returns its path."""
    module = tf.Module()
    module.variable = tf.Variable(tf.ones(3))          # so that there are functions of the saver too
    module.encode = tf.function(function, input_signature=X)
    tf.saved_model.save(module, str(path), signatures={"encode": module.encode})
    (path / export.EXTRA).mkdir()
    (path / export.CARD).write_text(json.dumps({"model": "vae", "u_size": 0}))
    return path


@pytest.mark.parametrize(("function", "found"), [
    (reads, "ReadFile"), (writes_in_a_loop, "WriteFile"), (lists, "MatchingFiles"), (saves, "SaveV2"),
    (restores, "RestoreV2"), (runs_python, "PyFunc"), (maps_memory, "ImmutableConst"), (logs, "PrintV2"),
    (counts_nan, "DebugNanCount"), (summarises, "DebugNumericSummary"), (ends_the_process, "Abort"),
    (computes, None)])
def test_graphs_that_reach_outside_are_refused_unless_trusted(tmp_path, function, found):
    path = write(tmp_path / "1", function)
    operations = export.find_suspicious(path)
    assert (found in operations) if found else not operations
    if not found:
        assert export.load(path).encode([[1.0, 2.0, 3.0]])["mean"].shape == (1, 3)
        return
    with pytest.raises(InputError, match=f"by the operations .*{found}.*load it only if you trust .*--trust_export"):
        export.load(path)
    export.load(path, trust=True)


@pytest.mark.parametrize("field", [None, "object_graph_def"])
def test_a_signature_that_poses_as_the_savers_function_is_refused(tmp_path, field):
    """A file can say that the node of a signature is the saver's, and can leave out the object graph."""
    file = write(tmp_path / "1", saves) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    meta_graph, = saved.meta_graphs
    meta_graph.saver_def.restore_op_name, = (
        node.name for node in meta_graph.graph_def.node if "signature_wrapper" in node.attr["f"].func.name)
    if field:
        meta_graph.ClearField(field)
    file.write_bytes(saved.SerializeToString())
    assert "SaveV2" in export.find_suspicious(file.parent)


def test_what_is_no_saved_model_is_said(tmp_path):
    (tmp_path / export.EXTRA).mkdir()
    (tmp_path / export.CARD).write_text(json.dumps({"model": "vae", "u_size": 0}))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    for trust in (False, True):
        with pytest.raises(InputError, match=r"(saved_model.pb cannot be read|is damaged).*export the model again"):
            export.load(tmp_path, trust)
