"""Names of a program's arrays in a checkpoint: by network, layer and weight, whatever else was made in the process.

Keras' own names count up with every layer that is made: the first dense layer of a second model may be `dense_7`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from vae_tf.typing import Optimizer


def name_model_variables(model: keras.Model) -> dict[str, Any]:
    """Return a model's variables by name, such as `encoder/dense_1/kernel` for the encoder's second dense layer."""
    named: dict[str, Any] = {}
    owners = {id(value): attribute for attribute, value in vars(model).items() if isinstance(value, keras.layers.Layer)}
    for network in model.layers:
        owner = owners.get(id(network), _name_kind(network))
        for place, layer in _list_layers(network):
            for variable in layer.variables:
                _add(named, "/".join(filter(None, (owner, place, variable.name))), variable)
    known = {id(variable) for variable in named.values()}
    for variable in model.variables:                # layers that the model has beside its networks
        if id(variable) not in known:
            _add(named, variable.name, variable)
    return named


def name_optimizer_variables(name: str, optimizer: Optimizer, references: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a built optimizer by name, such as `optimizer/encoder/dense_1/kernel/momentum`.

    Args:
        name: the name of the optimizer.
        optimizer: a Keras optimizer.
        references: the variables that it updates, by name.
    """
    named: dict[str, Any] = {}
    # Keras names the optimizer's state of a variable by the variable's path, with _ for /, and a word after it.
    # Among the paths are those that begin like others, such as variable and variable_1: the longest that fits is meant.
    prefixes = sorted(((f"{variable.path.replace('/', '_')}_", reference) for reference, variable
                       in references.items()), key=lambda pair: -len(pair[0]))
    for variable in optimizer.variables:
        nameless = re.fullmatch(r"variable(_\d+)?", variable.name)      # Keras numbers those that it has no name for
        candidates = [] if nameless else [f"{name}/{reference}/{variable.name.removeprefix(prefix)}"
                                          for prefix, reference in prefixes if variable.name.startswith(prefix)]
        free = [candidate for candidate in candidates if candidate not in named]
        _add(named, next(iter(free), f"{name}/{'variable' if nameless else variable.name}"), variable)
    return named


def _list_layers(network: Any) -> Iterator[tuple[str, Any]]:
    """Yield a network's layers that have variables, and their places, such as dense and dense_1."""
    if not isinstance(network, keras.Model):
        yield "", network
        return
    counts: Counter[str] = Counter()
    layers: Iterable[Any] = network.layers
    for layer in layers:
        if layer.variables:
            kind = _name_kind(layer)
            yield f"{kind}_{counts[kind]}" if counts[kind] else kind, layer
            counts[kind] += 1


def _name_kind(layer: Any) -> str:
    """Return a layer's kind as Keras writes it in names: Conv2DTranspose is conv2d_transpose."""
    words = re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z][a-z])", r"_\1\2", type(layer).__name__)
    return words.lower().replace("conv_2d", "conv2d").replace("conv2_d", "conv2d")


def _add(named: dict[str, Any], name: str, variable: Any) -> None:
    """Add a variable, by a name with a number after it if there is one of that name."""
    count = 1
    unique = name
    while unique in named:
        unique, count = f"{name}_{count}", count + 1
    named[unique] = variable
