"""Jacobians of decoders, J = d Dec(z) / dz, and their Gram matrices J^T J.

Forward mode costs about d decoder passes whatever n is, reverse mode about n; the smaller wins. A decoder is
any function of z [B, d] that treats each row alone. It may return a tensor [B, ...], a distribution with batch
shape [B] (`models.Autoencoder.likelihood`), or the dict of an exported `decode` (`export.Exported.decoder`).

Everything here can be called inside `tf.function`, XLA included; called eagerly, it is traced anew each time.
"""

import math

import tensorflow as tf

from vae_tf import checks
from vae_tf.errors import InputError

OUTPUTS = ("mean", "natural")
MODES = ("forward", "reverse")

# Examples whose Jacobians `gram` holds at a time: with d = 10 and n = 3 x 64 x 64 they take 16 MB.
CHUNK = 32


def jacobian(f, z, *, output="mean", mode=None):
    """J [B, n, d] of a decoder at each row of z, n being the flattened size of its output.

    Args:
        f: the decoder; see the module.
        z: float [B, d], d known.
        output: what of p(x|z) is differentiated: "mean" [data units], or "natural", the parameter that an exponential
            family takes (the logits of a Bernoulli; a Gaussian's mean, which is it up to the variance).
        mode: "forward" (d tangents), "reverse" (n gradients), or None: forward when d <= n.

    Returns:
        [B, n, d] in the dtype of the decoder's output, in its data units per latent unit.

    Raises:
        InputError: z, output or mode that are not as above.
    """
    z, f, forward = _prepared(f, z, output, mode)
    return _jacobian(f, z, forward)


def gram(f, z, *, output="mean", mode=None, chunk=CHUNK):
    """J^T J [B, d, d] of a decoder at each row of z, holding the Jacobians of `chunk` examples at a time.

    Sums run in float64, because J^T J has the square of J's condition number.

    Args:
        f, z, output, mode: as for `jacobian`.
        chunk: examples at a time.

    Returns:
        float64 [B, d, d], in squared data units per squared latent unit.

    Raises:
        InputError: as for `jacobian`.
    """
    checks.whole("chunk", chunk, 1)
    z, f, forward = _prepared(f, z, output, mode)
    d = z.shape[1]
    chunk = chunk if z.shape[0] is None else max(1, min(chunk, z.shape[0]))

    def one(some):
        J = tf.cast(_jacobian(f, some, forward), tf.float64)
        return tf.linalg.matmul(J, J, transpose_a=True)

    @tf.function        # so that an eager call is traced once, not once per chunk
    def all_chunks(z):
        rows = tf.shape(z)[0]
        chunks = -(-rows // chunk)
        padded = tf.reshape(tf.pad(z, [[0, chunks * chunk - rows], [0, 0]]), [chunks, chunk, d])
        grams = tf.map_fn(one, padded, fn_output_signature=tf.float64, parallel_iterations=1)
        return tf.reshape(grams, [chunks * chunk, d, d])[:rows]

    return all_chunks(z)


def _prepared(f, z, output, mode):
    """z as a tensor, the decoder as a function of it to [B, n], and whether forward mode is wanted."""
    z = tf.convert_to_tensor(z)
    if not z.dtype.is_floating or z.shape.rank != 2 or not z.shape[1]:
        raise InputError(f"z: expected floats of shape [B, d]; got {z.dtype.name} of shape {z.shape}")
    for name, value, choices in (("output", output, OUTPUTS), ("mode", mode, (*MODES, None))):
        if value not in choices:
            raise InputError(f"{name}: expected one of {', '.join(map(str, choices))}; got {value!r}")

    def flat(z):
        x = chosen(f(z), output)
        return tf.reshape(x, [tf.shape(z)[0], math.prod(x.shape[1:])])

    if mode is None:     # n is wanted: the graph that finds it is never run
        n = tf.function(flat).get_concrete_function(tf.TensorSpec((1, z.shape[1]), z.dtype)).output_shapes[1]
        mode = "forward" if z.shape[1] <= n else "reverse"
    return z, flat, mode == "forward"


def chosen(decoded, output="mean"):
    """The mean or natural parameter [B, ...] of p(x|z), from whatever a decoder returns."""
    if isinstance(decoded, dict):
        return decoded.get("logits", decoded["mean"]) if output == "natural" else decoded["mean"]
    if hasattr(decoded, "mean") and not tf.is_tensor(decoded):
        bernoulli = getattr(decoded, "distribution", None)
        logits = getattr(bernoulli, "logits", None) if output == "natural" else None
        return decoded.mean() if logits is None else logits
    return decoded


def _jacobian(f, z, forward):
    if forward:
        return tf.transpose(_tangents(f, z), [1, 2, 0])
    with tf.GradientTape() as tape:
        tape.watch(z)
        x = f(z)
    return tape.batch_jacobian(x, z)


def _tangents(f, z):
    """d f / d z_j [d, B, n]: the decoder runs once, its linearisation on d tangents stacked in the batch."""
    basis = tf.eye(z.shape[1], dtype=z.dtype)[:, tf.newaxis] * tf.ones_like(z)          # [d, B, d]

    def tangent(direction):
        with tf.autodiff.ForwardAccumulator(z, direction) as accumulator:
            x = f(z)
        return accumulator.jvp(x, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return tf.vectorized_map(tangent, basis)
