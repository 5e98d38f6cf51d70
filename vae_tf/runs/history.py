"""history.csv of a run's folder: a row of numbers for each stretch of steps."""

import csv
import hashlib
import io
import json
import pathlib
from collections.abc import Sequence
from typing import Any, BinaryIO

from vae_tf import files
from vae_tf.errors import InputError

LARGEST = 2**30         # bytes of a history: millions of rows
REMEDY = "restore the file, or delete it to go on without the rows before"
# Where a checkpoint holds the best weights of a validation, whose row must be there.
REMEDY_OF_BEST = "restore the file, or --restart starts over in a new folder"

HistoryRow = dict[str, Any]


def write_history(run: pathlib.Path, history: Sequence[HistoryRow]) -> None:
    """Write history.csv, a line per row; what a row lacks is an empty cell."""
    columns = list(dict.fromkeys(name for row in history for name in row))

    def write(file: BinaryIO) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([columns, *(
            [repr(row[name]) if name in row else "" for name in columns] for row in _convert(history))])
        file.write(text.getvalue().encode())

    files.write_whole(run / "history.csv", write)


def read_history(run: pathlib.Path, step: int, remedy: str = REMEDY) -> list[HistoryRow]:
    """Return the rows of history.csv up to `step`; none if there is no such file.

    Args:
        run: the folder of the run.
        step: the last step whose row is returned.
        remedy: what an error says can be done.

    Raises:
        InputError: history.csv is damaged.
    """
    path = run / "history.csv"
    try:
        rows = _parse(files.read_bytes(path, LARGEST).decode())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    except ValueError as error:         # errors of Unicode are ValueErrors
        raise InputError(f"{path}: expected a row of numbers per line; {error}; {remedy}") from None
    return [row for row in rows if row["step"] <= step]


def digest_history(history: Sequence[HistoryRow]) -> str:
    """Return a digest of rows, which a checkpoint keeps to tell whether they are still the same."""
    return hashlib.sha256(json.dumps(_convert(history), sort_keys=True).encode()).hexdigest()


def _convert(history: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Return the rows with Python's numbers, in place of NumPy's."""
    return [{name: int(value) if name == "step" else float(value) for name, value in row.items()} for row in history]


def _parse(text: str) -> list[HistoryRow]:
    """Return the rows of a history's text; raises ValueError for any other text."""
    if not text.endswith("\n"):
        raise ValueError("the last line is cut")
    try:
        columns, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    except csv.Error as error:
        raise ValueError(f"{error}") from None
    rows: list[HistoryRow] = []
    if lines and ("step" not in columns or len(set(columns)) < len(columns)):
        raise ValueError("the first line does not name the columns")
    for number, cells in enumerate(lines, 2):
        if len(cells) != len(columns):
            raise ValueError(f"line {number} has {len(cells)} cells, the first line {len(columns)}")
        row = {name: int(cell) if name == "step" else float(cell)
               for name, cell in zip(columns, cells, strict=True) if cell}
        if row.get("step", 0) <= (rows[-1]["step"] if rows else 0):
            raise ValueError(f"line {number} has no step beyond that of the line before")
        rows.append(row)
    return rows
