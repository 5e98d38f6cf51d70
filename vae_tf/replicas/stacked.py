"""The training step of several models: replica i computes what it would compute alone with its seed and its beta."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import arguments, array_names
from vae_tf.errors import InputError, join_names
from vae_tf.models import Autoencoder
from vae_tf.replicas.program import Program, Terms, Watch, build_optimizers
from vae_tf.typing import Array, Tensor

# Optimizers of Keras that look at a whole array of weights at once, at all gradients, or at the names of weights.
MIXING = {"Adafactor", "Lamb", "LossScaleOptimizer", "MultiOptimizer", "Muon"}


class Stacked(Program):
    """S models with the weights of each in row i of stacked variables."""

    @arguments.check_arguments
    def __init__(self, models: Sequence[Autoencoder], optimizer: keras.optimizers.Optimizer,
                 seeds: Sequence[arguments.FromZero]) -> None:
        check_models(models, seeds)
        self.models = list(models)
        self.optimizer = optimizer
        self.seeds = list(seeds)
        columns = zip(*(model.variables for model in models), strict=True)
        self.stacks = [keras.Variable(np.stack([variable.numpy() for variable in column]),
                                      trainable=column[0].trainable) for column in columns]
        of = {id(variable): stack for variable, stack in zip(models[0].variables, self.stacks, strict=True)}
        self.updates = tuple(update._replace(variables=[of[id(variable)] for variable in update.variables])
                             for update in models[0].list_updates(optimizer))
        for update in self.updates:
            _check_optimizer(update.optimizer)
        self.betas = [float(model.beta) for model in models]
        # Convolutions are separate operations in one graph.
        self.map = _map_side_by_side if has_convolutions(models[0]) else tf.vectorized_map
        build_optimizers(self.updates)

    def compute_terms(self, noise: Tensor, x: Tensor, u: Tensor | None, warmup: Tensor | float,
                      training: bool = True) -> Terms:
        """Return the means of the objective's terms {name: [S]}."""
        count = len(self.models)
        x = tf.reshape(x, (count, -1, *x.shape[1:]))
        noise = tf.reshape(noise, (count, -1, noise.shape[1]))
        given = {"x": x, "noise": noise, "beta": warmup * tf.constant(self.betas)}
        if u is not None:
            given["u"] = tf.reshape(u, (count, -1, u.shape[1]))
        terms, statistics = self._map(lambda model, given: model.compute_terms(**given, training=training), given)
        if training:
            for stack, value in zip((stack for stack in self.stacks if not stack.trainable), statistics, strict=True):
                stack.assign(value)
        return {name: tf.reduce_mean(term, 1) for name, term in terms.items()}

    def watch(self, function: Watch, x: Tensor, u: Tensor | None) -> dict[str, Tensor]:
        """Return {name: [S]}, what the function gives for each model."""
        given = {"x": x} if u is None else {"x": x, "u": u}

        def see(model: Autoencoder, given: dict[str, Tensor]) -> dict[str, Tensor]:
            seen = function(model, given["x"], given.get("u"))
            return {name: tf.convert_to_tensor(value) for name, value in seen.items()}

        return self._map(see, given)[0]

    def _map(self, function: Callable[[Autoencoder, Any], Any], given: dict[str, Tensor]) -> tuple[Any, list[Tensor]]:
        """Return function(model, its row of `given`) of every replica, and the values of non-trainable variables."""
        model = self.models[0]

        def one(given: dict[str, Any]) -> tuple[Any, list[Tensor]]:
            values = list(zip(model.variables, given.pop("weights"), strict=True))
            with keras.StatelessScope(state_mapping=values, collect_losses=True) as scope:
                outputs = function(model, given)
            return outputs, [scope.get_current_value(variable) for variable in model.non_trainable_variables]

        return self.map(one, {**given, "weights": [tf.convert_to_tensor(stack) for stack in self.stacks]})

    def clip(self, gradients: Sequence[Tensor], limit: Tensor | float) -> list[Tensor]:
        """Clip the gradients of each replica by a global norm of their own."""
        count = len(self.models)
        rows = tf.concat([tf.reshape(gradient, (count, -1)) for gradient in gradients], 1)
        norm = tf.norm(rows, axis=1)                                                    # [S]
        # A norm that overflows makes weights NaN, as that of `tf.clip_by_global_norm` does, so that training stops.
        scale = tf.where(tf.math.is_finite(norm), limit / tf.maximum(norm, limit), np.nan)
        return [gradient * tf.reshape(scale, (count, *[1] * (len(gradient.shape) - 1))) for gradient in gradients]

    def publish(self) -> None:
        """Copy the rows of the stacks into the models."""
        arrays = [stack.numpy() for stack in self.stacks]
        for i, model in enumerate(self.models):
            for variable, array in zip(model.variables, arrays, strict=True):
                variable.assign(array[i])

    def _collect(self, named: Mapping[str, Any]) -> list[dict[str, Array]]:
        arrays = {name: variable.numpy() for name, variable in named.items()}
        # Variables that are no stacks belong to the optimizer, such as its step count and its learning rate.
        return [{name: array[i] if array.ndim else array for name, array in arrays.items()}
                for i in range(len(self.models))]

    def _assign(self, named: Mapping[str, Any], states: Sequence[Mapping[str, Array]]) -> None:
        for name, variable in named.items():
            variable.assign(np.stack([state[name] for state in states]) if len(variable.shape) else states[0][name])

    def _list_variables(self) -> dict[str, Any]:
        model = self.models[0]
        stacks = {id(variable): stack for variable, stack in zip(model.variables, self.stacks, strict=True)}
        return {name: stacks[id(variable)] for name, variable in array_names.name_model_variables(model).items()}


