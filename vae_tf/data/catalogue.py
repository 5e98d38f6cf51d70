"""Datasets that TensorFlow Datasets prepares: MNIST, Fashion-MNIST, and datasets made of MNIST's digits."""

import contextlib
import functools
import os
import pathlib
import urllib.error
import urllib.request
from typing import Any

import numpy as np

from vae_tf.data import columns, dataset, in_memory, records, synthetic
from vae_tf.data.registry import Prepared, register
from vae_tf.errors import InputError
from vae_tf.typing import Integers


def load_labelled_images(name: str, data_dir: str | None = None) -> dataset.Dataset:
    """Return images of ten classes with their published train and test parts; u is the one-hot class.

    Args:
        name: the name of the TFDS builder, and of the dataset.
        data_dir: where TFDS finds or prepares it; None for $TFDS_DATA_DIR or TFDS's default.

    Raises:
        InputError: the dataset is not prepared and could not be downloaded.
    """
    train, test = (_read(name, part, data_dir) for part in ("train", "test"))
    images, labels = (np.concatenate([train[key], test[key]]) for key in ("image", "label"))
    n = len(train["label"])
    classes, u = labels[:, np.newaxis], columns.one_hot(labels, 10)
    return in_memory.from_arrays(name, images, classes, [dataset.Factor("class", 10, "categorical")], u,
                                 {"train": range(n), "test": range(n, len(labels))}, made_by=(images, classes, u))


def load_mnist_digits(data_dir: str | None = None) -> Integers:
    """Return the first training image of each digit 0..9, uint8 [10, 28, 28].

    Raises:
        InputError: MNIST is not prepared and could not be downloaded.
    """
    first = _read("mnist", "train[:1000]", data_dir)
    return first["image"][np.unique(first["label"], return_index=True)[1], ..., 0]


def _read(name: str, split: str, data_dir: str | None) -> dict[str, Any]:
    """Return the arrays of a split, by name; whoever changes them copies them first."""
    folders = (folder and os.path.abspath(os.path.expanduser(folder))
               for folder in (data_dir, os.environ.get("TFDS_DATA_DIR")))
    return _read_once(name, split, *folders)


@functools.lru_cache(maxsize=4)     # both splits of two datasets: a process that trains a model often scores it, too
def _read_once(name: str, split: str, data_dir: str | None, default: str | None) -> dict[str, Any]:
    builder = find_builder(name, data_dir)
    prepare(name, builder)
    return read_split(builder, split)


def find_builder(name: str, data_dir: str | None) -> Any:
    """Return a builder of TensorFlow Datasets; raises InputError where there is none of the name."""
    import tensorflow_datasets as tfds  # this import takes a second, and only these datasets need it

    from vae_tf.data import tfds_builders  # noqa: F401 (registers builders, and needs that import)

    try:
        return tfds.builder(name, data_dir=data_dir and os.path.expanduser(data_dir))
    except Exception as error:          # TFDS has no common class for an unknown name, configuration or version
        raise InputError(f"dataset: TensorFlow Datasets knows no {name} ({type(error).__name__})") from error


def prepare(name: str, builder: Any, file_format: str | None = None) -> None:
    """Download and prepare a builder's data, unless they are there.

    Args:
        name: what the data are called, for errors.
        builder: a builder of TensorFlow Datasets.
        file_format: the format of the prepared files; None for that of TensorFlow Datasets.

    Raises:
        InputError: that fails; then nothing is left of what was prepared.
    """
    if (builder.data_path / "dataset_info.json").exists():      # builder.is_prepared() warns where it is not
        return
    by_hand = builder.MANUAL_DOWNLOAD_INSTRUCTIONS
    folder = _find_manual_folder(builder)
    if by_hand:
        _check_manual_file(name, builder, folder)
    try:
        import tensorflow_datasets as tfds

        if builder.url_infos and not by_hand:
            _check_reachable(next(iter(builder.url_infos)))
        builder.download_and_prepare(file_format=file_format,
                                     download_config=tfds.download.DownloadConfig(manual_dir=folder))
    except InputError as error:         # of an archive that one of this package's own builders has read
        raise InputError(f"dataset: {name} is not prepared: {str(error).removeprefix('prepare: ')}") from error
    except Exception as error:          # a fault of the network or the disk; TFDS has no common class for these
        done = "prepared" if by_hand else "downloaded"
        raise InputError(f"dataset: {name} is not prepared at {builder.data_dir} and could not be {done} "
                         f"({type(error).__name__}); point --data_dir or TFDS_DATA_DIR at where it is") from error


