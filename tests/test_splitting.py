import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build

from vae_tf import replicas, splitting, train_step
from vae_tf.console import environment

RNG = np.random.default_rng(0)
ROWS = 64
pytestmark = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="on a GPU, batches stay whole")


@pytest.fixture(autouse=True)
def one_thread_for_each_operation(monkeypatch):
    """What TensorFlow was told before its first operation; here it is only read."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "2")


def list_operations(function, *arguments):
    return [op.type for op in tf.function(function).get_concrete_function(*arguments).graph.get_operations()]


def make_batch(model, rows=ROWS):
    x = tf.constant(RNG.integers(0, 256, (rows, *model.encoder.inputs[0].shape[1:])), tf.uint8)
    u = tf.constant(RNG.standard_normal((rows, model.u_size)), tf.float32) if model.u_size else None
    return x, u


@pytest.mark.parametrize(("name", "network", "more", "rounding"), [
    ("vae", "conv_locatello", {}, 1e-4), ("ivae", "conv_locatello", {}, 1e-4), ("ivae", "conv_bhowal", {}, 1e-4),
    ("beta_tcvae", "conv_locatello", {}, 1e-4), ("vae", "conv_locatello", {"dtype": "mixed_bfloat16"}, 0.03)])
def test_terms_and_gradients_are_those_of_the_whole_batch(name, network, more, rounding):
    model = build(name, network, (32, 16, 1), "bernoulli", more)
    program = replicas.Single(model, keras.optimizers.SGD(1e-3), 0)
    x, u = make_batch(model)
    noise, found = program.draw_noise(tf.constant(3), x), []

    def compute():
        with tf.GradientTape() as tape:
            terms = program.compute_terms(noise, tf.cast(x, tf.float32) / 255, u, 1.0)
        return terms, tape.gradient(terms["loss"], model.trainable_variables)

    for allowed in (False, True):
        with splitting.in_parts(allowed):
            graph = tf.function(compute).get_concrete_function()
        count = sum(op.type == "Conv2D" for op in graph.graph.get_operations())
        found.append((count, *graph()))
    (whole, terms, gradients), (parts, terms_in_parts, gradients_in_parts) = found
    assert whole >= 4 and parts == 4 * whole
    for term in terms:
        np.testing.assert_allclose(terms_in_parts[term], terms[term], rtol=rounding)
    for ours, expected in zip(gradients_in_parts, gradients, strict=True):
        assert np.linalg.norm(ours - expected) <= rounding * np.linalg.norm(expected)


@pytest.mark.parametrize(("rows", "count"), [(64, 4), (256, 8), (100, 5), (50, 2), (31, 1), (37, 1), (16, 1),
                                             (None, 1)])
def test_parts_are_equal_and_not_too_small(rows, count):
    network = build("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}).encoder
    with splitting.in_parts():
        operations = list_operations(lambda x: splitting.apply(network, [x], True),
                                     tf.TensorSpec((rows, 16, 16, 1), tf.float32))
    assert operations.count("Conv2D") == 4 * count


@pytest.mark.parametrize("network", ["conv_faces", "mlp_dsprites"])
def test_statistics_of_the_batch_and_dense_networks_see_it_whole(network):
    encoder = build("vae", network, (16, 16, 1), "bernoulli", {}).encoder
    with splitting.in_parts():
        operations = list_operations(lambda x: splitting.apply(encoder, [x], True),
                                     tf.TensorSpec((ROWS, 16, 16, 1), tf.float32))
    assert operations.count("Split") == 0 < operations.count("MatMul")


def test_a_layer_of_the_user_s_sees_the_whole_batch():
    class Centred(keras.layers.Layer):
        def call(self, x):
            return x - tf.reduce_mean(x, 0)

    x = keras.Input((16, 16, 1))
    network = keras.Model(x, keras.layers.Conv2D(2, 4)(Centred()(x)))
    given = tf.constant(RNG.standard_normal((ROWS, 16, 16, 1)), tf.float32)
    with splitting.in_parts():
        np.testing.assert_allclose(splitting.apply(network, [given], True), network(given), atol=1e-5)


@pytest.mark.parametrize(("within", "between", "parts"), [("1", "2", 4), ("1", "", 4), ("1", "1", 1), ("2", "2", 1),
                                                          ("", "2", 1), ("0", "", 1)])
@pytest.mark.parametrize("compiled", [False, True])
def test_training_steps_are_in_parts_where_the_threads_suit_them(monkeypatch, within, between, parts, compiled):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", within)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", between)
    program = replicas.Single(build("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}),
                              keras.optimizers.SGD(1e-3), 0)
    seen = []
    encoder = program.models[0].encoder
    monkeypatch.setattr(encoder, "call", lambda x, **options: seen.append(x.shape[0]) or
                        type(encoder).call(encoder, x, **options))
    specs = tf.TensorSpec((), tf.int64), tf.TensorSpec((ROWS, 16, 16, 1), tf.uint8)
    train_step.make_train_steps(program, specs, jit_compile=compiled)
    assert seen == ([ROWS] if compiled else parts * [ROWS // parts])


def test_several_devices_and_replicas_share_whole_batches(monkeypatch):
    monkeypatch.setattr(splitting, "_count_parts", lambda rows: pytest.fail(f"{rows} rows were to be split"))
    built = [build("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}, seed) for seed in (0, 1)]
    program = replicas.Stacked(built, keras.optimizers.SGD(1e-3), [0, 1])
    specs = tf.TensorSpec((), tf.int64), tf.TensorSpec((2 * ROWS, 16, 16, 1), tf.uint8)
    train_step.make_train_steps(program, specs)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope(), splitting.in_parts():
        assert len(splitting.apply(built[0].encoder, [tf.zeros((ROWS, 16, 16, 1))], True)[0]) == ROWS

@pytest.mark.parametrize(("processors", "given", "chosen"), [
    (2, {}, {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}), (1, {}, {}), (4, {}, {}),
    (2, {"TF_NUM_INTRAOP_THREADS": "2"}, {}), (2, {"TF_NUM_INTEROP_THREADS": "0"}, {})])
def test_threads_are_chosen_for_two_processors_unless_the_environment_has_a_say(monkeypatch, processors, given, chosen):
    monkeypatch.setattr(environment, "count_processors", lambda: processors)
    found = {**given}
    environment.choose_threads(found)
    assert found == {**given, **chosen}


def test_threads_that_a_program_chooses_are_those_that_parts_need(monkeypatch):
    for name in environment.TENSORFLOW_THREADS:
        monkeypatch.delenv(name)
    program = ("from vae_tf import console\nfrom vae_tf.console import environment\nconsole.start()\n"
               "environment.count_processors = lambda: 2\nconsole.import_tensorflow(in_parts={})\n"
               "from vae_tf import splitting\nprint(splitting._do_threads_suit())\n")
    told = [subprocess.run([sys.executable, "-c", program.format(asked)], capture_output=True, text=True).stdout
            for asked in (True, False)]
    assert told == ["True\n", "False\n"]
