"""The local decoder: what a decoder makes of the posterior's noise around one x, fitted for many x at once (bhowal 4).

With eps ~ N(0, Sigma(x)) the target is y = Dec(mu + eps) - Dec(mu), flattened to n pixels. Two models of it:

    linear       M eps + b, by least squares, in closed form
    non-linear   f_D(M_D eps) = tanh(M_D eps + b), by Levenberg-Marquardt from the linear solution, same draws

tanh acts pixel by pixel, so the non-linear fit is n problems of d + 1 weights for each x, solved side by side. The
loss is the squared error for both; they are compared on draws of eps that neither was fitted on. tanh stays within
(-1, 1): fine for images in [0, 1], a handicap for data that noise moves further.
"""

from typing import NamedTuple

import numpy as np
import scipy.stats
import tensorflow as tf

from vae_tf import jacobians
from vae_tf.errors import InputError
from vae_tf.metrics.result import Result

# Draws of eps per weight of a pixel, to fit on; as many more to compare on.
DRAWS_PER_WEIGHT = 16

# Rows that the decoder takes at a time, and floats of the largest array in a batch of fits (64 MB).
ROWS, ENTRIES = 256, 2**24

# A pixel is fitted when a step gains, or an undamped one promises, less than this share of its loss; when no step of
# any size gains; or after so many steps.
GAIN, START, DAMPING, STEPS = 1e-3, 1e-3, (1e-5, 1e4), 40

# E g(N(0, 1)) = sum of weights g(nodes), Gauss-Hermite.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


class LocalDecoders(NamedTuple):
    """Local decoders at N points, and how they do on draws of eps they were not fitted on.

    gram and gram_linear [N, d, d]: M^T M of M_D and of the linear M, squared data units per squared latent unit.
    delta and delta_linear [N]: squared error summed over pixels, mean over draws (bhowal (11), (12)).
    stochastic [N]: mean ||Dec(mu + eps) - Dec(mu)||^2 over the same draws; stochastic_error [N]: its standard error.
    predicted [N]: E ||f_D(M_D eps)||^2.
    pixels: n.
    matrix and matrix_linear [N, n, d]: M_D and the linear M, if they were asked for.
    """

    gram: np.ndarray
    gram_linear: np.ndarray
    delta: np.ndarray
    delta_linear: np.ndarray
    stochastic: np.ndarray
    stochastic_error: np.ndarray
    predicted: np.ndarray
    pixels: int
    matrix: np.ndarray | None = None
    matrix_linear: np.ndarray | None = None


