"""Write, find and prune the folders of versions, exported/NAME/VERSION/, which are written whole or not at all."""

import contextlib
import errno
import json
import os
import pathlib
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from vae_tf import arguments, console, files
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
from vae_tf.export.warmup import WARMUP, write_warmup
from vae_tf.export.weights import compute_checksum
from vae_tf.models import Autoencoder

PARTS = (pathlib.Path("saved_model.pb"), CARD)      # what each version has


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
        InputError: data that the model does not take, or a card that could not be read back. Nothing is written.
        OSError: the folder cannot be written, or the disk is full. Nothing is left there.
    """
    folder = pathlib.Path(folder)
    shape = tuple(model.encoder.inputs[0].shape[1:])
    if (accept_dark is None and not len(dataset)) or tuple(dataset.shape) != shape:
        raise InputError(f"dataset: expected examples of shape {shape}, as the model takes them; got {len(dataset):,} "
                         f"of shape {dataset.shape}")
    accept_dark = not dataset.is_image or (has_dark(dataset) if accept_dark is None else accept_dark)
    functions, limits = Functions(model, dataset, not accept_dark), compute_limits(model)
    named = make_signatures(functions, limits)
    whole_card = {"format": FORMAT, **card, "prior": describe_prior(model), "limits": limits,
                  "refuses_dark_batches": not accept_dark, "u": describe_scale(dataset) if model.u_size else None,
                  "weights_sha256": compute_checksum(model)}
    check_card(whole_card)
    with make_folder(folder), files.write_folder_aside(folder) as aside:
        try:
            tf.saved_model.save(functions, str(aside), signatures=named)
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
        _prune(path, keep)
    return path


@contextlib.contextmanager
def make_folder(folder: pathlib.Path) -> Iterator[None]:
    """Make a folder where there is none; in the end what was made is removed again if nothing is in it."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):      # it is not empty
                path.rmdir()


def _prune(newest: pathlib.Path, keep: int) -> None:
    """Delete old versions, so that this many are left, the newest included; what cannot be deleted is left."""
    older = (version for version in list_versions(newest.parent) if version < int(newest.name))
    paths = [newest.with_name(str(version)) for version in sorted(older, reverse=True)]
    for path in [path for path in paths if path.is_dir() and not path.is_symlink()][keep - 1:]:
        try:
            files.remove_folder(path)
        except OSError as error:
            warnings.warn(f"{path} could not be deleted ({error.strerror}); more versions than {keep} are left",
                          stacklevel=2)


def find_existing(folder: PathLike, model: Autoencoder, card: Mapping[str, Any]) -> pathlib.Path | None:
    """Return the newest version of exported/NAME if it is this model already, so that a server need not load it again.

    It is this model if it has the same weights and its card agrees on model, data and training. Otherwise the result
    is None.
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
        there.get(name) == value for name, value in json.loads(json.dumps(card)).items() if name != "final_terms")
    return path if same else None


def claim_version(folder: pathlib.Path, aside: pathlib.Path) -> pathlib.Path:
    """Rename `aside` to the next free version; returns its path."""
    while True:
        path = folder / str(max(list_versions(folder), default=0) + 1)
        try:
            os.rename(aside, path)
            return path
        except OSError:
            if not os.path.lexists(path):    # otherwise another process took that number: try the next
                raise


def list_versions(folder: PathLike) -> list[int]:
    """Return the version numbers in exported/NAME, in no order; whatever else has such a name counts, too."""
    try:
        return [int(name) for name in os.listdir(folder) if _is_version(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_version(name: str) -> bool:
    """Return whether a folder of this name is a version for a server: a number, as 64 bits hold it."""
    return re.fullmatch("[1-9][0-9]{0,17}", name) is not None


@arguments.check_arguments
def find_newest_here(root: PathLike) -> pathlib.Path:
    """Return the newest version in `root`: exported/ (the model written last), exported/NAME or exported/NAME/VERSION.

    A damaged version is passed over with a warning where an older one is whole.

    Raises:
        InputError: there is none.
    """
    root = pathlib.Path(root)
    if any((root / file).exists() for file in PARTS):
        return root
    found = {path.parents[len(file.parents) - 1] for file in PARTS for pattern in (f"*/{file}", f"*/*/{file}")
             for path in root.glob(pattern)}
    found = {path for path in found if _is_version(path.name)}
    if not found:
        raise InputError(f"expected a folder that holds an exported model, such as exported/NAME; got {root}, "
                         f"which {'holds none' if root.exists() else 'does not exist'}; train one with "
                         f"{console.name_command('train')}")
    latest = {path.parent: path for path in sorted(found, key=lambda path: int(path.name))}.values()
    name = max(latest, key=_find_age).parent
    *newer, oldest = sorted((path for path in found if path.parent == name), key=lambda path: -int(path.name))
    for path in newer:
        problem = _find_problem(path)
        if problem is None:
            return path
        warnings.warn(f"{problem}; going back to the version before", stacklevel=2)
    return oldest


def _find_age(path: pathlib.Path) -> int:
    """Return when the SavedModel of a version was written, in ns; 0 if there is none."""
    file = path / PARTS[0]
    return file.stat().st_mtime_ns if file.exists() else 0


def _find_problem(path: pathlib.Path) -> str | None:
    """Return what keeps a version from being loaded, as far as its card and its files' checksums tell, or None."""
    if not (path / PARTS[0]).exists():
        return f"{path} has no {PARTS[0]}"
    try:
        check_files(path, read_card(path))
    except InputError as error:
        return str(error)
    return None
