"""Check the covariances and positive numbers that closed forms take.

n is the size of the data, d or k the number of latents, N the number of examples.
"""

from typing import Annotated, Any

import numpy as np

from vae_tf.arguments import Known, Sizes
from vae_tf.errors import InputError
from vae_tf.typing import ArrayLike, Floats, Integers


class InFloat64(Sizes):
    """As Sizes, but the function gets the array in float64, in which squares of small integers do not overflow."""

    def check(self, name: str, value: Any, known: Known) -> Floats:
        """Return the value as an array in float64 if it is such an array."""
        return super().check(name, value, known).astype(np.float64)


# Matrices keep their type until their function has seen it, because the type says how far their numbers are rounded.
Covariance = Annotated[ArrayLike, Sizes("n n")]
Decoder = Annotated[Floats, InFloat64("n k")]
Encoder = Annotated[Floats, InFloat64("k n")]
Variances = Annotated[Floats, InFloat64("k", above=0)]
Jacobian = Annotated[ArrayLike, Sizes("... n d")]
OneJacobian = Annotated[ArrayLike, Sizes("n d")]
Outputs = Annotated[Floats, InFloat64("... n")]
Latents = Annotated[ArrayLike, Sizes("... d")]
Matrices = Annotated[ArrayLike, Sizes("... d d")]
PriorMean = Annotated[ArrayLike, Sizes("... d", broadcasts=True)]
PriorVariance = Annotated[ArrayLike, Sizes("... d", above=0, broadcasts=True)]
OnePriorVariance = Annotated[ArrayLike, Sizes("d", above=0, broadcasts=True)]
Rows = Annotated[Integers, Sizes("N k", low=0, integers=True)]


def check_positive(**numbers: ArrayLike) -> None:
    """Raise InputError unless every number, and every element of an array, is finite and above 0."""
    for name, value in numbers.items():
        wrong = np.asarray(value)[~((np.asarray(value) > 0) & (np.asarray(value) < np.inf))]
        if wrong.size:
            raise InputError(f"{name}: expected a finite number above 0; got {wrong.flat[0]}")


def check_symmetric(name: str, value: ArrayLike, sizes: str = "[n, n]") -> tuple[Floats, Floats]:
    """Return a symmetric matrix [..., n, n] in float64, and how large rounding of its numbers [...] may be.

    An asymmetry counts as rounding if it is below half the digits of the type, because the entries are sums over many
    examples.

    Raises:
        InputError: not square, not finite or not symmetric.
    """
    given = np.asarray(value)
    C = given.astype(np.float64)
    if C.ndim < 2 or C.shape[-1] != C.shape[-2] or not C.size:
        raise InputError(f"{name}: expected a symmetric matrix {sizes}; got shape {C.shape}")
    if not np.isfinite(C).all():
        raise InputError(f"{name}: expected finite values; got {np.count_nonzero(~np.isfinite(C))} NaN or infinite")
    rounding = np.sqrt(_find_eps(given))
    largest = np.abs(C).max((-1, -2))
    asymmetry = np.abs(C - np.swapaxes(C, -1, -2)).max((-1, -2))
    if (asymmetry > rounding * largest).any():
        raise InputError(f"{name}: expected a symmetric matrix {sizes}; got one that differs from its transpose by "
                         f"{asymmetry.max():.3g}")
    return C, rounding * largest


def check_full_rank(jacobian: ArrayLike, name: str = "jacobian") -> Floats:
    """Return a Jacobian [..., n, d] in float64, or raise InputError unless its columns are linearly independent."""
    J = np.asarray(jacobian, np.float64)
    rank = np.linalg.matrix_rank(J, rtol=find_relative_rounding(jacobian)) if J.ndim > 1 and J.size else np.array(0)
    if J.ndim < 2 or (rank < J.shape[-1]).any():
        raise InputError(f"{name}: expected full column rank [..., n, d]; got shape {J.shape} and rank "
                         f"{np.min(rank)}: leave passive latents out")
    return J


def check_orthogonal(name: str, value: ArrayLike) -> Floats:
    """Return an orthogonal matrix [d, d] in float64, or raise InputError unless U U^T is I up to half its digits."""
    U = np.asarray(value, np.float64)
    error = np.abs(U @ U.T - np.eye(len(U))).max()
    if error > np.sqrt(_find_eps(value)):
        raise InputError(f"{name}: expected an orthogonal matrix [d, d]; got one whose U U^T differs from I by "
                         f"{error:.3g}")
    return U


def find_rounding(jacobian: ArrayLike) -> Floats:
    """Return how far the singular values of a Jacobian [..., n, d] are known [...], in float64 or in its own type.

    Entries that are rounded to eps move each singular value by eps ||J||_F at most (Weyl).
    """
    return np.linalg.norm(np.asarray(jacobian, np.float64), axis=(-2, -1)) * find_relative_rounding(jacobian)


def find_relative_rounding(matrix: ArrayLike) -> float:
    """Return how far singular values or eigenvalues of a matrix [..., n, d] are known, relative to the largest.

    Entries are rounded to eps of their type, and LAPACK computes the values to about max(n, d) eps of float64.
    Differences up to ten times the larger of the two are taken for rounding.
    """
    given = np.asarray(matrix)
    return 10 * max(_find_eps(given), max(given.shape[-2:]) * float(np.finfo(np.float64).eps))


def check_covariance(name: str, value: ArrayLike, sizes: str = "[n, n]") -> Floats:
    """Return a covariance [..., n, n] in float64; it may be singular.

    A negative eigenvalue counts as rounding, as an asymmetry does, and the result has 0 in its place.

    Raises:
        InputError: not square, not finite, not symmetric, or with a negative eigenvalue.
    """
    C, rounding = check_symmetric(name, value, sizes)
    eigenvalues, Q = np.linalg.eigh(C)
    least = eigenvalues[..., 0]
    if (least < -rounding).any():
        raise InputError(f"{name}: expected a matrix without negative eigenvalues; got one of {least.min():.3g}")
    if (least >= 0).all():
        return C
    mended = (Q * np.maximum(eigenvalues, 0)[..., np.newaxis, :]) @ np.swapaxes(Q, -1, -2)
    return np.where((least < 0)[..., np.newaxis, np.newaxis], mended, C)


def check_positive_definite(name: str, value: ArrayLike) -> Floats:
    """Return the covariance or precision of a density [..., d, d] in float64.

    Raises:
        InputError: not square, not finite or not symmetric; or an eigenvalue is not above 0.
    """
    check_covariance(name, value, "[..., d, d]")
    C = np.asarray(value, np.float64)
    least = np.linalg.eigvalsh(C)[..., 0]
    if (least <= 0).any():
        raise InputError(f"{name}: expected a positive definite matrix; got an eigenvalue of {least.min():.3g}")
    return C


def _find_eps(array: ArrayLike) -> float:
    """Return the rounding of an array's numbers, relative to them; integers are taken for float64."""
    dtype = np.asarray(array).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)
