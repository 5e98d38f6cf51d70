"""The examples of a dataset in batches, as Keras' own loops read them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks
from vae_tf.data.batches import make_batches
from vae_tf.data.dataset import Dataset

LAST_STEP = 2**31 - 1


class InOrder(keras.utils.PyDataset):
    """The examples of a dataset, in its own order, in batches of (x,) or ((x, u),)."""

    def __init__(self, dataset: Dataset, batch_size: int, with_u: bool) -> None:
        super().__init__()
        checks.check_whole("batch_size", batch_size, 1)
        self.dataset, self.batch_size, self.with_u = dataset, batch_size, with_u

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)

    def __getitem__(self, index: int) -> Any:
        start = index * self.batch_size
        indices = np.arange(start, min(start + self.batch_size, len(self.dataset)))
        x = self.dataset.images_at(indices)
        return ((x, self.dataset.u_at(indices)),) if self.with_u and self.dataset.u_at else (x,)


def shuffle(dataset: Dataset, batch_size: int, seed: int, find_step: Callable[[], int], with_u: bool
            ) -> tf.data.Dataset:
    """Return the batches of `training.fit` from a step on, without end, each (x,) or ((x, u),).

    Args:
        dataset: the examples.
        batch_size: examples of a batch; a batch may hold the end of one epoch and the start of the next.
        seed: the seed for the order.
        find_step: tells the number of the first step when the batches begin to be read.
        with_u: whether u comes too.
    """
    @tf.autograph.experimental.do_not_convert
    def begin(_: Any) -> tf.data.Dataset:
        start = tf.numpy_function(lambda: np.int64(find_step()), [], tf.int64)
        return make_batches(dataset, batch_size, [seed], start, LAST_STEP, with_u)

    batches = tf.data.Dataset.range(1).flat_map(begin)
    return batches.map(lambda step, *batch: (batch if len(batch) > 1 else batch[0],))
