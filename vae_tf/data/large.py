"""Examples that stay in an .npz file: they are read, checked and converted when they are asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vae_tf.data.spreading import spread_evenly
from vae_tf.data.stored import StoredArray
from vae_tf.errors import InputError
from vae_tf.typing import Array, Integers

LOOKED_AT, LOOKED_AT_BYTES = 1_000, 2**26       # examples, spread evenly, that say what images of 0 and 1 are


def make_examples_at(array: StoredArray, convert: Callable[..., Any]) -> Callable[[Integers], Array]:
    """Return a function of indices [B] -> converted examples [B, ...], after a look at some of them.

    Args:
        array: the examples as the file has them.
        convert: a function of examples, of whether they are masks of 0 and 1 (None if that is to be told from the
            examples), and of what errors call them. It raises InputError for examples that cannot be used.
    """
    looked_at = array.read(spread(array.shape[0], array.row_size))
    masks = bool(looked_at.dtype.kind in "bui" and looked_at.max() <= 1)

    def examples_at(indices: Integers) -> Array:
        examples = array.read(indices)
        try:
            return convert(examples, masks)
        except InputError as error:
            raise _explain(indices, examples) or error from None

    def _explain(indices: Integers, examples: Array) -> InputError | None:
        """Return the error of the first of some examples that cannot be converted alone."""
        for index, example in zip(indices, examples, strict=True):
            name = f"example {index:,}"
            try:
                convert(example[np.newaxis], masks, [name])
            except InputError as error:
                return error if name in str(error) else InputError(f"{error}, in {name}")
        return None

    return examples_at


def spread(size: int, of_each: int) -> Integers:
    """Return the indices of the examples that are looked at, of `size` examples of so many bytes each."""
    return spread_evenly(size, min(LOOKED_AT, max(1, LOOKED_AT_BYTES // max(of_each, 1))))
