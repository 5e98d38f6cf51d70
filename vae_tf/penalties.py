"""Penalties on a decoder's Jacobian J = d Dec(z) / dz, which a model's objective can have as a further term.

The papers observe that a diagonal posterior makes the columns of J orthogonal, and say that VAEs disentangle because of
it. With a penalty, the columns of any model can be made orthogonal, or J can be made sparse, so that the claim can be
tested: do the scores follow?
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from vae_tf import arguments, checks, jacobians
from vae_tf.errors import InputError
from vae_tf.tensors import Rows

OfJacobian = Callable[[tf.Tensor], tf.Tensor]       # from J [B, n, d] to a number for each example, [B]

# What is added to the diagonal of the columns' cosines, so that the penalty of dependent columns is finite. It changes
# the penalty by 5e-7 times the trace of the cosines' inverse, at most.
RIDGE = 1e-6
STEP = 0.1          # the size of the steps of `measure_curvature`, as in the code of Peebles 2020


class Penalty(NamedTuple):
    """A penalty on the Jacobian at the first examples of each batch.

    kind: one of PENALTIES, or a function from J [B, n, d] to a number for each example, [B].
    weight: what the mean of the penalty is multiplied with in the loss.
    examples: the number of examples of a batch at which the penalty is computed, all if there are fewer.
    """

    kind: str | OfJacobian
    weight: float
    examples: int


def measure_gap(jacobian: tf.Tensor) -> tf.Tensor:
    """Return sum_j log ||c_j|| - 1/2 log det J^T J [B], 0 for orthogonal columns, in nats (rolinek S6).

    This is what `metrics.hadamard_gap` averages, and the IMA contrast (Gresele 2021). Columns that are zero have no
    direction, and add nothing.

    Args:
        jacobian: J [B, n, d].
    """
    jacobian = tf.cast(jacobian, tf.float64)        # J^T J has the square of J's condition number
    squares = tf.reduce_sum(jacobian**2, 1)
    moves = squares > 0
    columns = jacobian * tf.where(moves, tf.math.rsqrt(tf.where(moves, squares, 1.0)), 0.0)[:, tf.newaxis]
    cosines = tf.linalg.matmul(columns, columns, transpose_a=True)
    cosines = tf.linalg.set_diag(cosines, tf.fill(tf.shape(squares), tf.constant(1 + RIDGE, tf.float64)))
    return -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(tf.linalg.cholesky(cosines))), -1)


def measure_size(jacobian: tf.Tensor) -> tf.Tensor:
    """Return sum_ij |J_ij| [B], which is small for a sparse J (Rhodes, Lee 2021), in data per latent units.

    Args:
        jacobian: J [B, n, d].
    """
    return tf.reduce_sum(tf.abs(jacobian), (1, 2))


def measure_curvature(f: jacobians.Decoder, z: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Return the Hessian penalty [B]: the largest variance of v^T H_i v over outputs i (Peebles 2020).

    H_i is the Hessian of output i. Over directions v of entries -1 and 1 the variance is 2 sum_{j != k} H_jk^2, and so
    0 if H_i is diagonal; here it is that of two directions. v^T H_i v is a difference over steps of 0.1, as in the
    paper's code, because networks of linear pieces have no second derivative. The paper's code takes one largest output
    of the whole batch instead of one for each example.

    Args:
        f: the decoder, see vae_tf/jacobians.py.
        z: latents [B, d].
        noise: standard normal [B, d]. Two of its binary digits choose the directions, which therefore depend on seed,
            step and example alone; these digits say nothing of the size of the noise.
    """
    signs = [1 - 2 * tf.math.floormod(tf.floor(noise * scale), 2) for scale in (32, 64)]
    places = [z, *(z + sign * STEP * way for sign in signs for way in (1, -1))]
    decoded = jacobians.take_output(f(tf.concat(places, 0)))
    at, *around = tf.split(tf.reshape(decoded, (len(places), tf.shape(z)[0], -1)), len(places))
    first, second = ((around[i] + around[i + 1] - 2 * at)[0] / STEP**2 for i in (0, 2))
    return tf.reduce_max((first - second)**2, -1) / 2


OF_JACOBIAN: dict[str, OfJacobian] = {"orthogonality": measure_gap, "l1": measure_size}
PENALTIES = (*OF_JACOBIAN, "hessian")


@arguments.check_arguments
def compute_penalty(kind: Any, f: jacobians.Decoder, z: Rows, noise: Rows) -> tf.Tensor:
    """Return a penalty [B] of a decoder at each row of z.

    Args:
        kind: one of PENALTIES, or a function from J [B, n, d] to [B].
        f: the decoder, see vae_tf/jacobians.py; J is that of its mean.
        z: latents, floats [B, d].
        noise: float32 [B, d], see `measure_curvature`.

    Raises:
        InputError: there is no such penalty, a function that returns something else, or a decoder that permits no
            forward mode.
    """
    check_kind(kind)
    if kind == "hessian":
        return measure_curvature(f, z, noise)
    values = OF_JACOBIAN.get(kind, kind)(jacobians.jacobian(f, z, mode="forward"))
    if not tf.is_tensor(values) or not values.dtype.is_floating or values.shape.rank != 1:
        raise InputError("jacobian_penalty: expected a function from J [B, n, d] to floats [B]; it returned "
                         f"{checks.describe(values)}")
    return tf.cast(values, z.dtype)


def check_kind(kind: Any) -> None:
    """Raise InputError unless a kind of penalty is one of PENALTIES or a function."""
    if not callable(kind):
        checks.check_choice("jacobian_penalty", kind, PENALTIES)
