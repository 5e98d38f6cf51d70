"""Read arrays from an untrusted .npz file: with bounded memory, and with one line for any error."""

import errno
import math
import os
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from vae_tf import files, kinds, memory
from vae_tf.data import stored
from vae_tf.errors import InputError, make_printable


class DamagedError(ValueError):
    """Raised for a file that is no archive of plain arrays; the message says why and may be shown to the user."""


class _UnfitError(ValueError):
    """Raised for a member that is no plain array; the message may be shown to the user."""


class _Header(NamedTuple):
    """What the header of a member says of its array, whose bytes start at `start` of the member."""

    shape: tuple[int, ...]
    dtype: np.dtype
    in_columns: bool
    start: int

    @property
    def size(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def read(argument: str, path: str | os.PathLike, memory_limit: float | None = None,
         leave: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name.

    Args:
        argument: what gave the path, for errors.
        path: the path of the file.
        memory_limit: bytes that the arrays may take, copies made of them included; `memory.find_available` by default.
        leave: names of arrays that stay in the file, as `stored.StoredArray`, if they are large and not compressed.

    Raises:
        InputError: no such file, not an .npz of plain arrays, or one that takes more memory than the limit.
    """
    try:
        return read_arrays(path, memory_limit, leave=leave)
    except FileNotFoundError:
        raise InputError(f"{argument}: no file {path}") from None
    except InputError as error:
        raise InputError(f"{argument}: {error}") from None
    except (DamagedError, OSError) as error:
        reason = error if isinstance(error, DamagedError) else error.strerror
        raise InputError(f"{argument}: {path} is not a readable .npz of plain arrays ({reason})") from None


def read_arrays(path: str | os.PathLike, memory_limit: float | None = None, packed: bool = True,
                leave: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name; how many bytes they take is known before any is read.

    Args:
        path: the path of the file.
        memory_limit, leave: as in `read`.
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
                arrays, needed = {}, 0
                for member in archive.infolist():
                    if not member.filename.endswith(".npy"):
                        archive.open(member).close()    # compares the two names that a file has of each member
                        continue
                    header, name = _read_header(archive, member), member.filename.removesuffix(".npy")
                    if name in leave and _may_stay(member, header):
                        arrays[name] = _leave(path, file, member, header)
                    else:
                        needed += _estimate_memory(header)
                _check_memory(path, needed, memory.find_available() if memory_limit is None else memory_limit)
                for member in members:
                    name = member.filename.removesuffix(".npy")
                    arrays[name] = arrays[name] if name in arrays else _read_member(archive, member)
                return arrays
        except InputError:
            raise
        except Exception as error:      # a torn or hostile file may make zipfile, zlib and NumPy raise anything
            if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.EIO):
                raise OSError(errno.EIO, "the disk or the memory failed", str(path)) from None
            where = f"{member.filename}: " if member else ""
            raise DamagedError(f"{where}{_explain(error)}") from None


def read_texts(texts: Any) -> list[str]:
    """Return an array of texts, or of bytes, which h5py gives for texts, as a list."""
    return [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in np.reshape(texts, -1)]


def read_names(where: str, name: str, texts: Any) -> list[str]:
    """Return an array of texts, which may be bytes, as a list of names that can be printed.

    Raises:
        InputError: a name comes twice; the line starts with `where` and calls the array by its name.
    """
    names = list(map(make_printable, read_texts(texts)))
    if len(set(names)) < len(names):
        raise InputError(f"{where}: expected {name} that differ; got {', '.join(names)}")
    return names


def decide_kinds(where: str, factors: np.ndarray, texts: Any) -> tuple[str, ...]:
    """Return the kind of each of K factors, as `kinds.decide` does.

    Args:
        where: where they come from, for errors.
        factors: [N, K].
        texts: an array `factor_kinds` of K texts, or of one without dimensions, for all factors; None for none.

    Raises:
        InputError: no such kinds, or another number of them.
    """
    given = None if texts is None else read_texts(texts)
    try:
        return kinds.decide(factors, given[0] if given and np.ndim(texts) == 0 else given)
    except InputError as error:
        raise InputError(f"{where}: factor_{error}") from None


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


def _read_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Header:
    """Return the header of a member, which must hold a plain array of the size that the header says."""
    if member.flag_bits & 1:
        raise _UnfitError("it is encrypted")
    with archive.open(member) as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, in_columns, dtype = read_header[np.lib.format.read_magic(file)](file)
        header = _Header(shape, dtype, in_columns, file.tell())
    if dtype.hasobject or dtype.fields:
        raise _UnfitError(f"it holds {'Python objects' if dtype.hasobject else 'records'}, not numbers or text")
    if header.size == 0 < math.prod(shape):
        raise _UnfitError("it holds texts without room for a letter")
    if min(shape, default=0) < 0 or header.size > member.file_size - header.start:
        raise _UnfitError(f"its header promises {header.size:,} bytes of shape {shape}, but it has "
                          f"{member.file_size - header.start:,}")
    return header


def _estimate_memory(header: _Header) -> int:
    """Return the bytes of memory that a member takes while it is read, as its header alone tells.

    Bytes are used as they are. Of other numbers a copy is made in float32, and two of a byte each: the pixels, and
    whether the numbers are finite.
    """
    return header.size + (6 * math.prod(header.shape) if header.dtype.itemsize > 1 else 0)


def _may_stay(member: zipfile.ZipInfo, header: _Header) -> bool:
    """Return whether an array is large, and lies in the file row by row as it is in memory."""
    return (header.size >= stored.LARGE and member.compress_type == zipfile.ZIP_STORED
            and member.compress_size == member.file_size and not header.in_columns and len(header.shape) > 1)


def _leave(path: str | os.PathLike, file: BinaryIO, member: zipfile.ZipInfo, header: _Header) -> stored.StoredArray:
    """Return an array that stays in the file, which stays open as long as the array is used."""
    offset = stored.find_offset(file, member) + header.start
    if offset + header.size > os.fstat(file.fileno()).st_size:
        raise _UnfitError("the file ends before it")
    return stored.StoredArray(str(path), os.fdopen(os.dup(file.fileno()), "rb"), offset, header.shape, header.dtype,
                              member.CRC)