def fit(decoder, means, stddevs, *, draws=None, seed=0, keep_matrices=False, progress=None):
    """Local decoders around each of N posterior means.

    Args:
        decoder: as in `jacobians`; its mean is what is modelled.
        means: [N, d].
        stddevs: posterior standard deviations [N, d], or Cholesky factors [N, d, d].
        draws: of eps per x to fit on, and as many to compare on; 16 (d + 1) by default.
        seed: of the draws; each x has its own, whatever stands beside it.
        keep_matrices: return the n x d matrices too.
        progress: called with (done, N) after each batch.

    Returns:
        LocalDecoders.

    Raises:
        InputError: shapes that disagree, values that are not finite, noise of zero width, or too few draws.
    """
    means, factors = _posterior(means, stddevs)
    N, d = means.shape
    draws = DRAWS_PER_WEIGHT * (d + 1) if draws is None else draws
    if draws <= d + 1:
        raise InputError(f"draws: expected more than the {d + 1} weights of a pixel; got {draws}")
    n = int(np.prod(jacobians.output_of(decoder(tf.constant(means[:1]))).shape[1:]))
    program = tf.function(lambda *batch: _fitted(decoder, *batch), input_signature=[
        tf.TensorSpec((None, d)), tf.TensorSpec((None, d, d)), tf.TensorSpec((None, 2 * draws, d))])
    size = max(1, ENTRIES // (n * max((d + 1) ** 2, 2 * draws)))
    batches = []
    for start in range(0, N, size):
        some = slice(start, min(N, start + size))
        noise = np.stack([np.random.default_rng([seed, i]).standard_normal((2 * draws, d), np.float32)
                          for i in range(N)[some]])
        fitted = {name: value.numpy() for name, value in program(means[some], factors[some], noise).items()}
        if not np.isfinite(fitted["stochastic"]).all():
            raise InputError("decoder: expected finite values around the means; got NaN or infinite")
        batches.append({name: value for name, value in fitted.items()
                        if keep_matrices or not name.startswith("matrix")})
        if progress is not None:
            progress(some.stop, N)
    return LocalDecoders(pixels=n, **{name: np.concatenate([batch[name] for batch in batches])
                                      for name in batches[0]})


def _posterior(means, stddevs):
    """means float32 [N, d] and Cholesky factors of the covariances float32 [N, d, d]."""
    means, stddevs = np.asarray(means, np.float32), np.asarray(stddevs, np.float32)
    if means.ndim != 2 or not means.size:
        raise InputError(f"means: expected shape [N, d], not empty; got {means.shape}")
    if stddevs.shape not in (means.shape, (*means.shape, means.shape[1])):
        raise InputError(f"stddevs: expected shape {means.shape}, or {(*means.shape, means.shape[1])} for Cholesky "
                         f"factors; got {stddevs.shape}")
    for name, value in (("means", means), ("stddevs", stddevs)):
        if not np.isfinite(value).all():
            raise InputError(f"{name}: expected finite values; got NaN or infinite")
    factors = stddevs if stddevs.ndim == 3 else stddevs[:, np.newaxis] * np.eye(means.shape[1], dtype=np.float32)
    if not (np.diagonal(factors, axis1=1, axis2=2) > 0).all():
        raise InputError("stddevs: expected positive values; got zero or less")
    return means, factors


def _moved(decoder, means, factors, noise):
    """Dec(mu + L noise) - Dec(mu) [B, S, n], and Dec(mu) [B, n], for noise [B, S, d]."""
    B, d = tf.shape(means)[0], means.shape[1]
    z = tf.concat([means[:, tf.newaxis], means[:, tf.newaxis] + tf.matmul(noise, factors, transpose_b=True)], 1)
    rows = tf.reshape(z, [-1, d])
    chunks = -(-tf.shape(rows)[0] // ROWS)
    padded = tf.pad(rows, [[0, chunks * ROWS - tf.shape(rows)[0]], [0, 0]])

    def flat(z):
        x = tf.cast(jacobians.output_of(decoder(z)), tf.float32)
        return tf.reshape(x, [ROWS, int(np.prod(x.shape[1:]))])

    x = tf.map_fn(flat, tf.reshape(padded, [chunks, ROWS, d]), parallel_iterations=1)
    x = tf.reshape(tf.reshape(x, [chunks * ROWS, x.shape[2]])[:tf.shape(rows)[0]], [B, tf.shape(z)[1], x.shape[2]])
    return x[:, 1:] - x[:, :1], x[:, 0]


def _fitted(decoder, means, factors, noise):
    """The fields of LocalDecoders for one batch, fitted in whitened noise: [noise, 1] @ [L^T M^T; b]."""
    y, _ = _moved(decoder, means, factors, noise)
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


def least_squares(features, y):
    """Weights [B, p, n] that minimise the squared error of features [B, S, p] @ weights from y [B, S, n]."""
    features, y = tf.cast(features, tf.float64), tf.cast(y, tf.float64)
    normal = tf.matmul(features, features, transpose_a=True)
    return tf.cast(tf.linalg.solve(normal, tf.matmul(features, y, transpose_a=True)), tf.float32)


def levenberg_marquardt(features, y, weights):
    """Weights [B, p, n] that minimise the squared error of tanh(features @ weights) from y [B, S, n], pixel by pixel.

    Gauss-Newton steps (H + damping diag H) step = gradient, each pixel with its own damping; a step that does not
    lower its pixel's loss is not taken. Starts at `weights`.
    """
    p = features.shape[2]
    pairs = features[:, :, :, tf.newaxis] * features[:, :, tf.newaxis]
    pairs = tf.reshape(pairs, [tf.shape(pairs)[0], tf.shape(pairs)[1], p * p])                   # [B, S, p^2]
    negligible = tf.reduce_sum(y**2, 1) * (10 * np.finfo(np.float32).eps) ** 2

    def loss_of(weights):
        t = tf.tanh(tf.matmul(features, weights))
        return t, tf.reduce_sum((y - t) ** 2, 1)

    def step(i, weights, damping, done):
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


def _expected_tanh_squared(weights):
    """sum over pixels of E tanh^2(m . noise + b) [B]: a one-dimensional Gaussian integral each, by quadrature."""
    mean, stddev = weights[:, -1], tf.norm(weights[:, :-1], axis=1)
    total = tf.zeros_like(mean)
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        total += weight * tf.tanh(mean + stddev * node) ** 2
    return tf.reduce_sum(total, 1)


def local_decoder_error(fits):
    """Errors of the linear and the non-linear local decoder (bhowal (11), (12), Table 1).

    The score is relative: the mean over x of ||y - f_D(M_D eps)||^2, over the mean of ||y||^2. 0: the local decoder is
    exact. 1: no better than 0. Compare with the part relative_linear; p_value is that of Wilcoxon's signed-rank test
    on the paired delta and delta_linear.

    Args:
        fits: LocalDecoders.

    Returns:
        Result; parts: relative_linear; delta, delta_linear (sums over pixels); delta_per_pixel,
        delta_linear_per_pixel; p_value; per_example, per_example_linear [N]: the sums.
    """
    noise = fits.stochastic.mean()
    delta, linear = fits.delta.mean(), fits.delta_linear.mean()
    return Result("local_decoder_error", _ratio(delta, noise),
                  {"relative_linear": np.array(_ratio(linear, noise)), "delta": delta, "delta_linear": linear,
                   "delta_per_pixel": delta / fits.pixels, "delta_linear_per_pixel": linear / fits.pixels,
                   "p_value": np.array(_paired(fits.delta, fits.delta_linear)),
                   "per_example": fits.delta, "per_example_linear": fits.delta_linear},
                  f"of the decoder's response to posterior noise, what tanh(M eps + b) misses; "
                  f"M eps + b misses {_ratio(linear, noise):.3g}")


def stochastic_loss_error(fits, gram, stddevs):
    """The stochastic loss E ||Dec(mu + eps) - Dec(mu)||^2 from J and from the local decoder (bhowal Table 2, A.8.2).

    E ||J eps||^2 = tr(J^T J Sigma), with J at mu, and E ||f_D(M_D eps)||^2 are held against the Monte Carlo loss, over
    draws on which M_D was not fitted. The score is the mean squared error of the local decoder over that of J. Below 1:
    the local decoder is nearer. Both errors contain the Monte Carlo loss's own, the part noise.

    Args:
        fits: LocalDecoders.
        gram: J^T J [N, d, d] at the same means.
        stddevs: as given to `fit`.

    Returns:
        Result; parts: error_jacobian, error_local_decoder, noise (mean squares, data units^4);
        relative_error_jacobian, relative_error_local_decoder (mean squares of errors over the loss); p_value
        (Wilcoxon's signed-rank test on the paired squared errors); jacobian, local_decoder, monte_carlo [N]
        (data units^2).

    Raises:
        InputError: shapes that disagree.
    """
    _, factors = _posterior(np.zeros(np.shape(gram)[:2]), stddevs)
    if len(factors) != len(fits.delta):
        raise InputError(f"gram: expected {len(fits.delta)} examples, as many as fits; got {len(factors)}")
    factors = factors.astype(np.float64)
    jacobian = np.einsum("bij,bik,bjk->b", gram, factors, factors)
    errors = {"jacobian": jacobian - fits.stochastic, "local_decoder": fits.predicted - fits.stochastic}
    squared = {name: error**2 for name, error in errors.items()}
    relative = {name: np.divide(error, fits.stochastic, out=np.zeros(len(error)), where=fits.stochastic > 0) ** 2
                for name, error in errors.items()}
    score = _ratio(squared["local_decoder"].mean(), squared["jacobian"].mean())
    return Result("stochastic_loss_error", score,
                  {**{f"error_{name}": value.mean() for name, value in squared.items()},
                   **{f"relative_error_{name}": value.mean() for name, value in relative.items()},
                   "noise": (fits.stochastic_error**2).mean(),
                   "p_value": np.array(_paired(squared["local_decoder"], squared["jacobian"])),
                   "jacobian": jacobian, "local_decoder": fits.predicted, "monte_carlo": fits.stochastic},
                  "squared error of the local decoder's stochastic loss over the Jacobian's; "
                  "below 1: the local decoder is nearer")


def loss_split(decoder, x, means, stddevs, *, draws=256, seed=0):
    """The squared reconstruction loss = deterministic + stochastic + cross term (rolinek (13)-(15), bhowal (7)).

    E ||Dec(mu + eps) - x||^2 = ||Dec(mu) - x||^2 + E ||Dec(mu + eps) - Dec(mu)||^2
    + 2 E (Dec(mu + eps) - Dec(mu)) . (Dec(mu) - x). The papers drop the last term: it is zero only if the decoder is
    unbiased around mu. The score is its share of the whole, in absolute value. 0: the split is exact.

    Args:
        decoder, means, stddevs, seed: as in `fit`.
        x: the data as the decoder makes them, [N, ...] (images in [0, 1]).
        draws: of eps per x.

    Returns:
        Result; parts: reconstruction, deterministic, stochastic, cross, each [N], data units^2; cross_error, the
        standard error of the mean cross term.

    Raises:
        InputError: shapes that disagree or values that are not finite.
    """
    means, factors = _posterior(means, stddevs)
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    d = means.shape[1]
    program = tf.function(lambda *batch: _moved(decoder, *batch), input_signature=[
        tf.TensorSpec((None, d)), tf.TensorSpec((None, d, d)), tf.TensorSpec((None, draws, d))])
    rows = []
    for i in range(len(means)):
        noise = np.random.default_rng([seed, i]).standard_normal((1, draws, d), np.float32)
        batch = program(means[i:i + 1], factors[i:i + 1], noise)
        moved, centre = (value.numpy()[0].astype(np.float64) for value in batch)
        if centre.shape != x[i].shape or len(x) != len(means):
            raise InputError(f"x: expected {len(means)} examples of {len(centre)} values; got {x.shape}")
        residual = centre - x[i]
        cross = 2 * moved @ residual
        rows.append((((moved + residual) ** 2).sum(1).mean(), residual @ residual, (moved**2).sum(1).mean(),
                     cross.mean(), cross.var() / (draws - 1)))
    whole, deterministic, stochastic, cross, variance = np.array(rows).T
    if not np.isfinite(whole).all():
        raise InputError("x, decoder: expected finite values; got NaN or infinite")
    return Result("loss_split", _ratio(abs(cross.mean()), whole.mean()),
                  {"reconstruction": whole, "deterministic": deterministic, "stochastic": stochastic, "cross": cross,
                   "cross_error": np.sqrt(variance.sum()) / len(variance)},
                  "share of the squared loss in the cross term that deterministic + stochastic leaves out; "
                  "0: the split is exact")


def _ratio(a, b):
    """a / b, and 0 where a is 0 too."""
    return float(a / b) if b else float("inf") if a else 0.0


def _paired(a, b):
    """Two-sided p-value of Wilcoxon's signed-rank test; 1 where a and b are the same everywhere."""
    return 1.0 if np.array_equal(a, b) else float(scipy.stats.wilcoxon(a, b).pvalue)
