"""Checks that are a part of a graph: a served model refuses what it cannot compute with."""

import tensorflow as tf

from vae_tf.typing import Tensor


def require(value: Tensor, condition: Tensor, *message: str | Tensor) -> Tensor:
    """Return the value; raise an error of these words and numbers before anything is computed from the value."""
    words = [tf.convert_to_tensor(part) for part in message]
    with tf.control_dependencies([tf.raw_ops.Assert(condition=condition, data=words)]):     # vectorized_map supports it
        return tf.identity(value)


def check_shape(spec: tf.TensorSpec, value: Tensor) -> Tensor:
    """Return the value; raise an error that names the value if it has another shape than the spec.

    Whatever takes the value before this check runs beside it, and may fail first with an error of its own.
    """
    return tf.ensure_shape(value, spec.shape, name=f"expected_shape_of_{spec.name}")


def check(spec: tf.TensorSpec, value: Tensor) -> Tensor:
    """Return the value; raise an error that names it for another shape than the spec's, no rows, NaN or infinity."""
    value = check_shape(spec, value)
    value = require(value, tf.shape(value)[0] > 0, f"{spec.name}: expected at least one row; got none")
    if value.dtype.is_floating:      # tf.debugging.check_numerics would check gradients, too
        finite = tf.math.is_finite(value)
        value = require(value, tf.reduce_all(finite), f"{spec.name}: expected finite numbers; got NaN or infinity in",
                        tf.math.count_nonzero(~finite), "places")
    return value
