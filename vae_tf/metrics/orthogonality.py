"""Measure how far the columns c_j of decoder Jacobians are from orthogonal.

Everything here is a function of the Gram matrices J^T J [N, d, d], one per example (`jacobians.gram`). They hold the
norms ||c_j||, the angles, and S and V of the thin SVD J = U S V^T. A zero column has no direction, and is left out of
its example. `active` leaves out the latents that the posterior does not use (vae_tf/activity.py).
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from vae_tf import activity, arguments, checks, threads
from vae_tf.errors import InputError
from vae_tf.metrics.registry import NOT_OF_ONE_LATENT, register
from vae_tf.metrics.result import Result, estimate_error

# Decoders compute in float32. Rounding the entries of J moves c_i . c_j by at most eps ||c_i|| ||c_j||: columns with
# a smaller cosine are orthogonal, as far as J can tell.
ROUNDING = float(np.finfo(np.float32).eps)

# A singular value that is zero comes out at up to 2 or 3 eps s_1, because entries of J are sums over hundreds of units.
ZERO = 10 * ROUNDING


class Aligned(NamedTuple):
    """S and V of J = U S V^T with direction j the one nearest to latent j, so that orthogonal columns give V = I.

    V [N, d, d] has columns v_j and a diagonal >= 0. stretched [N, d] says where s_j > 0, so that v_j is determined.
    """

    singular: np.ndarray        # [N, d]
    V: np.ndarray
    stretched: np.ndarray


def align(gram: np.ndarray) -> Aligned:
    """Return the SVD of J from J^T J [N, d, d], in the order and with the signs of the signed permutation nearest to V.

    It is nearest in L1 (rolinek S72). For P with one entry of -1 or 1 per row and column, sum |V - P| is sum |V| + d -
    2 sum |V_chosen|, so the best P is an assignment on |V| that keeps the signs. It is nearest in Frobenius norm, too.
    """
    norms = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    right_angles = np.abs(gram) <= ROUNDING * norms[:, :, np.newaxis] * norms[:, np.newaxis]
    with threads.limit_to_one():         # on matrices this small, several threads are slower than one
        eigenvalues, V = np.linalg.eigh(np.where(right_angles, 0, gram))
    singular = np.sqrt(np.maximum(eigenvalues, 0))
    stretched = singular > ZERO * singular.max(1, keepdims=True)
    size = np.abs(V) * stretched[:, np.newaxis]
    # If every direction has its largest entry at another latent, these entries are the assignment; else it is searched.
    latent = size.argmax(1)
    for i in np.flatnonzero((np.sort(latent) != np.arange(latent.shape[1])).any(1)):
        latent[i] = scipy.optimize.linear_sum_assignment(size[i].T, maximize=True)[1]
    direction = np.argsort(latent)
    V = np.take_along_axis(V, direction[:, np.newaxis], 2)
    sign = np.where(np.diagonal(V, axis1=1, axis2=2) < 0, -1, 1)
    return Aligned(np.take_along_axis(singular, direction, 1), V * sign[:, np.newaxis],
                   np.take_along_axis(stretched, direction, 1))


@register(needs=("gram",), no_meaning_for=NOT_OF_ONE_LATENT, range=(0, np.inf),
          meaning="distance of the Jacobian's columns from orthogonality, by its singular vectors")
def dto(gram: np.ndarray, active: np.ndarray | None = None) -> Result:
    """Distance to orthogonality (rolinek (29)): mean over x of ||V - P(V)||_F, P(V) the nearest signed permutation.

    The score is in [0, sqrt(2 d)). It is 0 if the columns of J are orthogonal, so that every latent moves x in a
    direction of its own. The SVD leaves V open where singular values coincide: columns that are orthogonal as far as
    float32 can tell count as such, and directions that J does not stretch (d > n, ignored latents) are left out;
    otherwise nearly equal singular values make V, and the distance, arbitrary (rolinek Proposition 1).

    Args:
        gram: J^T J [N, d, d].
        active: bool [d], the latents to look at, such as `activity.is_narrow` gives; all by default.

    Returns:
        Result; parts: per_example [N], active [d], standard_error.

    Raises:
        InputError: gram that is not [N, d, d] or not finite, active that is not [d], or no active latent.
    """
    gram, active = check_gram(gram, active)
    return _make_result("dto", np.sqrt(squared_distance(align(gram))), active,
                        "0: every latent moves x at right angles to the others; sqrt(2 d) at most")


@register(name="dto_active", needs=("gram", "narrow"), no_meaning_for=NOT_OF_ONE_LATENT, active="is_narrow",
          meaning="`dto` of the columns of active latents alone")
def dto_of_active_latents(gram: np.ndarray, narrow: np.ndarray) -> Result:
    """`dto` of the columns of the latents that `activity.is_narrow` calls active.

    Args:
        gram: J^T J [N, d, d].
        narrow: bool [d].

    Raises:
        InputError: fewer than two active latents, or a gram that `dto` refuses.
    """
    _check_two_columns(gram, narrow)
    return _say_which_latents(dto(gram, narrow), narrow)


@register(needs=("gram",), no_meaning_for=NOT_OF_ONE_LATENT, also=("ima_contrast",),
          meaning="distance of the Jacobian's columns from orthogonality, by their volume, in nats")
def hadamard_gap(gram: np.ndarray, active: np.ndarray | None = None) -> Result:
    """Return the mean over x of sum_j log ||c_j|| - 1/2 log det J^T J, nats (rolinek S6, allen Theorem 5).

    It is bhowal's Lemma 10, too, and the IMA contrast of independent mechanism analysis (Gresele 2021, Reizinger 2022).
    The score is 0 if the columns are orthogonal, and larger otherwise. It needs no SVD, so it has none of the ambiguity
    of one, and the columns' lengths do not count. Where columns are linearly dependent it is infinite; such examples
    are left out and warned of.

    Args:
        gram: J^T J [N, d, d].
        active: bool [d], the latents to look at; all by default.

    Returns:
        Result; parts: per_example [N], active [d], standard_error.

    Raises:
        InputError: gram that is not [N, d, d] or not finite, active that is not [d], no active latent, or columns that
            are dependent in every example, as with d > n.
    """
    gram, active = check_gram(gram, active)
    cosine = _cosines(gram)
    with threads.limit_to_one():
        eigenvalues = np.linalg.eigvalsh(cosine + np.eye(gram.shape[1]))
    dependent = eigenvalues[:, 0] <= gram.shape[1] * ZERO**2
    if dependent.all():
        raise InputError("gram: hadamard_gap needs linearly independent columns; they are dependent in every example, "
                         "as with more latents than data dimensions (d > n)")
    if dependent.any():
        warnings.warn(f"hadamard_gap leaves out {dependent.sum()} of {len(gram)} examples whose columns are "
                      "linearly dependent", stacklevel=2)
    logarithms = np.log(np.where(dependent[:, np.newaxis], 1, eigenvalues))
    gap = np.where(dependent, np.inf, np.maximum(-0.5 * logarithms.sum(1), 0))
    return _make_result("hadamard_gap", gap, active, "nats; 0: the columns of the Jacobian are orthogonal")


@register(needs=("gram",), no_meaning_for=NOT_OF_ONE_LATENT,
          meaning="mean |cosine| between the Jacobian's columns")
def column_cosine(gram: np.ndarray, active: np.ndarray | None = None) -> Result:
    """Return the mean over x of the mean |cos(c_i, c_j)| over i != j.

    The score is in [0, 1]. It is 0 if the columns are orthogonal, and 1 if all latents move x along one line. With one
    latent there is no pair, and the score is 0.

    Args:
        gram: J^T J [N, d, d].
        active: bool [d], the latents to look at; all by default.

    Returns:
        Result; parts: per_example [N], active [d], standard_error.

    Raises:
        InputError: gram that is not [N, d, d] or not finite, active that is not [d], or no active latent.
    """
    gram, active = check_gram(gram, active)
    heard = (np.diagonal(gram, axis1=1, axis2=2) > 0).sum(1)
    pairs = heard * (heard - 1)
    per_example = np.abs(_cosines(gram)).sum((1, 2)) / np.maximum(pairs, 1)
    return _make_result("column_cosine", per_example, active,
                        "0: the columns of the Jacobian are orthogonal; 1: they all lie on one line")


@register(name="variance_norm_relation", needs=("gram", "widths", "narrow"), no_meaning_for=NOT_OF_ONE_LATENT,
          active="is_narrow", meaning="whether s_j^2 of active latents is inversely proportional to ||c_j||^2")
def variance_norm_relation_of_active_latents(gram: np.ndarray, stddevs: np.ndarray, narrow: np.ndarray) -> Result:
    """`variance_norm_relation` of the latents that `activity.is_narrow` calls active.

    Args:
        gram: J^T J [N, d, d].
        stddevs: standard deviations of the posterior [N, d], or Cholesky factors [N, d, d].
        narrow: bool [d].

    Raises:
        InputError: fewer than two active latents, or arrays that `variance_norm_relation` refuses.
    """
    _check_two_columns(gram, narrow)
    return _say_which_latents(variance_norm_relation(gram, stddevs, narrow), narrow)


@arguments.check
def variance_norm_relation(gram: np.ndarray, stddevs: np.ndarray, active: np.ndarray | None = None) -> Result:
    """Return how nearly s_j^2 ||c_j||^2 is the same for all latents, per x (bhowal Theorem 1c; rolinek S5).

    The score is the mean over x of the standard deviation over j of log s_j^2 + log ||c_j||^2, in nats. It is 0 or
    more, and 0 if s_j^2 = constant / ||c_j||^2 at every x. An optimum has that where all s_j^2 are far below 1: with a
    standard normal prior, its 1 / s_j^2 - 1 is proportional to ||c_j||^2. The slope is that of log s_j^2 against
    -log ||c_j||^2: 1 if the relation holds, 0 if the norms are all equal, when there is nothing to relate. Latents that
    the decoder ignores at x have no norm and are left out there.

    Args:
        gram: J^T J [N, d, d].
        stddevs: standard deviations of the posterior [N, d], or Cholesky factors [N, d, d].
        active: bool [d], the latents to look at, two or more; all by default.

    Returns:
        Result; parts: per_example [N], slope [N], active [d], standard_error.

    Raises:
        InputError: arrays that are not finite or do not fit together, or an example at which the decoder listens to
            fewer than two active latents.
    """
    shape, stddevs = np.shape(gram), np.asarray(stddevs, np.float64)
    gram, active = check_gram(gram, active)
    if stddevs.shape not in (shape[:2], shape):
        raise InputError(f"stddevs: expected shape {shape[:2]}, or {shape} for Cholesky factors; got {stddevs.shape}")
    variance = (stddevs**2 if stddevs.ndim == 2 else (stddevs**2).sum(2))[:, active]
    if not (np.isfinite(variance) & (variance > 0)).all():
        raise InputError("stddevs: expected finite positive values; got zero, NaN or infinite")
    squared_norm = np.diagonal(gram, axis1=1, axis2=2)
    heard = squared_norm > 0
    if (heard.sum(1) < 2).any():
        raise InputError("gram: variance_norm_relation needs two latents that the decoder listens to at every example; "
                         f"{np.count_nonzero(heard.sum(1) < 2)} of {len(gram)} have fewer")

    def centred(value: np.ndarray) -> np.ndarray:
        value = np.where(heard, value, 0)
        return np.where(heard, value - value.sum(1, keepdims=True) / heard.sum(1, keepdims=True), 0)

    x = centred(-np.log(np.where(heard, squared_norm, 1)))
    y = centred(np.log(variance))
    spread = np.sqrt(((y - x) ** 2).sum(1) / heard.sum(1))
    xx = (x**2).sum(1)
    slope = np.divide((x * y).sum(1), xx, out=np.zeros(len(x)), where=xx > ROUNDING**2)
    result = _make_result("variance_norm_relation", spread, active,
                          "nats; 0: posterior variances are inversely proportional to squared column norms")
    return Result(result.name, result.score, {**result.parts, "slope": slope}, result.meaning)


def squared_distance(svd: Aligned) -> np.ndarray:
    """Return ||V - I||_F^2 [N] over the directions that are stretched."""
    return (((svd.V - np.eye(svd.V.shape[1])) ** 2).sum(1) * svd.stretched).sum(1)


def _cosines(gram: np.ndarray) -> np.ndarray:
    """Return cos(c_i, c_j) [N, d, d]; 0 on the diagonal, for ignored latents, and where float32 cannot resolve it."""
    norms = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    scale = norms[:, :, np.newaxis] * norms[:, np.newaxis]
    cosine = np.clip(np.divide(gram, scale, out=np.zeros_like(gram), where=scale > 0), -1, 1)
    return np.where((np.abs(cosine) <= ROUNDING) | np.eye(gram.shape[1], dtype=bool), 0, cosine)


def check_gram(gram: np.ndarray, active: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of gram [N, a, a] that is of the selected latents, and the selection, bool [d]."""
    gram = np.asarray(gram, np.float64)
    if gram.ndim != 3 or gram.shape[1] != gram.shape[2] or not gram.size:
        raise InputError(f"gram: expected J^T J of shape [N, d, d], not empty; got {gram.shape}")
    if not np.isfinite(gram).all():
        raise InputError(f"gram: expected finite values; got {np.count_nonzero(~np.isfinite(gram))} NaN or infinite: "
                         "the decoder's weights or the codes hold some")
    active = np.ones(gram.shape[1], bool) if active is None else _check_booleans("active", active, gram.shape[1])
    if not active.any():
        raise InputError(f"active: expected {gram.shape[1]} booleans, one of them true at least; got {active}")
    return gram[:, active][:, :, active], active


