"""Apply convolutional networks to a batch in parts, each of which one thread of the processor computes.

By itself TensorFlow shares out every convolution over all threads. Those of small batches are so short that threads
wait for each other. With one thread for each operation, and as many operations at once as there are threads, a training
step on parts of 16 or more images takes less time (docs/performance.md). `console.environment.choose_threads` asks for
such threads; where they are others, batches are left whole.

Parts are rows of the batch, one after another. Outputs are those of the whole batch, and so are gradients, to rounding.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from vae_tf import biases, devices, upsampling, wide
from vae_tf.typing import Network, Tensor

SMALLEST, MOST = 16, 8          # images of a part, and parts of a batch

# Layers that treat each row of a batch alone and have no state. Batch normalisation is none of them.
CONVOLUTIONS = {layers.Conv2D, layers.Conv2DTranspose, upsampling.Conv2DTranspose, *biases.CONVOLUTIONS.values()}
BY_ROW = {*CONVOLUTIONS, layers.Dense, wide.Dense, biases.Dense, layers.InputLayer, layers.Activation, layers.ReLU,
          layers.Flatten, layers.Reshape, layers.Concatenate, layers.ZeroPadding2D, layers.Cropping2D}

_ENTERED = contextvars.ContextVar("_ENTERED", default=False)


@contextlib.contextmanager
def in_parts(allowed: bool = True) -> Iterator[None]:
    """While entered, have graphs apply networks to parts of batches, if that suits network, batch and threads.

    Args:
        allowed: False leaves batches whole, as in graphs of several replicas and in those that XLA compiles.
    """
    token = _ENTERED.set(allowed)
    try:
        yield
    finally:
        _ENTERED.reset(token)


def apply(network: Network, inputs: Sequence[Tensor], training: bool) -> Any:
    """Return what a network makes of inputs [B, ...], which `in_parts` may have computed in parts.

    Args:
        network: a Keras model that takes as many tensors.
        inputs: one tensor or several.
        training: whether layers behave as in training.
    """
    count = _count_parts(inputs[0].shape[0]) if _ENTERED.get() and _suits(network) and _do_threads_suit() else 1
    parts = [inputs] if count == 1 else zip(*(tf.split(each, count) for each in inputs), strict=True)
    outputs = [network(part[0] if len(part) == 1 else list(part), training=training) for part in parts]
    return outputs[0] if count == 1 else keras.tree.map_structure(lambda *rows: tf.concat(rows, 0), *outputs)


def _count_parts(rows: int | None) -> int:
    """Return into how many equal parts a batch is split: as many as there may be without too small ones."""
    return next((count for count in range(MOST, 1, -1) if rows and not rows % count and rows // count >= SMALLEST), 1)


def _suits(network: Network) -> bool:
    """Return whether a network has convolutions, and nothing but layers that are known to treat each row alone."""
    kinds = {type(layer) for layer in network.layers} if isinstance(network, keras.Model) else set()
    return bool(kinds & CONVOLUTIONS) and kinds <= BY_ROW


def _do_threads_suit() -> bool:
    """Return whether the only device is a CPU where each operation has one thread, and several run at once."""
    within, between = devices.find_threads()
    return (within == "1" != between and not tf.distribute.has_strategy()
            and not tf.config.list_physical_devices("GPU"))
