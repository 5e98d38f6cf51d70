"""A run's folder: runs/NAME/ with its configuration, history and checkpoints.

    config.json                everything the run depends on
    history.csv                a row per log interval
    checkpoints/STEP.npz       weights, optimiser and step; the newest two
    tensorboard/               the history again

Every file appears whole or not at all.
"""

import csv
import json
import os
import pathlib
import sys

import numpy as np

from vae_tf.errors import InputError

KEPT_CHECKPOINTS = 2


def write_whole(path, write):
    """Write a file that appears whole or not at all: aside, then renamed. write takes a binary file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def write_config(run, config):
    """Write config.json."""
    write_whole(pathlib.Path(run) / "config.json", lambda file: file.write(json.dumps(config, indent=2).encode()))


def differences(run, config):
    """How a stored configuration differs from this one: {name: (stored, now)}; `steps` may grow."""
    path = pathlib.Path(run) / "config.json"
    if not path.exists():
        return {}
    stored = json.loads(path.read_text())
    return {name: (stored.get(name), config.get(name)) for name in sorted({*stored, *config})
            if stored.get(name) != config.get(name) and name != "steps"}


def save(run, step, state, history):
    """Write history.csv and checkpoints/STEP.npz, whose content is `state`: arrays by name."""
    write_history(run, history)      # before the checkpoint: a restored step always has its rows
    write_whole(run / "checkpoints" / f"{step:09d}.npz", lambda file: np.savez(file, **state))
    for old in list(checkpoints(run).values())[KEPT_CHECKPOINTS:]:
        old.unlink()


def checkpoints(run):
    """{step: path} of a run's checkpoints, newest first."""
    return {int(path.stem): path for path in sorted((run / "checkpoints").glob("[0-9]*.npz"), reverse=True)}


def restore(runs):
    """The newest step of which every run has a whole checkpoint: (step, their states, their histories up to it).

    Step 0 and states None if there is no checkpoint at all. A damaged one is passed over with a warning.

    Raises:
        InputError: some have checkpoints, but not of a common step.
    """
    kept = [checkpoints(run) for run in runs]
    for step in [step for step in kept[0] if all(step in each for each in kept)]:
        states = [_read(each[step]) for each in kept]
        if all(states):
            return step, states, [read_history(run, step) for run in runs]
    if len(runs) > 1 and any(kept):
        at = ", ".join(f"{run.name}: {' or '.join(map(str, each)) or 'none'}"
                       for run, each in zip(runs, kept, strict=True))
        raise InputError(f"runs that train as one need checkpoints of a common step; got {at}; "
                         "--restart starts over in new folders")
    return 0, None, [[] for _ in runs]


def _read(path):
    """The arrays of a checkpoint, or None and a warning."""
    try:
        with np.load(path) as file:     # checks a CRC per array
            return {name: file[name] for name in file.files}
    except Exception as error:          # whatever a torn file makes of zipfile and numpy
        print(f"warning: {path} is damaged ({error}); going back to the one before", file=sys.stderr)
        return None


def write_history(run, history):
    """Write history.csv, a line per row; what a row lacks is an empty cell."""
    columns = list(dict.fromkeys(name for row in history for name in row))

    def write(file):
        rows = [[repr(row[name]) if name in row else "" for name in columns] for row in history]
        file.write("".join(",".join(cells) + "\n" for cells in [columns, *rows]).encode())

    write_whole(run / "history.csv", write)


def read_history(run, step):
    """The rows of history.csv up to `step`."""
    try:
        with open(run / "history.csv", newline="") as file:
            rows = [{k: int(v) if k == "step" else float(v) for k, v in row.items() if v}
                    for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    return [row for row in rows if row["step"] <= step]
