"""The folder of a run that flags ask for."""

import itertools
import pathlib

from vae_tf import export, runs
from vae_tf.errors import InputError


def run_folder(values, config, suffix="", write=True):
    """runs/NAME, ready to be trained in: a new one, or one to go on with; write=False leaves that to another process.

    Raises:
        InputError: it cannot be written, or holds a run with another configuration.
    """
    name = (values.name or f"{config['model']}_{pathlib.Path(config['dataset']).stem}") + suffix
    if name in (".", "..") or "/" in name:
        raise InputError(f"--name: expected a folder's name, got {name!r}")
    for flag in ("run_root", "export_root"):
        try:
            export.check_writable(pathlib.Path(values[flag].value) / name)
        except InputError as error:
            raise InputError(f"--{flag}: {error}") from None
    run_dir = pathlib.Path(values.run_root) / name
    if values.restart:
        candidates = itertools.chain([run_dir], (run_dir.with_name(f"{name}-{i}") for i in itertools.count(2)))
        run_dir = next(path for path in candidates if not path.exists())
    changed = _without_same_data(run_dir, config, runs.compare_config(run_dir, config))
    if changed:
        listed = "; ".join(f"--{name}: {was} there, {now} now" for name, (was, now) in changed.items())
        raise InputError(f"{run_dir} holds a run with another configuration ({listed}); "
                         "give this one a --name, or --restart to start over in a new folder")
    if write:
        runs.write_config(run_dir, config)
    return run_dir


def _without_same_data(run_dir, config, changed):
    """The differences of a run's configuration, less those between two names of the same data.

    Raises:
        InputError: the data have changed under the same name.
    """
    was, now = changed.pop("data_fingerprint", (config["data_fingerprint"],) * 2)
    if was == now:
        changed.pop("dataset", None)
    elif was and not {"dataset", "data_seed"} & set(changed):
        raise InputError(f"{run_dir} was trained on other data than {config['dataset']} holds now (fingerprint "
                         f"{was[:8]} there, {now[:8]} now); go on with those data, or give this run a --name, or "
                         "--restart to start over in a new folder")
    return changed
