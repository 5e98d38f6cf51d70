"""Fit local decoders: models of a decoder's response to posterior noise around one x, for many x at once (bhowal 4).

With eps ~ N(0, Sigma(x)) the target is y = Dec(mu + eps) - Dec(mu), flattened to n pixels. Two models of it:

    linear       M eps + b, by least squares, in closed form
    non-linear   f_D(M_D eps) = tanh(M_D eps + b), by Levenberg-Marquardt from the linear solution, same draws

tanh acts pixel by pixel, so the non-linear fit is n problems of d + 1 weights for each x, solved side by side. The
loss is the squared error for both; they are compared on draws of eps that neither was fitted on. tanh stays within
(-1, 1): fine for images in [0, 1], a handicap for data that noise moves further.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from vae_tf import arguments, graphs, jacobians
from vae_tf.arguments import Count, Seed
from vae_tf.errors import InputError
from vae_tf.metrics.local_decoder_errors import LocalDecoders, check_posterior

# The number of draws of eps per weight of a pixel for the fit; the comparison gets as many again.
DRAWS_PER_WEIGHT = 16

# The number of rows that the decoder takes at a time, and of floats in a batch's largest array (64 MB).
ROWS, ENTRIES = 256, 2**24

# The fit of a pixel ends when a step lowers its loss by less than this share, or an undamped step is expected to; when
# no step of any size lowers the loss; or after this number of steps.
GAIN, START, DAMPING, STEPS = 1e-3, 1e-3, (1e-5, 1e4), 40

# E g(N(0, 1)) = sum of weights g(nodes), Gauss-Hermite.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@arguments.check
def fit_local_decoders(decoder: Callable, means: np.ndarray, stddevs: np.ndarray, *, draws: Count | None = None,
                       seed: Seed = 0, keep_matrices: bool = False,
                       progress: Callable[[int, int], None] | None = None) -> LocalDecoders:
    """Fit a local decoder around each of N posterior means.

    Args:
        decoder: a function of z, as `vae_tf.jacobians` takes it; its mean is what is modelled.
        means: [N, d].
        stddevs: posterior standard deviations [N, d], or Cholesky factors [N, d, d].
        draws: number of draws of eps per x to fit on, and as many to compare on; 16 (d + 1) by default.
        seed: seed of the draws; each x has its own, whatever stands beside it.
        keep_matrices: return the n x d matrices too.
        progress: called with (done, N) after each batch.

    Returns:
        LocalDecoders.

    Raises:
        InputError: shapes that disagree, values that are not finite, noise of zero width, or too few draws.
    """
    means, factors = check_posterior(means, stddevs)
    N, d = means.shape
    draws = DRAWS_PER_WEIGHT * (d + 1) if draws is None else draws
    if draws <= d + 1:
        raise InputError(f"draws: expected more than the {d + 1} weights of a pixel; got {draws}")
    n = int(np.prod(jacobians.take_output(decoder(tf.constant(means[:1]))).shape[1:]))
    program = compile_for(_fit_batch, decoder, d, 2 * draws)
    size = max(1, ENTRIES // (n * max((d + 1) ** 2, 2 * draws)))
    batches = []
    for start in range(0, N, size):
        rows = slice(start, min(N, start + size))
        noise = np.stack([np.random.default_rng([seed, i]).standard_normal((2 * draws, d), np.float32)
                          for i in range(N)[rows]])
        fitted = {name: value.numpy() for name, value in program(means[rows], factors[rows], noise).items()}
        if not np.isfinite(fitted["stochastic"]).all():
            raise InputError("decoder: expected finite values around the means; got NaN or infinite")
        batches.append({name: value for name, value in fitted.items()
                        if keep_matrices or not name.startswith("matrix")})
        if progress is not None:
            progress(rows.stop, N)
    return LocalDecoders(pixels=n, **{name: np.concatenate([batch[name] for batch in batches])
                                      for name in batches[0]})


def compile_for(function: Callable, decoder: Callable, d: int, draws: int) -> Callable:
    """Make a `tf.function` of means [B, d], factors [B, d, d], noise [B, draws, d]; it calls function(decoder, ...)."""
    return graphs.trace(lambda *batch: function(decoder, *batch), [decoder], input_signature=[
        tf.TensorSpec((None, d)), tf.TensorSpec((None, d, d)), tf.TensorSpec((None, draws, d))])


def response(decoder: Callable, means: tf.Tensor, factors: tf.Tensor, noise: tf.Tensor,
             ) -> tuple[tf.Tensor, tf.Tensor]:
    """Return Dec(mu + L noise) - Dec(mu) [B, S, n], and Dec(mu) [B, n], for noise [B, S, d]."""
    B, d = tf.shape(means)[0], means.shape[1]
    z = tf.concat([means[:, tf.newaxis], means[:, tf.newaxis] + tf.matmul(noise, factors, transpose_b=True)], 1)
    rows = tf.reshape(z, [-1, d])
    chunks = -(-tf.shape(rows)[0] // ROWS)
    padded = tf.pad(rows, [[0, chunks * ROWS - tf.shape(rows)[0]], [0, 0]])

    def flat(z: tf.Tensor) -> tf.Tensor:
        x = tf.cast(jacobians.take_output(decoder(z)), tf.float32)
        return tf.reshape(x, [ROWS, int(np.prod(x.shape[1:]))])

    x = tf.map_fn(flat, tf.reshape(padded, [chunks, ROWS, d]), parallel_iterations=1)
    x = tf.reshape(tf.reshape(x, [chunks * ROWS, x.shape[2]])[:tf.shape(rows)[0]], [B, tf.shape(z)[1], x.shape[2]])
    return x[:, 1:] - x[:, :1], x[:, 0]


def _fit_batch(decoder: Callable, means: tf.Tensor, factors: tf.Tensor, noise: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return the fields of LocalDecoders for one batch, fitted in whitened noise: [noise, 1] @ [L^T M^T; b]."""
    y, _ = response(decoder, means, factors, noise)
    features = tf.pad(noise, [[0, 0], [0, 0], [0, 1]], constant_values=1.0)                     # [B, S, d + 1]
    fit_features, features = tf.split(features, 2, axis=1)
    fit_y, y = tf.split(y, 2, axis=1)
    linear = least_squares(fit_features, fit_y)
    tanh = levenberg_marquardt(fit_features, fit_y, linear)

    squared = tf.reduce_sum(tf.cast(y, tf.float64) ** 2, 2)                                      # [B, S]
    draws = tf.cast(tf.shape(squared)[1], tf.float64)
    fields = {"stochastic": tf.reduce_mean(squared, 1),
              "stochastic_error": tf.math.reduce_std(squared, 1) / tf.sqrt(draws - 1),
              "predicted": _expected_tanh_squared(tf.cast(tanh, tf.float64))}
    for name, weights, model in (("", tanh, tf.tanh), ("_linear", linear, tf.identity)):
        error = tf.cast(y - model(tf.matmul(features, weights)), tf.float64)
        fields["delta" + name] = tf.reduce_sum(tf.reduce_mean(error**2, 1), 1)
        M = tf.linalg.triangular_solve(tf.cast(factors, tf.float64), tf.cast(weights[:, :-1], tf.float64),
                                       lower=True, adjoint=True)                                 # [B, d, n]
        fields["gram" + name] = tf.matmul(M, M, transpose_b=True)
        fields["matrix" + name] = tf.linalg.matrix_transpose(M)
    return fields


