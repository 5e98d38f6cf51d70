"""The training step of one model, and what it has in common with that of several."""

import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import arguments, array_names, devices, distributions
from vae_tf.errors import InputError
from vae_tf.models import Autoencoder, Update
from vae_tf.typing import Array, Optimizer, Tensor

Terms = dict[str, Tensor]
Watch = Callable[[Any, Tensor, Tensor | None], Mapping[str, Any]]
# Names in a state: of what an optimizer has, of its array for a variable, and of a learning rate, which an optimizer
# with a schedule has not.
OWN, MOMENT, RATE = (re.compile(rf"optimizer(?:_\d+)?/{rest}") for rest in
                     (".+", "(.+)/[^/]+", r"learning_rate(?:_\d+)?"))


class Program:
    """The base class of `Single`, `Stacked` and `Grouped`, whose training step makes the updates of all its models.

    Attributes:
        models: S models.
        seeds: S seeds for the order of examples and the noise.
        optimizer: the optimizer that the user chose, which callbacks see.
        updates: the updates of each step, see models.Update, with the program's own variables.
    """

    models: list[Autoencoder]
    seeds: list[int]
    optimizer: Optimizer
    updates: tuple[Update, ...]

    @property
    def groups(self) -> list["Program"]:
        """Programs of groups of the models that share no variable, in the models' order: by default one for all."""
        return [self]

    def split(self, tensors: Any, axis: int = 0) -> list[Any]:
        """Return each group's part of tensors that have as many rows for every model, in a structure such as a dict.

        Args:
            tensors: the tensors; None stays None.
            axis: the axis of the rows, which hold the models one after another.
        """
        counts = [len(group.models) for group in self.groups]

        def split_one(each: Tensor | None) -> Sequence[Any]:
            if each is None or len(counts) == 1:
                return [each] * len(counts)
            rows = (each.shape[axis] or tf.shape(each)[axis]) // sum(counts)
            return tf.split(each, [count * rows for count in counts], axis)

        parts = zip(*map(split_one, tf.nest.flatten(tensors)), strict=True)
        return [tf.nest.pack_sequence_as(tensors, part) for part in parts]

    @staticmethod
    def join(terms: Sequence[Terms]) -> Terms:
        """Return the terms of all models {name: [S, ...]} from those of each group."""
        return {name: tf.concat([of_group[name] for of_group in terms], 0) for name in terms[0]}

    def draw_noise(self, step: Tensor, x: Tensor, training: bool = True) -> Tensor:
        """Return the noise of a step's batches, as Keras' loops draw it in training and in evaluation.

        Args:
            step: number of the step, from 0.
            x: [S B, ...], the batches of one replica after another.
            training: whether the noise is for training; evaluation has another one.

        Returns:
            [S B, noise_size], as the rows of x.
        """
        examples = (x.shape[0] or tf.shape(x)[0]) // len(self.models)
        return tf.concat([distributions.draw_noise(_derive_seed(seed if training else -1 - seed, step), examples,
                                                   self.models[0].noise_size) for seed in self.seeds], 0)

    def compute_terms(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                      training: bool = True) -> Terms:
        """Return the means of the objective's terms {name: [S]} over this device's examples.

        Args:
            noise: [S B, noise_size], see `draw_noise`.
            x: [S B, ...], the batches of one replica after another.
            u: [S B, |u|], or None.
            warmup: 0 to 1, which scales beta.
            training: whether layers behave as in training.
        """
        raise NotImplementedError

    def clip(self, gradients: Sequence[Tensor], limit: Tensor | float) -> list[Tensor]:
        """Return the gradients; a replica's are scaled down to the limit if their global norm is above it."""
        raise NotImplementedError

    def train_step(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                   clip_gradients: float = 0, compile_updates: bool = False) -> Terms:
        """Make the updates of one step, all from gradients at the same weights; returns what `compute_terms` does.

        Args:
            noise, x, u, warmup: the arguments of `compute_terms`.
            clip_gradients: the largest norm of each update's gradient, see `clip`; 0 for any.
            compile_updates: whether XLA compiles what the optimizers do with the gradients.
        """
        with tf.GradientTape(persistent=len(self.updates) > 1) as tape:
            terms = self.compute_terms(noise, x, u, warmup)
            losses = [update.optimizer.scale_loss(tf.reduce_sum(update.find_loss(terms)) / _count_devices())
                      for update in self.updates]
        gradients = [tape.gradient(loss, update.variables) for loss, update in zip(losses, self.updates, strict=True)]
        for gradient, (_, variables, optimizer) in zip(gradients, self.updates, strict=True):
            gradient = devices.change_known(
                functools.partial(self._share, optimizer=optimizer, limit=clip_gradients), gradient)
            # Keras sums the gradients of all devices.
            apply = functools.partial(_apply, optimizer, variables)
            (tf.function(apply, autograph=False, jit_compile=True) if compile_updates else apply)(gradient)
        return terms

    def _share(self, gradients: Sequence[Tensor], optimizer: Optimizer, limit: float) -> list[Tensor]:
        """Return gradients whose sum over all devices has this norm at most; 0 for any."""
        if not limit:
            return devices.share_scaled_gradients(gradients, optimizer)
        if tf.distribute.has_strategy():      # the gradient of the whole batch is clipped
            total = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
            gradients = [gradient / _count_devices() for gradient in total]
        # The optimizer undoes the loss scale; the sum over all devices undoes the division.
        return self.clip(gradients, optimizer.scale_loss(limit / _count_devices()))

    def watch(self, function: Watch, x: Tensor, u: Tensor | None) -> dict[str, Tensor]:
        """Return {name: [S, ...]}, what `function(model, x, u)` gives for each model on examples of its own.

        Args:
            function: gives tensors by name, such as scalars; it is called inside a graph.
            x: [S, B, ...].
            u: [S, B, |u|], or None.
        """
        raise NotImplementedError

    def average_weights(self) -> None:
        """Put the averages of weights in their place, for optimizers that keep some (Keras' `use_ema`)."""
        for _, variables, optimizer in self.updates:
            optimizer.finalize_variable_values(variables)

    def publish(self) -> None:
        """Bring the models up to date."""

    def collect_state(self) -> list[dict[str, Array]]:
        """Return what a checkpoint of each replica holds: every variable by its name, see array_names."""
        return self._collect(self._name_variables())

    def collect_weights(self) -> list[dict[str, Array]]:
        """Return the part of `collect_state` that is the models'."""
        return self._collect(self._list_variables())

    def assign_weights(self, states: Mapping[int, Mapping[str, Array]]) -> None:
        """Set the models of some replicas, {number: state}, to what `collect_weights` gave; call `publish` before."""
        for i, state in states.items():
            for name, variable in array_names.name_model_variables(self.models[i]).items():
                variable.assign(state[name])

    def _collect(self, named: Mapping[str, Any]) -> list[dict[str, Array]]:
        """Return the values of variables, by the names that are given, for each replica."""
        raise NotImplementedError

    def assign(self, states: Sequence[Mapping[str, Array]]) -> None:
        """Set every variable to what `collect_state` gave.

        Raises:
            InputError: a state lacks an array, as checkpoints of an older vae_tf do, has one of another shape, or has
                arrays of another optimizer for what is trained.
        """
        trained = self._list_trained()
        for now, state in zip(self.collect_state(), states, strict=True):
            for name, array in now.items():
                got = np.asarray(state[name]) if name in state else None
                if got is None or (got.shape, got.dtype) != (array.shape, array.dtype):
                    described = "none" if got is None else f"{got.dtype} of shape {got.shape}"
                    raise InputError(f"checkpoint: expected an array {name} of {array.dtype} of shape {array.shape}; "
                                     f"got {described}: another version of vae_tf or of Keras, or another model or "
                                     "optimizer wrote it; --restart starts over in a new folder")
            foreign = next((name for name in state if name not in now and OWN.fullmatch(name)
                            and not RATE.fullmatch(name) and _find_variable(name) in (None, *trained)), None)
            if foreign:
                raise InputError(f"optimizer: expected that of the checkpoint, which holds an array {foreign}; got "
                                 f"{type(self.optimizer).__name__}, which has none; train in another folder")
            for name in filter(RATE.fullmatch, now):
                if now[name] != state[name]:
                    warnings.warn(f"learning_rate: the run goes on with that of its checkpoint, {state[name]:g}, "
                                  f"instead of {now[name]:g}; a callback can set another one", stacklevel=2)
        self._assign(self._name_variables(), states)

    def _assign(self, named: Mapping[str, Any], states: Sequence[Mapping[str, Array]]) -> None:
        raise NotImplementedError

    def _list_variables(self) -> dict[str, Any]:
        """Return the program's own variables of its models, by name."""
        raise NotImplementedError

    def _list_trained(self) -> set[str]:
        """Return the names of the models' variables that the updates move."""
        moved = {id(variable) for update in self.updates for variable in update.variables}
        return {name for name, variable in self._list_variables().items() if id(variable) in moved}

    def _name_variables(self) -> dict[str, Any]:
        """Return all variables of the models and of the updates' optimizers by name."""
        weights = self._list_variables()
        names = {id(variable): name for name, variable in weights.items()}
        named = dict(weights)
        for i, update in enumerate(self.updates):
            references = {names[id(variable)]: variable for variable in update.variables}
            owner = f"optimizer_{i}" if i else "optimizer"
            named.update(array_names.name_optimizer_variables(owner, update.optimizer, references))
        return named


