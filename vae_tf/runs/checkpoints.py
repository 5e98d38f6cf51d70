"""checkpoints/STEP.npz of a run's folder: arrays by name, found, written, pruned and read back."""

import itertools
import os
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.data import npz
from vae_tf.errors import InputError
from vae_tf.runs.config import Config, PathLike, digest_config, read_config
from vae_tf.runs.history import REMEDY, REMEDY_OF_BEST, HistoryRow, digest_history, read_history, write_history

KEPT = 2
# Names of the arrays of a checkpoint that say which run wrote it, in what format, at which step, after which history.
RUN, FORMAT, STEP, HISTORY = "run", "format", "run step", "run history"
# Which runs trained as one when it was written, by their digests: absent if the run trained alone.
TOGETHER = "runs together"
BEST = "best "      # begins the names of the weights with the lowest loss of a validation part
# Format 2 names arrays by the path of their variable; format 1, which held no format number, numbered them.
NEWEST_FORMAT = 2
DAMAGED, FOREIGN, MISPLACED, NO_FILE = ("is damaged", "is of a run with another configuration",
                                        "is of another step than its name says", "is not a file")

State = dict[str, Any]


class _Unfit(Exception):
    """Raised for a checkpoint that cannot be used; the message is one of the problems above."""


def save(run: pathlib.Path, step: int, state: Mapping[str, Any], history: Sequence[HistoryRow],
         together: Sequence[pathlib.Path] = ()) -> None:
    """Write history.csv and checkpoints/STEP.npz, whose content is `state`: arrays by name.

    The newest two whole ones up to `step` stay. Once there are so many, the run's others go: older ones, damaged ones,
    and those beyond `step`, whose rows are no longer in history.csv. Those of other runs are left alone.

    Args:
        run: the folder of the run.
        step: how many steps the run has made.
        state: what the checkpoint holds, arrays by name.
        history: the rows of history.csv up to this step.
        together: the folders of all runs that train as one with this one, or nothing if it trains alone.
    """
    write_history(run, history)      # written before the checkpoint, so that a restored step always has its rows
    config = read_config(run)
    content = {**state, RUN: digest_config(config), FORMAT: NEWEST_FORMAT, STEP: step, HISTORY: digest_history(history)}
    if len(together) > 1:
        content[TOGETHER] = [digest_config(read_config(each)) for each in together]
    files.write_whole(run / "checkpoints" / f"{step:09d}.npz",
                      lambda file: np.savez(file, **content))       # type: ignore[arg-type]
    _prune(run, step, digest_config(config))


def _prune(run: pathlib.Path, step: int, digest: str) -> None:
    found = find_checkpoints(run)
    kept, rest = [step], []
    for other, path in found.items():
        if other < step and len(kept) < KEPT and _find_problem(path, other, digest) is None:
            kept.append(other)
        elif other != step:
            rest.append(other)
    for other in rest if len(kept) == KEPT else ():
        if _find_problem(found[other], other, digest) in (None, DAMAGED):
            try:
                found[other].unlink(missing_ok=True)
            except OSError as error:
                print(f"warning: {found[other]} could not be deleted ({error.strerror})", file=sys.stderr)


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
    steps = sorted((int(name[:-4]) for name in names if re.fullmatch(r"([0-9]{9}|[1-9][0-9]{9,17})\.npz", name)),
                   reverse=True)
    return {step: folder / f"{step:09d}.npz" for step in steps}


def find_newest(run: PathLike) -> pathlib.Path | None:
    """Return the path of a run's newest whole checkpoint, or None."""
    digest = digest_config(read_config(run))
    return next((path for step, path in find_checkpoints(run).items() if _find_problem(path, step, digest) is None),
                None)


def restore(runs: Sequence[pathlib.Path], configs: Sequence[Config] | None = None
            ) -> tuple[int, list[State] | None, list[list[HistoryRow]]]:
    """Return the newest step of which every run has a whole checkpoint: (step, their states, their histories up to it).

    Step 0 and states None if there is no checkpoint at all, or if the runs were killed while they wrote their first
    ones, which are then deleted. A checkpoint that is damaged, or that another run wrote, is passed over with a
    warning.

    Args:
        runs: the folders of the runs.
        configs: the configuration of each; by default those in the folders.

    Raises:
        InputError: some runs have checkpoints, but not of a common step; all are of other runs; a checkpoint cannot be
            read; or the history is not the one that the checkpoint was written with.
    """
    kept = [find_checkpoints(run) for run in runs]
    digests = [digest_config(config) for config in (configs or map(read_config, runs))]
    problems = {}
    for step in [step for step in kept[0] if all(step in each for each in kept)]:
        states = []
        for each, own in zip(kept, digests, strict=True):
            try:
                states.append(_read(each[step], step, own))
            except _Unfit as error:
                problems[each[step]] = str(error)
                print(f"warning: {each[step]} {error}; it is passed over", file=sys.stderr)
        if len(states) == len(runs):
            return step, states, [_read_history_of(run, step, state) for run, state in zip(runs, states, strict=True)]
    if len(runs) > 1 and any(kept) and not _were_killed_at_first(kept, digests):
        whole = [[step for step, path in each.items() if path not in problems] for each in kept]
        found = ", ".join(f"{run.name}: {' or '.join(map(str, steps)) or 'none'}"
                          for run, steps in zip(runs, whole, strict=True))
        begun = [each for each in kept if each]
        alone = ("train those that have none in a command of their own, as by --seed=FIRST --replicas=NUMBER, or "
                 "--restart starts all of them" if len(begun) < len(runs) and set.intersection(*map(set, begun)) else
                 "--restart starts")
        raise InputError(f"runs that train as one need checkpoints of a common step; got {found}; {alone} over in new "
                         "folders")
    if FOREIGN in problems.values():
        raise InputError(f"{runs[0]} holds checkpoints of a run with another configuration alone; give this one a "
                         "--name, or --restart to start over in a new folder")
    for path in itertools.chain(*(each.values() for each in kept)) if len(runs) > 1 else ():
        if path not in problems:        # beside the checkpoints of a second kill, the next time would not know them
            path.unlink(missing_ok=True)
    if problems:
        print(f"warning: no checkpoint of {', '.join(map(str, runs))} can be used; training starts over at step 0",
              file=sys.stderr)
    return 0, None, [[] for _ in runs]


