"""The requests that warm a server up: one of a single example per signature, which it runs before clients may call.

TensorFlow Serving reads each as a `PredictionLog`, a protocol buffer of tensorflow-serving-api. That package asks for
one version of TensorFlow, so the few fields in question are written here, and a test reads them with its classes.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf.data import Dataset
from vae_tf.export.card import EXTRA

WARMUP = EXTRA / "tf_serving_warmup_requests"       # TensorFlow Serving looks for a file of this name

# Numbers of fields in tensorflow/serving: prediction_log.proto, predict.proto and model.proto.
PREDICT_LOG, REQUEST = 6, 1
MODEL_SPEC, INPUTS = 1, 2
NAME, SIGNATURE_NAME = 1, 3
KEY, VALUE = 1, 2


def write_warmup(path: pathlib.Path, name: str, named: Mapping[str, Any], dataset: Dataset) -> None:
    """Write a request of one example per signature, {name: its graph's function}, to a server's model of a name."""
    with tf.io.TFRecordWriter(str(path)) as records:
        for signature, function in named.items():
            inputs = {spec.name: _make_example(spec, dataset) for spec in function.input_signature}
            records.write(_write_request(name, signature, inputs))


def _make_example(spec: tf.TensorSpec, dataset: Dataset) -> np.ndarray:
    """Return an array of one row that an input of a signature takes."""
    value = {"n": 1, "x": 128 if spec.dtype == tf.uint8 else 0}.get(spec.name, 0)
    low = dataset.u_range[0] if spec.name == "factors" and dataset.u_range else value
    return np.full([size or 1 for size in spec.shape], low, spec.dtype.as_numpy_dtype)


def _write_request(model: str, signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """Return a PredictionLog that holds one request."""
    spec = _write_field(NAME, model.encode()) + _write_field(SIGNATURE_NAME, signature.encode())
    tensors = b"".join(
        _write_field(INPUTS, _write_field(KEY, key.encode())
                     + _write_field(VALUE, tf.make_tensor_proto(array).SerializeToString()))
        for key, array in inputs.items())
    return _write_field(PREDICT_LOG, _write_field(REQUEST, _write_field(MODEL_SPEC, spec) + tensors))


def _write_field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer: its number and kind (2, with a length), the length, and the content."""
    size, length = len(content), bytearray()
    while size > 0x7F:      # seven bits a byte, the lowest first
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content
