"""Jacobians of decoders, J = d Dec(z) / dz, and their Gram matrices J^T J.

Forward mode costs about d decoder passes whatever n is, and reverse mode costs about n; the cheaper one is the default.
Forward mode differentiates the decoder's gradient, and TensorFlow cannot differentiate that of a few operations, such
as bilinear resizing and softsign: for a decoder with one of them, reverse mode is the default.

A decoder is any function of z [B, d] that treats each row alone. It may return a tensor [B, ...], a distribution with
batch shape [B] (`models.Autoencoder.likelihood`), or the dict of an exported `decode` (`export.Exported.decoder`).

Everything here can be called inside `tf.function`, with XLA too; see `one_column_at_a_time` for gradients of Jacobians.
An eager call is traced anew each time.
"""

import contextlib
import contextvars
import math
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import tensorflow as tf

from vae_tf import arguments, checks
from vae_tf import probability as tfd
from vae_tf.errors import InputError
from vae_tf.tensors import Rows, Tensors, refuse_rows
from vae_tf.typing import Distribution

Decoder = Callable[[tf.Tensor], Any]        # returns a tensor, a distribution or a dict, as the docstring says

OUTPUTS = ("mean", "natural")
MODES = ("forward", "reverse")
Output = Annotated[str, arguments.Choice(OUTPUTS)]
Mode = Annotated[str, arguments.Choice(MODES)] | None

# Examples whose Jacobians `gram` holds at a time: with d = 10 and n = 3 x 64 x 64 they take 16 MB.
CHUNK = 32

# Gradients of outputs that reverse mode computes at a time: all n of them would not fit into memory for images.
GRADIENTS = 32

# Gradients of operations that TensorFlow declares to be not differentiable, and takes to be constant without a word.
TAKEN_AS_CONSTANT = {"ResizeBilinearGrad", "FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient",
                     "FakeQuantWithMinMaxVarsPerChannelGradient", "SparseAddGrad"}

# Operations of `tf.map_fn`, recurrent layers, `tf.cond` and so on, whose gradients `tf.vectorized_map` cannot stack.
LOOPS = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}

_STACKED = contextvars.ContextVar("_STACKED", default=True)


@contextlib.contextmanager
def one_column_at_a_time() -> Iterator[None]:
    """While entered, compute the columns of a Jacobian one after another, and not stacked in one batch.

    Training needs the gradient of the Jacobian, which takes less time in this way in two cases. In a step that XLA
    compiles, the gradient of the function that `tf.vectorized_map` makes would be compiled anew at every step, which
    takes seconds. And for convolutions, the gradients of d small batches take less time than those of one large batch.
    """
    token = _STACKED.set(False)
    try:
        yield
    finally:
        _STACKED.reset(token)


@arguments.check_arguments
def jacobian(f: Decoder, z: Rows, *, output: Output = "mean", mode: Mode = None) -> tf.Tensor:
    """Return J [B, n, d] of a decoder at each row of z, n being the flattened size of its output.

    Args:
        f: the decoder, as described at the top of this module.
        z: latents, floats [B, d]; d must be known when the call is traced.
        output: which parameter of p(x|z) is differentiated: "mean", in data units, or "natural", the natural parameter
            of an exponential family: the logits of a Bernoulli, or the mean of a Gaussian (up to its variance).
        mode: "forward" (d tangents), "reverse" (n gradients), or None, which takes forward mode when d <= n and the
            decoder permits it.

    Returns:
        J [B, n, d] in the dtype of the decoder's output, in data units per latent unit.

    Raises:
        InputError: z is not floats [B, d], f does not return floats [B, ...], there is no such output or mode, f
            returns another distribution than these two where the natural parameter is asked for, or f has an operation
            that permits no forward mode where that is asked for.
    """
    z, f, mode = _prepare(f, z, output, mode)
    return _compute_jacobian(f, z, mode)


