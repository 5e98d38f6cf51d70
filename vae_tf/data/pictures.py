"""Read a folder of image files as arrays: one size, 8 bits, and one line for each file that is something else."""

import os
import pathlib
import unicodedata
import warnings
from typing import NamedTuple

import numpy as np
from PIL import Image

from vae_tf import files, memory
from vae_tf.errors import InputError
from vae_tf.typing import Integers

SUFFIXES = ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"
FORMATS = "PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"       # no other readers, because some run programs
# What an image file holds -> the channels that are kept of it, grey or colour. All have 8 bits or fewer.
MODES = {"1": "L", "L": "L", "LA": "L", "P": "RGB", "PA": "RGB", "RGB": "RGB", "RGBA": "RGB", "CMYK": "RGB",
         "YCbCr": "RGB"}
REMEDY = "python -m vae_tf.data pack FOLDER FILE.npz --resize=64 makes one size of all"


class Pictures(NamedTuple):
    """Image files in the order of their names: names within the folder, and images uint8 [N, H, W, C]."""

    names: list[str]
    images: Integers


def read_folder(folder: pathlib.Path, resize: int | None = None) -> Pictures:
    """Read all image files of a folder and of the folders in it; hidden files are left out.

    An alpha channel is dropped with a warning. If some images are grey and others in colour, all become colour.

    Args:
        folder: the folder.
        resize: height and width that images are brought to; None to refuse images of several sizes.

    Raises:
        InputError: a file is not a single image of 8 bits and of the others' size, or leads out of the folder; or the
            images take more memory than there is.
    """
    paths = _list_images(folder)
    heads = [_read_head(folder, path) for path in paths]
    if resize is None:
        _check_sizes(folder, paths, [size for size, _ in heads])
    width, height = (resize, resize) if resize else heads[0][0]
    mode = "RGB" if any(MODES[mode] == "RGB" for _, mode in heads) else "L"
    if mode == "RGB" and any(MODES[mode] == "L" for _, mode in heads):
        warnings.warn(f"dataset: {folder}: some images are grey and others are in colour; all are taken as colour",
                      stacklevel=2)
    clear = [str(path) for path, (_, kind) in zip(paths, heads, strict=True) if kind in ("LA", "PA", "RGBA")]
    if clear:
        warnings.warn(f"dataset: {folder}: the alpha channel of {len(clear):,} images is dropped, {clear[0]} first",
                      stacklevel=2)
    channels = len(mode)
    memory.check_fits("dataset", len(paths) * height * width * channels, f"{folder}: {len(paths):,} images",
                      "leave out some of them, or make them smaller")
    images = np.empty((len(paths), height, width, channels), np.uint8)
    for image, path in zip(images, paths, strict=True):
        image[:] = _read_pixels(folder, path, mode, (width, height)).reshape(image.shape)
    return Pictures([unicodedata.normalize("NFC", path.as_posix()) for path in paths], images)


def _check_sizes(folder: pathlib.Path, paths: list[pathlib.Path], sizes: list[tuple[int, int]]) -> None:
    """Raise InputError for images of several (width, height)."""
    other = next((index for index, size in enumerate(sizes) if size != sizes[0]), None)
    if other is not None:
        one, two = (f"{width}x{height}" for width, height in (sizes[0], sizes[other]))
        raise InputError(f"dataset: {folder}: expected images of one size; {paths[0]} has {one} pixels and "
                         f"{paths[other]} {two}; {REMEDY}")


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
            if name.startswith(".") or path.as_posix() == "metadata.csv":
                continue
            (found if path.suffix.lower() in SUFFIXES else others).append(path)
    if not found:
        raise InputError(f"dataset: {folder}: expected image files, such as 1.png; found none")
    if others:
        warnings.warn(f"dataset: {folder}: {len(others):,} files that are no images are left out, {min(others)} first",
                      stacklevel=3)
    root = folder.resolve()
    for path in found:
        if not (folder / path).resolve().is_relative_to(root):
            raise InputError(f"dataset: {folder}: {path} is a link that leaves the folder; copy the file instead")
    return sorted(found)


def _refuse_folder(error: OSError) -> None:
    """Raise InputError for a folder that cannot be read, which os.walk would leave out."""
    raise InputError(f"dataset: {error.filename} cannot be read ({error.strerror})")


def _read_head(folder: pathlib.Path, path: pathlib.Path) -> tuple[tuple[int, int], str]:
    """Return an image's (width, height) and its mode, of MODES, without its pixels."""
    try:
        with files.open_regular(folder / path) as file, _quietly(), Image.open(file, formats=FORMATS) as image:
            size, mode, frames = image.size, image.mode, getattr(image, "n_frames", 1)
    except Exception as error:      # Pillow raises anything for a file from outside
        raise InputError(f"dataset: {folder}: {path} is not a readable image ({_explain(error)})") from None
    if frames > 1:
        raise InputError(f"dataset: {folder}: {path} has {frames} frames; expected a single image")
    if mode not in MODES:
        raise InputError(f"dataset: {folder}: {path} is of the kind {mode}; expected 8 bits for each channel, so "
                         "convert it to grey or RGB of 8 bits")
    return size, mode


def _read_pixels(folder: pathlib.Path, path: pathlib.Path, mode: str, size: tuple[int, int]) -> Integers:
    """Return an image's pixels as an array, grey ("L") or colour ("RGB"), of (width, height) `size`."""
    try:
        with files.open_regular(folder / path) as file, _quietly(), Image.open(file, formats=FORMATS) as image:
            # A palette with transparency is converted in two steps, as Pillow warns otherwise.
            pixels = (image.convert("RGBA") if image.mode in ("P", "PA") else image).convert(mode)
            if pixels.size != size:
                pixels = pixels.resize(size, Image.Resampling.BOX)
            return np.asarray(pixels, np.uint8)
    except Exception as error:
        raise InputError(f"dataset: {folder}: {path} is not a readable image ({_explain(error)})") from None


def _quietly() -> warnings.catch_warnings:
    """Return a context in which Pillow's warnings, such as of very large images, are errors."""
    return warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning)


def _explain(error: Exception) -> str:
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return "it has too many pixels"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is damaged, or of another format than its name says"
