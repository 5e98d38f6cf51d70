"""What the workers that train one program together have to agree on, and what they say if one of them is lost."""

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import devices
from vae_tf.errors import InputError, WorkerError, join_names
from vae_tf.training import failures

DIGITS = 4          # numbers of 31 bits that stand for a part of what workers compare
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)


class Workers:
    """The processes that train one program, each of which calls the same methods in the same order."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.count = devices.count_workers(strategy)
        self._is_chief = devices.is_chief(strategy)
        self._devices = strategy.num_replicas_in_sync
        self._add_up: Callable[[tf.Tensor], tf.Tensor] = tf.function(
            lambda values: strategy.reduce("SUM", strategy.run(tf.identity, args=(values,)), axis=None))

    def check(self, **parts: Any) -> None:
        """Raise InputError, in all workers, unless each part has the same content in all of them.

        Args:
            parts: what is compared, by its name in the message: arrays, and what JSON can hold, in dicts and lists.
        """
        if self.count == 1:
            return
        own = np.array([_digest(part) for part in parts.values()])
        total = self._add_up(tf.constant(own)).numpy()
        alike = (total == self._devices * own).all(1)
        differing = [name for name, equal in zip(parts, alike, strict=True) if not equal]
        if differing:
            with contextlib.suppress(*LOST):        # a worker that ended now could keep another from its total
                self._add_up(tf.constant(own))
            raise InputError(f"strategy: expected workers with the same {join_names(differing)}; got others in some: "
                             "start all of them with the same command, on the same files")

    def agree(self, flag: bool, seconds: float) -> tuple[bool, float]:
        """Return whether the flag is set in any worker, and the seconds of the chief; the same in all of them."""
        if self.count == 1:
            return flag, seconds
        flags, seconds = self._add_up(tf.constant([flag, seconds if self._is_chief else 0], tf.float32)).numpy()
        return flags > 0, float(seconds) * self.count / self._devices       # each of the chief's devices added them

    @contextlib.contextmanager
    def explain_lost(self, step: int, folders: Sequence[pathlib.Path]) -> Iterator[None]:
        """While entered, turn TensorFlow's error about a worker that cannot be reached into a WorkerError."""
        try:
            yield
        except LOST as error:
            if self.count == 1:
                raise
            raise WorkerError(f"step {step}: another worker has ended or cannot be reached; "
                              f"{failures.describe_last_good(folders)}; start the same command on all machines to go "
                              "on") from error


def _digest(part: Any) -> np.ndarray:
    """Return numbers, int64 [DIGITS], that tell one content from another."""
    digest = hashlib.sha256()
    _feed(digest, part)
    return np.frombuffer(digest.digest()[:4 * DIGITS], "<u4").astype(np.int64) >> 1


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        digest.update(f"{part.dtype} {part.shape} ".encode() + np.ascontiguousarray(part).tobytes())
    elif isinstance(part, Mapping):
        for key, value in sorted(part.items()):
            digest.update(f"{key}: ".encode())
            _feed(digest, value)
    elif isinstance(part, list | tuple):
        digest.update(f"{len(part)} ".encode())
        for value in part:
            _feed(digest, value)
    else:
        digest.update(json.dumps(part, default=str).encode())