@arguments.check_arguments
def gram(f: Decoder, z: Annotated[tf.Tensor, Tensors("B d", empty=True)], *, output: Output = "mean", mode: Mode = None,
         chunk: arguments.Size = CHUNK) -> tf.Tensor:
    """Return J^T J [B, d, d] of a decoder at each row of z; only `chunk` Jacobians are in memory at a time.

    Sums run in float64, because J^T J has the square of J's condition number.

    Args:
        f: the decoder, as described at the top of this module.
        z: latents, floats [B, d]; d must be known when the call is traced. B may be 0.
        output: "mean" or "natural"; `jacobian` describes both.
        mode: "forward", "reverse", or None for the cheaper one; `jacobian` describes them.
        chunk: the number of examples whose Jacobians are in memory at a time.

    Returns:
        float64 [B, d, d], in squared data units per squared latent unit.

    Raises:
        InputError: what `jacobian` refuses, or chunk is below 1.
    """
    z, f, mode = _prepare(f, z, output, mode)
    d = z.shape[1]
    chunk = chunk if z.shape[0] is None else max(1, min(chunk, z.shape[0]))

    def gram_of(rows: tf.Tensor) -> tf.Tensor:
        J = tf.cast(_compute_jacobian(f, rows, mode), tf.float64)
        return tf.linalg.matmul(J, J, transpose_a=True)

    def all_chunks(z: tf.Tensor) -> tf.Tensor:
        rows = tf.shape(z)[0]
        chunks = -(-rows // chunk)
        padded = tf.reshape(tf.pad(z, [[0, chunks * chunk - rows], [0, 0]]), [chunks, chunk, d])
        grams = tf.map_fn(gram_of, padded, fn_output_signature=tf.float64, parallel_iterations=1)
        return tf.reshape(grams, [chunks * chunk, d, d])[:rows]

    # An eager call is traced once, and not once per chunk.
    return (tf.function(all_chunks) if tf.executing_eagerly() else all_chunks)(z)


def _prepare(f: Decoder, z: tf.Tensor, output: str, mode: str | None) -> tuple[tf.Tensor, Callable[[tf.Tensor],
             tf.Tensor], str | None]:
    """Return z, the decoder as a function to [B, n], and the mode, None for forward mode where f permits it.

    Numbers that are none are refused.
    """
    if tf.executing_eagerly() and not bool(tf.reduce_all(tf.math.is_finite(z))):
        raise InputError("z: expected finite numbers; got NaN or infinity")

    def flat(z: tf.Tensor) -> tf.Tensor:
        x = take_output(f(z), output)
        rows = tf.is_tensor(x) and x.shape.rank and x.shape[:1].is_compatible_with(z.shape[:1])
        if not (rows and x.dtype.is_floating and x.shape[1:].is_fully_defined()):
            raise InputError(f"f: expected a decoder that returns floats of shape [B, ...]; got {checks.describe(x)}")
        return tf.reshape(x, [tf.shape(z)[0], math.prod(x.shape[1:])])

    if tf.executing_eagerly():      # before a graph is made, in which AutoGraph would wrap the error of a wrong f
        n = _decode_zeros(flat, z).shape[1]
    elif mode is None:              # the graph that is traced to find n is never run
        n = tf.function(flat).get_concrete_function(tf.TensorSpec((1, z.shape[1]), z.dtype)).output_shapes[1]
    if mode is None and z.shape[1] > n:
        mode = "reverse"
    return z, flat, mode


def _decode_zeros(f: Callable[[tf.Tensor], tf.Tensor], z: tf.Tensor) -> tf.Tensor:
    """Return what a decoder gives for one row of zeros like those of z; refuse rows that it does not take."""
    with refuse_rows("f", z):
        return f(tf.zeros((1, z.shape[1]), z.dtype))


def take_output(decoded: Any, output: str = "mean") -> tf.Tensor:
    """Take the mean or the natural parameter [B, ...] of p(x|z) out of whatever a decoder returned."""
    if isinstance(decoded, dict):
        return decoded.get("logits", decoded["mean"]) if output == "natural" else decoded["mean"]
    if hasattr(decoded, "mean") and not tf.is_tensor(decoded):
        return _take_natural_parameter(decoded) if output == "natural" else decoded.mean()
    return decoded


def _take_natural_parameter(decoded: Distribution) -> tf.Tensor:
    """Return the logits of a Bernoulli distribution, or the mean of a normal one, of one entry or of many."""
    of_entries = decoded
    while isinstance(of_entries, tfd.Independent):
        of_entries = of_entries.distribution
    if isinstance(of_entries, tfd.Bernoulli | tfd.ContinuousBernoulli):
        return of_entries.logits_parameter()        # of a distribution that was made from probabilities, too
    if isinstance(of_entries, tfd.Normal | tfd.MultivariateNormalLinearOperator):
        return decoded.mean()
    raise InputError('f: expected a decoder that returns a Bernoulli or a normal distribution, because output is '
                     f'"natural"; got {type(of_entries).__name__}; with output="mean" it may return any other')


def _compute_jacobian(f: Callable[[tf.Tensor], tf.Tensor], z: tf.Tensor, mode: str | None) -> tf.Tensor:
    if mode != "reverse":
        try:
            return tf.transpose(_compute_tangents(f, z), [1, 2, 0])
        except InputError:
            if mode == "forward":
                raise
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(z)
        x = f(z)
    # Where B is not known, TensorFlow may fail if no outputs remain, or if there are fewer than are computed at a time.
    n = x.shape[1]
    parallel = next(count for count in range(GRADIENTS, 1, -1) if n % count) if n > GRADIENTS else None
    return tf.cast(tape.batch_jacobian(x, z, parallel_iterations=parallel), x.dtype)


def _compute_tangents(f: Callable[[tf.Tensor], tf.Tensor], z: tf.Tensor) -> tf.Tensor:
    """Return d f / d z_j [d, B, n]. J^T u is linear in u, and the gradient of its entry j by u is the column j of J.

    The decoder runs once, and its linearisation on d tangents. `tf.autodiff.ForwardAccumulator` would make a function
    of TensorFlow's for each operation, all of which `tf.vectorized_map` has to trace and to rewrite.

    Raises:
        InputError: TensorFlow cannot differentiate J^T u.
    """
    zero = tf.UnconnectedGradients.ZERO

    def differentiate() -> tf.Tensor:
        u = tf.zeros_like(x)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(u)
            pulled = inner.gradient(x, z, output_gradients=u, unconnected_gradients=zero)
        operations = check_differentiable(pulled)

        def column(direction: tf.Tensor) -> tf.Tensor:
            return outer.gradient(pulled, u, output_gradients=direction, unconnected_gradients=zero)

        return map_directions(column, z, operations)

    with refuse_missing_gradients():
        with tf.GradientTape(persistent=True) as inner:     # of a loaded f, it then keeps what second derivatives take
            inner.watch(z)
            x = f(z)
        # An eager call makes a graph, too, because a graph says what operations J^T u has.
        return (tf.function(differentiate, autograph=False).get_concrete_function() if tf.executing_eagerly()
                else differentiate)()


def map_directions(function: Callable[[tf.Tensor], Any], z: tf.Tensor, operations: set[str]) -> Any:
    """Return what a function of tangents [B, d] gives for each of the d directions of z [B, d], [d, ...].

    Args:
        function: returns tensors, which it computes by differentiating operations of the types `operations`.
        z: latents.
        operations: as `check_differentiable` returns them.
    """
    directions = tf.eye(z.shape[1], dtype=z.dtype)[:, tf.newaxis] * tf.ones_like(z)         # [d, B, d]
    if _STACKED.get() and operations.isdisjoint(LOOPS):
        return tf.vectorized_map(function, directions)
    of_each = [function(directions[j]) for j in range(z.shape[1])]
    return tf.nest.map_structure(lambda *tensors: tf.stack(tensors), *of_each)


def check_differentiable(gradient: tf.Tensor) -> set[str]:
    """Raise InputError if TensorFlow would silently take a part of a gradient, a tensor of a graph, as constant.

    Returns:
        the types of the operations that the gradient is computed by.
    """
    operations, waiting = {}, [gradient.op]
    while waiting:
        operation = waiting.pop()
        if operation.name not in operations:
            operations[operation.name] = operation
            waiting += [each.op for each in operation.inputs]
    library = {each.signature.name: each.node_def for each in gradient.graph.as_graph_def().library.function}
    nodes = [operation.node_def for operation in operations.values()]
    for node in nodes:      # with those of the functions that they call
        if node.op in TAKEN_AS_CONSTANT:
            raise _explain(node.op)
        for value in node.attr.values():
            for function in (value.func, *value.list.func):
                nodes += library.pop(function.name, ())
    return {node.op for node in nodes}


@contextlib.contextmanager
def refuse_missing_gradients() -> Iterator[None]:
    """While entered, turn TensorFlow's error about an operation that has no gradient into an InputError."""
    try:
        yield
    except LookupError as error:
        if found := re.search(r"(?:registry has no entry for:|\(op type:) (\w+)", str(error)):
            raise _explain(found[1]) from None
        raise


def _explain(operation: str) -> InputError:
    return InputError("decoder: expected operations whose gradients TensorFlow can differentiate; got one with the "
                      f'gradient {operation}, which it cannot; Jacobians of mode="reverse" and the penalty "hessian" '
                      "do without")
