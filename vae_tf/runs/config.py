"""config.json in a run's folder: the configuration that identifies the run."""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vae_tf import configuration, files, schemas

PathLike = str | pathlib.Path
Config = Mapping[str, Any]      # a configuration as JSON has it

# The entries that may change while a run stays the same: its length, the name of data that are known by content, and
# what a run of an earlier version does not know of the weights that it began with.
LEFT_OUT = ("steps", "dataset", "init_from_weights")


def write_config(run: PathLike, config: Config) -> None:
    """Write config.json."""
    files.write_text(pathlib.Path(run) / "config.json", json.dumps(config, indent=2))


def read_config(run: PathLike) -> dict[str, Any]:
    """Return what config.json holds; an empty dict if there is no such file.

    Raises:
        InputError: config.json is damaged, or is no configuration.
    """
    try:
        return schemas.read_json(pathlib.Path(run) / "config.json", configuration.SCHEMA, (),
                                 "restore the file, or --restart starts over in a new folder")
    except FileNotFoundError:
        return {}


def compare_config(run: PathLike, config: Config) -> dict[str, tuple[Any, Any]]:
    """Return how a stored configuration differs from this one: {name: (stored, now)}; `steps` may differ.

    Raises:
        InputError: config.json is damaged, or is no configuration.
    """
    stored = read_config(run)
    return {name: (stored.get(name), config.get(name)) for name in sorted({*stored, *config})
            if stored.get(name) != config.get(name) and name != "steps"} if stored else {}


def digest_config(config: Config) -> str:
    """Return a digest of a configuration, by which a checkpoint tells its run; "" for an empty one."""
    entries = {name: value for name, value in config.items() if name not in LEFT_OUT}
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest() if config else ""


def list_first_to_last(runs: Sequence[PathLike], file: str = "") -> str:
    """Return the first and the last of some runs' folders, or of a file in them, in words."""
    return " to ".join(f"{run}{file}" for run in dict.fromkeys((runs[0], runs[-1])))
