"""Prepare the folder of a configuration's run."""

import itertools
import pathlib
from typing import Any

from vae_tf import export, runs
from vae_tf.configuration import Configuration, Settings
from vae_tf.errors import InputError


def prepare_run_folder(config: Configuration, settings: Settings, suffix: str = "",
                       write: bool = True) -> pathlib.Path:
    """Prepare runs/NAME for training, as a new folder or one to resume; return it.

    Args:
        config: the run's configuration.
        settings: say the name and the folders.
        suffix: what follows the name.
        write: whether this process writes config.json; False leaves that to another.

    Raises:
        InputError: the folder cannot be written, or holds a run with another configuration.
    """
    name = (settings.name or f"{config.model}_{pathlib.Path(config.dataset).stem}") + suffix
    if name in (".", "..") or "/" in name:
        raise InputError(f"--name: expected a folder's name, got {name!r}")
    for flag, root in (("run_root", settings.run_root), ("export_root", settings.export_root)):
        try:
            export.check_writable(pathlib.Path(root) / name)
        except InputError as error:
            raise InputError(f"--{flag}: {error}") from None
    run_dir = pathlib.Path(settings.run_root) / name
    if settings.restart:
        candidates = itertools.chain([run_dir], (run_dir.with_name(f"{name}-{i}") for i in itertools.count(2)))
        run_dir = next(path for path in candidates if not path.exists())
    changed = _leave_out_same_data(run_dir, config, runs.compare_config(run_dir, config.as_json()))
    if changed:
        listed = "; ".join(f"--{name}: {was} there, {now} now" for name, (was, now) in changed.items())
        raise InputError(f"{run_dir} holds a run with another configuration ({listed}); "
                         "give this one a --name, or --restart to start over in a new folder")
    if write:
        runs.write_config(run_dir, config.as_json())
    return run_dir


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