def _were_killed_at_first(kept: Sequence[Mapping[int, pathlib.Path]], digests: Sequence[str]) -> bool:
    """Return whether these runs, training as one, were killed between their first checkpoints: some have no other.

    Args:
        kept: the checkpoints of each run, {step: path}.
        digests: what each run is called.
    """
    if not all(len(each) <= 1 for each in kept) or len({step for each in kept for step in each}) > 1:
        return False
    for each, own in zip(kept, digests, strict=True):
        for step, path in each.items():
            try:
                together = _read(path, step, own).get(TOGETHER)
            except _Unfit:
                return False
            if together is None or together.shape != (len(kept),) or [*map(str, together)] != [*digests]:
                return False
    return True


def _read_history_of(run: pathlib.Path, step: int, state: State) -> list[HistoryRow]:
    """Return the rows of a run up to its checkpoint, which says whether they are still those of then."""
    remedy = REMEDY_OF_BEST if any(name.startswith(BEST) for name in state) else REMEDY
    rows, path = read_history(run, step, remedy), run / "history.csv"
    known = str(state.pop(HISTORY))
    state.pop(TOGETHER, None)
    if known == digest_history(rows):
        return rows
    # A stopped run that ends at the very step of its checkpoint writes the row of that step, and then the checkpoint.
    before = [row for row in rows if row["step"] < step]
    if known == digest_history(before):
        return before
    if path.exists():
        raise InputError(f"{path}: the rows up to step {step} are not those that the checkpoint was written with; "
                         f"{remedy}")
    if remedy == REMEDY_OF_BEST:
        raise InputError(f"{path} is missing: expected the row of the validation whose weights the checkpoint holds; "
                         f"{remedy}")
    print(f"warning: {path} is missing; the run goes on without the rows up to step {step}", file=sys.stderr)
    return []


def _find_problem(path: pathlib.Path, step: int, digest: str) -> str | None:
    """Return what keeps a checkpoint from being used, None if nothing does."""
    try:
        _read(path, step, digest)
    except (_Unfit, InputError) as error:
        return str(error)
    return None


def _read(path: pathlib.Path, step: int, digest: str) -> State:
    """Return the state that a checkpoint holds.

    Args:
        path: the path of the checkpoint.
        step: the step that its name says.
        digest: what the run that wrote it is called.

    Raises:
        _Unfit: the checkpoint cannot be used.
        InputError: the disk or the permissions, rather than the file's content, keep it from being read; or a newer
            vae_tf wrote it.
    """
    try:
        state = npz.read_arrays(path, packed=False)
    except npz.DamagedError:
        raise _Unfit(DAMAGED) from None
    except OSError as error:
        # A link to nothing or to itself, or a pipe: no checkpoint, while another kind of file may be one.
        if path.is_file() or path.is_dir() or isinstance(error, PermissionError):
            raise InputError(f"{path} cannot be read ({error.strerror}); expected a checkpoint; "
                             "--restart starts over in a new folder") from None
        raise _Unfit(NO_FILE) from None
    if not {RUN, FORMAT, STEP, HISTORY} <= set(state):
        raise _Unfit(DAMAGED)
    told = {name: state.pop(name) for name in (RUN, FORMAT, STEP)}
    return _check(path, state, told, step, digest)


def _check(path: pathlib.Path, state: State, told: State, step: int, digest: str) -> State:
    """Return a state after checking what its checkpoint tells of itself; raises as `_read` does."""
    try:
        written_in, written_at = int(told[FORMAT]), int(told[STEP])
    except (TypeError, ValueError):
        raise _Unfit(DAMAGED) from None
    if str(told[RUN]) != digest:
        raise _Unfit(FOREIGN)
    if written_in > NEWEST_FORMAT:
        raise InputError(f"{path}: format {written_in} is of a newer vae_tf, this one reads {NEWEST_FORMAT}; "
                         "install the newer one, or --restart starts over in a new folder")
    if written_at != step:
        raise _Unfit(MISPLACED)
    return state
