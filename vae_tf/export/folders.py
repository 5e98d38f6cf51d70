"""Folders of versions, exported/NAME/VERSION/: written whole or not at all, found, pruned."""

import errno
import hashlib
import json
import os
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from vae_tf import files
from vae_tf.errors import InputError
from vae_tf.export import signatures
from vae_tf.export.card import CARD, EXTRA, FORMAT, TRAINED_FURTHER, WEIGHTS, read_card, scale_of

WARMUP = EXTRA / "tf_serving_warmup_requests"       # TensorFlow Serving looks for this name

# What gives the weights their shapes and their meaning; all else of a recipe may change from run to run.
ARCHITECTURE = ("model", "network", "latents", "likelihood")


def save(folder, model, dataset, card, keep=None, accept_dark=False):
    """Write the next version of `folder`; returns its path, exported/NAME/VERSION.

    Args:
        folder: exported/NAME.
        model: a models.Autoencoder.
        dataset: what it was trained on, for the input's shape and dtype, and the scale of its factors.
        card: a dict that describes model, data and recipe, kept in assets.extra/card.json with what the export itself
            adds: limits of a request, the scale of u, a checksum of the weights.
        keep: how many versions to leave of this one and those before it; None leaves all.
        accept_dark: take batches of images of which no pixel is above 1. By default such a batch is refused, unless
            some training image is as dark.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    refuse_dark = dataset.is_image and not accept_dark and not signatures.has_dark(dataset)
    functions, limits = signatures.Functions(model, dataset, refuse_dark), signatures.limits(model)
    named = signatures.served(functions, limits)
    card = {"format": FORMAT, **card, "limits": limits, "refuses_dark_batches": refuse_dark,
            "u": scale_of(dataset) if model.u_size else None, "weights_sha256": checksum(model)}
    with files.write_folder_aside(folder) as aside:
        try:
            tf.saved_model.save(functions, str(aside), signatures=named)
            (aside / EXTRA).mkdir()
            (aside / CARD).write_text(json.dumps(card, indent=2))
            model.save_weights(aside / WEIGHTS)
            _write_warmup(aside / WARMUP, folder.name, named, dataset)
            aside.chmod(0o755)
            path = _claim(folder, aside)
        except (OSError, RuntimeError, tf.errors.OpError) as error:      # h5py and TensorFlow have their own kinds
            reason = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
            raise OSError(getattr(error, "errno", None) or errno.EIO,
                          f"{folder}: the model could not be exported ({reason}); nothing was left there") from error
    if keep:
        older = (version for version in versions(folder) if version < int(path.name))
        for old in sorted(older, reverse=True)[keep - 1:]:
            files.remove_folder(folder / str(old))
    return path


def checksum(model):
    """SHA-256 over a model's weights, their shapes and types, as hexadecimal digits."""
    digest = hashlib.sha256()
    for variable in model.variables:
        array = np.ascontiguousarray(variable)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def existing(folder, model, card):
    """The newest version of exported/NAME if it is this model already, so that a server need not load it again.

    It is, if it has the same weights and its card says the same of model, data and training. None otherwise.
    """
    newest_version = max(versions(folder), default=None)
    if newest_version is None:
        return None
    path = pathlib.Path(folder) / str(newest_version)
    try:
        there = read_card(path)
    except InputError:      # damaged: a whole one takes its place
        return None
    same = there.get("weights_sha256") == checksum(model) and all(
        there.get(name) == value for name, value in json.loads(json.dumps(card)).items() if name != "final_terms")
    return path if same else None


def _claim(folder, aside):
    """Rename `aside` to the next free version; returns its path."""
    while True:
        path = folder / str(max(versions(folder), default=0) + 1)
        try:
            os.rename(aside, path)
            return path
        except OSError:
            if not path.exists():    # otherwise another process took that number: try the next
                raise


def _write_warmup(path, name, named, dataset):
    """A request per signature, of one example, which a server runs before it lets clients at the version."""
    with tf.io.TFRecordWriter(str(path)) as records:
        for signature, function in named.items():
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name, request.model_spec.signature_name = name, signature
            for spec in function.input_signature:
                shape, dtype = [size or 1 for size in spec.shape], spec.dtype.as_numpy_dtype
                value = {"n": 1, "x": 128 if spec.dtype == tf.uint8 else 0}.get(spec.name, 0)
                some = np.full(shape, dataset.u_range[0] if spec.name == "factors" else value, dtype)
                request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(some))
            records.write(log.SerializeToString())


def versions(folder):
    """The version numbers in exported/NAME, in no order."""
    return [int(path.name) for path in pathlib.Path(folder).glob("[0-9]*") if path.name.isdigit()]


def load_weights(model, path, config, dataset):
    """Set a freshly built model's weights to those of exported/NAME/VERSION.

    Args:
        model: a models.Autoencoder.
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
        model.load_weights(path / WEIGHTS)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"init_from: {path / WEIGHTS} is damaged ({str(error).splitlines()[0]}); "
                         "name another version") from None


def check_writable(folder):
    """Raise InputError unless `folder` could be written, leaving nothing behind."""
    folder = pathlib.Path(folder)
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise InputError(f"expected a folder that can be written, got {folder} ({existing}: {error.strerror})"
                         ) from None


def newest(root):
    """The newest version in `root`: exported/ (of the model written last), exported/NAME or exported/NAME/VERSION.

    Raises:
        InputError: there is none.
    """
    root = pathlib.Path(root)
    if (root / "saved_model.pb").exists():
        return root
    found = [path.parent for pattern in ("*/saved_model.pb", "*/*/saved_model.pb") for path in root.glob(pattern)
             if path.parent.name.isdigit() and (path.parent / CARD).exists()]
    if not found:
        raise InputError(f"expected a folder that holds an exported model, such as exported/NAME; got {root}, "
                         f"which {'holds none' if root.exists() else 'does not exist'}; train one with python train.py")
    latest = {path.parent: path for path in sorted(found, key=lambda path: int(path.name))}.values()
    return max(latest, key=lambda path: (path / "saved_model.pb").stat().st_mtime_ns)
