"""Exports on the Hugging Face Hub: addresses such as hf://owner/name@revision, and what is sent there and fetched.

A model from the Hub is trusted as little as any other: its card is checked before anything else is downloaded, then
each file against the checksum in the card. A graph that reaches out of the model is refused unless that is asked for.
"""

import fnmatch
import importlib
import pathlib
import re
import shutil
import sys
from collections.abc import Callable
from typing import Any

from vae_tf import arguments, extras, files
from vae_tf.arguments import PathLike
from vae_tf.errors import InputError, make_printable
from vae_tf.export.card import CARD, read_card
from vae_tf.export.checksums import check_files, list_files
from vae_tf.export.model_card import write_model_card
from vae_tf.export.versions import claim_version, find_newest_here, list_versions, make_folder

PREFIX = "hf://"
ADDRESS = re.compile(r"(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w-][\w./-]*))?", re.ASCII)
COMMIT = re.compile("[0-9a-f]{40}")
# Files that exports had before their cards listed all of them.
USUAL = ("saved_model.pb", "fingerprint.pb", "variables/*", "assets.extra/*")
# Files that a push writes. Others of a repository are its owner's.
OWN = ("saved_model.pb", "fingerprint.pb", "variables/variables.*", "assets.extra/tf_serving_warmup_requests",
       "assets.extra/model.weights.h5", "metrics.json")


def is_address(path: PathLike) -> bool:
    """Return whether a path is an address on the Hub, hf://owner/name or hf://owner/name@revision."""
    return str(path).startswith(PREFIX)


def read_address(address: str, argument: str) -> tuple[str, str | None]:
    """Return the repository, owner/name, and the revision of an address; None for the newest revision.

    Raises:
        InputError: it is no address; the line names the argument.
    """
    found = ADDRESS.fullmatch(address.removeprefix(PREFIX))
    if not found or ".." in address:
        raise InputError(f"{argument}: expected {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME@REVISION, with or "
                         f"without {PREFIX}; got {make_printable(address)}")
    return found["repository"], found["revision"]


def find_newest(root: PathLike) -> pathlib.Path:
    """Return the newest version in a folder, or of an address on the Hub, which is downloaded into the Hub's cache.

    Raises:
        InputError: there is none; see `versions.find_newest_here` and `download`.
    """
    if isinstance(root, pathlib.Path) and root.parts[:1] == ("hf:",):
        raise InputError(f"export: expected the address of a model on the Hub as a text; got a path, {root}")
    return download(str(root)) if is_address(root) else find_newest_here(root)


def download(address: str, folder: pathlib.Path | None = None) -> pathlib.Path:
    """Download the export at an address, and return its folder, whose files are those of its card.

    Args:
        address: hf://owner/name or hf://owner/name@revision; a branch, a tag or a commit.
        folder: where to put the files; None for the cache of huggingface_hub, which fetches nothing twice.

    Raises:
        InputError: there is no such model, the download breaks, or a file is not what the card says.
    """
    repository, revision = read_address(address, "export")
    api = _connect("export")
    where = {"cache_dir": None} if folder is None else {"local_dir": folder}
    # A branch may move meanwhile, a commit does not: one in the cache is read without asking the Hub.
    commit = revision if COMMIT.fullmatch(revision or "") else _ask(
        address, lambda: api.model_info(repository, revision=revision).sha)
    card = _ask(address, lambda: api.hf_hub_download(repository, CARD.as_posix(), revision=commit, **where))
    described = read_card(pathlib.Path(card).parents[1])
    wanted = [CARD.as_posix(), *(described.get("files") or USUAL)]
    path = pathlib.Path(_ask(address, lambda: api.snapshot_download(repository, revision=commit,
                                                                    allow_patterns=wanted, **where)))
    check_files(path, described)
    if not (path / "saved_model.pb").is_file():
        raise InputError(f"{make_printable(address)}: it has a card, and no saved_model.pb")
    return path


