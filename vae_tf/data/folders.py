"""Make a dataset of a folder of image files, with the factors of each image in metadata.csv.

The table has a column `file_name`, as Hugging Face's image folders have. Columns whose names start with `u_` are u of
an iVAE, and all others are factors.
"""

import csv
import io
import os
import pathlib
import unicodedata
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.data import arrays, pictures
from vae_tf.data.dataset import Dataset
from vae_tf.errors import InputError

TABLE, KEY = "metadata.csv", "file_name"
LARGEST_TABLE = 2**30       # bytes
Table = dict[str, list[str]]


def read_dataset(path: str) -> Dataset:
    """Return a Dataset of the images in a folder, see `pictures.read_folder`, with the factors of its metadata.csv.

    Factors of whole numbers are ordinal, those of other numbers continuous, and texts are categorical. A number that is
    missing is handled as in an .npz file: its factor is left out, with a warning.

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
    has_table = os.path.lexists(folder / TABLE)
    table = _read_table(folder / TABLE) if has_table else {}
    read = pictures.read_folder(folder, resize)
    made: arrays.Arrays = {"images": read.images}
    if not has_table:
        return made
    rows = _match_rows(folder / TABLE, table.pop(KEY), read.names)
    columns = {name: _convert(folder / TABLE, name, [cells[row] for row in rows]) for name, cells in table.items()}
    u = {name: column for name, (column, _) in columns.items() if name.startswith("u_")}
    factors = {name: column for name, (column, _) in columns.items() if name not in u}
    if u:
        made["u"] = np.stack(list(u.values()), -1)
    if factors:
        made |= {"factors": np.stack(list(factors.values()), -1), "factor_names": np.array(list(factors)),
                 "factor_kinds": np.array([columns[name][1] for name in factors])}
    return made


def _read_table(path: pathlib.Path) -> Table:
    """Return a CSV file as {heading: cells}, one of the headings being KEY."""
    try:
        text = files.read_bytes(path, LARGEST_TABLE).decode("utf-8-sig")
        headings, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"dataset: {path} is not a readable table in UTF-8 ({reason})") from None
    headings = [heading.strip() for heading in headings]
    if KEY not in headings or len(set(headings)) < len(headings) or "" in headings:
        raise InputError(f"dataset: {path}: expected a first line of different headings, one of them {KEY}; got "
                         f"{', '.join(headings) or 'an empty file'}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(headings):
            raise InputError(f"dataset: {path}: expected {len(headings)} cells in each row; row {number} has "
                             f"{len(row)}")
    return {heading: [row[k].strip() for row in rows] for k, heading in enumerate(headings)}


def _match_rows(path: pathlib.Path, named: list[str], images: list[str]) -> list[int]:
    """Return the row of each image; every image must have one row, and every row an image."""
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


def _convert(path: pathlib.Path, name: str, cells: list[str]) -> tuple[Any, str]:
    """Return a column as floats [N], and its kind; an empty cell is missing, NaN, and texts are numbered in order."""
    try:
        column = np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        if name.startswith("u_"):
            wrong = next(cell for cell in cells if not _is_number(cell))
            raise InputError(f"dataset: {path}: expected numbers in column {name}; got {wrong!r}") from None
        known = {text: number for number, text in enumerate(sorted(set(cells) - {""}))}
        return np.array([known[cell] if cell else np.nan for cell in cells]), "categorical"
    given = column[~np.isnan(column)]
    return column, "ordinal" if (given == np.rint(given)).all() else "continuous"


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
