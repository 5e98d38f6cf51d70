"""The training step of several models in groups, whose steps the threads of a processor make side by side.

XLA computes the operations of a loop one after another, and many of those on stacks of small networks with one thread.
Two stacks of half the models each, with a loop of their own, keep two threads busy (docs/performance.md).
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from vae_tf import arguments, devices, graphs
from vae_tf.console import environment
from vae_tf.models import Autoencoder
from vae_tf.replicas.program import Program, Terms, Watch
from vae_tf.replicas.stacked import Stacked, check_models, has_convolutions
from vae_tf.typing import Array, Optimizer, Tensor

GROUPS, FEWEST_MODELS = 2, 4        # more groups are slower on two processors, and with fewer models two hardly help


class Grouped(Program):
    """Groups of models, with variables and an optimizer of its own for each: the models of the first, then the next."""

    def __init__(self, models: Sequence[Autoencoder], optimizers: Sequence[Optimizer], seeds: Sequence[int]) -> None:
        """Make a group for each optimizer, with about as many models in each.

        Args:
            models: S models that differ in weights and beta alone.
            optimizers: optimizers of one kind, of which callbacks see the first.
            seeds: S seeds.

        Raises:
            InputError: what `Stacked` does not take.
        """
        check_models(models, seeds)
        self.models, self.seeds, self.optimizer = list(models), list(seeds), optimizers[0]
        ends = [len(models) * i // len(optimizers) for i in range(len(optimizers) + 1)]
        self._groups: list[Program] = [
            Stacked(models[start:end], optimizer, seeds[start:end])
            for (start, end), optimizer in zip(itertools.pairwise(ends), optimizers, strict=True)]
        self.updates = tuple(update for group in self.groups for update in group.updates)

    @property
    def groups(self) -> list[Program]:
        """The programs of the groups."""
        return self._groups

    def compute_terms(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                      training: bool = True) -> Terms:
        """Return the means of the objective's terms {name: [S]}."""
        return self.join([group.compute_terms(*given, warmup, training) for group, *given in self._pair(noise, x, u)])

    def train_step(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                   clip_gradients: float = 0, compile_updates: bool = False) -> Terms:
        """Make the updates of one step of each group; returns what `compute_terms` does."""
        return self.join([group.train_step(*given, warmup, clip_gradients, compile_updates)
                           for group, *given in self._pair(noise, x, u)])

    def watch(self, function: Watch, x: Tensor, u: Tensor | None) -> dict[str, Tensor]:
        """Return {name: [S]}, what the function gives for each model."""
        return self.join([group.watch(function, *given) for group, *given in self._pair(x, u)])

    def publish(self) -> None:
        """Bring the models of each group up to date."""
        for group in self.groups:
            group.publish()

    def collect_state(self) -> list[dict[str, Array]]:
        """Return what a checkpoint of each replica holds."""
        return [state for group in self.groups for state in group.collect_state()]

    def collect_weights(self) -> list[dict[str, Array]]:
        """Return the part of `collect_state` that is the models'."""
        return [state for group in self.groups for state in group.collect_weights()]

    def assign(self, states: Sequence[Mapping[str, Array]]) -> None:
        """Set every variable to what `collect_state` gave."""
        remaining = iter(states)
        for group in self.groups:
            group.assign(list(itertools.islice(remaining, len(group.models))))

    def _pair(self, *given: Tensor | None) -> list[tuple[Any, ...]]:
        """Return (group, its rows of each tensor) for every group."""
        return [(group, *rows) for group, rows in zip(self.groups, self.split(given), strict=True)]


@arguments.check_arguments
def stack(models: Sequence[Autoencoder], optimizer: keras.optimizers.Optimizer, seeds: Sequence[arguments.FromZero],
          compiled: bool = False) -> Program:
    """Return the program that trains several models fastest: `Grouped` where that suits, or else `Stacked`.

    Args:
        models: S models that differ in weights and beta alone.
        optimizer: a Keras optimizer that treats every weight alone.
        seeds: S seeds.
        compiled: whether XLA compiles steps.

    Raises:
        InputError: what `Stacked` does not take.
    """
    if (compiled and len(models) >= FEWEST_MODELS and environment.count_processors() >= GROUPS
            and "1" not in devices.find_threads() and not tf.config.list_physical_devices("GPU")
            and not has_convolutions(models[0])
            and (copies := _copy(optimizer, GROUPS - 1))):
        return Grouped(models, [optimizer, *copies], seeds)
    return Stacked(models, optimizer, seeds)


def _copy(optimizer: Optimizer, count: int) -> list[Optimizer]:
    """Return new optimizers with the settings of one that has not trained; none where its settings may not say all."""
    if graphs.is_own(optimizer) and not optimizer.built:
        with contextlib.suppress(Exception):        # of schedules of the user's
            return [type(optimizer).from_config(optimizer.get_config()) for _ in range(count)]
    return []
