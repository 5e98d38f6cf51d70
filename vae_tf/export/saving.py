"""Write an export, exported/NAME/VERSION/, whole or not at all, unless the same model is there already."""

import errno
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import arguments, files
from vae_tf.arguments import PathLike
from vae_tf.data import Dataset
from vae_tf.data.described import has_dark
from vae_tf.errors import InputError
from vae_tf.export.card import CARD, EXTRA, FORMAT, WEIGHTS, check_card, describe_scale, read_card, write_text
from vae_tf.export.checksums import check_files, compute_checksums
from vae_tf.export.functions import Functions
from vae_tf.export.limits import compute_limits
from vae_tf.export.priors import describe_prior
from vae_tf.export.signatures import make_signatures
from vae_tf.export.versions import claim_version, list_versions, make_folder, prune
from vae_tf.export.warmup import WARMUP, write_warmup
from vae_tf.export.weights import compute_checksum
from vae_tf.models import Autoencoder

OF_THE_RUN = ("final_terms", "history")     # entries of a card that depend on what is left of the run, not on the model


@arguments.check_arguments
def save(folder: PathLike, model: Autoencoder, dataset: Dataset, card: Mapping[str, Any],
         keep: arguments.FromZero | None = None, accept_dark: bool | None = None) -> pathlib.Path:
    """Write the next version of `folder`; returns its path, exported/NAME/VERSION.

    Args:
        folder: exported/NAME.
        model: a trained or untrained model.
        dataset: what it was trained on, for the input's shape and dtype, and the scale of its factors.
        card: a dict that describes model, data and recipe, kept in assets.extra/card.json with what the export itself
            adds: the kind of prior, limits of a request, the scale of u, a checksum of the weights and of each file.
        keep: how many versions to leave of this one and those before it; None leaves all.
        accept_dark: whether to take batches of images of which no pixel is above 1; None refuses them, unless some
            training image is as dark.

    Raises:
        InputError: data that the model does not take, weights that are NaN or infinite, or a card that could not be
            read back. Nothing is written.
        OSError: the folder cannot be written, or the disk is full. Nothing is left there.
    """
    folder = pathlib.Path(folder)
    shape = tuple(model.encoder.inputs[0].shape[1:])
    if (accept_dark is None and not len(dataset)) or tuple(dataset.shape) != shape:
        raise InputError(f"dataset: expected examples of shape {shape}, as the model takes them; got {len(dataset):,} "
                         f"of shape {dataset.shape}")
    if model.u_size and dataset.u_size not in (0, model.u_size):
        raise InputError(f"dataset: expected u of size {model.u_size}, as the model takes it; got {dataset.name} with "
                         f"u of size {dataset.u_size}")
    accept_dark = not dataset.is_image or (has_dark(dataset) if accept_dark is None else accept_dark)
    functions, limits = Functions(model, dataset, not accept_dark), compute_limits(model)
    named = make_signatures(functions, limits)
    whole_card = {"format": FORMAT, **card, "prior": describe_prior(model), "limits": limits,
                  "refuses_dark_batches": not accept_dark, "u": describe_scale(dataset) if model.u_size else None,
                  "weights_sha256": compute_checksum(model)}
    check_card(whole_card)
    for variable in model.weights:
        if not np.isfinite(np.asarray(variable, np.float64)).all():
            raise InputError(f"model: expected finite weights; got NaN or infinity in {variable.path}")
    with make_folder(folder), files.write_folder_aside(folder) as aside:
        try:
            _write_saved_model(aside, functions, named)
            (aside / EXTRA).mkdir()
            model.save_weights(aside / WEIGHTS)
            write_warmup(aside / WARMUP, folder.name, named, dataset)
            whole_card["files"] = compute_checksums(aside)
            (aside / CARD).write_text(write_text(whole_card))
            aside.chmod(0o755)
            path = claim_version(folder, aside)
        except (OSError, RuntimeError, tf.errors.OpError) as error:      # h5py and TensorFlow raise errors of their own
            reason = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
            raise OSError(getattr(error, "errno", None) or errno.EIO,
                          f"{folder}: the model could not be exported ({reason}); nothing was left there") from error
    if keep:
        prune(path, keep)
    return path


def _write_saved_model(folder: pathlib.Path, functions: Functions, signatures: Mapping[str, Any]) -> None:
    """Write a SavedModel; where TensorFlow finds that functions read variables that nothing holds, once more."""
    try:
        tf.saved_model.save(functions, str(folder), signatures=signatures)
    except (AssertionError, KeyError):      # of a nested function, and of one of `functions`
        functions.hold_what_is_read()       # which traces again, and is not done for models of Keras variables alone
        tf.saved_model.save(functions, str(folder), signatures=signatures)


def find_existing(folder: PathLike, model: Autoencoder, card: Mapping[str, Any], accept_dark: bool = False,
                  dataset: Dataset | None = None) -> pathlib.Path | None:
    """Return the newest version of exported/NAME if it is this model already, so that a server need not load it again.

    It is this model if it has the same weights, its card agrees on model, data and training, and it takes dark batches
    exactly if an export that is made now would: with `accept_dark`, or if the dataset has dark images. Without a
    dataset, it may take them in any case. Otherwise the result is None.
    """
    versions = (version for version in list_versions(folder) if (pathlib.Path(folder) / str(version)).is_dir())
    newest_version = max(versions, default=None)
    if newest_version is None:
        return None
    path = pathlib.Path(folder) / str(newest_version)
    try:
        there = read_card(path)
        check_files(path, there)
    except InputError:      # the version is damaged: a whole one takes its place
        return None
    same = there.get("weights_sha256") == compute_checksum(model) and all(
        there.get(name) == value for name, value in json.loads(json.dumps(card)).items() if name not in OF_THE_RUN)
    if not same or (accept_dark and there.get("refuses_dark_batches")):
        return None
    needlessly = (dataset is not None and dataset.is_image and not accept_dark
                  and there.get("refuses_dark_batches") is False and not has_dark(dataset))
    return None if needlessly else path
