"""Estimate the memory that an evaluation takes beside the data."""

import math
from typing import Any

from vae_tf import memory


def check_memory(dataset: Any, latents: int, around: int) -> None:
    """Refuse to examine a decoder around more examples than fit into memory.

    Args:
        dataset: the data.Dataset that is scored.
        latents: d of the model.
        around: the largest number of examples around which the decoder is examined.

    Raises:
        InputError: the examples, as floats, and some matrices [d, d] for each of them do not fit.
    """
    count = min(around, len(dataset))
    size = count * (2 * 4 * math.prod(dataset.shape) + 4 * 8 * latents ** 2)
    memory.check_fits("around (--geometry_examples)", size, f"a decoder around {count:,} examples", "give fewer")
