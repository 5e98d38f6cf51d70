"""List the datasets that there are, in lines of text, without loading any that must be prepared."""

import os
import pathlib
import re

from vae_tf import console
from vae_tf.data.registry import DATASETS, Entry
from vae_tf.errors import InputError

MADE = "Apache-2.0"     # the licence of this package, and so of what it draws
HEADINGS = ("name", "examples", "shape", "factors", "licence", "where it is")


def list_datasets(data_dir: str | None = None) -> list[str]:
    """Return a table of all datasets: name, examples, shape, factors, licence, and whether they are prepared.

    Args:
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR or TFDS's default.
    """
    rows = [HEADINGS, *(_describe(name, entry, data_dir) for name, entry in DATASETS.items())]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
            for row in rows]


def find_prepared(builder: str, data_dir: str | None = None) -> pathlib.Path | None:
    """Return the folder where TensorFlow Datasets has prepared a builder's data; None if it has not."""
    root = os.path.expanduser(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")
    versions = [path.parent for path in pathlib.Path(root).glob(f"{builder}/*/dataset_info.json")
                if re.fullmatch(r"\d+(\.\d+)*", path.parent.name)]
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None)


def _describe(name: str, entry: Entry, data_dir: str | None) -> tuple[str, ...]:
    """Return the cells of a row."""
    known = entry.prepared
    if known is None:
        try:
            dataset = entry.load(data_dir, 0)
        except InputError as error:     # of an extension's data; the others are listed
            return name, "-", "-", "-", "-", f"cannot be loaded: {error}"
        return _fill(name, len(dataset), dataset.shape, dataset.factor_names, MADE, "made in process")
    folder = find_prepared(known.builder, data_dir)
    where = f"prepared at {folder}" if folder else f"not prepared: {console.name_command('data')} prepare {name}"
    return _fill(name, known.examples, known.shape, known.factors, known.licence, where)


def _fill(name: str, examples: int, shape: tuple[int, ...], factors: tuple[str, ...], licence: str,
          where: str) -> tuple[str, ...]:
    listed = ", ".join(factors) if len(factors) <= 6 else f"{factors[0]} to {factors[-1]}"
    return name, f"{examples:,}", "x".join(map(str, shape)), listed or "none", licence, where
