"""A run's folder: runs/NAME/ with its configuration, history and checkpoints.

    config.json                everything the run depends on
    history.csv                a row per log interval
    checkpoints/STEP.npz       weights, optimiser and step; the newest two that are whole
    tensorboard/               the history again

Every file appears whole or not at all.
"""

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import pathlib
import re
import secrets
import sys

import numpy as np

from vae_tf.errors import InputError

KEPT_CHECKPOINTS = 2
RUN = "run"                 # the array of a checkpoint that says which run wrote it
# train.py's flags that say where results go, how often or how many runs there are, not what a run is.
OUTPUT = ("name", "run_root", "export_root", "restart", "log_every", "checkpoint_every", "keep_versions",
          "polarised_every", "data_dir", "epochs", "strategy", "replicas", "sweep_beta", "accept_dark")
DAMAGED, FOREIGN = "is damaged", "is of a run with another configuration"


def write_whole(path, write):
    """Write a file that appears whole or not at all: aside, then renamed. write takes a binary file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name that nobody can foresee, opened only if nothing is there: no link that was planted is followed.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(aside, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder, wait=True):
    """Hold a folder's lock; gives whether it is held: no file system need have locks.

    The system drops it when the process dies.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held = True
    except OSError:
        held = False
    try:
        yield held
    finally:
        os.close(descriptor)


def write_config(run, config):
    """Write config.json."""
    write_whole(pathlib.Path(run) / "config.json", lambda file: file.write(json.dumps(config, indent=2).encode()))


def differences(run, config):
    """How a stored configuration differs from this one: {name: (stored, now)}; `steps` may grow."""
    stored = _config(run)
    return {name: (stored.get(name), config.get(name)) for name in sorted({*stored, *config})
            if stored.get(name) != config.get(name) and name != "steps"} if stored else {}


def identity(run):
    """What tells the run of a folder from others: a digest of its configuration, "" if none was written."""
    config = {name: value for name, value in _config(run).items() if name != "steps"}
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest() if config else ""


def _config(run):
    path = pathlib.Path(run) / "config.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: expected the configuration of a run as JSON; {error}") from None


def save(run, step, state, history):
    """Write history.csv and checkpoints/STEP.npz, whose content is `state`: arrays by name.

    The newest KEPT_CHECKPOINTS whole ones up to `step` stay. Once there are so many, older and damaged ones go; those
    of other runs are left alone, and so are whole ones beyond `step`, which this run will replace.
    """
    write_history(run, history)      # before the checkpoint: a restored step always has its rows
    of_run = identity(run)
    write_whole(run / "checkpoints" / f"{step:09d}.npz", lambda file: np.savez(file, **{**state, RUN: of_run}))
    found = checkpoints(run)
    kept, rest = [step], []
    for other, path in found.items():
        if other < step and len(kept) < KEPT_CHECKPOINTS and _problem(path, of_run) is None:
            kept.append(other)
        elif other != step:
            rest.append(other)
    for other in rest if len(kept) == KEPT_CHECKPOINTS else ():
        problem = _problem(found[other], of_run)
        if problem == DAMAGED or (problem is None and other < step):
            found[other].unlink()


def checkpoints(run):
    """{step: path} of a run's checkpoints, newest first; other files beside them are passed over.

    Raises:
        InputError: their folder cannot be read, which is not the same as having none.
    """
    folder = pathlib.Path(run) / "checkpoints"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}); expected a folder of checkpoints; "
                         "--restart starts over in a new folder") from None
    steps = sorted((int(name[:-4]) for name in names if re.fullmatch(r"\d{9,}\.npz", name)), reverse=True)
    return {step: folder / f"{step:09d}.npz" for step in steps}


def newest(run):
    """The path of a run's newest whole checkpoint, or None."""
    return next((path for path in checkpoints(run).values() if _problem(path, identity(run)) is None), None)


def restore(runs):
    """The newest step of which every run has a whole checkpoint: (step, their states, their histories up to it).

    Step 0 and states None if there is no checkpoint at all. One that is damaged, or that another run wrote, is passed
    over with a warning.

    Raises:
        InputError: some have checkpoints, but not of a common step; or a checkpoint cannot be read.
    """
    kept = [checkpoints(run) for run in runs]
    for step in [step for step in kept[0] if all(step in each for each in kept)]:
        problems = {each[step]: _problem(each[step], identity(run)) for run, each in zip(runs, kept, strict=True)}
        for path, problem in problems.items():
            if problem:
                print(f"warning: {path} {problem}; going back to the one before", file=sys.stderr)
        if not any(problems.values()):
            return step, [_arrays(each[step]) for each in kept], [read_history(run, step) for run in runs]
    if len(runs) > 1 and any(kept):
        at = ", ".join(f"{run.name}: {' or '.join(map(str, each)) or 'none'}"
                       for run, each in zip(runs, kept, strict=True))
        raise InputError(f"runs that train as one need checkpoints of a common step; got {at}; "
                         "--restart starts over in new folders")
    return 0, None, [[] for _ in runs]


def _arrays(path):
    with np.load(path) as file:     # checks a CRC per array
        return {name: file[name] for name in file.files if name != RUN}


def _problem(path, of_run):
    """What keeps a checkpoint from being used, None if nothing does.

    Raises:
        InputError: the disk or the permissions, rather than the file's content, keep it from being read.
    """
    try:
        with np.load(path) as file:
            if RUN in file.files and str(file[RUN]) != of_run:
                return FOREIGN
        _arrays(path)
    except Exception as error:      # whatever a torn file makes of zipfile and numpy
        if isinstance(error, OSError) and error.errno:
            raise InputError(f"{path} cannot be read ({error.strerror}); expected a checkpoint; "
                             "--restart starts over in a new folder") from None
        return DAMAGED
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
    except ValueError as error:
        raise InputError(f"{run / 'history.csv'}: expected a row of numbers per line; {error}") from None
    return [row for row in rows if row["step"] <= step]
