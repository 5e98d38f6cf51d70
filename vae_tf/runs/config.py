"""config.json in a run's folder: the configuration that identifies the run."""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vae_tf import files
from vae_tf.errors import InputError

PathLike = str | pathlib.Path


def write_config(run: PathLike, config: Mapping[str, Any]) -> None:
    """Write config.json, from a configuration as JSON has it."""
    files.write_text(pathlib.Path(run) / "config.json", json.dumps(config, indent=2))


def compare_config(run: PathLike, config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return how a stored configuration differs from this one: {name: (stored, now)}; `steps` may grow.

    Raises:
        InputError: config.json is damaged.
    """
    stored = _read_config(run)
    return {name: (stored.get(name), config.get(name)) for name in sorted({*stored, *config})
            if stored.get(name) != config.get(name) and name != "steps"} if stored else {}


def digest_config(run: PathLike) -> str:
    """Return a digest of a run's configuration, which tells runs apart; "" if none was written."""
    config = {name: value for name, value in _read_config(run).items() if name != "steps"}
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest() if config else ""


def list_first_to_last(runs: Sequence[PathLike], file: str = "") -> str:
    """Return the first and the last of some runs' folders, or of a file in them, in words."""
    return " to ".join(f"{run}{file}" for run in dict.fromkeys((runs[0], runs[-1])))


def _read_config(run: PathLike) -> dict[str, Any]:
    path = pathlib.Path(run) / "config.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: expected the configuration of a run as JSON; {error}") from None
