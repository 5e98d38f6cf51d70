"""Run exports outside TensorFlow: what converts, how far numbers are from TensorFlow's, how long a request takes.

    pip install -e '.[onnx]' openvino
    python benchmarks/runtimes.py                 (some minutes; one core or more)
    python benchmarks/runtimes.py onnx tflite     (or some of these)
"""

import contextlib
import functools
import importlib.metadata
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

import numpy as np
import tensorflow as tf

from vae_tf import data, export, models

SIZES = (1, 64)
VALUES = 5          # number of values in a traversal
LATENTS = 10


@functools.cache
def loaded(path):
    """Return the SavedModel in `path`, as TensorFlow runs it."""
    return tf.saved_model.load(str(path))


def tflite(path, signature):
    """Return one signature of the SavedModel in `path` as a function of arrays by name, run by TensorFlow Lite."""
    converted = tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=[signature]).convert()
    runner = tf.lite.Interpreter(model_content=converted).get_signature_runner(signature)
    return lambda inputs: runner(**inputs)


def onnx(path, signature):
    """Return one signature as a function of arrays, converted by tf2onnx and run by ONNX Runtime."""
    import onnxruntime
    from tf2onnx import convert

    with tempfile.TemporaryDirectory() as folder:
        arguments = {"--saved-model": path, "--signature_def": signature, "--tag": "serve", "--opset": 18,
                     "--output": f"{folder}/model.onnx"}
        with mock.patch.object(sys, "argv", ["convert", *(str(word) for pair in arguments.items() for word in pair)]):
            convert.main()
        session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


def openvino(path, signature):
    """Return one signature as a function of arrays, run by OpenVINO on the CPU."""
    sys.modules.setdefault("openvino_telemetry", None)      # the module would send a message per operation
    import openvino

    function = loaded(path).signatures[signature]
    # On Python 3.13 OpenVINO cannot read TensorFlow's version: it deletes a name that exec no longer sets (PEP 667).
    setup = {"python_version": platform.python_version(), "tensorflow": tf.__version__, "sys_platform": sys.platform}
    with mock.patch("openvino.frontend.tensorflow.utils.get_environment_setup", lambda framework: setup):
        converted = openvino.convert_model(function)
    compiled = openvino.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = sorted(function.structured_outputs)         # a function returns a dict's values in this order

    def run(inputs):
        outputs = compiled({one.any_name: inputs[one.any_name.partition(":")[0]] for one in compiled.inputs})
        return {name: outputs[i] for i, name in enumerate(names)}

    return run


RUNTIMES = {"tflite": (tflite, "tensorflow"), "onnx": (onnx, "onnxruntime"), "openvino": (openvino, "openvino")}


def inputs_of(function, size, seed=0):
    """Return random inputs for a signature, by name."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for name, spec in function.structured_input_signature[1].items():
        shape = [part or (VALUES if name == "values" else size) for part in spec.shape]
        if spec.dtype == tf.uint8:
            inputs[name] = rng.integers(0, 256, shape).astype(np.uint8)
        elif spec.dtype == tf.int32:
            inputs[name] = np.full(shape, size if name == "n" else 0, np.int32)
        else:
            inputs[name] = rng.standard_normal(shape).astype(np.float32)
    return inputs


def exported(folder, model, shape, network):
    """An export of a model with random weights."""
    x = np.zeros((1, *shape), np.uint8 if len(shape) == 3 else np.float32)
    built = models.build(model, shape, network=network, latents=LATENTS, u_size=5,
                         likelihood="bernoulli" if len(shape) == 3 else "gaussian")
    return export.save(pathlib.Path(folder) / network, built, data.from_arrays("none", x),
                       {"model": model, "u_size": built.u_size})


def seconds(function, *args, repeats=10):
    """Return the median time of a call, after a first call that is not timed."""
    function(*args)
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        function(*args)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


@contextlib.contextmanager
def quiet():
    """Silence stderr, because converters write pages to it, some from native code."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def compare(name, path, signature):
    """Return a line per batch size: the largest difference from TensorFlow's outputs, and the ratio of times."""
    function = loaded(path).signatures[signature]
    try:
        with quiet():
            run = RUNTIMES[name][0](path, signature)
            lines = []
            for size in SIZES:
                inputs = inputs_of(function, size)
                tensors = {key: tf.constant(value) for key, value in inputs.items()}
                wanted, got = function(**tensors), run(inputs)
                difference = max(float(np.abs(got[key] - value.numpy()).max()) for key, value in wanted.items())
                ratio = seconds(run, inputs) / seconds(lambda tensors=tensors: function(**tensors))
                lines.append(f"batch {size}: differs by {difference:.1e}, {ratio:.2f} times the time")
    except Exception as error:          # a converter may raise anything for a graph that it does not know
        return f"fails: {' '.join(str(error).split())[:300]}"
    return "; ".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        paths = [exported(folder, "vae", (784,), "mlp_mixture"),
                 exported(folder, "ivae", (64, 64, 1), "conv_locatello")]
        for name in sys.argv[1:] or RUNTIMES:
            print(f"{name}: {RUNTIMES[name][1]} {importlib.metadata.version(RUNTIMES[name][1])}")
            for path in paths:
                for signature in ("encode", "decode", "reconstruct", "traverse", "sample", "jacobian"):
                    print(f"  {path.parent.name} {signature}: {compare(name, path, signature)}", flush=True)
