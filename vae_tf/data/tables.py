"""Read the table beside a folder of images, metadata.csv or metadata.parquet, and turn its columns into numbers."""

import csv
import io
import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from vae_tf import extras, files, kinds, memory
from vae_tf.errors import InputError

NAMES, KEY = ("metadata.csv", "metadata.parquet"), "file_name"
LARGEST = 2**30             # bytes of a table
OF_A_CELL = 100             # bytes of memory that a cell takes, as text
Table = dict[str, list[str]]
INDEX = re.compile(r"__index_level_\d+__")      # a column of row numbers that pandas adds
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}     # what tables write, in any case, for no number


def find(folder: pathlib.Path) -> pathlib.Path | None:
    """Return the path of the table in a folder; None if there is none.

    Raises:
        InputError: there are two, or it is a link that leaves the folder.
    """
    found = [folder / name for name in NAMES if os.path.lexists(folder / name)]
    if len(found) > 1:
        raise InputError(f"dataset: {folder}: expected one table; got {' and '.join(NAMES)}")
    root = pathlib.Path(os.path.realpath(folder))
    if found and not pathlib.Path(os.path.realpath(found[0])).is_relative_to(root):
        raise InputError(f"dataset: {folder}: {found[0].name} is a link that leaves the folder; copy the file instead")
    return found[0] if found else None


def read(path: pathlib.Path) -> tuple[Table, set[str]]:
    """Return a table as {heading: cells}, one of the headings being KEY, and the headings of columns of texts.

    A cell that is missing is an empty text. A CSV file does not say which columns are texts.

    Raises:
        InputError: the file is no such table; the line says why.
    """
    headings, rows, texts = _read_parquet(path) if path.suffix == ".parquet" else (*_read_csv(path), set())
    headings = [heading.strip() for heading in headings]
    if KEY not in headings or len(set(headings)) < len(headings) or "" in headings:
        raise InputError(f"dataset: {path}: expected a first line of different headings, one of them {KEY}; got "
                         f"{', '.join(headings) or 'an empty file'}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(headings):
            raise InputError(f"dataset: {path}: expected {len(headings)} cells in each row; row {number} has "
                             f"{len(row)}")
    return {heading: [row[k].strip() for row in rows] for k, heading in enumerate(headings)
            if not is_index(path, heading)}, texts


def is_index(path: str | os.PathLike, name: str) -> bool:
    """Return whether a column holds the row numbers of a pandas table, which are no factor; warn if so."""
    found = INDEX.fullmatch(name) is not None
    if found:
        warnings.warn(f"dataset: {path}: column {name} is left out: it is the index of a pandas table", stacklevel=3)
    return found


def convert(path: str | os.PathLike, name: str, cells: list[str], are_texts: bool) -> tuple[Any, str]:
    """Return a column as floats [N], and its kind; an empty cell is missing, NaN, and texts are numbered in order.

    In a column of numbers, so is a cell that says so, see MISSING. Texts in a column of which most cells are numbers
    are a warning, because they are likely to be slips. Whole numbers are ordinal, unless they are written like others
    (12.0) and hardly recur: then they are continuous.

    Args:
        path: where the column comes from, for errors.
        name: the name of the column.
        cells: its cells [N].
        are_texts: whether the cells are texts even if they look like numbers. In a column of u they are numbers.

    Raises:
        InputError: a column of u holds texts.
    """
    try:
        column = None if are_texts and not name.startswith("u_") else np.array([_read_number(cell) for cell in cells])
    except ValueError:
        column = None
    if column is None:
        if name.startswith("u_"):
            wrong = next(cell for cell in cells if not _is_number(cell))
            raise InputError(f"dataset: {path}: expected numbers in column {name}; got {wrong!r}")
        if not are_texts:
            _warn_of_slips(path, name, [cell for cell in cells if cell.lower() not in MISSING])
        known = {text: number for number, text in enumerate(sorted(set(cells) - {""}))}
        return np.array([known[cell] if cell else np.nan for cell in cells]), "categorical"
    given = column[~np.isnan(column)]
    classes = (given == np.rint(given)).all() and (all(map(_is_whole, cells)) or kinds.recurs(given))
    return column, "ordinal" if classes else "continuous"


def _warn_of_slips(path: str | os.PathLike, name: str, cells: list[str]) -> None:
    """Warn of a column that is taken as texts although most of its cells, of those that lack nothing, are numbers.

    Classes may be called 1, 2, ... and X. So some of the numbers must be fractions, or a text must have a digit.
    """
    numbers = [cell for cell in cells if _is_number(cell)]
    texts = [cell for cell in cells if not _is_number(cell)]
    likely = not all(map(_is_whole, numbers)) or any(character.isdecimal() for cell in texts for character in cell)
    if len(texts) < len(numbers) and likely:
        warnings.warn(f"dataset: {path}: column {name} is taken as texts, although {len(numbers):,} of its "
                      f"{len(cells):,} cells are numbers, because {texts[0]!r} is none", stacklevel=4)


def _read_csv(path: pathlib.Path) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a CSV file in UTF-8."""
    try:
        text = files.read_bytes(path, LARGEST).decode("utf-8-sig")
        read = csv.reader(io.StringIO(text, newline=""), strict=True)
        headings, *rows = [row for row in read if any(map(str.strip, row))] or [[]]     # spreadsheets add empty ones
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"dataset: {path} is not a readable table in UTF-8 ({reason})") from None
    return headings, rows


def _read_parquet(path: pathlib.Path) -> tuple[list[str], list[list[str]], set[str]]:
    """Return the headings and the rows of a Parquet file, as a CSV file would have them, and the columns of texts."""
    pa = extras.import_extra("pyarrow", "data", f"dataset: {path}")
    parquet = extras.import_extra("pyarrow.parquet", "data", f"dataset: {path}")
    try:
        content = io.BytesIO(files.read_bytes(path, LARGEST))
        metadata = parquet.read_metadata(content)
        schema = metadata.schema.to_arrow_schema()
        texts = [field.name for field in schema if _is_text(pa, field.type)]
        packed = _find_packed(metadata) & {*texts}      # pyarrow makes no dictionaries of these
        with parquet.ParquetFile(content, read_dictionary={*texts} - packed) as file:    # so that equal texts are one
            for size in itertools.accumulate(_list_sizes(file, packed)):
                memory.check_fits("dataset", size, f"{path}: a table of {metadata.num_rows:,} rows",
                                  "leave out columns or rows")
            for field in schema:
                if pa.types.is_nested(field.type) or _is_bytes(pa, field.type):
                    raise InputError(f"dataset: {path}: expected numbers or texts in column {field.name}; got "
                                     f"{field.type}")
            table = file.read(use_threads=False)
            columns = [[cell for chunk in column.chunks for cell in _list_cells(pa, chunk)] for column in table.columns]
    except InputError:
        raise
    except Exception as error:      # a torn file may make pyarrow raise anything
        reason = getattr(error, "strerror", None) or "it is damaged, or no Parquet file"
        raise InputError(f"dataset: {path} is not a readable table ({reason})") from None
    rows = [list(row) for row in itertools.zip_longest(*columns, fillvalue="")]
    return list(table.column_names), rows, {name.strip() for name in texts}


def _find_packed(metadata: Any) -> set[str]:
    """Return the columns of a Parquet file whose cells, or their lengths, are encoded as differences (DELTA_...)."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return {column.path_in_schema for group in groups for column in map(group.column, range(group.num_columns))
            if any(encoding.startswith("DELTA_") for encoding in column.encodings)}