class Single(Program):
    """One model, on one device or on the share of a batch of one of several."""

    @arguments.check_arguments
    def __init__(self, model: Autoencoder, optimizer: keras.optimizers.Optimizer, seed: arguments.FromZero) -> None:
        self.models = [model]
        self.optimizer = optimizer
        self.seeds = [seed]
        self.updates = model.list_updates(optimizer)
        build_optimizers(self.updates)

    def compute_terms(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                      training: bool = True) -> Terms:
        """Return the means of the objective's terms {name: [1]}."""
        model, = self.models
        terms = model.compute_terms(x, u, noise=noise, beta=warmup * model.beta, training=training)
        return {name: tf.reduce_mean(term)[tf.newaxis] for name, term in terms.items()}

    def watch(self, function: Watch, x: Tensor, u: Tensor | None) -> dict[str, Tensor]:
        """Return {name: [1]}, what the function gives for the only model."""
        seen = function(self.models[0], x[0], None if u is None else u[0])
        return {name: tf.convert_to_tensor(value)[tf.newaxis] for name, value in seen.items()}

    def clip(self, gradients: Sequence[Tensor], limit: Tensor | float) -> list[Tensor]:
        """Clip all gradients by one global norm."""
        return tf.clip_by_global_norm(gradients, limit)[0]

    def _collect(self, named: Mapping[str, Any]) -> list[dict[str, Array]]:
        return [{name: variable.numpy() for name, variable in named.items()}]

    def _assign(self, named: Mapping[str, Any], states: Sequence[Mapping[str, Array]]) -> None:
        for name, variable in named.items():
            variable.assign(states[0][name])

    def _list_variables(self) -> dict[str, Any]:
        return array_names.name_model_variables(self.models[0])


