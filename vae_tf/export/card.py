"""The card of an export, assets.extra/card.json, which describes model, data and training; all entries are checked.

A card may come from a stranger. It therefore holds data alone, checked entry by entry, and its text is safe to print.
"""

import importlib.metadata
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vae_tf import configuration, files, schemas
from vae_tf.data import Dataset
from vae_tf.errors import InputError, make_printable

if TYPE_CHECKING:
    from vae_tf.models import Autoencoder

EXTRA = pathlib.Path("assets.extra")
CARD = EXTRA / "card.json"
WEIGHTS = EXTRA / "model.weights.h5"

# The number of the format of cards; a card with a higher number comes from a newer vae_tf.
FORMAT = 1
PACKAGES = ("vae_tf", "tensorflow", "tensorflow-probability", "keras", "numpy")

# The fields of a `metrics.Result`.
RESULT = {"name": schemas.TEXT, "score": schemas.NUMBER, "parts": schemas.OBJECT, "meaning": schemas.TEXT}
# The entries of a recipe that say which examples a training was given, and what they are in a card that does not say.
TRAINING = {name: configuration.SCHEMA[name] for name in ("dataset", "data_seed", "split", "data_fingerprint")}
UNKNOWN = {"dataset": "", "data_seed": 0, "split": "grid", "data_fingerprint": ""}


def _is_history(value: Any) -> bool:
    """Return whether a value is an object of results."""
    return isinstance(value, dict) and all(
        schemas.find_mistake(of, RESULT, RESULT) is None and len(of) == len(RESULT) for of in value.values())


def _is_list_of_trainings(value: Any) -> bool:
    """Return whether a value is a list of objects that each say which examples a training was given."""
    return isinstance(value, list) and all(schemas.find_mistake(of, TRAINING, TRAINING) is None for of in value)


def _is_list_of_files(value: Any) -> bool:
    """Return whether a value is an object of checksums by path, all of files inside of the export."""
    return isinstance(value, dict) and all(
        isinstance(digest, str) and not pathlib.PurePosixPath(name).is_absolute()
        and ".." not in pathlib.PurePosixPath(name).parts and not set(name) & set("*?[")     # patterns, for the Hub
        for name, digest in value.items())


def _is_list_of_factors(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and isinstance(each.get("name", ""), str)
                                           for each in value)


# The kind of each entry that a card may have, by dotted name.
ENTRIES: schemas.Schema = {
    "format": schemas.WHOLE, "model": schemas.TEXT, "u_size": schemas.COUNT, "latents": schemas.SIZE,
    "beta": schemas.NUMBER, "likelihood": schemas.TEXT, "likelihood_variance": schemas.or_null(schemas.NUMBER),
    "steps": schemas.COUNT, "data": schemas.OBJECT, "data.name": schemas.TEXT,
    "data.shape": schemas.list_of(schemas.SIZE, "sizes"),
    "data.factors": schemas.Kind("a list of objects, whose names are texts", _is_list_of_factors),
    "recipe": schemas.OBJECT, **{f"recipe.{name}": kind for name, kind in configuration.SCHEMA.items()},
    "prior": schemas.TEXT, "u": schemas.or_null(schemas.OBJECT), "u.names": schemas.list_of(schemas.TEXT, "texts"),
    "u.low": schemas.list_of(schemas.NUMBER, "finite numbers"),
    "u.high": schemas.list_of(schemas.NUMBER, "finite numbers"), "limits": schemas.OBJECT, "limits.rows": schemas.SIZE,
    "limits.jacobian_rows": schemas.SIZE, "weights_sha256": schemas.TEXT, "final_terms": schemas.OBJECT,
    "versions": schemas.OBJECT, "metrics": schemas.OBJECT, "evaluated": schemas.OBJECT,
    "history": schemas.Kind("an object of results", _is_history),
    "trained_before": schemas.Kind("a list of what trainings were given", _is_list_of_trainings),
    "files": schemas.Kind("an object of checksums by path", _is_list_of_files), "checksum": schemas.TEXT,
}
REMEDY = "restore the file, or export the model again"

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
        card = schemas.read_json(file, ENTRIES, (*NEEDED, *also), REMEDY)
    except FileNotFoundError as error:
        raise InputError(f"{file}: it cannot be read ({error.strerror}); {REMEDY}") from None
    if card.get("format", FORMAT) > FORMAT:
        raise InputError(f"{file}: format {card['format']} is of a newer vae_tf, this one reads {FORMAT}; install the "
                         "newer one")
    if not schemas.is_untouched(card):
        raise InputError(f"{file}: its entries are not those that its checksum was made of; {REMEDY}; if the card was "
                         "changed on purpose, delete its entry checksum")
    scale = card.get("u")
    if scale is not None and not (len(scale.get("names", ())) == len(scale.get("low", ())) == len(scale.get("high", ()))
                      == card["u_size"]):
        raise InputError(f"{file}: expected u to have names, low and high of {card['u_size']} factors, as u_size says; "
                         f"{REMEDY}")
    return _escape(card)