def least_squares(features: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return the weights [B, p, n] that minimise the squared error of features [B, S, p] @ weights from y [B, S, n]."""
    features, y = tf.cast(features, tf.float64), tf.cast(y, tf.float64)
    normal = tf.matmul(features, features, transpose_a=True)
    return tf.cast(tf.linalg.solve(normal, tf.matmul(features, y, transpose_a=True)), tf.float32)


def levenberg_marquardt(features: tf.Tensor, y: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return the weights [B, p, n] that minimise the squared error of tanh(features @ weights) from y [B, S, n].

    Gauss-Newton steps (H + damping diag H) step = gradient, each pixel with its own damping; a step that does not
    lower its pixel's loss is not taken. Starts at `weights`.
    """
    p = features.shape[2]
    pairs = features[:, :, :, tf.newaxis] * features[:, :, tf.newaxis]
    pairs = tf.reshape(pairs, [tf.shape(pairs)[0], tf.shape(pairs)[1], p * p])                   # [B, S, p^2]
    negligible = tf.reduce_sum(y**2, 1) * (10 * np.finfo(np.float32).eps) ** 2

    def loss_of(weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        t = tf.tanh(tf.matmul(features, weights))
        return t, tf.reduce_sum((y - t) ** 2, 1)

    def step(i: tf.Tensor, weights: tf.Tensor, damping: tf.Tensor, done: tf.Tensor) -> tuple[tf.Tensor, ...]:
        t, loss = loss_of(weights)
        slope = 1 - t**2
        gradient = tf.matmul(features, slope * (y - t), transpose_a=True)                        # [B, p, n]
        H = tf.reshape(tf.matmul(slope**2, pairs, transpose_a=True), [*tf.unstack(tf.shape(loss)), p, p])
        diagonal = tf.linalg.diag_part(H)
        # The second term keeps H positive definite in float32 where few draws lie on the slope of tanh.
        ridge = damping[..., tf.newaxis] * diagonal + 1e-5 * tf.reduce_mean(diagonal, -1, keepdims=True) + 1e-30
        factor = tf.linalg.cholesky(tf.linalg.set_diag(H, diagonal + ridge))
        move = tf.linalg.cholesky_solve(factor, tf.linalg.matrix_transpose(gradient)[..., tf.newaxis])[..., 0]
        trial = weights + tf.linalg.matrix_transpose(move)
        gain = loss - loss_of(trial)[1]
        better = gain > 0
        weights = tf.where((better & ~done)[:, tf.newaxis], trial, weights)
        expected = tf.reduce_sum(move * tf.linalg.matrix_transpose(gradient), -1)     # gain of a Gauss-Newton step
        small = tf.where(better, gain, tf.where(damping <= START, expected, np.inf)) <= GAIN * loss
        done |= small | (damping > DAMPING[1]) | (loss <= negligible)
        damping = tf.maximum(damping * tf.where(better, 0.1, 10.0), DAMPING[0])
        return i + 1, weights, damping, done

    start = (0, weights, tf.fill(tf.shape(negligible), START), negligible <= 0)
    return tf.while_loop(lambda i, weights, damping, done: ~tf.reduce_all(done), step, start,
                         maximum_iterations=STEPS, parallel_iterations=1)[1]


def _expected_tanh_squared(weights: tf.Tensor) -> tf.Tensor:
    """Return E tanh^2(m . noise + b) [B], summed over pixels: one-dimensional Gaussian integrals, by quadrature."""
    mean, stddev = weights[:, -1], tf.norm(weights[:, :-1], axis=1)
    total = tf.zeros_like(mean)
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * tf.tanh(mean + stddev * node) ** 2
    return tf.reduce_sum(total, 1)
