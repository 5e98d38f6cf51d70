"""Examples of prepared builders of TensorFlow Datasets, read by number from shards of ArrayRecord.

Only the examples that are asked for are read and decoded, so data need not fit into memory, and a batch depends on the
numbers of its examples alone.
"""

import concurrent.futures
import contextlib
import importlib.util
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.data import npz
from vae_tf.errors import InputError
from vae_tf.typing import Array, Integers

FORMAT = "array_record"
THREADS, TOGETHER = min(8, os.cpu_count() or 1), 16     # threads that decode, and images that one of them decodes
KEPT = "vae_tf_factors.npz"                             # beside the shards: what all examples say, but for the images
READ = 4_096                                            # examples that are read together for that
# A reader reads what is asked for and no more, in the thread that asks, with a buffer of so many bytes.
OPTIONS, BUFFER = "readahead_buffer_size:0,max_parallelism:0", 2**15


def choose_format() -> str | None:
    """Return the format in which data are prepared: ArrayRecord where its package is installed; None for TFDS's own."""
    return FORMAT if importlib.util.find_spec(FORMAT) else None


def are_there(builder: Any) -> bool:
    """Return whether a builder's data are prepared as ArrayRecord.

    Raises:
        InputError: they are, but the package that reads them is not installed.
    """
    there = any(each.value == FORMAT for each in builder.info.available_file_formats())
    if there and choose_format() is None:
        raise InputError(f"dataset: {builder.data_dir} holds {FORMAT} files, and the package {FORMAT} is not "
                         f"installed; pip install 'vae_tf[data]' installs it, but not on Windows")
    return there


def read_split(builder: Any, split: str) -> dict[str, Array]:
    """Return the arrays of a split of a prepared builder, such as train or train[:1000], by feature."""
    with reading(builder.info.full_name, builder):
        source = builder.as_data_source(split=split)
        examples = source.__getitems__(list(range(len(source))))
    return {key: np.stack([example[key] for example in examples]) for key in builder.info.features}


def make_images_at(name: str, builder: Any, splits: Sequence[str], image: str) -> Callable[[Integers], Array]:
    """Return a function of indices [B] -> images as they are prepared [B, H, W, C]; threads decode them.

    Args:
        name: what the data are called, for errors.
        builder: a prepared builder.
        splits: the splits whose examples are numbered one after another.
        image: the name of the feature.
    """
    read = _open(name, builder, splits, (image,))
    threads = concurrent.futures.ThreadPoolExecutor(THREADS, "images")

    def images_at(indices: Integers) -> Array:
        parts = [indices[start:start + TOGETHER] for start in range(0, len(indices), TOGETHER)]
        return np.concatenate([[example[image] for example in part] for part in threads.map(read, parts)])

    return images_at


def read_columns(name: str, builder: Any, splits: Sequence[str], keys: Sequence[str]) -> dict[str, Array]:
    """Return single numbers of all examples, {feature: [N]}; they are kept in a file beside the shards.

    Args:
        name, builder, splits: as in `make_images_at`.
        keys: the names of the features.
    """
    path, size = pathlib.Path(builder.data_dir) / KEPT, sum(builder.info.splits[split].num_examples for split in splits)
    try:
        kept = npz.read_arrays(path)
    except (OSError, npz.DamagedError):
        kept = {}
    if set(keys) <= set(kept) and all(kept[key].shape == (size,) and kept[key].dtype.kind in "biuf" for key in keys):
        return {key: kept[key] for key in keys}
    read = _open(name, builder, splits, keys)
    parts: dict[str, list[Array]] = {key: [] for key in keys}
    for start in range(0, size, READ):
        examples = read(np.arange(start, min(start + READ, size)))
        for key, part in parts.items():
            part.append(make_small(np.array([example[key] for example in examples])))
    made = {key: np.concatenate(part) for key, part in parts.items()}
    with contextlib.suppress(OSError):          # the folder may be one that only others may write
        files.write_whole(path, lambda file: np.savez(file, **made))        # type: ignore[arg-type]
    return made


def make_small(column: Array) -> Array:
    """Return whole numbers from 0 on in as few bytes as they need, and other numbers as they are."""
    return column if column.dtype.kind == "f" or column.min() < 0 else column.astype(np.min_scalar_type(column.max()))


def _open(name: str, builder: Any, splits: Sequence[str],
          keys: Sequence[str]) -> Callable[[Integers], list[dict[str, Any]]]:
    """Return a function of indices [B] -> B examples, of which only some features are decoded."""
    import tensorflow_datasets as tfds
    from array_record.python import array_record_module

    chosen = tfds.features.FeaturesDict({key: builder.info.features[key] for key in keys})
    with reading(name, builder):
        shards = [array_record_module.ArrayRecordReader(os.fspath(path), OPTIONS, file_reader_buffer_size=BUFFER)
                  for split in splits for path in builder.info.splits[split].filepaths]
        starts = np.cumsum([0, *(shard.num_records() for shard in shards)])

    def read_example(index: int) -> dict[str, Any]:
        """Return an example, read as a range of one: given a list, the reader goes through its whole index."""
        shard = int(np.searchsorted(starts, index, "right")) - 1
        place = int(index - starts[shard])
        record, = shards[shard].read(place, place + 1)
        return chosen.deserialize_example_np(record)        # type: ignore[no-any-return]

    def read(indices: Integers) -> list[dict[str, Any]]:
        with reading(name, builder):
            return [read_example(index) for index in indices]

    return read


@contextlib.contextmanager
def reading(name: str, builder: Any) -> Iterator[None]:
    """Raise InputError where shards cannot be read while entered: a torn file may make their readers raise anything."""
    try:
        yield
    except Exception as error:
        raise InputError(f"dataset: {name}: {builder.data_dir} cannot be read ({type(error).__name__}); delete the "
                         "folder to have it prepared again") from error
