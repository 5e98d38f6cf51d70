"""Compute the density that a decoder gives the images of its latents, as a whole and by latent (allen 4).

J [..., n, d] is the Jacobian of the decoder's mean, with columns c_j.
"""

import numpy as np

from vae_tf import arguments
from vae_tf.theory.checks import Jacobian, Latents, check_full_rank
from vae_tf.typing import ArrayLike, Floats


@arguments.check
def push_forward_log_density(z: Latents, jacobian: Jacobian) -> Floats:
    """Return log p(f(z)) = log N(z; 0, I) - 1/2 log det J^T J [...] on the decoder's manifold, nats (allen (9), (12)).

    It is the density if no two z have the same image. J is not square: the paper's |J| means the product of the
    singular values.

    Args:
        z: [..., d].
        jacobian: of the decoder's mean at z, J [..., n, d], of full column rank.

    Raises:
        InputError: the columns are linearly dependent, as those of a decoder with more latents than outputs.
    """
    singular_values = np.linalg.svd(check_full_rank(jacobian), compute_uv=False)
    return _log_normal(z).sum(-1) - np.log(singular_values).sum(-1)


@arguments.check
def push_forward_factors(z: Latents, jacobian: Jacobian) -> Floats:
    """Return log p_j = log N(z_j; 0, 1) - log ||c_j|| [..., d], densities along each latent's image (allen (10), (12)).

    Their sum is the push-forward log density if and only if the columns are orthogonal. Otherwise it falls short of
    that density by `split_error`.

    Args:
        z: [..., d].
        jacobian: of the decoder's mean at z, J [..., n, d], of full column rank.
    """
    return _log_normal(z) - np.log((np.asarray(jacobian, np.float64) ** 2).sum(-2)) / 2


@arguments.check
def split_error(z: Latents, jacobian: Jacobian) -> Floats:
    """Return the push-forward log density minus the sum of its factors [...] >= 0, in nats.

    This is sum_j log ||c_j|| - 1/2 log det J^T J. It is 0 if and only if the columns are orthogonal, and the same at
    every z for a linear decoder. `metrics.hadamard_gap` is its mean over x.
    """
    return push_forward_log_density(z, jacobian) - push_forward_factors(z, jacobian).sum(-1)


def _log_normal(z: ArrayLike) -> Floats:
    return -(np.asarray(z, np.float64) ** 2 + np.log(2 * np.pi)) / 2