@arguments.check_arguments
def pull(address: str, folder: PathLike | None = None) -> pathlib.Path:
    """Download an export as the next version of a folder; returns its path, exported/NAME/VERSION.

    Where a version of the folder has the same files, nothing is written, and that version is returned.

    Args:
        address: hf://owner/name or hf://owner/name@revision.
        folder: exported/NAME; None for the repository's name in exported/.

    Raises:
        InputError: there is no such model, the download breaks, or a file is not what the card says.
        OSError: the folder cannot be written. Nothing half-written is left in any case.
    """
    name = read_address(address, "address")[0].partition("/")[2]
    folder = pathlib.Path(folder or pathlib.Path("exported") / name)
    files.check_writable(folder)
    with make_folder(folder), files.write_folder_aside(folder) as aside:
        download(address, aside)
        shutil.rmtree(aside / ".cache", ignore_errors=True)     # what huggingface_hub remembers of a folder
        aside.chmod(0o755)
        return _find_same(folder, aside) or claim_version(folder, aside)


def _find_same(folder: pathlib.Path, pulled: pathlib.Path) -> pathlib.Path | None:
    """Return the newest version of a folder that has the same files as an export; cards may have got scores since."""
    expected = read_card(pulled).get("files")
    for version in sorted(list_versions(folder), reverse=True):
        path = folder / str(version)
        try:
            there = read_card(path)
            check_files(path, there)
        except InputError:
            continue
        if expected and there.get("files") == expected:
            return path
    return None


@arguments.check_arguments
def push(export: PathLike, repository: str, private: bool = False, licence: str | None = None) -> str:
    """Send an export to the Hub, with a page that describes it, in one commit; returns the address of that commit.

    The commit deletes what the export that was there before had and this one lacks, such as scores.

    Args:
        export: exported/NAME for its newest version, or exported/NAME/VERSION.
        repository: owner/name, with or without hf://, which is made where there is none.
        private: whether a repository that is made is private.
        licence: the licence of the model, in the Hub's words, such as apache-2.0; None states none.

    Raises:
        InputError: there is no such export, it is damaged, or the Hub refuses it.
    """
    name, revision = read_address(repository, "repository")
    if revision is not None:
        raise InputError(f"repository: expected OWNER/NAME, because the Hub names the revision of what is sent; got "
                         f"{make_printable(repository)}")
    repository = name
    try:
        path = find_newest_here(export)
    except InputError as error:
        raise InputError(f"export: {error}") from None
    card = read_card(path)
    check_files(path, card)
    api = _connect("repository")
    listed = card.get("files") or [name for name in list_files(path) if _is_own(name)]
    names = [CARD.as_posix(), *listed, *(name for name in ("metrics.json",) if (path / name).is_file())]
    contents = {"README.md": write_model_card(card, repository, licence).encode(),
                **{name: path / name for name in names}}
    hub = extras.import_extra("huggingface_hub", "hub", "repository")
    _ask(repository, lambda: api.create_repo(repository, private=private, exist_ok=True))
    old = [name for name in _ask(repository, lambda: api.list_repo_files(repository))
           if name not in contents and _is_own(name)]
    made = _ask(repository, lambda: api.create_commit(
        repository, [*(hub.CommitOperationAdd(name, content) for name, content in contents.items()),
                     *(hub.CommitOperationDelete(name) for name in old)], commit_message=card["model"]))
    return f"{PREFIX}{repository}@{made.oid}"


def _is_own(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in OWN)


def _connect(argument: str) -> Any:
    """Return the API of the Hub, which says nothing of its retries, and shows progress on terminals alone."""
    hub = extras.import_extra("huggingface_hub", "hub", argument)
    extras.import_extra("huggingface_hub.constants", "hub", argument)       # reads the environment
    utils = importlib.import_module("huggingface_hub.utils")
    utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    return hub.HfApi(library_name="vae_tf")


def _ask(address: str, call: Callable[[], Any]) -> Any:
    """Return what a call of huggingface_hub returns; every error is one line."""
    try:
        return call()
    except Exception as error:          # errors of the library, of HTTP, of sockets and of disks have no common class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{make_printable(address)}: the Hub could not be used ({type(error).__name__}: "
                         f"{make_printable(reason)})") from None
