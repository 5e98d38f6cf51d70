"""Outcomes of an evaluation that is not complete, kept in a file, so that the next one goes on where it stopped.

A line of the file is one outcome: a checksum, and JSON with everything that the outcome depends on as its key. Lines
that are damaged or have another key are passed over. A file that cannot be read or written keeps nothing. Outcomes of
metrics from outside of this package are not kept, because what their code depends on is not known.
"""

import contextlib
import copy
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import stat
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import vae_tf
from vae_tf import files, metrics
from vae_tf.data.in_memory import fingerprint
from vae_tf.errors import InputError

FILE = ".scores"        # name of the file beside a model
LARGEST = 200_000_000   # bytes of a file that is read
AROUND = "around"       # the draw of metrics that look around posterior means
BOUNDED = "bounded"     # the part of a score that is within 0 and 1 where the score is not

_used: dict[pathlib.Path, set[str]] = {}        # the keys of this process's evaluations, by file


class Outcome(NamedTuple):
    """A metric on one draw of the codes: its Result or why there is none, warnings, seconds and number of rows."""

    result: metrics.Result | InputError
    warned: list[str]
    seconds: float
    rows: int


class Kept:
    """The outcomes in a file, for as long as it is open.

    Args:
        path: the file, which is made where there is none; None keeps nothing.
        key: identifies what the outcomes depend on, see `make_key`.
    """

    def __init__(self, path: pathlib.Path | None, key: str) -> None:
        self.path, self._held = path, contextlib.ExitStack()
        self._file = _open(path, self._held) if path else None
        self._take(key)

    def share(self, key: str) -> "Kept":
        """Return the outcomes under another key in the same file, for as long as this one is open."""
        other = copy.copy(self)
        other._take(key)
        return other

    def _take(self, key: str) -> None:
        self.key, self.found = key, {}      # type: ignore[var-annotated]
        if self.path:
            _used.setdefault(self.path.absolute(), set()).add(key)
        if self._file is not None:
            self._file.seek(0)
            self.found = {(name, draw): outcome for name, draw, outcome in _read(_read_lines(self._file), key)}

    def find(self, name: str, draw: str | int) -> Outcome | None:
        """Return the outcome of a metric on a draw, if there is one."""
        return self.found.get((name, draw))

    def add(self, name: str, draw: str | int, outcome: Outcome) -> None:
        """Keep an outcome. An outcome that cannot be written as JSON, or for which there is no room, is not kept."""
        if self._file is None or not metrics.METRICS[name].is_own:
            return
        with contextlib.suppress(OSError, TypeError, ValueError):
            text = json.dumps({"key": self.key, "metric": name, "draw": draw, **_describe(outcome, draw)}).encode()
            self._file.write(b"\n" + _checksum(text) + b" " + text)

    def close(self) -> None:
        """Close the file, which another evaluation may then use."""
        self._held.close()


def forget(path: pathlib.Path) -> None:
    """Delete what a complete evaluation of this process has kept, unless another evaluation uses the file.

    What others have kept that were interrupted stays. Where there is nothing of theirs, the file is deleted.
    """
    done = _used.pop(path.absolute(), set())
    with _lock(path) as held, contextlib.suppress(OSError):
        if held:
            with files.open_regular(path) as file:
                left = [line for line in _read_lines(file) if _is_whole(line) and _parse(line)["key"] not in done]
            if left:
                files.write_bytes(path, b"\n".join(left))
            else:
                path.unlink()


def make_key(*parts: Any) -> str:
    """Return a key of the parts and of this package's code."""
    own = pathlib.Path(vae_tf.__file__).parent.rglob("*.py")
    versions = [importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")]
    return fingerprint(versions, [hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
                                  for path in sorted(map(str, own))], *parts)


def _lock(path: pathlib.Path) -> contextlib.AbstractContextManager[bool | None]:
    """Lock a file while entered, if nobody else has it, see `files.hold_lock`."""
    return files.hold_lock(path.with_name(path.name + files.LOCK), wait=False)


def _open(path: pathlib.Path, held: contextlib.ExitStack) -> io.FileIO | None:
    """Open a file to read and append until `held` is closed; None if it is no regular file, or not to be had alone."""
    if not held.enter_context(_lock(path)):
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | files.NO_LINKS | files.AS_THEY_ARE, 0o644)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return held.enter_context(io.FileIO(descriptor, "r+"))
        os.close(descriptor)
    except OSError:
        pass
    return None


def _read(lines: Iterable[bytes], key: str) -> Iterable[tuple[str, str | int, Outcome]]:
    """Give the outcomes of the lines that are whole and have this key."""
    for entry in map(_parse, filter(_is_whole, lines)):
        if entry["key"] == key:
            result = InputError(entry["refused"]) if "refused" in entry else metrics.Result(
                entry["result"]["name"], entry["result"]["score"],
                {name: _restore(part) for name, part in entry["result"]["parts"].items()}, entry["result"]["meaning"])
            yield entry["metric"], entry["draw"], Outcome(result, entry["warned"], entry["seconds"], entry["rows"])


def _read_lines(file: Any) -> list[bytes]:
    """Return the lines of an open file, of which no more than LARGEST bytes are read."""
    return file.read(min(LARGEST, os.fstat(file.fileno()).st_size)).split(b"\n")


def _is_whole(line: bytes) -> bool:
    """Return whether a line is an outcome that was written to its end."""
    checksum, _, text = line.partition(b" ")
    return bool(text) and checksum == _checksum(text)


def _parse(line: bytes) -> Any:
    return json.loads(line.partition(b" ")[2])


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _describe(outcome: Outcome, draw: str | int) -> dict[str, Any]:
    """Return an outcome as JSON holds it; of shuffled codes and of half-samples the score and its bounds count."""
    what: dict[str, Any] = {"warned": outcome.warned, "seconds": outcome.seconds, "rows": outcome.rows}
    if isinstance(outcome.result, InputError):
        return {"refused": str(outcome.result), **what}
    name, score, parts, meaning = (getattr(outcome.result, field) for field in ("name", "score", "parts", "meaning"))
    whole = draw in ("score", AROUND)
    return {"result": {"name": name, "score": float(score), "meaning": meaning,
                       "parts": {key: _plain(part) for key, part in parts.items() if whole or key == BOUNDED}}, **what}


def _plain(part: Any) -> Any:
    """Return a part of a Result as JSON holds it."""
    if isinstance(part, np.ndarray | np.generic):
        if part.dtype.kind not in "biufU":
            raise TypeError(f"{part.dtype} cannot be kept")
        return {"array": part.tolist(), "dtype": part.dtype.str, "shape": part.shape}
    return {"value": part}


def _restore(part: dict[str, Any]) -> Any:
    if "value" in part:
        return part["value"]
    array = np.array(part["array"], part["dtype"]).reshape(part["shape"])
    return array if array.ndim else array[()]
