"""Compare the posterior covariance with the curvature of log p(x|z) at posterior means."""

import numpy as np

from vae_tf import arguments, theory
from vae_tf.errors import InputError
from vae_tf.metrics.context import Context
from vae_tf.metrics.expansion import Expansion, posterior_covariance
from vae_tf.metrics.registry import ANY_MODEL, NOT_OF_ONE_LATENT, register
from vae_tf.metrics.result import Result, estimate_error
from vae_tf.theory.checks import check_positive_definite


@register(name="posterior_covariance_gap", needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="relative error of the posterior precision against the optimum")
def gap_of_model(expansion: Expansion, context: Context) -> Result:
    """`posterior_covariance_gap` of a model.

    Raises:
        InputError: the posterior has no width, or the optimum is not known in closed form.
    """
    return posterior_covariance_gap(posterior_covariance(expansion), _optimal_precision(expansion, context))


@register(name="diagonal_covariance_gap", needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="relative error of the posterior precision's diagonal against the optimum")
def diagonal_gap_of_model(expansion: Expansion, context: Context) -> Result:
    """`posterior_covariance_gap` of the diagonals alone, of a model.

    Raises:
        InputError: the posterior has no width, or the optimum is not known in closed form.
    """
    return posterior_covariance_gap(posterior_covariance(expansion), _optimal_precision(expansion, context),
                                    diagonal=True)


def _optimal_precision(expansion: Expansion, context: Context) -> np.ndarray:
    from vae_tf import models  # imports TensorFlow, which scoring codes does not need

    card = context.model.card
    if not models.find_declared(card).minimises_elbo:
        raise InputError(f"the best posterior of {card['model']} is not known in closed form")
    if card["beta"] == 0:
        raise InputError("beta is 0: the optimal posterior has no width")
    return theory.optimal_precision(expansion.gauss_newton, card["beta"], expansion.prior_variance)


@arguments.check
def posterior_covariance_gap(covariances: np.ndarray, precisions: np.ndarray, diagonal: bool = False) -> Result:
    """Relative error of Sigma^-1 against the optimal precision (allen (7); bonheme (11)).

    The score is the mean over x of ||Sigma^-1 - P||_F / ||P||_F, where P = Lambda_prior + J^T A J / beta
    (`theory.optimal_precision`). It is 0 or more, and 0 if every posterior is the one that maximises the deterministic
    ELBO. A diagonal encoder cannot follow the off-diagonal part of P; with `diagonal` the score says how near it is to
    the best that it can do. Signs and order of the latents do not matter. Their scales do, because the prior has a
    scale.

    Args:
        covariances: Sigma of q(z|x), [N, d, d].
        precisions: P [N, d, d].
        diagonal: compare the diagonals of Sigma^-1 and P alone.

    Returns:
        Result; parts: per_example [N], standard_error.

    Raises:
        InputError: shapes that disagree, values that are not finite, or covariances that are not positive definite.
    """
    covariances, precisions = (_check_matrices(name, array) for name, array in
                               (("covariances", covariances), ("precisions", precisions)))
    if covariances.shape != precisions.shape:
        raise InputError(f"precisions: expected shape {covariances.shape}, as covariances; got {precisions.shape}")
    covariances = check_positive_definite("covariances", covariances)
    mask = np.eye(covariances.shape[1]) if diagonal else 1.0
    error = np.linalg.norm((np.linalg.inv(covariances) - precisions) * mask, axis=(1, 2))
    each = error / np.linalg.norm(precisions * mask, axis=(1, 2))
    name, what = (("diagonal_covariance_gap", "diagonal of the posterior precision Sigma^-1") if diagonal else
                  ("posterior_covariance_gap", "posterior precision Sigma^-1"))
    return _make_result(name, each,
                        f"relative error of the {what} against the optimum, prior precision + J^T A J / beta")


@register(needs=("hessian",), no_meaning_for=NOT_OF_ONE_LATENT,
          meaning="off-diagonal share of the Hessian of log p(x|z)")
def hessian_diagonality(hessians: np.ndarray) -> Result:
    """Off-diagonal share of the log-likelihood's Hessian at the posterior mean (allen Theorems 4, 5).

    The score is the mean over x of sum_{i != j} H_ij^2 / sum_ij H_ij^2, in [0, 1]. It is 0 if every Hessian is
    diagonal, which suits a diagonal posterior; a Hessian of zeros counts as diagonal. Near 1 they are far from
    diagonal. Signs and order of the latents do not matter.

    Args:
        hessians: Hessians of log p(x|z) by z, [N, d, d].

    Returns:
        Result; parts: per_example [N], standard_error.

    Raises:
        InputError: not [N, d, d], or values that are not finite.
    """
    squared = _check_matrices("hessians", hessians) ** 2
    whole = squared.sum((1, 2))
    off = whole - np.trace(squared, axis1=1, axis2=2)
    each = np.clip(np.divide(off, whole, out=np.zeros(len(whole)), where=whole > 0), 0, 1)
    return _make_result("hessian_diagonality", each, "off-diagonal share of the Hessian of log p(x|z); 0: diagonal")


def _check_matrices(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, np.float64)
    if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
        raise InputError(f"{name}: expected shape [N, d, d], not empty; got {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite values; got {np.count_nonzero(~np.isfinite(array))} NaN or infinite")
    return array


def _make_result(name: str, each: np.ndarray, meaning: str) -> Result:
    return Result(name, float(each.mean()),
                  {"per_example": each, "standard_error": estimate_error(each)}, meaning)
