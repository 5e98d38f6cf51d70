"""Make a dataset of a function that gives examples by index, so that they need not be in memory."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from vae_tf import checks
from vae_tf.data.columns import scale, take_complete
from vae_tf.data.dataset import Dataset, Factor
from vae_tf.data.in_memory import describe_choice, fingerprint, from_arrays
from vae_tf.data.spreading import spread_evenly
from vae_tf.errors import InputError
from vae_tf.typing import Array, Floats, Integers

LOOKED_AT = 100         # examples by which a function is recognised, where nothing else says what determines them


def from_function(name: str, examples_at: Callable[[Integers], Array], size: int, values: Array | None = None,
                  factors: Iterable[Factor] = (), u: Floats | None = None, *, made_by: Sequence[Any] = (),
                  raw: Array | None = None, complete_grid: bool = False) -> Dataset:
    """Return a Dataset whose examples a function gives.

    Args:
        name: the name of the dataset.
        examples_at: a function of indices, int64 [B] -> uint8 images [B, H, W, C] or float32 data [B, n]. It must give
            the same examples for the same indices, and threads may call it at the same time.
        size: N, the number of examples.
        values, factors, u, raw, complete_grid: see `from_arrays`; unsigned integers of few bytes save memory, and are
            given as int64.
        made_by: what determines the examples, such as a version and a seed, for a run to recognise them by; by default
            the factors, their values and 100 examples that are spread evenly.

    Raises:
        InputError: the function gives something else, or another argument is wrong.
    """
    checks.check_whole("size", size, 1)
    spread = spread_evenly(size, LOOKED_AT)
    looked_at = np.asarray(examples_at(spread))
    if len(np.shape(looked_at)) not in (2, 4) or len(looked_at) != len(spread):
        raise InputError(f"examples_at: expected uint8 images [{len(spread)}, H, W, C] or float32 data "
                         f"[{len(spread)}, n] for {len(spread)} indices; got {looked_at.dtype} of shape "
                         f"{looked_at.shape}")
    from_arrays(name, looked_at)        # checks their type, and that they are finite
    shape, dtype = looked_at.shape[1:], np.dtype(np.uint8 if looked_at.ndim == 4 else np.float32)

    def checked_at(indices: Integers) -> Array:
        """Return the examples of indices, which are like those that were looked at."""
        x = np.asarray(examples_at(indices))
        if x.shape != (len(indices), *shape) or (x.dtype != dtype if dtype == np.uint8 else x.dtype.kind != "f"):
            raise InputError(f"examples_at: expected {dtype} of shape {(len(indices), *shape)}; got {x.dtype} of shape "
                             f"{x.shape}")
        return x.astype(dtype, copy=False)

    raw = values if raw is None else raw
    factors = tuple(factors)
    # This stands for the examples, and for u where it is made of factors, while rows are counted. It takes no memory.
    x = np.broadcast_to(np.float32(0), (size, 1))
    made = from_arrays(name, x, values, factors, x if u is None and raw is not None else u, None, (name,), raw,
                       complete_grid)
    identity = made_by or [*(each for each in (size, looked_at, raw, u) if each is not None), *describe_choice(factors)]
    made = dataclasses.replace(made, shape=shape, images_at=checked_at, fingerprint=fingerprint(*identity))
    if values is not None and values.dtype.kind == "u":
        made = dataclasses.replace(made, factors_at=lambda indices: values[indices].astype(np.int64))
    if u is not None or raw is None:
        return made
    scaled = take_complete(raw)
    if not scaled.shape[1]:
        return dataclasses.replace(made, u_at=None, u_size=0)
    low, high = scaled.min(0), scaled.max(0)
    return dataclasses.replace(made, u_at=lambda indices: scale(scaled[indices], low, high), u_size=scaled.shape[1],
                               u_range=(low, high))
