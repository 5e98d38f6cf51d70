"""What anybody's process does with a SavedModel: TensorFlow alone, no vae_tf. test_export_signatures runs it.

    python -I outside.py asked.pickle answers.pickle
"""

import pickle
import sys

for name in ("vae_tf", "tensorflow_probability", "keras", "tf_keras"):
    sys.modules[name] = None        # as if it were not installed

import numpy as np
import psutil
import tensorflow as tf
from tensorflow.python.eager import context

# How many batches come before memory is looked at, and how many are sent in all.
SETTLED, REQUESTS = 2_000, 12_000


def installed(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def answer(model, signature, inputs, tensors=True):
    """The outputs as arrays by name, or what TensorFlow says is wrong. It casts arrays, but no tensors."""
    try:
        outputs = model.signatures[signature](**{name: tf.constant(value) if tensors else value
                                                 for name, value in inputs.items()})
    except (TypeError, ValueError, tf.errors.OpError) as error:
        return str(error)
    return {name: value.numpy() for name, value in outputs.items()}


def graphs():
    """How many functions TensorFlow holds: tracing adds some."""
    return len(context.context().list_function_names())


def many_requests(model, x):
    """Encode batches of 1 to len(x) rows through the signature and the function; (kB grown, functions added)."""
    sizes = np.random.default_rng(0).integers(1, len(x) + 1, REQUESTS)
    encode, process = model.signatures["encode"], psutil.Process()
    for done, size in enumerate(sizes):
        if done == SETTLED:
            memory, functions = process.memory_info().rss, graphs()
        batch = tf.constant(x[:size])
        outputs = encode(x=batch) if done % 2 else model.encode(batch)
        if outputs["mean"].shape[0] != size:
            raise AssertionError(f"{size} rows came back as {outputs['mean'].shape}")
    return (process.memory_info().rss - memory) / 1024, graphs() - functions


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        asked = pickle.load(file)
    models = {path: tf.saved_model.load(path) for path in {path for path, *_ in asked["requests"]}}
    answers = {"installed": [name for name in ("vae_tf", "keras", "tensorflow_probability") if installed(name)],
               "signatures": {path: sorted(model.signatures) for path, model in models.items()},
               "requests": [answer(models[path], *request) for path, *request in asked["requests"]],
               "many": many_requests(models[asked["many"][0]], asked["many"][1]) if "many" in asked else None}
    with open(sys.argv[2], "wb") as file:
        pickle.dump(answers, file)
