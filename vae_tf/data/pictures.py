"""Read a folder of image files as arrays: one size, 8 bits, and one line for each file that is something else."""

import contextlib
import functools
import os
import pathlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image

from vae_tf import files, memory
from vae_tf.data import tables
from vae_tf.errors import InputError
from vae_tf.typing import Integers

SUFFIXES = ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"
FORMATS = "PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"       # no other readers, because some run programs
# What an image file holds -> the channels that are kept of it, grey or colour. All have 8 bits or fewer.
MODES = {"1": "L", "L": "L", "LA": "L", "P": "RGB", "PA": "RGB", "RGB": "RGB", "RGBA": "RGB", "CMYK": "RGB",
         "YCbCr": "RGB"}
CLEAR = {"P": "PA", "RGB": "RGBA"}      # what of which one colour is transparent -> what it is taken as; others "LA"
# How a camera was held, by EXIF's tag of this number -> how its image is turned to stand upright.
HELD, TURNS = 0x0112, {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90}
ON_ITS_SIDE = [TURNS[held] for held in (5, 6, 7, 8)]    # the turns by which height and width change places
Source = Callable[[], BinaryIO]
BITS_PER_SAMPLE = 258      # a tag of TIFF: the bits of each channel
REMEDY = "python -m vae_tf.data pack FOLDER FILE.npz --resize=64 makes one size of all"


class Pictures(NamedTuple):
    """Image files in the order of their names: names within the folder, and images uint8 [N, H, W, C]."""

    names: list[str]
    images: Integers


def read_folder(folder: pathlib.Path, resize: int | None = None) -> Pictures:
    """Read all image files of a folder and of the folders in it, see `read_images`; hidden files are left out.

    Raises:
        InputError: as `read_images`, or a file leads out of the folder.
    """
    paths = _list_images(folder)
    images = read_images(folder, {str(path): functools.partial(files.open_regular, folder / path) for path in paths},
                         resize)
    return Pictures([unicodedata.normalize("NFC", path.as_posix()) for path in paths], images)


def read_images(where: str | os.PathLike, sources: Mapping[str, Source], resize: int | None = None) -> Integers:
    """Return images as uint8 [N, H, W, C].

    An alpha channel is dropped with a warning. If some images are grey and others in colour, all become colour.

    Args:
        where: what holds the images, for errors.
        sources: {name: function that opens the bytes of an image file}.
        resize: height and width that images are brought to; None to refuse images of several sizes.

    Raises:
        InputError: something is not a single image of 8 bits and of the others' size; or the images take more memory
            than there is.
    """
    heads = {name: _read_head(where, name, source) for name, source in sources.items()}
    if resize is None:
        _check_sizes(where, {name: size for name, (size, _) in heads.items()})
    width, height = (resize, resize) if resize else next(iter(heads.values()))[0]
    mode = _choose_mode(where, {name: mode for name, (_, mode) in heads.items()})
    memory.check_fits("dataset", len(sources) * height * width * len(mode), f"{where}: {len(sources):,} images",
                      "leave out some of them, or make them smaller")
    images = np.empty((len(sources), height, width, len(mode)), np.uint8)
    for image, (name, source) in zip(images, sources.items(), strict=True):
        image[:] = _read_pixels(where, name, source, mode, (width, height)).reshape(image.shape)
    return images


def _choose_mode(where: str | os.PathLike, modes: Mapping[str, str]) -> str:
    """Return "L" if all images are grey, and "RGB" otherwise; warnings say what is changed for that."""
    mode = "RGB" if any(MODES[mode] == "RGB" for mode in modes.values()) else "L"
    if mode == "RGB" and any(MODES[mode] == "L" for mode in modes.values()):
        warnings.warn(f"dataset: {where}: some images are grey and others are in colour; all are taken as colour",
                      stacklevel=4)
    clear = [name for name, kind in modes.items() if kind in ("LA", "PA", "RGBA")]
    if clear:
        warnings.warn(f"dataset: {where}: the alpha channel of {len(clear):,} images is dropped, {clear[0]} first",
                      stacklevel=4)
    return mode


def _check_sizes(where: str | os.PathLike, sizes: Mapping[str, tuple[int, int]]) -> None:
    """Raise InputError for images of several (width, height)."""
    first = next(iter(sizes))
    other = next((name for name, size in sizes.items() if size != sizes[first]), None)
    if other is not None:
        one, two = (f"{width}x{height}" for width, height in (sizes[first], sizes[other]))
        raise InputError(f"dataset: {where}: expected images of one size; {first} has {one} pixels and "
                         f"{other} {two}; {REMEDY}")


