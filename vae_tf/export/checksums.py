"""The checksums of an export's files, which its card holds: they tell whether each file is still the one exported."""

import hashlib
import os
import pathlib
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from vae_tf import files
from vae_tf.errors import InputError, make_printable
from vae_tf.export.card import CARD, REMEDY


def compute_checksums(path: pathlib.Path) -> dict[str, str]:
    """Return the SHA-256 of each file below exported/NAME/VERSION but its card, by path; takes about 1 s per GB."""
    return {name: _compute_checksum(path / name) for name in sorted(list_files(path)) if name != CARD.as_posix()}


def check_files(path: pathlib.Path, card: Mapping[str, Any]) -> None:
    """Check that the files of exported/NAME/VERSION are those that were exported.

    Cards of earlier versions have no checksums. Then only files that are none are found, such as pipes, which
    TensorFlow would wait for.

    Raises:
        InputError: a file is missing, damaged or another model's; the line names it.
    """
    for name in list_files(path):
        if not stat.S_ISREG(_find_mode(path / name)):
            raise InputError(f"{make_printable(path / name)} is not a regular file; {REMEDY}")
    for name, expected in card.get("files", {}).items():
        try:
            same = _compute_checksum(path / name) == expected
        except OSError as error:
            raise InputError(f"{make_printable(path / name)} cannot be read ({error.strerror}); {REMEDY}") from None
        if not same:
            raise InputError(f"{make_printable(path / name)} is damaged or of another model: its checksum is not the "
                             f"one in the card; {REMEDY}")


def _compute_checksum(path: pathlib.Path) -> str:
    with files.open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find_mode(path: pathlib.Path) -> int:
    """Return what kind of file there is, links followed; 0 for a link that leads nowhere."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def list_files(path: pathlib.Path) -> Iterator[str]:
    """Yield the paths of all that is below a folder but folders."""
    for folder, _, names in os.walk(path):
        yield from ((pathlib.Path(folder) / name).relative_to(path).as_posix() for name in names)
