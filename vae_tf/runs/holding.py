"""Hold a run's folder against other processes that would write into it."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from vae_tf import files
from vae_tf.errors import InputError

_held: set[tuple[int, int]] = set()         # (device, inode) of the folders that this process holds


@contextlib.contextmanager
def hold(run: pathlib.Path, wait: bool = False) -> Iterator[None]:
    """Hold a run's folder while entered; a process may enter it again. The system ends the hold with the process.

    The folder is made where there is none, and is removed in the end if nothing was written into it. What killed
    processes left half written in it is deleted.

    Args:
        run: the folder, runs/NAME.
        wait: whether to wait while another process holds it.

    Raises:
        InputError: another process holds the folder.
    """
    with files.make_folder(run):
        status = os.stat(run)
        place = (status.st_dev, status.st_ino)
        if place in _held:
            yield
            return
        with files.hold_lock(run / files.LOCK, wait) as held:
            if held is False:
                raise InputError(f"{run}: another process trains in this folder; wait until it has ended, or give this "
                                 "run another --name")
            _held.add(place)
            try:
                for folder in (run, run / "checkpoints"):
                    files.delete_left_behind(folder)
                yield
            finally:
                _held.discard(place)
