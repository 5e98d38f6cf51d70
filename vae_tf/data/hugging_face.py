"""Make a dataset of a folder that Hugging Face's `datasets` has written with `save_to_disk`."""

import functools
import io
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from vae_tf import extras
from vae_tf.data import arrays, folders, pictures, tables
from vae_tf.data.dataset import Dataset
from vae_tf.errors import InputError

TEXTS = "string", "large_string"        # types of columns
MARKS = "dataset_dict.json", "state.json"       # of several splits, of one


def is_saved(path: str) -> bool:
    """Return whether a folder is one that `save_to_disk` has written."""
    return any((pathlib.Path(path) / name).is_file() for name in MARKS)


def read_dataset(path: str) -> Dataset:
    """Return a Dataset of the images in a folder of `save_to_disk`, with all other columns as factors.

    `train` and `test` are published parts if there are no other splits. Class labels and texts are categorical, other
    whole numbers ordinal, unless they are floats that hardly recur, and other numbers continuous. Columns whose names
    start with `u_` are u.

    Raises:
        InputError: `datasets` is not installed, the folder is damaged, or it has no images of one size and 8 bits.
    """
    read, splits = _read(path, None)
    images = read["images"]
    count = splits["train"] if set(splits) == {"train", "test"} else 0
    parts = {"train": range(count), "test": range(count, len(images))} if 0 < count < len(images) else {}
    return arrays.make_dataset(path, read, parts)


def read_arrays(path: str, resize: int | None = None) -> arrays.Arrays:
    """Return what an .npz file of the same data would hold, by name; published parts are not kept.

    Args:
        path: the folder.
        resize: see `pictures.read_images`.

    Raises:
        InputError: as `read_dataset`.
    """
    return _read(path, resize)[0]


def _read(path: str, resize: int | None) -> tuple[arrays.Arrays, dict[str, int]]:
    """Return the arrays of all splits, by name, and the number of examples of each split."""
    splits = _open(path)
    order = sorted(splits, key=lambda split: (split != "train", split))
    columns = splits[order[0]].features
    image = _find_image(path, columns)
    sources = {f"{image} {row} of {split}": functools.partial(_open_image, splits[split], image, row)
               for split in order for row in range(len(splits[split]))}
    if not sources:
        raise InputError(f"dataset: {path}: expected at least one example; got none")
    images = pictures.read_images(path, sources, resize)
    read = dict(_read_columns(path, columns, image, [splits[split] for split in order]))
    return {"images": images, **folders.make_columns(read)}, {name: len(split) for name, split in splits.items()}


def _open(path: str) -> dict[str, Any]:
    """Return the splits of a folder, by name, with images as bytes."""
    datasets = extras.import_extra("datasets", "data", f"dataset: {path}")
    try:
        loaded = datasets.load_from_disk(path)
        splits = dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
        for split in splits.values():
            split.data.validate(full=True)      # otherwise pyarrow would read where damaged offsets lead, and crash
        kept = {name: _keep_bytes(split) for name, split in splits.items()}
    except Exception as error:      # a damaged folder may make datasets raise anything
        raise InputError(f"dataset: {path} is not a readable folder of Hugging Face's datasets "
                         f"({type(error).__name__})") from None
    _check_splits(path, kept)
    return kept


def _check_splits(path: str, splits: dict[str, Any]) -> None:
    """Raise InputError unless there is a split, and all splits have the same columns."""
    if not splits:
        raise InputError(f"dataset: {path}: expected at least one split; got none")
    first, *others = splits
    for other in others:
        if splits[other].features != splits[first].features:
            raise InputError(f"dataset: {path}: expected splits of the same columns; those of {first} are "
                             f"{splits[first].features} and those of {other} {splits[other].features}")


def _keep_bytes(split: Any) -> Any:
    """Return a split whose images are not decoded, and which gives all columns as Python's own objects."""
    import datasets

    split = split.with_format(None)
    for name, feature in split.features.items():
        if isinstance(feature, datasets.Image):
            split = split.cast_column(name, datasets.Image(decode=False))
    return split


def _find_image(path: str, columns: Any) -> str:
    """Return the name of the column of images."""
    import datasets

    images = [name for name, feature in columns.items() if isinstance(feature, datasets.Image)]
    if not images:
        raise InputError(f"dataset: {path}: expected a column of images; got {', '.join(columns) or 'none'}")
    return "image" if "image" in images else images[0]


def _open_image(split: Any, image: str, row: int) -> BinaryIO:
    content = split[row][image]["bytes"]
    if content is None:
        raise OSError(0, "its bytes are not in the folder")
    return io.BytesIO(content)


def _read_columns(path: str, columns: Any, image: str, splits: list[Any]) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield the name of each column of numbers or texts, its values as floats [N], and its kind.

    A warning names the columns that are left out: those that are neither, and texts that differ in every example.
    """
    import datasets

    for name, feature in columns.items():
        if name == image or tables.is_index(path, name):
            continue
        if not isinstance(feature, datasets.Value | datasets.ClassLabel) or feature.dtype in ("binary", "large_binary"):
            warnings.warn(f"dataset: {path}: column {name} is left out: it holds neither numbers nor texts",
                          stacklevel=3)
            continue
        values = [value for split in splits for value in split[name]]
        cells = ["" if value is None else str(value).strip() for value in values]
        column, kind = tables.convert(path, name, cells, feature.dtype in TEXTS)
        if isinstance(feature, datasets.ClassLabel):
            column, kind = np.where(column < 0, np.nan, column), "categorical"      # -1 stands for no label
        elif kind == "categorical" and len(set(cells)) == len(cells):
            warnings.warn(f"dataset: {path}: column {name} is left out: its texts differ in every example",
                          stacklevel=3)
            continue
        yield name, (column, kind)
