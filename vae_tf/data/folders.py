"""Make a dataset of a folder of image files, with the factors of each image in metadata.csv or metadata.parquet.

The table has a column `file_name`, as Hugging Face's image folders have. Columns whose names start with `u_` are u of
an iVAE, and all others are factors.
"""

import collections
import pathlib
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from vae_tf.data import arrays, pictures, tables
from vae_tf.data.dataset import Dataset
from vae_tf.errors import InputError


def read_dataset(path: str) -> Dataset:
    """Return a Dataset of the images in a folder, see `pictures.read_folder`, with the factors of its table.

    Texts are categorical, whole numbers ordinal, unless they are written like others (12.0) and hardly recur, and other
    numbers continuous. A number that is missing is handled as in an .npz file: its factor is left out, with a warning.

    Raises:
        InputError: a file or a row is wrong; the line names it.
    """
    return arrays.make_dataset(path, read_arrays(path))


def read_arrays(path: str, resize: int | None = None) -> arrays.Arrays:
    """Return what an .npz file of the same data would hold, by name.

    Args:
        path: the folder.
        resize: see `pictures.read_folder`.

    Raises:
        InputError: as `read_dataset`.
    """
    folder = pathlib.Path(path)
    path_of_table = tables.find(folder)
    table, texts = ({}, set()) if path_of_table is None else tables.read(path_of_table)
    read = pictures.read_folder(folder, resize)
    named = {"images": read.images, "file_names": np.array(read.names)}
    if path_of_table is None:
        return named
    rows = _match_rows(path_of_table, table.pop(tables.KEY), read.names)
    return {**named, **make_columns(
        {name: tables.convert(path_of_table, name, [cells[row] for row in rows], name in texts)
         for name, cells in table.items()})}


def make_columns(columns: Mapping[str, tuple[Any, str]]) -> arrays.Arrays:
    """Return u, factors, factor_names and factor_kinds of columns by name, each floats [N] and a kind.

    Columns whose names start with `u_` are u, and all others are factors.
    """
    made: arrays.Arrays = {}
    u = {name: column for name, (column, _) in columns.items() if name.startswith("u_")}
    factors = {name: column for name, (column, _) in columns.items() if name not in u}
    if u:
        made["u"] = np.stack(list(u.values()), -1)
    if factors:
        made |= {"factors": np.stack(list(factors.values()), -1), "factor_names": np.array(list(factors)),
                 "factor_kinds": np.array([columns[name][1] for name in factors])}
    return made


def _match_rows(path: pathlib.Path, named: list[str], images: list[str]) -> list[int]:
    """Return the row of each image; every image must have one row, and every row an image."""
    twice = next((name for name, count in collections.Counter(images).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"dataset: {path}: expected images whose names differ in more than the Unicode form of their "
                         f"letters; several are called {twice}")
    rows: dict[str, int] = {}
    for row, name in enumerate(named):
        name = unicodedata.normalize("NFC", name.removeprefix("./"))
        if name in rows:
            raise InputError(f"dataset: {path}: expected one row for each image; rows {rows[name] + 1} and {row + 1} "
                             f"are both of {name}")
        rows[name] = row
    for name in images:
        if name not in rows:
            raise InputError(f"dataset: {path}: expected a row for each image; {name} has none")
    if len(rows) > len(images):
        name = min(set(rows) - set(images), key=rows.__getitem__)
        raise InputError(f"dataset: {path}: expected an image for each row; row {rows[name] + 1} names {name}, which "
                         "is not in the folder")
    return [rows[name] for name in images]
