"""The card of an export, assets.extra/card.json, which describes model, data and training; all entries are checked.

A card may come from a stranger. It therefore holds data alone, checked entry by entry, and its text is safe to print.
"""

import json
import numbers
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.data import Dataset
from vae_tf.errors import InputError, make_printable

EXTRA = pathlib.Path("assets.extra")
CARD = EXTRA / "card.json"
WEIGHTS = EXTRA / "model.weights.h5"

# The number of the format of cards; a card with a higher number comes from a newer vae_tf.
FORMAT = 1

# The types that entries must have, {dotted name: type}, and what a type is called in an error.
ENTRIES = {
    "format": int, "model": str, "u_size": int, "latents": int, "beta": numbers.Real, "likelihood": str, "steps": int,
    "data": dict, "data.name": str, "data.shape": list, "data.factors": list, "recipe": dict, "recipe.dataset": str,
    "recipe.data_seed": int, "recipe.split": str, "recipe.network": str, "u": dict, "u.names": list, "u.low": list,
    "u.high": list, "limits": dict, "limits.rows": int, "limits.jacobian_rows": int,
    "weights_sha256": str, "history": dict,
}
CALLED = {str: "text", int: "a whole number", numbers.Real: "a number", dict: "an object", list: "a list"}
MAY_BE_NULL = ("u",)

# The entries that serving and analysis in Python need, and those that scoring and more training need besides.
NEEDED = ("model", "u_size")
SCORED = ("latents", "beta", "likelihood", "steps", "data.name", "data.shape", "recipe.network")
TRAINED_FURTHER = ("data.shape", "recipe.model", "recipe.network", "recipe.latents", "recipe.likelihood")


def read_card(path: str | pathlib.Path, also: Iterable[str] = ()) -> dict[str, Any]:
    """Return what exported/NAME/VERSION says of itself, a dict; control characters of its text are escaped.

    Args:
        path: the version.
        also: dotted names of entries that must be there besides those that every card has.

    Raises:
        InputError: there is no card, or it is damaged; the line names the file, the entry and the remedy.
    """
    file = pathlib.Path(path) / CARD
    try:
        card = json.loads(file.read_text())
        wrong = _find_mistake(card, (*NEEDED, *also))
    except (OSError, ValueError, RecursionError) as error:        # errors of JSON and Unicode are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else f"not JSON: {error}"
        wrong = f"it cannot be read ({reason})"
    if wrong:
        raise InputError(f"{file}: {wrong}; restore the file, or export the model again with train.py")
    return _escape(card)


def _find_mistake(card: Any, needed: Iterable[str]) -> str | None:
    """Return what is wrong with a card, or None."""
    if not isinstance(card, dict):
        return f"expected a JSON object; got {CALLED.get(type(card), type(card).__name__)}"
    absent = object()
    for name in dict.fromkeys((*needed, *ENTRIES)):
        value, kind = card, ENTRIES.get(name)
        for part in name.split("."):
            value = value.get(part, absent) if isinstance(value, dict) else absent
        if value is absent:
            if name in needed:
                return f"expected an entry {name}; got none"
        elif kind and not (isinstance(value, kind) and not isinstance(value, bool)) and not (
                value is None and name in MAY_BE_NULL):
            return f"expected {name} to be {CALLED[kind]}; got {json.dumps(value)[:60]}"
    if card.get("format", FORMAT) > FORMAT:
        return f"format {card['format']} is of a newer vae_tf, this one reads {FORMAT}; install the newer one"
    scale = card.get("u")
    if scale and not (len(scale.get("names", ())) == len(scale.get("low", ())) == len(scale.get("high", ()))
                      == card["u_size"]):
        return f"expected u to have names, low and high of {card['u_size']} factors, as u_size says"
    return None


def _escape(value: Any) -> Any:
    """Return the value with the control characters of all its text escaped."""
    if isinstance(value, dict):
        return {make_printable(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape(item) for item in value]
    return make_printable(value) if isinstance(value, str) else value


def update_card(path: str | pathlib.Path, **more: Any) -> None:
    """Add to the card of exported/NAME/VERSION, or replace what it says of the same."""
    card = {**read_card(path), **more}
    files.write_text(pathlib.Path(path) / CARD, json.dumps(card, indent=2))


def describe_scale(dataset: Dataset) -> dict[str, Any] | None:
    """Return how u was made of a dataset's factors, for the card: names, low and high; None if it was not."""
    if dataset.u_range is None:
        return None
    low, high = (np.asarray(end, np.float64).tolist() for end in dataset.u_range)
    return {"names": [make_printable(name) for name in dataset.factor_names], "low": low, "high": high}


def scale_as_trained(dataset: Dataset, card: Mapping[str, Any], argument: str = "dataset") -> Dataset:
    """Return the dataset with u on the scale that the model of a card was trained with.

    Without that, the same factors would be another u wherever the range of a file's factors is another. u that is the
    data's own, rather than made of factors, stays as it is.

    Args:
        dataset: gives the factors.
        card: the card of an export.
        argument: what named the dataset, for the error.

    Raises:
        InputError: the model's u cannot be made of this dataset's factors.
    """
    if not card["u_size"] or dataset.u_range is None or "u" not in card:      # a card without u does not tell the scale
        return dataset
    scale, name = card["u"], make_printable(dataset.name)
    if scale is None:
        raise InputError(f"{argument}: the model was trained on u of the data's own; {name} has factors alone; give it "
                         "an array u of the same meaning")
    names = [make_printable(factor) for factor in dataset.factor_names]
    if names != scale["names"]:
        raise InputError(f"{argument}: the model's u is made of the factors {', '.join(scale['names'])} in this "
                         f"order; {name} has {', '.join(names)}")
    return dataset.rescale_u(np.array(scale["low"]), np.array(scale["high"]))


def describe_outside(dataset: Dataset, card: Mapping[str, Any]) -> str | None:
    """Return what to say of factors beyond the range that the model of a card was trained on, or None."""
    scale = card.get("u")
    if not scale or dataset.u_range is None:
        return None
    beyond = [f"{name} from {low:g} to {high:g} (in training {start:g} to {end:g})" for name, low, high, start, end
              in zip(scale["names"], *dataset.u_range, scale["low"], scale["high"], strict=True)
              if low < start or high > end]
    return (f"{make_printable(dataset.name)} has factors outside of the range that the model was trained on: "
            f"{', '.join(beyond)}; there u is outside of [0, 1]") if beyond else None
