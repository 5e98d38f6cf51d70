"""What a metric returns, and the checks its inputs pass."""

import dataclasses

import numpy as np

from vae_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class Result:
    """A metric's score, the parts it is made of (arrays by name), and what the score means in a line."""

    name: str
    score: float
    parts: dict
    meaning: str

    def __str__(self):
        return f"{self.name} = {self.score:.4g}: {self.meaning}"


def checked(codes, factors=None):
    """codes as finite float64 [N, d] and factors as finite [N, K].

    Raises:
        InputError: which argument, what was expected, what came.
    """
    codes = _matrix("codes", codes)
    if factors is None:
        return codes, None
    factors = _matrix("factors", factors, keep_integers=True)
    if len(factors) != len(codes):
        raise InputError(f"factors: expected {len(codes)} rows, as many as codes; got {len(factors)}")
    return codes, factors


def _matrix(name, array, keep_integers=False):
    array = np.asarray(array)
    if array.ndim != 2 or not array.size or not np.issubdtype(array.dtype, np.number):
        raise InputError(f"{name}: expected a non-empty numeric array [N, columns]; "
                         f"got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite values; got {np.count_nonzero(~np.isfinite(array))} NaN or infinite")
    return array if keep_integers and np.issubdtype(array.dtype, np.integer) else array.astype(np.float64)