def _list_images(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the image files within a folder, as paths from it, in order; a warning names other files."""
    found: list[pathlib.Path] = []
    others: list[pathlib.Path] = []
    for inside, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if os.path.islink(os.path.join(inside, name)):
                raise InputError(f"dataset: {folder}: {name} is a link to a folder; copy the folder instead")
        for name in names:
            path = (pathlib.Path(inside) / name).relative_to(folder)
            if name.startswith(".") or path.as_posix() in tables.NAMES:
                continue
            (found if path.suffix.lower() in SUFFIXES else others).append(path)
    if not found:
        raise InputError(f"dataset: {folder}: expected image files, such as 1.png; found none")
    inner = [path for path in others if path.name in tables.NAMES]
    if inner and tables.find(folder) is None:
        raise InputError(f"dataset: {folder}: expected a table in the folder itself; got {min(inner)}; join the tables "
                         f"of its folders, with file names such as {min(inner).parent / '1.png'}")
    if others:
        warnings.warn(f"dataset: {folder}: {len(others):,} files that are no images are left out, {min(others)} first",
                      stacklevel=3)
    root = pathlib.Path(os.path.realpath(folder))       # `Path.resolve` raises RuntimeError for links in a circle
    for path in found:
        if not pathlib.Path(os.path.realpath(folder / path)).is_relative_to(root):
            raise InputError(f"dataset: {folder}: {path} is a link that leaves the folder; copy the file instead")
    return sorted(found)


def _refuse_folder(error: OSError) -> None:
    """Raise InputError for a folder that cannot be read, which os.walk would leave out."""
    raise InputError(f"dataset: {error.filename} cannot be read ({error.strerror})")


def _read_head(where: str | os.PathLike, name: str, source: Source) -> tuple[tuple[int, int], str]:
    """Return an image's (width, height) and its mode, of MODES, without its pixels."""
    try:
        with source() as file, _quietly(), Image.open(file, formats=FORMATS) as image:
            size, mode, frames = image.size, image.mode, getattr(image, "n_frames", 1)
            frames = 1 if image.format == "MPO" else frames     # a camera's picture, and smaller ones of it
            size = size[::-1] if _find_turn(image) in ON_ITS_SIDE else size
            if mode in MODES and _has_16_bits(image):       # of which Pillow drops the lower 8
                mode += " with 16 bits for each channel"
            if mode in ("1", "L", *CLEAR) and "transparency" in image.info:
                mode = CLEAR.get(mode, "LA")
    except Exception as error:      # Pillow raises anything for a file from outside
        raise InputError(f"dataset: {where}: {name} is not a readable image ({_explain(error)})") from None
    if frames > 1:
        raise InputError(f"dataset: {where}: {name} has {frames} frames; expected a single image")
    if mode not in MODES:
        raise InputError(f"dataset: {where}: {name} is of the kind {mode}; expected 8 bits for each channel, so "
                         "convert it to grey or RGB of 8 bits")
    return size, mode


def _read_pixels(where: str | os.PathLike, name: str, source: Source, mode: str, size: tuple[int, int]) -> Integers:
    """Return an image's pixels as an array, grey ("L") or colour ("RGB"), of (width, height) `size`."""
    try:
        with source() as file, _quietly(), Image.open(file, formats=FORMATS) as image:
            turn = _find_turn(image)
            # A palette with transparency is converted in two steps, as Pillow warns otherwise.
            pixels = (image.convert("RGBA") if image.mode in ("P", "PA") else image).convert(mode)
            pixels = pixels if turn is None else pixels.transpose(turn)
            if pixels.size != size:
                pixels = pixels.resize(size, Image.Resampling.BOX)
            return np.asarray(pixels, np.uint8)
    except Exception as error:
        raise InputError(f"dataset: {where}: {name} is not a readable image ({_explain(error)})") from None


def _has_16_bits(image: Image.Image) -> bool:
    """Return whether an image has more than 8 bits for each channel, though Pillow's mode is one of 8 bits."""
    channels = getattr(image, "tag_v2", {}).get(BITS_PER_SAMPLE, (8,))      # of a TIFF, whose tiles may not say it
    return np.max(channels) > 8 or any(re.search(";16[BLN]", str(tile[3])) for tile in getattr(image, "tile", ()))


def _find_turn(image: Image.Image) -> Image.Transpose | None:
    """Return how an image is turned to stand upright, as EXIF before its pixels says; Pillow turns TIFF by itself."""
    with contextlib.suppress(Exception):        # Pillow raises anything for EXIF that is damaged
        return TURNS.get(image.getexif().get(HELD, 1)) if "exif" in image.info else None
    return None


def _quietly() -> warnings.catch_warnings:
    """Return a context in which Pillow's warnings, such as of very large images, are errors."""
    return warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning)


def _explain(error: Exception) -> str:
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return "it has too many pixels"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is damaged, or of another format than its name says"
