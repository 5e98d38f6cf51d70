import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset

from vae_tf import adam, training

CASE = ("vae", "mlp_synthetic", (3,), "gaussian", {})
SHAPES = (3, 4), (4,), ()


def run_steps(kind, jit_compile=None, steps=20, **options):
    """Return weights and the optimizer's variables after some steps; jit_compile None is eager."""
    rng = np.random.default_rng(0)
    variables = [keras.Variable(rng.standard_normal(shape), dtype="float32") for shape in SHAPES]
    optimizer = kind(**{"learning_rate": 0.1, **options})
    optimizer.build(variables)
    apply = optimizer.apply if jit_compile is None else tf.function(optimizer.apply, jit_compile=jit_compile)
    for _ in range(steps):
        apply([tf.constant(rng.standard_normal(shape) * 10.0**rng.integers(-6, 3), tf.float32) for shape in SHAPES])
    return {variable.path: variable.numpy() for variable in (*variables, *optimizer.variables)}


@pytest.mark.parametrize("jit_compile", [None, False, True])
@pytest.mark.parametrize("options", [
    {}, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}, {"amsgrad": True}, {"weight_decay": 0.1, "clipnorm": 1.0},
    {"learning_rate": keras.optimizers.schedules.CosineDecay(0.1, 15)}])
def test_weights_and_state_are_those_of_keras(options, jit_compile):
    ours, reference = (run_steps(kind, jit_compile, **options) for kind in (adam.Adam, keras.optimizers.Adam))
    # Keras counts the variables that a process has made in the names of those without a name.
    for (path, got), (other, expected) in zip(ours.items(), reference.items(), strict=True):
        assert path.split("/")[0].rstrip("_0123456789") == other.split("/")[0].rstrip("_0123456789")
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)     # other orders of the same roundings


def test_one_operation_updates_a_variable():
    variable, optimizer = keras.Variable(np.ones(3, np.float32)), training.make_optimizer("adam", 0.1)
    optimizer.build([variable])
    graph = tf.function(lambda: optimizer.apply([tf.ones(3)])).get_concrete_function().graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("ResourceApplyAdam") == 1 and "Sqrt" not in kinds


def test_a_model_that_is_compiled_with_adam_is_loaded_with_its_state(tmp_path):
    model = build(*CASE)
    model.compile("adam", seed=5)
    model.fit(dataset((3,)), batch_size=8, steps_per_epoch=3, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is type(model.optimizer) is adam.Adam
    for before, after in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(before.numpy(), after.numpy())
