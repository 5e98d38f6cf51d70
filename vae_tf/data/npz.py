"""Read arrays from an untrusted .npz file: with bounded memory, and with one line for any error."""

import errno
import math
import os
import zipfile
from typing import Any

import numpy as np

from vae_tf import files, memory
from vae_tf.errors import InputError


class DamagedError(ValueError):
    """Raised for a file that is no archive of plain arrays; the message says why and may be shown to the user."""


class _UnfitError(ValueError):
    """Raised for a member that is no plain array; the message may be shown to the user."""


def read(argument: str, path: str | os.PathLike, memory_limit: float | None = None) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name.

    Args:
        argument: what gave the path, for errors.
        path: the path of the file.
        memory_limit: bytes that the arrays may take, copies made of them included; `memory.find_available` by default.

    Raises:
        InputError: no such file, not an .npz of plain arrays, or one that takes more memory than the limit.
    """
    try:
        return read_arrays(path, memory_limit)
    except FileNotFoundError:
        raise InputError(f"{argument}: no file {path}") from None
    except InputError as error:
        raise InputError(f"{argument}: {error}") from None
    except (DamagedError, OSError) as error:
        reason = error if isinstance(error, DamagedError) else error.strerror
        raise InputError(f"{argument}: {path} is not a readable .npz of plain arrays ({reason})") from None


def read_arrays(path: str | os.PathLike, memory_limit: float | None = None, packed: bool = True) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name; how many bytes they take is known before any is read.

    Args:
        path: the path of the file.
        memory_limit: as in `read`.
        packed: whether the file may be compressed, and so hold arrays that are larger than itself.

    Raises:
        DamagedError: the file is no archive of plain arrays.
        OSError: the file cannot be read.
        InputError: it takes more memory than the limit.
    """
    member = None
    with files.open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
                if not packed and sum(info.file_size for info in members) > os.fstat(file.fileno()).st_size:
                    raise _UnfitError("its arrays would be larger than the file")
                needed = 0
                for member in archive.infolist():
                    if member.filename.endswith(".npy"):
                        needed += _estimate_memory(archive, member)
                    else:
                        archive.open(member).close()    # compares the two names that a file has of each member
                _check_memory(path, needed, memory.find_available() if memory_limit is None else memory_limit)
                arrays = {}
                for member in members:
                    arrays[member.filename.removesuffix(".npy")] = _read_member(archive, member)
                return arrays
        except InputError:
            raise
        except Exception as error:      # a torn or hostile file may make zipfile, zlib and NumPy raise anything
            if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.EIO):
                raise OSError(errno.EIO, "the disk or the memory failed", str(path)) from None
            where = f"{member.filename}: " if member else ""
            raise DamagedError(f"{where}{_explain(error)}") from None


def _check_memory(path: str | os.PathLike, needed: float, limit: float) -> None:
    """Raise InputError if a file takes more memory to read than there is."""
    if needed > limit:
        raise InputError(f"{path} takes {memory.describe_size(needed)} of memory to read, more than the "
                         f"{memory.describe_size(limit)} that there are; store fewer examples, or images as uint8")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)        # reads to the end, where zipfile compares the checksum
        return array


def _explain(error: Exception) -> str:
    """Return why a file cannot be read, without NumPy's words: these advise to unpickle a file from strangers."""
    if isinstance(error, _UnfitError | zipfile.BadZipFile):
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
        raise _UnfitError("it is encrypted")
    with archive.open(member) as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[np.lib.format.read_magic(file)](file)
        if dtype.hasobject or dtype.fields:
            raise _UnfitError(f"it holds {'Python objects' if dtype.hasobject else 'records'}, not numbers or text")
        size = math.prod(shape) * dtype.itemsize
        if size == 0 < math.prod(shape):
            raise _UnfitError("it holds texts without room for a letter")
        if min(shape, default=0) < 0 or size > member.file_size - file.tell():
            raise _UnfitError(f"its header promises {size:,} bytes of shape {shape}, but it has "
                         f"{member.file_size - file.tell():,}")
    return size + (6 * math.prod(shape) if dtype.itemsize > 1 else 0)
