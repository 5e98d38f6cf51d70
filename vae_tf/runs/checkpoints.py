"""checkpoints/STEP.npz of a run's folder: arrays by name, found, written, pruned and read back."""

import os
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.errors import InputError
from vae_tf.runs.config import PathLike, digest_config
from vae_tf.runs.history import HistoryRow, read_history, write_history

KEPT = 2
# Names of the arrays of a checkpoint that say which run wrote it, and in what format.
RUN, FORMAT = "run", "format"
# Format 2 names arrays by the path of their variable; format 1, which held no format number, numbered them.
NEWEST_FORMAT = 2
DAMAGED, FOREIGN = "is damaged", "is of a run with another configuration"

State = dict[str, Any]


def save(run: pathlib.Path, step: int, state: Mapping[str, Any], history: Sequence[HistoryRow]) -> None:
    """Write history.csv and checkpoints/STEP.npz, whose content is `state`: arrays by name.

    The newest two whole ones up to `step` stay. Once there are so many, older and damaged ones go; those of other runs
    are left alone, and so are whole ones beyond `step`, which this run will replace.
    """
    write_history(run, history)      # written before the checkpoint, so that a restored step always has its rows
    digest = digest_config(run)
    content = {**state, RUN: digest, FORMAT: NEWEST_FORMAT}
    files.write_whole(run / "checkpoints" / f"{step:09d}.npz",
                      lambda file: np.savez(file, **content))       # type: ignore[arg-type]
    _prune(run, step, digest)


def _prune(run: pathlib.Path, step: int, digest: str) -> None:
    found = find_checkpoints(run)
    kept, rest = [step], []
    for other, path in found.items():
        if other < step and len(kept) < KEPT and _find_problem(path, digest) is None:
            kept.append(other)
        elif other != step:
            rest.append(other)
    for other in rest if len(kept) == KEPT else ():
        problem = _find_problem(found[other], digest)
        if problem == DAMAGED or (problem is None and other < step):
            found[other].unlink()


def find_checkpoints(run: PathLike) -> dict[int, pathlib.Path]:
    """Return {step: path} of a run's checkpoints, newest first; other files beside them are passed over.

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


def find_newest(run: PathLike) -> pathlib.Path | None:
    """Return the path of a run's newest whole checkpoint, or None."""
    return next((path for path in find_checkpoints(run).values() if _find_problem(path, digest_config(run)) is None),
                None)


def restore(runs: Sequence[pathlib.Path]) -> tuple[int, list[State] | None, list[list[HistoryRow]]]:
    """Return the newest step of which every run has a whole checkpoint: (step, their states, their histories up to it).

    Step 0 and states None if there is no checkpoint at all. One that is damaged, or that another run wrote, is passed
    over with a warning.

    Raises:
        InputError: some runs have checkpoints, but not of a common step; or a checkpoint cannot be read.
    """
    kept = [find_checkpoints(run) for run in runs]
    for step in [step for step in kept[0] if all(step in each for each in kept)]:
        problems = {each[step]: _find_problem(each[step], digest_config(run))
                    for run, each in zip(runs, kept, strict=True)}
        for path, problem in problems.items():
            if problem:
                print(f"warning: {path} {problem}; going back to the one before", file=sys.stderr)
        if not any(problems.values()):
            return step, [_read_state(each[step]) for each in kept], [read_history(run, step) for run in runs]
    if len(runs) > 1 and any(kept):
        found = ", ".join(f"{run.name}: {' or '.join(map(str, each)) or 'none'}"
                          for run, each in zip(runs, kept, strict=True))
        raise InputError(f"runs that train as one need checkpoints of a common step; got {found}; "
                         "--restart starts over in new folders")
    return 0, None, [[] for _ in runs]


def _read_state(path: pathlib.Path) -> State:
    with np.load(path) as file:     # reading checks the CRC of each array
        return {name: file[name] for name in file.files if name not in (RUN, FORMAT)}


def _find_problem(path: pathlib.Path, digest: str) -> str | None:
    """Return what keeps a checkpoint of the run with this digest from being used, None if nothing does.

    Raises:
        InputError: the disk or the permissions, rather than the file's content, keep it from being read; or a newer
            vae_tf wrote it.
    """
    written_in = NEWEST_FORMAT
    try:
        with np.load(path) as file:
            if RUN in file.files and str(file[RUN]) != digest:
                return FOREIGN
            written_in = int(file[FORMAT]) if FORMAT in file.files else 1
        _read_state(path)
    except Exception as error:      # a torn file may make zipfile and NumPy raise anything
        if isinstance(error, OSError) and error.errno:
            raise InputError(f"{path} cannot be read ({error.strerror}); expected a checkpoint; "
                             "--restart starts over in a new folder") from None
        return DAMAGED
    if written_in > NEWEST_FORMAT:
        raise InputError(f"{path}: format {written_in} is of a newer vae_tf, this one reads {NEWEST_FORMAT}; "
                         "install the newer one, or --restart starts over in a new folder")
    return None
