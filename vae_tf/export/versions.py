"""Find, claim and prune the folders of versions, exported/NAME/VERSION/. TensorFlow is not imported for that."""

import contextlib
import errno
import os
import pathlib
import re
import warnings
from collections.abc import Iterator

from vae_tf import arguments, console, files
from vae_tf.arguments import PathLike
from vae_tf.errors import InputError
from vae_tf.export.card import CARD, read_card
from vae_tf.export.checksums import check_files

LARGEST = 2**63         # no server takes a number that is as large for a version

PATTERN = re.compile(r"\[[^/]+\]|\\")     # by which TensorFlow takes the path of its variables for a pattern
PARTS = (pathlib.Path("saved_model.pb"), CARD)      # what each version has


def check_path(folder: PathLike) -> None:
    """Raise InputError for a path from which TensorFlow could not load a model."""
    if is_pattern(folder):
        raise InputError("expected a path without [...] and \\, because TensorFlow cannot load models from such paths; "
                         f"got {folder}")


def is_pattern(path: PathLike) -> bool:
    """Return whether TensorFlow takes a path for a pattern, which other paths match and it does not match itself."""
    return PATTERN.search(pathlib.Path(path).as_posix()) is not None


@contextlib.contextmanager
def make_folder(folder: pathlib.Path) -> Iterator[None]:
    """Make a folder where there is none; in the end what was made is removed again if nothing is in it.

    Raises:
        InputError: no model can be loaded from such a path; see `check_path`.
        OSError: the folder cannot be made.
    """
    try:
        check_path(folder)
    except InputError as error:
        raise InputError(f"folder: {error}") from None
    with files.make_folder(folder):
        yield


def prune(newest: pathlib.Path, keep: int) -> None:
    """Delete old versions, so that this many are left, the newest included; what is in use, or not ours, is left."""
    older = (version for version in list_versions(newest.parent) if version < int(newest.name))
    paths = [newest.with_name(str(version)) for version in sorted(older, reverse=True)]
    for path in [path for path in paths if path.is_dir() and not path.is_symlink()][keep - 1:]:
        why = "it is being scored"
        if not files.is_in_use(path):
            try:
                files.remove_folder(path)
                continue
            except OSError as error:
                why = error.strerror or str(error)
        warnings.warn(f"{path} could not be deleted ({why}); more versions than {keep} are left", stacklevel=2)


def claim_version(folder: pathlib.Path, aside: pathlib.Path) -> pathlib.Path:
    """Rename `aside` to the next free version; returns its path."""
    while True:
        path = folder / str(max(list_versions(folder), default=0) + 1)
        if not _is_version(path.name):
            raise OSError(errno.EINVAL, "no version of 64 bits is above those that are there", str(path))
        try:
            os.rename(aside, path)
            return path
        except OSError:
            if not os.path.lexists(path):    # otherwise another process took that number: try the next
                raise


def list_versions(folder: PathLike) -> list[int]:
    """Return the version numbers in exported/NAME, in no order; whatever else has such a name counts, too."""
    try:
        return [int(name) for name in os.listdir(folder) if _is_version(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_version(name: str) -> bool:
    """Return whether a folder of this name is a version for a server: a number, as 64 bits hold it."""
    return re.fullmatch("[1-9][0-9]{0,18}", name) is not None and int(name) < LARGEST


@arguments.check_arguments
def find_newest_here(root: PathLike) -> pathlib.Path:
    """Return the newest version in `root`: exported/ (the model written last), exported/NAME or exported/NAME/VERSION.

    A damaged version is passed over with a warning where an older one is whole.

    Raises:
        InputError: there is none.
    """
    root = pathlib.Path(root)
    if any((root / file).exists() for file in PARTS):
        return root
    found = {path.parents[len(file.parents) - 1] for file in PARTS for pattern in (f"*/{file}", f"*/*/{file}")
             for path in root.glob(pattern)}
    found = {path for path in found if _is_version(path.name)}
    found = {path for path in found if path.parent == root} or found       # those of exported/NAME, and no copies in it
    if not found:
        raise InputError(f"expected a folder that holds an exported model, such as exported/NAME; got {root}, "
                         f"which {'holds none' if root.exists() else 'does not exist'}; train one with "
                         f"{console.name_command('train')}")
    latest = {path.parent: path for path in sorted(found, key=lambda path: int(path.name))}.values()
    name = max(latest, key=_find_age).parent
    *newer, oldest = sorted((path for path in found if path.parent == name), key=lambda path: -int(path.name))
    for path in newer:
        problem = _find_problem(path)
        if problem is None:
            return path
        warnings.warn(f"{problem}; going back to the version before", stacklevel=2)
    return oldest


def _find_age(path: pathlib.Path) -> int:
    """Return when the SavedModel of a version was written, in ns; 0 if there is none."""
    file = path / PARTS[0]
    return file.stat().st_mtime_ns if file.exists() else 0


def _find_problem(path: pathlib.Path) -> str | None:
    """Return what keeps a version from being loaded, as far as its card and its files' checksums tell, or None."""
    if not (path / PARTS[0]).exists():
        return f"{path} has no {PARTS[0]}"
    try:
        check_files(path, read_card(path))
    except InputError as error:
        return str(error)
    return None
