"""Find the exports that flags name. That needs no TensorFlow, so that what is not there is refused at once."""

import glob
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from vae_tf import export
from vae_tf.errors import InputError


def find_export(flag: str, named: str, also: Iterable[str], pulls: bool = False) -> tuple[pathlib.Path, dict[str, Any]]:
    """Return the folder and the card of the newest version of an export.

    Args:
        flag: the flag that names it.
        named: exported/, exported/NAME, exported/NAME/VERSION, or an address on the Hugging Face Hub.
        also: entries that the card must have, see `export.read_card`.
        pulls: whether an export of the Hub becomes a version of exported/NAME, as files are to be written beside it.

    Raises:
        InputError: there is no such export, or its card is damaged; the line names the flag.
    """
    try:
        path = export.find_newest(export.pull(named) if pulls and export.is_address(named) else named)
        return path, export.read_card(path, also)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def find_exports(given: Sequence[str]) -> list[str]:
    """Return the exports that --compare names: each name as it is, each pattern (exported/vae*) as the folders it fits.

    Raises:
        InputError: a pattern that no exported model fits.
    """
    names = []
    for name in given:
        pattern = glob.has_magic(name) and not pathlib.Path(name).exists()
        found = [path for path in sorted(glob.glob(name)) if (pathlib.Path(path) / export.CARD).is_file()
                 or any(pathlib.Path(path).glob(f"*/{export.CARD}"))] if pattern else [name]
        if not found:
            raise InputError(f"--compare: expected a pattern that exported models fit; got {name!r}")
        names += found
    return list(dict.fromkeys(names))
