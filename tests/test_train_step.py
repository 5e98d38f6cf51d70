import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset

from vae_tf import replicas, train_step
from vae_tf.data import batches

CASE = ("vae", "mlp_synthetic", (3,), "gaussian", {})


@pytest.mark.parametrize("kind", ["orthogonality", "l1"])
@pytest.mark.parametrize("count", [1, 2])
def test_xla_is_given_no_functions_with_a_penalty_on_the_jacobian(kind, count):
    """XLA would compile the gradient of one at every step."""
    trained = {}
    for compiled in (False, True):
        models = [build(*CASE, seed) for seed in range(count)]
        for model in models:
            model.penalise_jacobian(kind, 0.1, 4)
        program = (replicas.Single(models[0], keras.optimizers.SGD(1e-3), 0) if count == 1 else
                   replicas.Stacked(models, keras.optimizers.SGD(1e-3), [0, 1]))
        spec = (tf.TensorSpec((), tf.int64), tf.TensorSpec((count * 10, 3)))
        steps, names = train_step.make_train_steps(program, spec, jit_compile=compiled)
        rows = dataset((3,)).images_at(np.arange(10))
        repeated = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), np.tile(rows, (count, 1)))).repeat()
        given = iter(repeated), tf.constant(5, tf.int64), {name: tf.zeros(count) for name in names}
        if compiled:
            library = steps.get_concrete_function(*given).graph.as_graph_def().library.function
            functions = [each.signature.name for each in library]
            assert functions and not [name for name in functions if "backward" in name or "jvp" in name], functions
        trained[compiled] = steps(*given)
    for name, term in trained[True][1].items():
        np.testing.assert_allclose(term, trained[False][1][name], rtol=1e-4, atol=1e-5)


def test_xla_need_not_compile_replicas_anew_for_each_batch():
    """A gradient of a function within what XLA compiles would make arrays part of the program that is compiled."""
    models = [build(*CASE, seed) for seed in (0, 1)]
    program = replicas.Stacked(models, keras.optimizers.Adam(1e-3), [0, 1])
    iterator = iter(batches.make_batches(dataset((3,)), 4, [0, 1], 0, 1))
    steps, names = train_step.make_train_steps(program, iterator.element_spec, jit_compile=True)
    graph = steps.get_concrete_function(iterator, tf.constant(1, tf.int64), {name: tf.zeros(2) for name in names}).graph
    functions = [each.signature.name for each in graph.as_graph_def().library.function]
    assert functions and not [name for name in functions if "backward" in name], functions


@pytest.mark.parametrize(("network", "shape", "loops"), [("mlp_synthetic", (3,), 1),
                                                         ("conv_locatello", (16, 16, 1), 0)])
def test_xla_loops_only_over_steps_without_convolutions(network, shape, loops):
    """In a loop of XLA on a CPU, convolutions take fifty times as long."""
    program = replicas.Single(build("vae", network, shape, "gaussian", {}), keras.optimizers.SGD(1e-4), 0)
    iterator = iter(batches.make_batches(dataset(shape), 4, [0], 0, 4))
    steps, names = train_step.make_train_steps(program, iterator.element_spec, jit_compile=True)
    given = iterator, tf.constant(4, tf.int64), {name: tf.zeros(1) for name in names}
    library = steps.get_concrete_function(*given).graph.as_graph_def().library.function
    compiled = [each for each in library if each.attr["_XlaMustCompile"].b]
    assert compiled and sum("While" in node.op for each in compiled for node in each.node_def) == loops
    assert int(steps(*given)[0]) == 4