def _list_sizes(file: Any, packed: set[str]) -> Iterator[int]:
    """Yield the bytes of memory that a table takes: what the file states, then the packed texts of some rows each."""
    metadata = file.metadata
    yield (max(metadata.num_rows, 0) * metadata.num_columns * OF_A_CELL
           + sum(max(metadata.row_group(k).total_byte_size, 0) for k in range(metadata.num_row_groups)))
    if packed:
        yield from (batch.nbytes for batch in file.iter_batches(1_000, columns=sorted(packed), use_threads=False))


def _list_cells(pa: Any, chunk: Any) -> list[str]:
    """Return cells of a column as texts without spaces around them; equal cells of a dictionary are one object."""
    if pa.types.is_dictionary(chunk.type):
        known = _list_cells(pa, chunk.dictionary)
        return ["" if index is None else known[index] for index in chunk.indices.to_pylist()]
    return ["" if cell is None else str(cell).strip() for cell in chunk.to_pylist()]


def _is_text(pa: Any, kind: Any) -> bool:
    """Return whether a column of a type of pyarrow's holds texts, as classes of pandas' do, too."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_bytes(pa: Any, kind: Any) -> bool:
    """Return whether a column of a type of pyarrow's holds bytes, as pictures within the table."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(holds(kind) for holds in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary,
                                         pa.types.is_binary_view))


def _read_number(cell: str) -> float:
    """Return the number in a cell, NaN for an empty one; raises ValueError for a text."""
    if "_" in cell:         # Python would read 1_1 as 11
        raise ValueError("expected a number without an underscore")
    return np.nan if cell.lower() in MISSING else float(cell)


def _is_whole(cell: str) -> bool:
    """Return whether a cell that holds a number, or says that it lacks one, is not written like a fraction."""
    return cell.lower() in MISSING or cell.lstrip("+-").isdecimal()


def _is_number(cell: str) -> bool:
    try:
        _read_number(cell)
    except ValueError:
        return False
    return True