def _find_variable(name: str) -> str | None:
    """Return the variable of which an array of an optimizer is, by its name in a state; None if it is of none."""
    found = MOMENT.fullmatch(name)
    return found and found[1]


def build_optimizers(updates: Sequence[Update]) -> None:
    """Make the variables of every update's optimizer.

    Raises:
        InputError: two updates share an optimizer, whose state would then be of both; nothing can be trained; or an
            optimizer has trained other weights, or has settings that several devices would not keep.
    """
    if not updates:
        raise InputError("trainable: expected some layers that can be trained; got a model that is all frozen")
    if len({id(update.optimizer) for update in updates}) < len(updates):
        raise InputError("updates: expected an optimizer of its own for each update; got one for several")
    for update in updates:
        devices.check_optimizer(update.optimizer)
        known = {id(variable) for variable in update.optimizer._trainable_variables}
        if not update.optimizer.built:      # a LossScaleOptimizer would make its variables again
            update.optimizer.build(update.variables)
            devices.check_optimizer(update.optimizer)       # a MultiOptimizer may know its parts only now
        elif any(id(variable) not in known for variable in update.variables):
            raise InputError("optimizer: expected one that has trained no other weights, whose state it holds; got "
                             f"{type(update.optimizer).__name__} that has; make one for each training")


def _apply(optimizer: Optimizer, variables: Sequence[Any], gradients: Sequence[Tensor]) -> None:
    optimizer.apply_gradients(zip(gradients, variables, strict=True))


def _count_devices() -> int:
    """Return how many devices share a batch."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def _derive_seed(seed: int, step: Tensor) -> Tensor:
    return tf.stack([seed, tf.cast(step, tf.int32)])
