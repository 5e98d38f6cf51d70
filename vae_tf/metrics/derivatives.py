"""First and second derivatives of a decoder at posterior means, in batches."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from vae_tf import graphs, jacobians, threads
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

    found, starts = [], range(0, len(means), BATCH)
    for start, gram in zip(starts, threads.map_in_pairs(
            lambda start: program(tf.constant(means[start:start + BATCH], tf.float32)).numpy(), starts), strict=True):
        found.append(gram)
        if progress:
            progress(min(start + BATCH, len(means)), len(means))
    return np.concatenate(found)


def compile_curvatures(decoder: Callable, noise_variance: float | None, d: int) -> Callable:
    """Make a program (z [B, d], x [B, n]) -> natural parameter [B, n], its Jacobian, Hessian of log p(x|z) [B, d, d].

    Args:
        decoder: a function of z, as `vae_tf.jacobians` takes it; of an export, `export.Exported.inlined_decoder`.
        noise_variance: s^2 of a Gaussian likelihood, None for a Bernoulli.
        d: latents.

    Raises:
        InputError: TensorFlow cannot differentiate the gradient of one of the decoder's operations.
    """
    def flat(z: tf.Tensor) -> tf.Tensor:
        return tf.reshape(jacobians.take_output(decoder(z), "natural"), [tf.shape(z)[0], -1])

    def differentiate(y: tf.Tensor, by: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.gradients(y, by, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]

    def program(z: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        output = flat(z)
        u = tf.zeros_like(output)
        residual = x - tf.sigmoid(output) if noise_variance is None else (x - output) / noise_variance
        pulled, gradient = differentiate(output, z, u), differentiate(output, z, residual)
        operations = jacobians.check_differentiable(gradient)
        # J^T u is linear in u: the gradient of its entry j by u is the column j of J. That of the gradient of
        # log p(x|z), which is J^T residual, by z is the column j of the Hessian.
        J, H = jacobians.map_directions(
            lambda each: (differentiate(pulled, u, each), differentiate(gradient, z, each)), z, operations)
        return output, tf.transpose(J, [1, 2, 0]), tf.transpose(H, [1, 2, 0])

    with jacobians.refuse_missing_gradients():
        return graphs.trace(program, [decoder]).get_concrete_function(tf.TensorSpec((None, d)),
                                                                      tf.TensorSpec((None, None)))