def check_models(models: Sequence[Autoencoder], seeds: Sequence[int]) -> None:
    """Raise InputError unless models can be trained as one program, and have a seed each."""
    if not 0 < len(models) == len(seeds):
        raise InputError(f"seeds: expected one per model, {len(models)}, and a model at least; got {len(seeds)}")
    kinds = [_describe_kind(model) for model in models]
    for number, kind in enumerate(kinds, 1):
        if other := [name for name in {**kinds[0], **kind} if kind.get(name) != kinds[0].get(name)]:
            raise InputError("models: expected models that differ in weights and beta alone; got model "
                             f"{number} of {len(models)} with other {join_names(other)} than model 1")
    if any(variable.constraint is not None for model in models for variable in model.variables):
        raise InputError("models: expected weights without constraints, which replicas do not keep; got some with "
                         "a constraint; train each model alone")


def has_convolutions(model: Autoencoder) -> bool:
    """Return whether a model has weights of convolutions, for stacks of which TensorFlow has no operation."""
    return any(len(variable.shape) == 4 for variable in model.variables)


def _check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Raise InputError for an optimizer that would not treat each replica as it would alone."""
    clips = next((name for name in ("clipnorm", "global_clipnorm") if getattr(optimizer, name, None)), None)
    if clips:
        raise InputError(f"optimizer: expected none of Keras' {clips}, which would be of all replicas together; got "
                         f"{getattr(optimizer, clips):g}; clip_gradients clips the gradient of each")
    if MIXING & {kind.__name__ for kind in type(optimizer).__mro__}:
        raise InputError("optimizer: expected one that treats every weight alone, as replicas share one; got a "
                         f"{type(optimizer).__name__}; train each model alone")
    if hasattr(optimizer, "_exclude_from_weight_decay"):
        raise InputError("optimizer: expected one that excludes no weights from its decay, as replicas have weights of "
                         "other names; got some excluded; train each model alone")


def _describe_kind(model: Autoencoder) -> dict[str, Any]:
    """Return what models must share to be trained as one, by name."""
    likelihood = model.likelihood_layer
    settings = {name: value for name, value in model.list_settings().items() if name != "beta"}
    return {"class": type(model), "likelihood": likelihood.kind,
            "likelihood variance": None if likelihood.trainable_variables else float(likelihood.log_variance),
            **_leave_out_own(settings), "kinds of layers": _describe_layers(model),
            "shapes of weights": [(tuple(variable.shape), _describe_regularizer(variable.regularizer))
                                  for variable in model.variables]}


def _describe_layers(network: Any) -> tuple[Any, ...]:
    """Return the kind and the settings of each layer, those within networks included."""
    described: list[Any] = []
    for layer in network.layers:
        if isinstance(layer, keras.Model):
            described.append(_describe_layers(layer))
            continue
        try:
            config = layer.get_config()
        except NotImplementedError:         # of a layer of the user's that cannot be saved
            config = {}
        described.append((type(layer), repr(_leave_out_own(config))))
    return tuple(described)


def _leave_out_own(config: Any) -> Any:
    """Return the settings of a model or a layer, and of layers in it, without names and how weights begin."""
    if isinstance(config, list | tuple):
        return [_leave_out_own(each) for each in config]
    if not isinstance(config, dict):
        return config
    return {name: value if name == "dtype" else _leave_out_own(value) for name, value in config.items()
            if name not in ("name", "seed") and not name.endswith("_initializer")}


def _describe_regularizer(regularizer: Any) -> str:
    return f"{type(regularizer).__name__}{vars(regularizer) if regularizer is not None else ''}"


def _map_side_by_side(function: Callable[[Any], Any], given: Any) -> Any:
    """Return what tf.vectorized_map would, for operations that it cannot stack."""
    count = tf.nest.flatten(given)[0].shape[0]
    outputs = [function(tf.nest.map_structure(lambda value, i=i: value[i], given)) for i in range(count)]
    return tf.nest.map_structure(lambda *values: tf.stack(values), *outputs)