def _find_manual_folder(builder: Any) -> pathlib.Path:
    """Return where a file that a person must download is looked for: downloads/manual beside all datasets."""
    inside = len(builder.info.full_name.split("/"))         # such as mpi3d/toy/1.0.0
    return pathlib.Path(builder.data_dir).absolute().parents[inside - 1] / "downloads" / "manual"


def _check_manual_file(name: str, builder: Any, folder: pathlib.Path) -> None:
    """Raise InputError unless the file that a person must download is there."""
    known = getattr(builder, "known", None)
    if known is not None and not (folder / known.archive).is_file():
        raise InputError(f"dataset: {name} is not prepared, and must be downloaded by hand: expected "
                         f"{folder / known.archive}; get it from {known.address}")
    if known is None and not (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"dataset: {name} is not prepared, and must be downloaded by hand into {folder}: "
                         f"{' '.join(builder.MANUAL_DOWNLOAD_INSTRUCTIONS.split())}")


def read_split(builder: Any, split: str) -> dict[str, Any]:
    """Return the arrays of a split of a prepared builder, by name; raises InputError where they cannot be read."""
    import tensorflow_datasets as tfds

    if records.are_there(builder):          # as tfds:mnist prepares MNIST, for example
        return records.read_split(builder, split)
    with records.reading(builder.info.full_name, builder):
        return tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))


def _check_reachable(url: str, seconds: float = 5) -> None:
    """Raise OSError unless a server answers for a URL: TFDS would try for minutes, with a page of warnings."""
    with contextlib.suppress(urllib.error.HTTPError):       # an error page shows that the server can be reached
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=seconds).close()


def _make_linear_mixture_digits(data_dir: str | None, seed: int) -> dataset.Dataset:
    """Return sikka's linear mixture whose columns are the ten digits (sikka V)."""
    return synthetic.make_linear_mixture(seed, A=load_mnist_digits(data_dir).reshape(10, -1).T / 255, examples=1_000,
                                         name="linear_mixture_digits")


def _make_translated_digit(data_dir: str | None, seed: int) -> dataset.Dataset:
    """Return the digit 3, shifted on a blank canvas (sikka Fig. 3)."""
    return synthetic.make_translated_digit(load_mnist_digits(data_dir)[3], seed, examples=1_000)


# What MNIST is, and what is made of its digits. The licence of MNIST is that which its mirrors state.
MNIST_LICENCE = "CC BY-SA 3.0"
MNIST = Prepared("mnist", MNIST_LICENCE, 70_000, (28, 28, 1), ("class",))
FASHION_MNIST = Prepared("fashion_mnist", "MIT", 70_000, (28, 28, 1), ("class",))
MIXTURE = Prepared("mnist", MNIST_LICENCE, 1_000, (784,), tuple(f"s{k + 1}" for k in range(10)))
TRANSLATED = Prepared("mnist", MNIST_LICENCE, 1_000, (64, 64, 1), ("s1", "s2"))

# The steps of linear_mixture_digits and translated_digit are the paper's 1000 epochs.
register("linear_mixture_digits", _make_linear_mixture_digits, prepared=MIXTURE,
         suited={"network": "mlp_mixture", "latents": 10, "steps": 15_625, "likelihood_variance": 1.0})
register("translated_digit", _make_translated_digit, prepared=TRANSLATED,
         suited={"network": "mlp_mixture", "latents": 2, "steps": 15_625})
register("mnist", lambda data_dir, seed: load_labelled_images("mnist", data_dir), prepared=MNIST,
         suited={"network": "mlp_mnist", "latents": 6, "steps": 10_000})
register("fashion_mnist", lambda data_dir, seed: load_labelled_images("fashion_mnist", data_dir),
         prepared=FASHION_MNIST, suited={"network": "mlp_mnist", "latents": 6, "steps": 10_000})
