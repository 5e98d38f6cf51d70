"""What a file of JSON must hold that is read back: its size, its keys, and what kind each value is.

Any file may be cut, damaged or a stranger's. So each is read by `read_json`, which either gives values of the kinds
that the file's schema names, or one line that names the file, what is wrong, and the remedy.
"""

import hashlib
import json
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from vae_tf import files
from vae_tf.errors import InputError

LARGEST = 2**26         # bytes of a file of JSON, many times what any has
DEEPEST = 32            # levels of objects and lists within each other
SHOWN = 60              # characters of a wrong value that an error shows
# Whole numbers that all libraries hold.
MOST = 2**63 - 1


class Kind(NamedTuple):
    """A kind of values of JSON: what it is called in an error, and a function that says whether a value is of it."""

    called: str
    holds: Callable[[Any], bool]


# The kinds of the entries of a file by dotted name, such as {"data.name": TEXT}.
Schema = Mapping[str, Kind]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


TEXT = Kind("text", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number, 0 or more", lambda value: _is_whole(value) and value >= 0)
SIZE = Kind("a whole number, 1 or more", lambda value: _is_whole(value) and value >= 1)
NUMBER = Kind("a finite number", _is_number)
OBJECT = Kind("an object", lambda value: isinstance(value, dict))


def list_of(kind: Kind, called: str) -> Kind:
    """Return the kind of lists whose items are all of a kind, such as `a list of texts`."""
    return Kind(f"a list of {called}", lambda value: isinstance(value, list) and all(map(kind.holds, value)))


def or_null(kind: Kind) -> Kind:
    """Return a kind that null is of, too."""
    return Kind(f"{kind.called} or null", lambda value: value is None or kind.holds(value))


def read_json(path: pathlib.Path, schema: Schema, needed: Iterable[str], remedy: str) -> dict[str, Any]:
    """Return the object that a file of JSON holds.

    Args:
        path: the path of the file.
        schema: the kind of each entry, by dotted name; entries that it does not name may be anything.
        needed: dotted names of the entries that must be there.
        remedy: what to do about a damaged file, for errors.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: the file cannot be read, or does not hold what it must.
    """
    try:
        value = json.loads(files.read_bytes(path, LARGEST).decode())
        wrong = ("it is nested too deeply" if _is_deeper(value, DEEPEST) else find_mistake(value, schema, needed))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:        # errors of JSON and Unicode are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else f"not JSON: {error}"
        wrong = f"it cannot be read ({reason})"
    if wrong:
        raise InputError(f"{path}: {wrong}; {remedy}") from None
    return value


def find_mistake(value: Any, schema: Schema, needed: Iterable[str] = ()) -> str | None:
    """Return what keeps a value of JSON from being what a schema says, in words; None if nothing does."""
    if not isinstance(value, dict):
        return f"expected a JSON object; got {_show(value)}"
    needed = tuple(needed)
    for name in dict.fromkeys((*needed, *schema)):
        at: Any = value
        found = True
        for part in name.split("."):
            found = found and isinstance(at, dict) and part in at
            at = at[part] if found else None
        if not found and name in needed:
            return f"expected an entry {name}; got none"
        if found and name in schema and not schema[name].holds(at):
            return f"expected {name} to be {schema[name].called}; got {_show(at)}"
    return None


def compute_checksum(entries: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an object's entries but `checksum`, whatever the order and the spaces of its file."""
    others = {name: value for name, value in entries.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def is_untouched(entries: Mapping[str, Any]) -> bool:
    """Return whether an object has the entries that its `checksum` was made of; those of earlier versions have none."""
    return "checksum" not in entries or entries["checksum"] == compute_checksum(entries)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether objects and lists are within each other on more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inside)


def _show(value: Any) -> str:
    """Return a value of JSON as text of one line that is not long."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
