"""The models by name. `register` adds one, from this package or from outside of it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from vae_tf import checks
from vae_tf.errors import InputError
from vae_tf.models.autoencoder import Autoencoder
from vae_tf.options import Option

MODELS: dict[str, type[Autoencoder]] = {}

Kind = TypeVar("Kind", bound=type[Autoencoder])


def register(name: str) -> Callable[[Kind], Kind]:
    """A decorator that adds a class to MODELS; --model, its options' flags and `build` then know it by this name.

    Raises:
        InputError: another class has the name, or an option of the class is another model's with other properties;
            or what is registered is no name, no Autoencoder or has options that are none.
    """
    if not isinstance(name, str):
        raise InputError(f"model: expected a name, as in @models.register('mine'); got {checks.describe(name)}")

    def add(kind: Kind) -> Kind:
        if not isinstance(kind, type) or not issubclass(kind, Autoencoder):
            raise InputError(f"model: expected a subclass of models.Autoencoder for {name}; "
                             f"got {checks.describe(kind)}")
        if not isinstance(kind.options, tuple | list) or not all(isinstance(option, Option) for option in kind.options):
            raise InputError(f"options: expected a tuple of models.Option for {name}, such as (models.Option(...),); "
                             f"got {checks.describe(kind.options)}")
        there = MODELS.get(name)
        if there is not None and (there.__module__, there.__qualname__) != (kind.__module__, kind.__qualname__):
            raise InputError(f"model: {name!r} is taken by {there.__module__}.{there.__qualname__}; expected a name of "
                             f"its own for {kind.__module__}.{kind.__qualname__}")
        known = list_options()
        for option in kind.options:
            if there is None and known.get(option.name, option) != option:
                raise InputError(f"model: the option {option.name!r} of {name} is another model's with other "
                                 "properties; expected a name of its own, or the same option")
        kind.key = name
        MODELS[name] = kind
        return kind

    return add


def find(name: str) -> type[Autoencoder]:
    """Return the class of a model by its name.

    Raises:
        InputError: there is no such model; the line names those that there are.
    """
    return MODELS[checks.check_choice("model", name, MODELS)]


class Unregistered(Autoencoder):
    """Stands for an exported model whose kind is not registered here."""

    default_beta = 1.0


def find_declared(card: Mapping) -> type[Autoencoder]:
    """Return the class of the model of an export's card; `Unregistered` if no class of its name is registered here."""
    return MODELS.get(card["model"], Unregistered)


def list_options() -> dict[str, Option]:
    """Return the options of all models, by name."""
    return {option.name: option for kind in MODELS.values() for option in kind.options}


def list_models_with_beta() -> list[str]:
    """Return the names of the models that take beta."""
    return [name for name, kind in MODELS.items() if kind.default_beta is not None]
