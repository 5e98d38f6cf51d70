"""The user's own arrays, from an .npz file."""

import zipfile

import numpy as np

from vae_tf import kinds
from vae_tf.data import dataset
from vae_tf.errors import InputError


def from_npz(path):
    """A Dataset from `images` [N, H, W, C] or `data` [N, n], optional `factors` [N, K] and `u` [N, |u|].

    Images are uint8 (0..255, or 0..1 if no pixel is above 1) or floats in [0, 1]. Factors of
    integers are ordinal, and so are floats that are whole numbers and recur, with a warning; other floats are
    continuous. `factor_kinds` [K], of kinds.KINDS, says otherwise; names may be given as `factor_names` [K]. Without u,
    the factors scaled to [0, 1] are u.

    Raises:
        InputError: naming the array, what was expected and what came.
    """
    arrays = read("dataset", path)
    if ("images" in arrays) == ("data" in arrays):
        raise InputError(f"dataset: {path}: expected one array `images` [N, H, W, C] or `data` [N, n]; "
                         f"got {', '.join(arrays) or 'no arrays'}")
    x = (_images(path, arrays["images"]) if "images" in arrays
         else _floats(path, "data", arrays["data"], 2).astype(np.float32))
    if not len(x):
        raise InputError(f"dataset: {path}: expected at least one example, got none")
    values = factors = u = None
    if "factors" in arrays:
        values = _matching(path, "factors", arrays["factors"], len(x))
        names = [str(name) for name in arrays.get("factor_names", [f"v{k + 1}" for k in range(values.shape[1])])]
        if len(names) != values.shape[1]:
            raise InputError(f"dataset: {path}: expected {values.shape[1]} factor_names, got {len(names)}")
        given = arrays.get("factor_kinds")
        factors = []
        for k, (name, kind) in enumerate(zip(names, kinds.decided(values, given), strict=True)):
            size = None
            if kind != "continuous":
                known, values[:, k] = np.unique(values[:, k], return_inverse=True)
                size, kind = len(known), "ordinal" if given is None else kind
            factors.append(dataset.Factor(name, size, kind))
        if all(factor.size for factor in factors):
            values = values.astype(np.int64)
    if "u" in arrays:
        u = _matching(path, "u", arrays["u"], len(x)).astype(np.float32)
    return dataset.from_arrays(str(path), x, values, factors or (), u)


def read(argument, path):
    """The arrays of an .npz file, by name.

    Raises:
        InputError: no such file, or not an .npz of plain arrays; it names the argument that gave the path.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise InputError(f"{argument}: no file {path}") from None
    except (zipfile.BadZipFile, ValueError, OSError, AttributeError, EOFError) as error:
        raise InputError(f"{argument}: {path} is not a readable .npz of plain arrays ({error})") from None


def _images(path, images):
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if images.ndim != 4:
        raise InputError(f"dataset: {path}: expected images [N, H, W, C], got shape {images.shape}")
    if images.dtype == np.uint8:
        return images * np.uint8(255) if images.size and images.max() <= 1 else images
    images = _floats(path, "images", images, 4)
    if images.size and (images.min() < 0 or images.max() > 1):
        raise InputError(f"dataset: {path}: expected images as uint8 or as floats in [0, 1], "
                         f"got floats in [{images.min():g}, {images.max():g}]")
    return np.rint(images * 255).astype(np.uint8)


def _floats(path, name, array, rank):
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array) or array.ndim != rank:
        raise InputError(f"dataset: {path}: expected {name} as real numbers of rank {rank}, "
                         f"got {array.dtype} of shape {array.shape}")
    bad = np.count_nonzero(~np.isfinite(array))
    if bad:
        raise InputError(f"dataset: {path}: expected finite {name}, got {bad} NaN or infinite values")
    return array if np.issubdtype(array.dtype, np.integer) else array.astype(np.float32)


def _matching(path, name, array, examples):
    array = array[:, np.newaxis] if array.ndim == 1 else array
    array = _floats(path, name, array, 2)
    if len(array) != examples:
        raise InputError(f"dataset: {path}: expected {examples} rows of {name}, one per example, got {len(array)}")
    return array
