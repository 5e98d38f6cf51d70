"""Reconstruct data from some of its principal axes."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from vae_tf import arguments
from vae_tf.arguments import Sizes
from vae_tf.errors import InputError

Ranges = Sequence[tuple[int, int]]


@arguments.check
def principal_axes(x: Annotated[np.ndarray, Sizes()], ranges: Annotated[Ranges, Sizes("R ends", low=0, integers=True)],
                   ) -> tuple[np.ndarray, np.ndarray]:
    """Data rebuilt from ranges of principal axes, largest variance first (bhowal A.8.6, Table 7, Figure 5).

    Args:
        x: [N, ...], data units.
        ranges: (first, last) pairs, as in x[first:last]: (0, 1500) is "first 1500". There are min(N, n) axes.

    Returns:
        Mean squared errors [len(ranges)], summed over an example's n values, data units^2, and the rebuilt data
        [len(ranges), N, ...]. More axes never rebuild worse.

    Raises:
        InputError: a range beyond the axes, or x with fewer than two rows or not finite.
    """
    x = np.asarray(x, np.float64)
    if x.ndim < 2 or len(x) < 2:
        raise InputError(f"x: expected finite values of shape [N, ...], N at least 2; got shape {x.shape}")
    if np.shape(ranges)[1] != 2:
        raise InputError(f"ranges: expected pairs (first, last); got shape {np.shape(ranges)}")
    flat = x.reshape(len(x), -1)
    axes, mean = min(flat.shape), flat.mean(0)
    for first, last in ranges:
        if not 0 <= first < last <= axes:
            raise InputError(f"ranges: expected 0 <= first < last <= {axes}; got ({first}, {last})")
    centred = flat - mean
    # Decomposes the smaller of C = X^T X and K = X X^T; the eigenvectors of either give the projections.
    tall = len(flat) >= flat.shape[1]
    vectors = np.linalg.eigh(centred.T @ centred if tall else centred @ centred.T)[1][:, ::-1]
    errors, rebuilt = [], []
    for first, last in ranges:
        Q = vectors[:, first:last]
        projected = centred @ Q @ Q.T if tall else Q @ (Q.T @ centred)
        errors.append(((centred - projected) ** 2).sum(1).mean())
        rebuilt.append((mean + projected).reshape(x.shape))
    return np.array(errors), np.stack(rebuilt)
