"""history.csv of a run's folder: a row of numbers per log interval."""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any, BinaryIO

from vae_tf import files
from vae_tf.errors import InputError

HistoryRow = dict[str, Any]


def write_history(run: pathlib.Path, history: Sequence[HistoryRow]) -> None:
    """Write history.csv, a line per row; what a row lacks is an empty cell."""
    columns = list(dict.fromkeys(name for row in history for name in row))

    def write(file: BinaryIO) -> None:
        rows = [[repr(row[name]) if name in row else "" for name in columns] for row in history]
        file.write("".join(",".join(cells) + "\n" for cells in [columns, *rows]).encode())

    files.write_whole(run / "history.csv", write)


def read_history(run: pathlib.Path, step: int) -> list[HistoryRow]:
    """Return the rows of history.csv up to `step`; none if there is no such file.

    Raises:
        InputError: history.csv is damaged.
    """
    try:
        with open(run / "history.csv", newline="") as file:
            rows = [{k: int(v) if k == "step" else float(v) for k, v in row.items() if v}
                    for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InputError(f"{run / 'history.csv'}: expected a row of numbers per line; {error}") from None
    return [row for row in rows if row["step"] <= step]
