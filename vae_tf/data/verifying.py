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

    The file is never in memory as a whole. Images of 0 and 1 are compared as 0 and 255.

    Raises:
        InputError: no readable .npz file, or one of other images than the dataset's; the line says which.
    """
    done, differing, first = 0, 0, None
    shape = (len(dataset), *dataset.shape)
    for part in archives.read_images("verify", path, MEMBERS, (shape, shape[:-1])):
        made = dataset.images_at(np.arange(done, done + len(part)))
        same = (made == part) | (made == np.where(part == 1, 255, part))
        wrong = np.flatnonzero(~same.reshape(len(part), -1).all(1))
        if len(wrong) and first is None:
            first = done + int(wrong[0])
        done, differing = done + len(part), differing + len(wrong)
    return Compared(done, differing, first)
