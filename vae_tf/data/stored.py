"""Rows of an array that lies uncompressed in an .npz file, read when they are asked for.

The rows are read by position rather than mapped into memory: a file that is cut short while it is used then gives an
error, where a mapping would end the process.
"""

import math
import os
import struct
import threading
import zipfile
from typing import BinaryIO, NamedTuple

import numpy as np

from vae_tf.errors import InputError
from vae_tf.typing import Array, Integers

LARGE = 2**28           # bytes from which on an array stays in its file
LOCAL_HEADER = 30       # bytes before the name of a member, the lengths of the name and of an extra field in the last 4
_SEEKING = threading.Lock()


class StoredArray(NamedTuple):
    """An array in a file: its rows lie one after another from `offset` on; `checksum` is the archive's own."""

    path: str
    file: BinaryIO
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    checksum: int

    @property
    def row_size(self) -> int:
        """The bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, indices: Integers) -> Array:
        """Return the rows of some indices, [B, ...].

        Raises:
            InputError: the file ends before a row, or cannot be read.
        """
        rows = np.empty((len(indices), *self.shape[1:]), self.dtype)
        size = self.row_size
        buffer = rows.reshape(-1).view(np.uint8).data
        for k, index in enumerate(indices):
            try:
                got = _read_into(self.file, buffer[k * size:(k + 1) * size], self.offset + int(index) * size)
            except OSError as error:
                raise InputError(f"dataset: {self.path} cannot be read ({error.strerror})") from None
            if got < size:
                raise InputError(f"dataset: {self.path} ends before example {index:,}; it has changed since it was "
                                 "opened")
        return rows


def find_offset(file: BinaryIO, member: zipfile.ZipInfo) -> int:
    """Return where the bytes of a member of an archive start, by the header before them."""
    header = bytearray(LOCAL_HEADER)
    _read_into(file, memoryview(header), member.header_offset)
    return member.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", header[-4:]))


def _read_into(file: BinaryIO, buffer: memoryview, offset: int) -> int:
    """Fill a buffer with the bytes of a file from an offset on; returns how many there are."""
    if hasattr(os, "preadv"):           # not on Windows
        return os.preadv(file.fileno(), [buffer], offset)
    with _SEEKING:
        file.seek(offset)
        return file.readinto(buffer)    # type: ignore[attr-defined]
