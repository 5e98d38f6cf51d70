"""The Keras weights beside a SavedModel, with which training can go on."""

import hashlib
import pathlib

import numpy as np

from vae_tf.configuration import Configuration
from vae_tf.data import Dataset
from vae_tf.errors import InputError
from vae_tf.export.card import TRAINED_FURTHER, WEIGHTS, list_trainings, read_card
from vae_tf.export.checksums import check_files
from vae_tf.models import Autoencoder

# The entries of a recipe that fix the weights' shapes and meaning; all others may change from run to run.
ARCHITECTURE = ("model", "network", "latents", "likelihood")


def compute_checksum(model: Autoencoder) -> str:
    """Return the SHA-256 of a model's weights, their shapes and types, as hexadecimal digits."""
    digest = hashlib.sha256()
    for variable in model.variables:
        array = np.ascontiguousarray(variable)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def load_weights(model: Autoencoder, path: str | pathlib.Path, config: Configuration, dataset: Dataset) -> None:
    """Set a freshly built model's weights to those of exported/NAME/VERSION, and record what these were trained on.

    Args:
        model: gets the weights.
        path: the version.
        config: the configuration that the model was built from.
        dataset: what it is going to be trained on.

    Raises:
        InputError: the export is of another kind of model, naming what differs, or has no weights beside it.
    """
    path, card = pathlib.Path(path), read_card(path, TRAINED_FURTHER)
    architecture = (*ARCHITECTURE, *(option.name for option in model.options if option.shapes_weights))
    there = {**{f"--{name}": card["recipe"].get(name) for name in architecture},
             "shape of an example": tuple(card["data"]["shape"]), "size of u": card["u_size"]}
    entries = config.as_json()
    here = {**{f"--{name}": entries[name] for name in architecture},
            "shape of an example": dataset.shape, "size of u": model.u_size}
    differ = [f"{name}: {there[name]} there, {here[name]} now" for name in here if there[name] != here[name]]
    if differ:
        raise InputError(f"init_from: expected an export of the same kind of model; {path} differs "
                         f"({'; '.join(differ)})")
    if not (path / WEIGHTS).exists():
        raise InputError(f"init_from: expected an export with its Keras weights; {path} has no {WEIGHTS}")
    try:
        check_files(path, card)
    except InputError as error:
        raise InputError(f"init_from: {error}") from None
    try:
        model.load_weights(path / WEIGHTS)
    except Exception as error:      # a damaged file may make h5py and Keras raise anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"init_from: {path / WEIGHTS} is damaged ({reason}); name another version") from None
    model.note_origin(before=list_trainings(card))
