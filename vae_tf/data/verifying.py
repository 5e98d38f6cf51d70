"""Compare images that a program makes with those of a published archive, one part after another."""

import os
from typing import NamedTuple

import numpy as np

from vae_tf.data import archives
from vae_tf.data.dataset import Dataset

MEMBERS = "imgs.npy", "images.npy"      # what dSprites' archive, and a file of one's own, call the images


class Compared(NamedTuple):
    """How many images were compared, how many of them differ in some pixel, and the first of these, by index."""

    images: int
    differing: int
    first: int | None


def compare_with_archive(dataset: Dataset, path: str | os.PathLike) -> Compared:
    """Compare all images of a dataset with an .npz file that holds `imgs` or `images` in the same order.

    The file is never in memory as a whole. If all its images are of 0 and 1, they are compared as 0 and 255.

    Raises:
        InputError: no readable .npz file, or one of other images than the dataset's; the line says which.
    """
    done, is_mask, literal, scaled = 0, True, _Count(), _Count()
    shape = (len(dataset), *dataset.shape)
    for part in archives.read_images("verify", path, MEMBERS, (shape, shape[:-1])):
        made = dataset.images_at(np.arange(done, done + len(part)))
        is_mask &= bool(part.max(initial=0) <= 1)
        literal.add(done, made != part)
        if is_mask:
            scaled.add(done, made != 255 * part)
        done += len(part)
    found = scaled if is_mask and scaled.differing <= literal.differing else literal
    return Compared(done, found.differing, found.first)


class _Count:
    """How many images differ in some pixel, and the first of them."""

    def __init__(self) -> None:
        self.differing = 0
        self.first: int | None = None

    def add(self, start: int, differs: np.ndarray) -> None:
        """Add images of which the first has the index `start`: whether each pixel differs, [N, ...]."""
        wrong = np.flatnonzero(differs.reshape(len(differs), -1).any(1))
        if len(wrong) and self.first is None:
            self.first = start + int(wrong[0])
        self.differing += len(wrong)
