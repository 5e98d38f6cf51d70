"""Prepare the folder of a configuration's run."""

import itertools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from vae_tf import files, runs, training
from vae_tf.configuration import Configuration, Settings
from vae_tf.errors import InputError
from vae_tf.export import versions

SHOWN = 200     # characters of a setting that an error shows
# What takes the place of the characters of a dataset's name that the name of an export cannot have, or that --compare
# would take for the end of a name.
INSTEAD = str.maketrans({"[": "-", "]": None, "\\": "-", ",": "-"})


def choose_name(configs: Mapping[str, Configuration], settings: Settings) -> str:
    """Return NAME, which with each suffix of {suffix: configuration} names a run; with --restart, all of them new ones.

    Raises:
        InputError: no folder can have such a name.
    """
    config = next(iter(configs.values()))
    printable = "".join(each if each.isprintable() else "-" for each in pathlib.Path(config.dataset).stem)
    name = settings.name or f"{config.model}_{printable.translate(INSTEAD)}"
    if name.startswith(".") or "/" in name or not name.isprintable():
        raise InputError("--name: expected a folder's name of printable characters that does not begin with a dot; got "
                         f"{name!r}")
    if not settings.restart:
        return name
    candidates = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(candidate for candidate in candidates
                if not any(os.path.lexists(pathlib.Path(settings.run_root, candidate + suffix)) for suffix in configs))


def choose_run_folder(config: Configuration, settings: Settings, name: str) -> pathlib.Path:
    """Return runs/NAME, a new folder or one to resume, after checking that a run can go on there; nothing is written.

    Args:
        config: the run's configuration.
        settings: say the folders.
        name: of the run.

    Raises:
        InputError: a folder cannot be written, no export could be loaded from it, or it holds a run with another
            configuration.
    """
    run_dir = pathlib.Path(settings.run_root) / name
    for flag, check, folder in (("run_root", runs.check_folder, run_dir),
                                ("export_root", versions.check_path, pathlib.Path(settings.export_root)),
                                ("name", versions.check_path, pathlib.Path(name)),
                                ("export_root", files.check_writable, pathlib.Path(settings.export_root, name))):
        try:
            check(folder)
        except InputError as error:
            raise InputError(f"--{flag}: {error}") from None
    if not runs.find_checkpoints(run_dir) and not (run_dir / "history.csv").exists():
        return run_dir      # what was stopped before its first checkpoint has nothing to go on with
    changed = _leave_out_same_data(run_dir, config, runs.compare_config(run_dir, config.as_json()))
    if numerics := changed.pop("numerics", None):
        was, now = (number or 1 for number in numerics)
        raise InputError(f"{run_dir} holds a run of a vae_tf that trains to other numbers (numerics {was} there, {now} "
                         "now); give this one a --name, or --restart to start over in a new folder")
    was, now = changed.pop("init_from_weights", (None, None))
    if was and now and not changed:
        raise InputError(f"--init_from: {config.init_from} holds other weights than those that the run in {run_dir} "
                         f"began with (checksum {was[:8]} there, {now[:8]} now); go on with those weights, or give "
                         "this run a --name, or --restart to start over in a new folder")
    if changed:
        listed = "; ".join(f"--{name}: {_show(was)} there, {_show(now)} now" for name, (was, now) in changed.items())
        raise InputError(f"{run_dir} holds a run with another configuration ({listed}); "
                         "give this one a --name, or --restart to start over in a new folder")
    _check_length(run_dir, config)
    return run_dir


def _check_length(run_dir: pathlib.Path, config: Configuration) -> None:
    """Raise InputError for a run of another length if the learning rate of every step depends on the length."""
    steps = runs.read_config(run_dir).get("steps") or config.steps
    if training.depends_on_length(config.learning_rate_schedule) and steps != config.steps:
        raise InputError(f"--steps: the learning rate of the run in {run_dir} falls over {steps:,} steps, so that its "
                         f"length cannot change; expected {steps}, got {config.steps}; or give this run a --name, or "
                         "--restart to start over in a new folder")


def _show(value: Any) -> str:
    """Return a setting as text that is not long, whatever a stranger's file says."""
    text = "not set" if value is None else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _leave_out_same_data(run_dir: pathlib.Path, config: Configuration,
                         changed: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return the differences of a run's configuration, less those between two names of the same data.

    Raises:
        InputError: the data have changed under the same name.
    """
    was, now = changed.pop("data_fingerprint", (config.data_fingerprint,) * 2)
    if was == now:
        changed.pop("dataset", None)
    elif was and not {"dataset", "data_seed"} & set(changed):
        raise InputError(f"{run_dir} was trained on other data than {config.dataset} holds now (fingerprint "
                         f"{was[:8]} there, {now[:8]} now); go on with those data, or give this run a --name, or "
                         "--restart to start over in a new folder")
    return changed