def _check_booleans(name: str, value: np.ndarray, size: int) -> np.ndarray:
    """Return an array of booleans [d], of this size."""
    booleans = np.asarray(value)
    if booleans.dtype != bool or booleans.shape != (size,):
        raise InputError(f"{name}: expected {size} booleans, one for each latent; got {checks.describe(value)}")
    return booleans


def _make_result(name: str, per_example: np.ndarray, active: np.ndarray, meaning: str) -> Result:
    finite = per_example[np.isfinite(per_example)]
    return Result(name, float(finite.mean()),
                  {"per_example": per_example, "active": active, "standard_error": estimate_error(finite)},
                  meaning)


def _check_two_columns(gram: np.ndarray, narrow: np.ndarray) -> None:
    gram, _ = check_gram(gram, None)
    count = _check_booleans("narrow", narrow, gram.shape[1]).sum()
    if count < 2:
        raise InputError(f"{count} of {len(narrow)} latents {'has' if count == 1 else 'have'} "
                         f"{activity.RULES['is_narrow'].condition}; orthogonality needs two columns")


def _say_which_latents(result: Result, narrow: np.ndarray) -> Result:
    which = f"over the {narrow.sum()} of {len(narrow)} latents with {activity.RULES['is_narrow'].condition}"
    return dataclasses.replace(result, meaning=f"{result.meaning}; {which}")


def _hadamard_gap_or_infinity(gram: np.ndarray, active: np.ndarray) -> float:
    try:
        return hadamard_gap(gram, active).score
    except InputError:          # there are more active latents than data dimensions
        return np.inf


# The distances that comparisons of models use: functions of gram [N, d, d] and of active [d], the active latents.
DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "dto": lambda gram, active: dto(gram).score,        # over all latents, passive ones included
    "dto_active": lambda gram, active: dto(gram, active).score,
    "column_cosine": lambda gram, active: column_cosine(gram, active).score,
    "hadamard_gap": _hadamard_gap_or_infinity,
}
# The distances that decide between models: with equal numbers of active latents, and with any numbers.
OF_EQUAL_NUMBERS, OF_ANY_NUMBERS = "dto_active", "column_cosine"
