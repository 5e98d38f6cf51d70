"""Read the images of published archives, some at a time: .npz files, and the cars of Reed et al. 2015."""

import gzip
import io
import math
import os
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from vae_tf import files
from vae_tf.errors import InputError
from vae_tf.typing import Integers

TOGETHER = 1_024                        # images that are read at a time
CARS, AZIMUTHS, ELEVATIONS = 183, 24, 4
CAR_SIDE, SIDE = 128, 64                # pixels of a car's image, and of what is made of it
LARGEST_MEMBER = 2**26                  # bytes of a file within the cars' archive; a car has 2**22


def read_images(argument: str, path: str | os.PathLike, names: Sequence[str],
                shapes: Sequence[tuple[int, ...]]) -> Iterator[Integers]:
    """Yield the images of an .npz file, uint8 [B, H, W, C], some at a time; the file is never in memory as a whole.

    Args:
        argument: what asks for the images, for errors.
        path: the file.
        names: what the array of images may be called in it, with the suffix .npy.
        shapes: the shapes that the array may have; the first one is [N, H, W, C].

    Raises:
        InputError: no readable .npz file, one of other images, or, after the last image, one whose checksum is wrong.
    """
    try:
        with files.open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
            name = next((name for name in names if name in archive.namelist()), None)
            if name is None:
                raise InputError(f"{argument}: expected an array {' or '.join(_drop_suffix(names))} in {path}; "
                                 f"got {', '.join(archive.namelist()[:5]) or 'none'}")
            with archive.open(name) as file:
                np.lib.format.read_magic(file)
                found, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
                if found not in shapes or dtype != np.uint8 or in_columns:
                    raise InputError(f"{argument}: expected uint8 images of shape {shapes[0]} in {path}; got {dtype} "
                                     f"of shape {found}" + ", stored by columns; store np.ascontiguousarray(images)"
                                     * in_columns)
                yield from _read_rows(file, shapes[0])
    except InputError:
        raise
    except Exception as error:      # a torn file may make zipfile, zlib and NumPy raise anything
        reason = getattr(error, "strerror", None) or "it is damaged, or no .npz file"
        raise InputError(f"{argument}: {path} cannot be read ({reason})") from None


def read_cars(argument: str, path: str | os.PathLike) -> Integers:
    """Return the cars of nips2015-analogy-data.tar.gz: uint8 [elevations, azimuths, cars, 64, 64, 3].

    The archive has 128x128 pixels, which are halved by Lanczos' filter, as in disentanglement_lib. Cars are numbered in
    the order of the archive's list.

    Raises:
        InputError: no such archive, or a damaged one.
    """
    try:
        with files.open_regular(path) as opened:
            with gzip.GzipFile(fileobj=opened) as unpacked:
                while unpacked.read(2**20):     # to the end, where the checksum is compared
                    pass
            opened.seek(0)                      # only now, because SciPy may crash at a damaged array
            with gzip.GzipFile(fileobj=opened) as unpacked:
                listed, cars = _read_members(argument, path, unpacked)
    except InputError:
        raise
    except Exception as error:      # a torn file may make gzip, tarfile and SciPy raise anything
        reason = getattr(error, "strerror", None) or "it is damaged, or no .tar.gz file"
        raise InputError(f"{argument}: {path} cannot be read ({reason})") from None
    missing = [name for name in listed if name not in cars]
    if len(listed) != CARS or missing:
        raise InputError(f"{argument}: expected {CARS} cars in {path}; got {len(cars)}, of {len(listed)} in its list")
    return np.stack([cars[name] for name in listed], 2)


def _read_rows(file: Any, shape: tuple[int, ...]) -> Iterator[Integers]:
    """Yield the images that follow in an open file, of shape [N, H, W, C], some at a time."""
    size = math.prod(shape[1:])
    for start in range(0, shape[0], TOGETHER):
        count = min(TOGETHER, shape[0] - start)
        yield np.frombuffer(file.read(count * size), np.uint8).reshape(count, *shape[1:])
    file.read(1)            # reads to the end, where zipfile compares the checksum


def _read_members(argument: str, path: str | os.PathLike, unpacked: Any) -> tuple[list[str], dict[str, Integers]]:
    """Return the names in the list of an open archive, and the cars by name, [elevations, azimuths, 64, 64, 3]."""
    import scipy.io

    listed: list[str] = []
    cars: dict[str, Integers] = {}
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            folder, _, name = member.name.removeprefix("./").rpartition("/")
            if folder != "data/cars" or not member.isfile() or not name.endswith((".mat", "list.txt")):
                continue
            if member.size > LARGEST_MEMBER:
                raise InputError(f"{argument}: expected files of at most {LARGEST_MEMBER:,} bytes in {path}; "
                                 f"{member.name} has {member.size:,}")
            content = archive.extractfile(member).read()        # type: ignore[union-attr]
            if name == "list.txt":
                listed = content.decode().split()
            else:
                cars[name.removesuffix(".mat")] = _shrink(argument, member.name,
                                                          scipy.io.loadmat(io.BytesIO(content))["im"])
    return listed, cars


def _shrink(argument: str, name: str, images: Any) -> Integers:
    """Return the images of a car, [128, 128, 3, azimuths, elevations], as [elevations, azimuths, 64, 64, 3]."""
    expected = (CAR_SIDE, CAR_SIDE, 3, AZIMUTHS, ELEVATIONS)
    if images.shape != expected or images.dtype != np.uint8:
        raise InputError(f"{argument}: expected uint8 images of shape {expected} in {name}; got {images.dtype} of "
                         f"shape {images.shape}")
    return np.stack([[np.asarray(Image.fromarray(np.ascontiguousarray(images[..., azimuth, elevation])).resize(
        (SIDE, SIDE), Image.Resampling.LANCZOS)) for azimuth in range(AZIMUTHS)] for elevation in range(ELEVATIONS)])


def _drop_suffix(names: Sequence[str]) -> list[str]:
    return [name.removesuffix(".npy") for name in names]
