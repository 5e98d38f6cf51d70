"""Check, before training, that a run's folder can take what the run will write."""

import os
import pathlib

from vae_tf import files
from vae_tf.errors import InputError

FILES, FOLDERS = ("config.json", "history.csv"), ("checkpoints",)


def check_folder(run: pathlib.Path) -> None:
    """Raise InputError unless a run could be written into a folder, leaving nothing behind."""
    files.check_writable(run)
    for name in (*FILES, *FOLDERS):
        path, expected = run / name, "folder" if name in FOLDERS else "file"
        if os.path.lexists(path) and path.is_dir() != (expected == "folder"):
            raise InputError(f"expected a {expected} or nothing at {path}; got something else; move it away, or give "
                             "this run another --name")
    for name in FOLDERS:
        files.check_writable(run / name)