def list_trainings(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return which examples the weights of a model were trained on: an entry for each training, its own first.

    An entry has the dataset, data_seed, split and data_fingerprint of a recipe. Its dataset is an empty text if the
    card does not say what the training was given.
    """
    recipe = card["recipe"]
    own = {name: recipe.get(name, unknown) for name, unknown in UNKNOWN.items()}
    before = card.get("trained_before", [UNKNOWN] if recipe.get("init_from") else [])
    return [own, *(each for each in before if each != own)]


def _escape(value: Any) -> Any:
    """Return the value with the control characters of all its text escaped."""
    if isinstance(value, dict):
        return {make_printable(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape(item) for item in value]
    return make_printable(value) if isinstance(value, str) else value


def check_card(card: Mapping[str, Any]) -> None:
    """Raise InputError unless a card that is to be written could be read back."""
    try:
        again = json.loads(json.dumps(card, allow_nan=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"card: expected texts, numbers, lists and dicts alone, as JSON has them; got {error}"
                         ) from None
    if mistake := schemas.find_mistake(again, ENTRIES, NEEDED):
        raise InputError(f"card: {mistake}")


def write_text(card: Mapping[str, Any]) -> str:
    """Return a card as the text of its file, with a checksum of all its entries, which `read_card` checks."""
    card = json.loads(json.dumps(card))         # tuples become lists, as when the file is read
    return json.dumps({**card, "checksum": schemas.compute_checksum(card)}, indent=2)


def describe_model(model: "Autoencoder", dataset: Dataset) -> dict[str, Any]:
    """Return what a card says of a model and of the data that it was trained on, and the versions of the packages."""
    likelihood, before = model.likelihood_layer, model.describe_origin().get("before")
    return {
        "model": model.name_kind(), "beta": float(model.beta), "latents": model.latents, "u_size": model.u_size,
        "likelihood": likelihood.kind,
        "likelihood_variance": None if likelihood.kind == "bernoulli" else likelihood.variance,
        "data": {"name": dataset.name, "shape": dataset.shape, "dtype": "uint8" if dataset.is_image else "float32",
                 "training_examples": len(dataset), "factors": [factor._asdict() for factor in dataset.factors]},
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        **({"trained_before": before} if before else {}),
    }


def describe_terms(card: Mapping[str, Any]) -> str:
    """Return the terms of the objective at the end of the training that a card knows of, in words; empty if of none."""
    terms = {name: card.get("final_terms", {}).get(name) for name in ("reconstruction", "kl")}
    return ", ".join(f"{name} {value:.2f}" for name, value in terms.items() if schemas.NUMBER.holds(value))


def update_card(path: str | pathlib.Path, **more: Any) -> None:
    """Add to the card of exported/NAME/VERSION, or replace what it says of the same."""
    card = {**read_card(path), **more}
    files.write_text(pathlib.Path(path) / CARD, write_text(card))


def describe_scale(dataset: Dataset) -> dict[str, Any] | None:
    """Return how u was made of a dataset's factors, for the card: names, low and high; None if it was not."""
    if dataset.u_range is None:
        return None
    low, high = (np.asarray(end, np.float64).tolist() for end in dataset.u_range)
    return {"names": [make_printable(name) for name in dataset.factors_of_u], "low": low, "high": high}


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
    names = [make_printable(factor) for factor in dataset.factors_of_u]
    if names != scale["names"]:
        raise InputError(f"{argument}: the model's u is made of the factors {', '.join(scale['names'])} in this "
                         f"order; {name} has {', '.join(names)}")
    return dataset.rescale_u(np.array(scale["low"]), np.array(scale["high"]))


def describe_outside(dataset: Dataset, card: Mapping[str, Any]) -> str | None:
    """Return what to say of factors beyond the range of the data of a card's model, or None."""
    scale = card.get("u")
    if not scale or dataset.u_range is None:
        return None
    beyond = [f"{name} from {low:g} to {high:g} (in its data {start:g} to {end:g})" for name, low, high, start, end
              in zip(scale["names"], *dataset.u_range, scale["low"], scale["high"], strict=True)
              if low < start or high > end]
    return (f"{make_printable(dataset.name)} has factors outside of the range of the model's data: "
            f"{', '.join(beyond)}; there u is outside of [0, 1]") if beyond else None
