"""Limits on how much one request may ask of a served model."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from vae_tf.export.checking import require
from vae_tf.models import Autoencoder
from vae_tf.typing import Tensor

# Largest number of bytes in the outputs of all layers for one request, and bounds on its rows in any case.
# evaluate.py sends 500 rows at a time.
BUDGET, FEWEST_ROWS, MOST_ROWS = 2**30, 512, 65_536

BY_ROW = ("x", "z", "u", "factors", "values")       # the inputs whose rows are the rows of a request


def compute_limits(model: Autoencoder) -> dict[str, int]:
    """Return how many rows one request may ask, by name: jacobian_rows of `jacobian`, rows of all other signatures."""
    shapes = [tensor.shape[1:] for network in (model.encoder, model.decoder) for layer in _list_layers(network)
              for tensor in keras.tree.flatten(layer.output)]
    # A network inside of another may take images of any size, and then it does not tell how large its outputs are.
    known = all(None not in shape for shape in shapes)
    rows = BUDGET // (4 * sum(math.prod(shape) for shape in shapes)) if known else 0
    return {"rows": min(max(rows, FEWEST_ROWS), MOST_ROWS),
            "jacobian_rows": min(max(rows // (1 + model.latents), 1), MOST_ROWS)}


def _list_layers(network: keras.Model) -> Iterator[keras.Layer]:
    """Yield the layers of a network. In place of a network among them, such as a Sequential, come the layers of that.

    A subclass of keras.Model with a `call` of its own counts as a layer, because only its output is known.
    """
    for layer in network.layers:
        if isinstance(layer, keras.Model) and hasattr(layer, "inputs"):
            yield from (each for each in _list_layers(layer) if not isinstance(each, keras.layers.InputLayer))
        else:
            yield layer


def check_bounds(name: str, inputs: dict[str, Tensor], limits: Mapping[str, int]) -> dict[str, Any]:
    """Return a signature's inputs by name; raise an error that names the one that asks too much, and the limit.

    Args:
        name: the name of the signature.
        inputs: tensors by name.
        limits: see `compute_limits`.
    """
    limit = limits["jacobian_rows" if name == "jacobian" else "rows"]
    bounded = dict(inputs)
    for key, value in inputs.items():
        if key in BY_ROW:
            rows = tf.shape(value)[0]
            bounded[key] = require(value, rows <= limit, f"{key}: expected at most {limit} rows; got", rows)
        elif key == "n":
            bounded[key] = require(value, value <= limit, f"n: expected at most {limit}; got", value)
    if name == "traverse":
        asked = tf.shape(inputs["x"], tf.int64)[0] * tf.shape(inputs["values"], tf.int64)[0]
        bounded["values"] = require(bounded["values"], asked <= limit, "values: expected at most "
                                    f"{limit} images, rows of x times values; got", asked)
    return bounded
