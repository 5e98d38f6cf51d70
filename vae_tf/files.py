"""Files and folders that appear whole or not at all, are read without trust, and locks that end with their process."""

import contextlib
import errno
import io
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import filelock

from vae_tf.errors import InputError

# Names that no server takes for a version: of folders being written, and of folders being deleted.
WRITING, REMOVING = ".writing-", ".removing-"
LOCK = ".lock"      # the file by which a folder is locked, and the end of the names of those that lock something else
ASIDE = ".writing."     # how the names of files begin that are being written
IN_USE = ".in-use."     # how the names of locks begin that say that a folder is in use
# Windows lacks the first and has no pipes among its files; without the second it would translate the ends of lines.
AS_THEY_ARE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: str | os.PathLike) -> io.BufferedReader:
    """Open a file to read its bytes; a pipe, a socket or a device is refused, as reading it might never end.

    Raises:
        OSError: there is no such file, it cannot be read, or it is something else than a file.
    """
    descriptor = os.open(path, os.O_RDONLY | AS_THEY_ARE)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_bytes(path: str | os.PathLike, largest: int) -> bytes:
    """Return the content of a file of at most `largest` bytes.

    Raises:
        OSError: as `open_regular`, or the file is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EFBIG, f"its {size:,} bytes are more than the {largest:,} that such a file may have",
                          str(path))
        return file.read(size)      # a larger number would be allocated before anything is read


@contextlib.contextmanager
def make_folder(folder: pathlib.Path) -> Iterator[None]:
    """Make a folder where there is none; in the end what was made is removed again if nothing is in it.

    Raises:
        OSError: the folder cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):      # it is not empty
                path.rmdir()


def write_whole(path: pathlib.Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file that appears whole or not at all: it is written beside its place and then renamed.

    What killed processes left half written in the same folder is deleted.

    Args:
        path: the path of the file; its folder is made where there is none.
        write: a function that gets the open binary file and writes the content.

    Raises:
        OSError: the file could not be written; the message names it.
    """
    # The name is unpredictable and is opened only if no file has it, so that no planted link is followed. It does not
    # hold that of the file, which may be as long as names can be.
    aside = path.with_name(f"{ASIDE}{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and is_device(os.lstat(path).st_mode):     # such as /dev/null, for all programs
            raise OSError(errno.EINVAL, "it is a device, which no file may replace", str(path))
        delete_left_behind(path.parent)
        with hold_lock(_name_lock(aside)), open(aside, "xb") as file, _delete_in_the_end(aside):
            write(file)
            file.flush()
            os.fsync(file.fileno())
            file.close()        # Windows renames no open file
            os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _delete_in_the_end(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):      # Windows deletes no open file; the next writer does
            path.unlink(missing_ok=True)


def delete_left_behind(folder: pathlib.Path) -> None:
    """Delete what `write_whole` of processes that are dead left in a folder, if there is such a folder.

    Processes that are alive hold the locks of their files.
    """
    with contextlib.suppress(OSError):          # no such folder, or none that may be read
        for name in {name.removesuffix(LOCK) for name in os.listdir(folder)}:
            if re.fullmatch(rf"({re.escape(ASIDE)}|{re.escape(IN_USE)})[0-9a-f]{{16}}", name):
                with hold_lock(folder / (name + LOCK), wait=False) as dead, contextlib.suppress(OSError):
                    if dead:        # another process may delete the same file, and not every file may be deleted
                        (folder / name).unlink()


def _name_lock(path: pathlib.Path) -> pathlib.Path:
    """Return the file by which a file or a folder is locked from beside it, so that it can be renamed meanwhile."""
    return path.with_name(path.name + LOCK)


def is_device(mode: int) -> bool:
    """Return whether the st_mode of a path is that of a device."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Write bytes to a file that appears whole or not at all; raises OSError where it could not be written."""
    write_whole(path, lambda file: file.write(content))


def write_text(path: pathlib.Path, text: str) -> None:
    """Write text to a file that appears whole or not at all; raises OSError where it could not be written."""
    write_bytes(path, text.encode())


def check_writable(folder: str | os.PathLike) -> None:
    """Raise InputError unless a folder could be written, or made where there is none; leaves nothing behind."""
    folder = pathlib.Path(folder)
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=existing):
            longest = os.pathconf(existing, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255      # of Windows
        if any(len(os.fsencode(name)) > longest for name in folder.parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    except OSError as error:
        raise InputError(f"expected a folder that can be written, got {folder} ({existing}: {error.strerror})"
                         ) from None


@contextlib.contextmanager
def hold_lock(path: pathlib.Path, wait: bool = True) -> Iterator[bool | None]:
    """Hold a lock while entered; the system ends the hold with the process.

    Gives True if the lock is held, False if another process holds it, and None if that cannot be told: the file cannot
    be made, as where there is no such folder, or its file system has no locks.

    Args:
        path: the file that stands for the lock, which is there only as long as somebody holds it or waits for it.
        wait: whether to wait while another process holds the lock.
    """
    lock = filelock.FileLock(path, timeout=-1 if wait else 0, fallback_to_soft=False)
    held: bool | None = True
    try:
        os.stat(path.parent)        # otherwise filelock would make the folder
        lock.acquire()
    except filelock.Timeout:
        held = False
    except (OSError, NotImplementedError):
        held = None
    try:
        yield held
    finally:
        if held:
            # A process that waits for a file that is gone makes a new one. Windows deletes no open file.
            with contextlib.suppress(OSError):
                path.unlink()
            lock.release()
            if os.name == "nt":
                with contextlib.suppress(OSError):
                    path.unlink()


@contextlib.contextmanager
def keep_in_use(folder: pathlib.Path) -> Iterator[None]:
    """Have `is_in_use` say so of a folder while entered, as any number of processes may; it ends with the process."""
    path = folder / f"{IN_USE}{secrets.token_hex(8)}{LOCK}"
    with hold_lock(path) as held:
        try:
            yield
        finally:
            if not held:        # a file system without locks
                with contextlib.suppress(OSError):
                    path.unlink()


def is_in_use(folder: pathlib.Path) -> bool:
    """Return whether a process is within `keep_in_use` of a folder, or whether that cannot be told."""
    for path in folder.glob(f"{IN_USE}*{LOCK}"):
        with hold_lock(path, wait=False) as dead:
            if not dead and path.exists():      # None: it is another user's, or the file system has no locks
                return True
    return False


@contextlib.contextmanager
def write_folder_aside(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give a new, locked folder within `folder` to write in; it is deleted in the end unless it was renamed.

    The lock tells what is still being written from what a killed process left behind, which is deleted here.
    """
    with hold_lock(folder / LOCK):
        for name in {name.removesuffix(LOCK) for name in os.listdir(folder) if name.startswith((WRITING, REMOVING))}:
            with hold_lock(folder / (name + LOCK), wait=False) as dead:
                if dead:
                    shutil.rmtree(folder / name, ignore_errors=True)
        aside = pathlib.Path(tempfile.mkdtemp(prefix=WRITING, dir=folder))
        held = contextlib.ExitStack()
        held.enter_context(hold_lock(_name_lock(aside)))
    with held:
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def remove_folder(path: pathlib.Path) -> None:
    """Delete a folder, which disappears from its place at once; nothing happens if another process was first.

    Raises:
        OSError: the folder, or a folder in it, is not this user's to delete; the folder is then left as it was.
    """
    for inside, _, _ in os.walk(path):
        if not os.access(inside, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), inside)
    removed = path.with_name(f"{REMOVING}{path.name}-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, removed)
        shutil.rmtree(removed)
