"""First and second derivatives of a decoder at posterior means, in batches."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from vae_tf import graphs, jacobians
from vae_tf.errors import InputError

# Examples whose Jacobians are computed at a time, and between two reports of progress.
BATCH = jacobians.CHUNK


def compute_grams(decoder: Callable, means: np.ndarray, progress: Callable[[int, int], None] | None = None,
                  jacobian: Callable | None = None) -> np.ndarray:
    """Compute J^T J [N, d, d] at posterior means [N, d].

    Args:
        decoder: a function of z, as `vae_tf.jacobians` takes it.
        means: [N, d].
        progress: is called with (done, N) after each batch.
        jacobian: `export.Exported.jacobian_function` of the same model, which need not be traced; None makes one.

    Raises:
        InputError: means that are not [N, d].
    """
    means = np.asarray(means, np.float32)
    if means.ndim != 2 or not means.size:
        raise InputError(f"means: expected shape [N, d], not empty; got {means.shape}")

    if jacobian is None:
        # The graph itself, because TensorFlow warns of a tf.function that is built anew for each of several models.
        program = graphs.trace(lambda z: jacobians.gram(decoder, z), [decoder]).get_concrete_function(
            tf.TensorSpec((None, means.shape[1])))
    else:
        def program(z: tf.Tensor) -> tf.Tensor:
            J = tf.cast(jacobian(z)["jacobian"], tf.float64)
            return tf.linalg.matmul(J, J, transpose_a=True)

    found = []
    for start in range(0, len(means), BATCH):
        found.append(program(tf.constant(means[start:start + BATCH], tf.float32)).numpy())
        if progress:
            progress(min(start + BATCH, len(means)), len(means))
    return np.concatenate(found)


def compile_curvatures(decoder: Callable, noise_variance: float | None, d: int) -> Callable:
    """Make a program (z [B, d], x [B, n]) -> natural parameter [B, n], its Jacobian, Hessian of log p(x|z) [B, d, d].

    Args:
        decoder: a function of z, as `vae_tf.jacobians` takes it.
        noise_variance: s^2 of a Gaussian likelihood, None for a Bernoulli.
        d: latents.

    Raises:
        InputError: TensorFlow cannot differentiate the gradient of one of the decoder's operations.
    """
    def flat(z: tf.Tensor) -> tf.Tensor:
        return tf.reshape(jacobians.take_output(decoder(z), "natural"), [tf.shape(z)[0], -1])

    def program(z: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        # The tangents, d of them per example, are rows of one batch: were they vectorised instead, a loaded decoder
        # would compute gradients of its weights, too.
        many, directions = tf.repeat(z, d, axis=0), tf.tile(tf.eye(d), [tf.shape(z)[0], 1])
        with tf.autodiff.ForwardAccumulator(many, directions) as tangents:
            with tf.GradientTape() as tape:
                tape.watch(many)
                output, data = flat(many), tf.repeat(x, d, axis=0)
                total = tf.reduce_sum(data * output - tf.math.softplus(output) if noise_variance is None
                                      else -tf.square(data - output) / (2 * noise_variance))
            gradient = tape.gradient(total, many)
            jacobians.check_differentiable(gradient)
        columns, H = (tangents.jvp(each, unconnected_gradients=tf.UnconnectedGradients.ZERO)
                      for each in (output, gradient))
        J = tf.transpose(tf.reshape(columns, [-1, d, tf.shape(x)[1]]), [0, 2, 1])
        return output[::d], J, tf.reshape(H, [-1, d, d])

    with jacobians.refuse_missing_gradients():
        return graphs.trace(program, [decoder]).get_concrete_function(tf.TensorSpec((None, d)),
                                                                      tf.TensorSpec((None, None)))
