"""Encode the examples that are scored, batch by batch."""

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vae_tf import activity, threads
from vae_tf.evaluation.codes import Codes

BATCH = 500


def encode(model: Any, dataset: Any, indices: np.ndarray, seed: int, look: Callable[[Codes], Any] = lambda first: None,
           ) -> tuple[Codes, dict[str, np.ndarray]]:
    """Return the Codes of some examples, and the terms of their objective [N] by name; `look` sees the first Codes."""
    reading = threading.Lock()

    def encode_batch(batch: int, rows: np.ndarray) -> tuple[dict, dict]:
        with reading:
            x, u = dataset.images_at(rows), model.u_at(dataset, rows)
        return model.encode_with_terms(x, seed * 1_000 + batch, u)

    pieces = np.array_split(indices, math.ceil(len(indices) / BATCH))
    encoded: list[dict[str, np.ndarray]] = []
    terms: list[dict[str, np.ndarray]] = []
    for posterior, objective in threads.map_in_pairs(encode_batch, itertools.count(), pieces):
        if not encoded:
            look(_make_codes([posterior], dataset, pieces[0]))
        encoded.append(posterior)
        terms.append(objective)
    return (_make_codes(encoded, dataset, indices),
            {name: np.concatenate([each[name] for each in terms]) for name in terms[0]})


def _make_codes(encoded: Sequence[dict[str, np.ndarray]], dataset: Any, indices: np.ndarray) -> Codes:
    """Return the Codes of examples from the posteriors of batches."""
    posterior = {key: np.concatenate([part[key] for part in encoded]) for key in encoded[0]}
    full = posterior.pop("scale_tril", None)
    if full is not None:
        posterior["stddev"] = np.linalg.norm(full, axis=-1)        # marginal standard deviations of the latents
    return Codes(**posterior, factors=dataset.factors_at(indices) if dataset.factors else None,
                 kinds=tuple(factor.kind for factor in dataset.factors) or None,
                 independent=full is None, factor_names=dataset.factor_names,
                 dependence=None if full is None else activity.find_dependence(full))
