"""Read arrays from an untrusted .npz file: with bounded memory, and with one line for any error."""

import math
import os
import zipfile
from typing import Any

import numpy as np

from vae_tf import memory
from vae_tf.errors import InputError


def read(argument: str, path: str | os.PathLike, memory_limit: float | None = None) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name.

    Args:
        argument: what gave the path, for errors.
        path: the path of the file.
        memory_limit: bytes that the arrays may take, copies made of them included; `memory.find_available` by default.

    Raises:
        InputError: no such file, not an .npz of plain arrays, or one that takes more memory than the limit.
    """
    limit = memory.find_available() if memory_limit is None else memory_limit
    member = None
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            needed = 0
            for member in members:
                needed += _estimate_memory(archive, member)
            if needed > limit:
                raise InputError(f"{argument}: {path} takes {memory.describe_size(needed)} of memory to read, more "
                                 f"than the {memory.describe_size(limit)} that there are; store fewer examples, or "
                                 "images as uint8")
            arrays = {}
            for member in members:
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
                    file.read(1)        # reads to the end, where zipfile compares the checksum
            return arrays
    except FileNotFoundError:
        raise InputError(f"{argument}: no file {path}") from None
    except InputError:
        raise
    except Exception as error:      # a torn or hostile file may make zipfile, zlib and NumPy raise anything
        where = f"{member.filename}: " if member else ""
        raise InputError(f"{argument}: {path} is not a readable .npz of plain arrays ({where}{_explain(error)})"
                         ) from None


class _Unfit(ValueError):
    """Raised for a member that is no plain array; the message may be shown to the user."""


def _explain(error: Exception) -> str:
    """Return why a file cannot be read, without NumPy's words: these advise to unpickle a file from strangers."""
    if isinstance(error, _Unfit | zipfile.BadZipFile):
        return " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it is damaged or not an array: {type(error).__name__}"


def _estimate_memory(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return the bytes of memory that a member takes while it is read, as its header alone tells.

    Bytes are used as they are. Of other numbers a copy is made in float32, and two of a byte each: the pixels, and
    whether the numbers are finite.
    """
    if member.flag_bits & 1:
        raise _Unfit("it is encrypted")
    with archive.open(member) as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[np.lib.format.read_magic(file)](file)
        if dtype.hasobject or dtype.fields:
            raise _Unfit(f"it holds {'Python objects' if dtype.hasobject else 'records'}, not numbers or text")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > member.file_size - file.tell():
            raise _Unfit(f"its header promises {size:,} bytes of shape {shape}, but it has "
                         f"{member.file_size - file.tell():,}")
    return size + (6 * math.prod(shape) if dtype.itemsize > 1 else 0)
