"""Check the covariances and positive numbers that closed forms take.

n is the size of the data, d or k the number of latents, N the number of examples.
"""

from typing import Annotated

import numpy as np

from vae_tf.arguments import Sizes
from vae_tf.errors import InputError
from vae_tf.typing import ArrayLike, Floats, Integers

Covariance = Annotated[ArrayLike, Sizes("n n")]
Decoder = Annotated[Floats, Sizes("n k")]
Encoder = Annotated[Floats, Sizes("k n")]
Variances = Annotated[Floats, Sizes("k", above=0)]
Jacobian = Annotated[ArrayLike, Sizes("... n d")]
OneJacobian = Annotated[ArrayLike, Sizes("n d")]
Outputs = Annotated[ArrayLike, Sizes("... n")]
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
    rounding = np.sqrt(np.finfo(given.dtype if given.dtype.kind == "f" else np.float64).eps)
    largest = np.abs(C).max((-1, -2))
    asymmetry = np.abs(C - np.swapaxes(C, -1, -2)).max((-1, -2))
    if (asymmetry > rounding * largest).any():
        raise InputError(f"{name}: expected a symmetric matrix {sizes}; got one that differs from its transpose by "
                         f"{asymmetry.max():.3g}")
    return C, rounding * largest


def check_covariance(name: str, value: ArrayLike, sizes: str = "[n, n]") -> Floats:
    """Return a covariance [..., n, n] in float64; it may be singular.

    A negative eigenvalue counts as rounding, as an asymmetry does. Zero in place of such an eigenvalue would do as
    well.

    Raises:
        InputError: not square, not finite, not symmetric, or with a negative eigenvalue.
    """
    C, rounding = check_symmetric(name, value, sizes)
    least = np.linalg.eigvalsh(C)[..., 0]
    if (least < -rounding).any():
        raise InputError(f"{name}: expected a matrix without negative eigenvalues; got one of {least.min():.3g}")
    return C


def check_positive_definite(name: str, value: ArrayLike) -> Floats:
    """Return the covariance or precision of a density [..., d, d] in float64.

    Raises:
        InputError: not square, not finite or not symmetric; or an eigenvalue is not above 0.
    """
    C = check_covariance(name, value, "[..., d, d]")
    least = np.linalg.eigvalsh(C)[..., 0]
    if (least <= 0).any():
        raise InputError(f"{name}: expected a positive definite matrix; got an eigenvalue of {least.min():.3g}")
    return C
