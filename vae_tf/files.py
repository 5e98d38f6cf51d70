"""Files and folders that appear whole or not at all, and locks that the system drops when a process dies."""

import contextlib
import fcntl
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

# Names that no server takes for a version: of folders being written, and of folders being deleted.
WRITING, REMOVING = ".writing-", ".removing-"


def write_whole(path: pathlib.Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file that appears whole or not at all: it is written beside its place and then renamed.

    Args:
        path: the path of the file; its folder is made where there is none.
        write: a function that gets the open binary file and writes the content.

    Raises:
        OSError: the file could not be written; the message names it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name is unpredictable and is opened only if no file has it, so that no planted link is followed.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(aside, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Write bytes to a file that appears whole or not at all; raises OSError where it could not be written."""
    write_whole(path, lambda file: file.write(content))


def write_text(path: pathlib.Path, text: str) -> None:
    """Write text to a file that appears whole or not at all; raises OSError where it could not be written."""
    write_bytes(path, text.encode())


@contextlib.contextmanager
def hold_lock(folder: pathlib.Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder while entered; gives whether it is held, as not every file system has locks.

    Args:
        folder: must exist, or nothing is held.
        wait: whether to wait while another process holds the lock.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held = True
    except OSError:
        held = False
    try:
        yield held
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def write_folder_aside(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give a new, locked folder within `folder` to write in; it is deleted in the end unless it was renamed.

    The lock tells what is still being written from what a killed process left behind, which is deleted here.
    """
    with hold_lock(folder):
        for left in [*folder.glob(f"{WRITING}*"), *folder.glob(f"{REMOVING}*")]:
            with hold_lock(left, wait=False) as dead:
                if dead:
                    shutil.rmtree(left, ignore_errors=True)
        aside = pathlib.Path(tempfile.mkdtemp(prefix=WRITING, dir=folder))
        held = contextlib.ExitStack()
        held.enter_context(hold_lock(aside))
    with held:
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def remove_folder(path: pathlib.Path) -> None:
    """Delete a folder, which disappears from its place at once; nothing happens if another process was first."""
    removed = path.with_name(f"{REMOVING}{path.name}-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, removed)
        shutil.rmtree(removed)
