"""Compute what orthogonal columns save and identify: rolinek's joint problem, bhowal's Lemma 5, allen's corollaries.

J [..., n, d] is a decoder's Jacobian, with columns c_j.
"""

from typing import Annotated, NamedTuple

import numpy as np
import scipy

from vae_tf import arguments
from vae_tf.arguments import Sizes
from vae_tf.theory.checks import (
    InFloat64,
    Jacobian,
    OneJacobian,
    check_full_rank,
    check_orthogonal,
    check_positive_definite,
    find_rounding,
)
from vae_tf.typing import ArrayLike, Booleans, Floats


class Components(NamedTuple):
    """The components that a Jacobian J = U S V^T makes of independent normal latents, the largest first.

    directions [..., n, d] are the columns of U, scales [..., d] the singular values: along direction j, latents vary x
    as N(0, scale_j^2) for a linear decoder. identified [..., d] says which scales differ from all others, by more
    than the rounding of J's type; directions that share one may be rotated without changing the density.
    """

    directions: Floats
    scales: Floats
    identified: Booleans


@arguments.check
def precision_allocation(jacobian: Jacobian, budget: float) -> tuple[Floats, Floats]:
    """Return the variances that minimise E ||J eps||^2 under a budget sum_j -log s_j^2 = C (rolinek (22), (23), S5).

    They are s_j^2 = minimum / (d ||c_j||^2), and the minimum is d (prod_j ||c_j||^2)^{1/d} e^{-C/d}. For d = 2 the
    exponent is -C/2, where (25) and (26) print -C.

    Args:
        jacobian: J [..., n, d], no column zero.
        budget: C, nats.

    Returns:
        (variances [..., d], minimum [...] in squared data units).
    """
    squared = (np.asarray(jacobian, np.float64) ** 2).sum(-2)
    each = np.exp(np.log(squared).mean(-1) - budget / squared.shape[-1])
    return each[..., np.newaxis] / squared, squared.shape[-1] * each


@arguments.check
def joint_precision_allocation(jacobians: Annotated[ArrayLike, Sizes("N n d")], budget: float,
                               ) -> tuple[Floats, Floats, float]:
    """Return the minimum of the joint problem over rotations and variances, and where it is (rolinek Theorem 2, S40).

    The problem (18), (19) is to minimise sum_i log E ||J_i V_i eps_i||^2 over rotations V_i and over variances with
    sum_ij -log s_ij^2 = C. Its minimum is N log d - C / d + 2/d sum_i log det^+ J_i, where det^+ is the product of the
    singular values. It is reached where every J_i V_i has orthogonal columns and s_ij^2 is in proportion to
    1 / ||c_ij||^2. How the examples share the budget is open, because the logarithm makes every share as good. Here all
    examples have the same share.

    Args:
        jacobians: J_i [N, n, d], of full column rank.
        budget: C, nats.

    Returns:
        (V [N, d, d], variances [N, d], minimum).
    """
    J = check_full_rank(jacobians, "jacobians")
    examples, _, d = J.shape
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    log_volume = np.log(s).sum(-1)
    each = np.exp((2 * log_volume - budget / examples) / d)                      # ||c_ij||^2 s_ij^2, the same for all j
    minimum = examples * np.log(d) - budget / d + 2 / d * log_volume.sum()
    return np.swapaxes(Vt, -1, -2), each[:, np.newaxis] / s**2, float(minimum)


@arguments.check
def kl_saving(jacobian: Jacobian) -> Floats:
    """Return how much less KL orthogonal columns need for the same stochastic loss [...], in nats (bhowal Lemma 5).

    It is sum_j log ||c_j|| - 1/2 log det J^T J >= 0. Consider the polarised KL, -1/2 sum_j log s_j^2, that the best
    variances need for a given E ||J eps||^2: the saving is this KL minus the same KL after the rotation of the latents
    that makes the columns orthogonal. bhowal's L_KL has no 1/2, so there the saving is twice as large. The proof ends
    with the bound log Sing(M_D) - log Sing(M_ortho), which it calls positive; but a rotation does not change singular
    values, so this bound is 0. Hadamard's inequality, in the line before, is enough.

    Args:
        jacobian: J [..., n, d], of full column rank.
    """
    J = check_full_rank(jacobian)
    return np.log((J**2).sum(-2)).sum(-1) / 2 - np.log(np.linalg.svd(J, compute_uv=False)).sum(-1)


@arguments.check
def rotate(mean: Annotated[Floats, InFloat64("... d")], covariance: Annotated[Floats, Sizes("... d d")],
           jacobian: Annotated[Floats, InFloat64("... n d")], rotation: Annotated[Floats, Sizes("d d")],
           diagonal: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return posterior and Jacobian with U put behind the encoder and U^T before the decoder (rolinek (8), (9)).

    Args:
        mean, covariance: mean [..., d] and covariance [..., d, d] of q(z|x).
        jacobian: J [..., n, d].
        rotation: U [d, d], orthogonal.
        diagonal: whether to keep only the diagonal of U Sigma U^T, which is all that a diagonal encoder can express.

    Returns:
        (U mean, U Sigma U^T, J U^T).

    Raises:
        InputError: the covariance is not positive definite, or U is not orthogonal.
    """
    U = check_orthogonal("rotation", rotation)
    turned = U @ check_positive_definite("covariance", covariance) @ U.T
    return mean @ U.T, turned * np.eye(len(U)) if diagonal else turned, jacobian @ U.T


@arguments.check
def components(jacobian: Jacobian) -> Components:
    """Return the independent components of a push-forward density at a point (allen Theorems 1 and 2).

    For data x = W z + noise, with J = W, they are what a linear VAE identifies: at beta 1 and the right noise variance,
    its decoder has the columns scale_j direction_j, up to signs and order, wherever they are `identified`. The right
    singular vectors of W leave no trace in the data. For a decoder with orthogonal columns, the components are its
    columns.

    Args:
        jacobian: J [..., n, d], of full column rank.

    Returns:
        Components.
    """
    J = check_full_rank(jacobian)
    U, s, _ = np.linalg.svd(J, full_matrices=False)
    rounding = find_rounding(jacobian)[..., np.newaxis]
    ends = np.ones((*s.shape[:-1], 1), bool)
    apart = np.concatenate([ends, s[..., :-1] - s[..., 1:] > rounding, ends], -1)
    return Components(U, s, apart[..., :-1] & apart[..., 1:])


@arguments.check
def match_components(jacobian: OneJacobian, other: OneJacobian) -> tuple[Floats, float]:
    """Compare the components that two decoders have at a point of their manifold (allen Corollary 2.1).

    If they have the same components, the columns of their Jacobians, at z and z' with f(z) = g(z'), are the same up to
    signs and order. Linear decoders of one density have the same components wherever singular values tell directions
    apart. Other decoders need not: the normal density of a plane has Cartesian and polar coordinates, both made from
    independent normal latents with orthogonal columns everywhere. So distinct slopes do not identify a model, although
    Corollary 2.1 says that they do.

    Args:
        jacobian, other: J of f at z and of g at z', [n, d].

    Returns:
        (P [d, d], a signed permutation; ||J P - other||_F / ||other||_F, least at P).
    """
    J, G = np.asarray(jacobian, np.float64), np.asarray(other, np.float64)
    products = J.T @ G
    rows, columns = scipy.optimize.linear_sum_assignment(-np.abs(products))
    P = np.zeros_like(products)
    P[rows, columns] = np.where(products[rows, columns] < 0, -1, 1)
    return P, float(np.linalg.norm(J @ P - G) / np.linalg.norm(G))
