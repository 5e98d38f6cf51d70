"""Compare images that a program makes with those of a published archive, one part after another."""

import os
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vae_tf import files
from vae_tf.data.dataset import Dataset
from vae_tf.errors import InputError
from vae_tf.typing import Integers

MEMBERS = "imgs.npy", "images.npy"      # what dSprites' archive, and a file of one's own, call the images
TOGETHER = 1_024                        # images that are read at a time


class Compared(NamedTuple):
    """How many images were compared, how many of them differ in some pixel, and the first of these, by index."""

    images: int
    differing: int
    first: int | None


def compare_with_archive(dataset: Dataset, path: str | os.PathLike) -> Compared:
    """Compare all images of a dataset with an .npz file that holds `imgs` or `images` in the same order.

    The file is never in memory as a whole. Images of 0 and 1 are compared as 0 and 255.

    Raises:
        InputError: no readable .npz file, or one of other images than the dataset's; the line says which.
    """
    done, differing, first = 0, 0, None
    for part in _read_in_parts(path, (len(dataset), *dataset.shape)):
        made = dataset.images_at(np.arange(done, done + len(part)))
        same = (made == part) | (made == np.where(part == 1, 255, part))
        wrong = np.flatnonzero(~same.reshape(len(part), -1).all(1))
        if len(wrong) and first is None:
            first = done + int(wrong[0])
        done, differing = done + len(part), differing + len(wrong)
    return Compared(done, differing, first)


def _read_in_parts(path: str | os.PathLike, shape: tuple[int, ...]) -> Iterator[Integers]:
    """Yield the images of an archive, uint8, some at a time; their shape must be as given, but for a channel axis."""
    try:
        with files.open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
            name = next((name for name in MEMBERS if name in archive.namelist()), None)
            if name is None:
                raise InputError(f"verify: expected an array imgs or images in {path}; "
                                 f"got {', '.join(archive.namelist()[:5]) or 'none'}")
            with archive.open(name) as file:
                np.lib.format.read_magic(file)
                found, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
                if found not in (shape, shape[:-1]) or dtype != np.uint8 or in_columns:
                    raise InputError(f"verify: expected uint8 images of shape {shape} in {path}; got {dtype} of shape "
                                     f"{found}")
                size = int(np.prod(shape[1:]))
                for start in range(0, shape[0], TOGETHER):
                    count = min(TOGETHER, shape[0] - start)
                    yield np.frombuffer(file.read(count * size), np.uint8).reshape(count, *shape[1:])
    except InputError:
        raise
    except Exception as error:      # a torn file may make zipfile, zlib and NumPy raise anything
        reason = getattr(error, "strerror", None) or "it is damaged, or no .npz file"
        raise InputError(f"verify: {path} cannot be read ({reason})") from None
