"""What a decoder's Jacobian J [..., n, d], columns c_j, decides: precision, density, rotation of the latents."""

import numpy as np

from vae_tf.theory.checks import check_positive_definite
from vae_tf.typing import ArrayLike, Floats


def precision_allocation(jacobian: ArrayLike, budget: float) -> tuple[Floats, Floats]:
    """Variances that minimise E ||J eps||^2 under a budget sum_j -log s_j^2 = C (rolinek (22), (23), S5).

    s_j^2 = minimum / (d ||c_j||^2); the minimum is d (prod_j ||c_j||^2)^{1/d} e^{-C/d}. With d = 2 the exponent is
    -C/2, where (25) and (26) print -C.

    Args:
        jacobian: J [..., n, d], no column zero.
        budget: C, nats.

    Returns:
        (variances [..., d], minimum [...] in squared data units).
    """
    squared = (np.asarray(jacobian, np.float64) ** 2).sum(-2)
    each = np.exp(np.log(squared).mean(-1) - budget / squared.shape[-1])
    return each[..., np.newaxis] / squared, squared.shape[-1] * each


def push_forward_log_density(z: ArrayLike, jacobian: ArrayLike) -> Floats:
    """log p(f(z)) = log N(z; 0, I) - 1/2 log det J^T J [...] on the decoder's manifold, nats (allen (9), (12)).

    |J| of the print is the product of the singular values: J is not square.

    Args:
        z: [..., d].
        jacobian: of the decoder's mean at z, J [..., n, d], of full column rank.
    """
    J = np.asarray(jacobian, np.float64)
    return _log_normal(z).sum(-1) - np.linalg.slogdet(np.swapaxes(J, -1, -2) @ J)[1] / 2


def push_forward_factors(z: ArrayLike, jacobian: ArrayLike) -> Floats:
    """log p_j = log N(z_j; 0, 1) - log ||c_j|| [..., d]: densities along the image of each latent (allen (10), (12)).

    Their sum is the push-forward log density iff the columns are orthogonal; else it falls short of it by
    `split_error`.

    Args:
        z, jacobian: as `push_forward_log_density`.
    """
    return _log_normal(z) - np.log((np.asarray(jacobian, np.float64) ** 2).sum(-2)) / 2


def split_error(z: ArrayLike, jacobian: ArrayLike) -> Floats:
    """Push-forward log density less the sum of its factors [...] >= 0, nats: sum_j log ||c_j|| - 1/2 log det J^T J.

    The same at every z for a linear decoder; `metrics.hadamard_gap` is its mean over x. 0 iff columns are orthogonal.
    """
    return push_forward_log_density(z, jacobian) - push_forward_factors(z, jacobian).sum(-1)


def rotated(mean: Floats, covariance: Floats, jacobian: Floats, rotation: Floats,
            diagonal: bool = False) -> tuple[Floats, Floats, Floats]:
    """Posterior and Jacobian when the encoder is followed by U and the decoder preceded by U^T (rolinek (8), (9)).

    Args:
        mean, covariance: of q(z|x), [..., d] and [..., d, d].
        jacobian: J [..., n, d].
        rotation: U [d, d], orthogonal.
        diagonal: keep of U Sigma U^T what a diagonal encoder can express: its diagonal.

    Returns:
        (U mean, U Sigma U^T, J U^T).

    Raises:
        InputError: the covariance is not positive definite.
    """
    U = np.asarray(rotation, np.float64)
    turned = U @ check_positive_definite("covariance", covariance) @ U.T
    return mean @ U.T, turned * np.eye(len(U)) if diagonal else turned, jacobian @ U.T


def _log_normal(z: ArrayLike) -> Floats:
    return -(np.asarray(z, np.float64) ** 2 + np.log(2 * np.pi)) / 2
