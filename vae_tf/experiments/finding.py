"""Runs and exports that exist already, found by their configuration, whoever made them and whatever their names."""

import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from vae_tf import export, files, runs, training
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError
from vae_tf.experiments.tasks import Places, is_same_run
from vae_tf.export import checksums


def list_run_roots(places: Places) -> list[pathlib.Path]:
    """Return the folders that hold runs: run_root, and runs/ of every folder to adopt from."""
    return [pathlib.Path(places.run_root), *(pathlib.Path(each, "runs") for each in places.adopt)]


def list_export_roots(places: Places) -> list[pathlib.Path]:
    """Return the folders that hold exports: export_root, and exported/ of every folder to adopt from."""
    return [pathlib.Path(places.export_root), *(pathlib.Path(each, "exported") for each in places.adopt)]


def find_exports(roots: Iterable[pathlib.Path]) -> dict[pathlib.Path, dict[str, Any]]:
    """Return {exported/NAME/VERSION: its card} of every export whose card says how it was trained."""
    found = {}
    for path in sorted(card.parents[1] for root in roots for card in root.glob(f"*/*/{export.CARD}")):
        try:
            found[path] = export.read_card(path, ("steps", "recipe.model", "recipe.steps"))
        except InputError:      # a damaged export, or one of another program, is passed over
            continue
    return found


def find_export(config: Configuration, cards: Mapping[pathlib.Path, dict[str, Any]]) -> pathlib.Path | None:
    """Return the newest export of a run of this length whose files are whole, or None.

    One of a longer training could not be compared with the other models of a shortened table.
    """
    found = [path for path, card in cards.items()
             if is_same_run(config, card["recipe"]) and card["recipe"]["steps"] == config.steps]
    for path in sorted(found, key=_order, reverse=True):
        try:
            checksums.check_files(path, cards[path])
            return path
        except InputError as error:
            print(f"warning: {error}; the export is passed over", file=sys.stderr)
    return None


def _order(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Return what sorts versions: 10 comes after 9."""
    return path.parent, int(path.name) if path.name.isdecimal() else 0


def find_trained(config: Configuration, cards: Mapping[pathlib.Path, dict[str, Any]]) -> tuple[int, list[int]]:
    """Return the steps of the longest training of a recipe with any seed, and its seeds; (0, []) if there is none.

    If the recipe is of an untrained model, that is 0 steps and the seeds of untrained exports.
    """
    seeds: dict[int, set[int]] = {}
    for recipe in (card["recipe"] for card in cards.values()):
        of_seed = dataclasses.replace(config, seed=recipe.get("seed"))
        if is_same_run(of_seed, recipe) and bool(recipe["steps"]) == bool(config.steps):
            seeds.setdefault(recipe["steps"], set()).add(recipe["seed"])
    longest = max(seeds, default=0)
    return longest, sorted(seeds.get(longest, ()))


def find_folders(config: Configuration, roots: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """Return the folders of a run: of any length, or of its own alone where the learning rate depends on the length."""
    any_length, found = not training.depends_on_length(config.learning_rate_schedule), []
    for path in sorted(path for root in roots for path in root.glob("*/config.json")):
        try:
            stored = runs.read_config(path.parent)
        except InputError:      # a damaged configuration is passed over
            continue
        if is_same_run(config, stored) and (any_length or stored.get("steps") == config.steps):
            found.append(path.parent)
    return found


def find_history(config: Configuration, folders: Iterable[pathlib.Path]
                 ) -> tuple[pathlib.Path | None, list[dict[str, Any]]]:
    """Return the folder that has all of a run's history, up to its last step, and its rows; (None, []) if none has."""
    for folder in folders:
        rows = read_rows(folder, config.steps)
        if rows and training.has_ended(rows, config.steps, config.early_stopping):
            return folder, rows
    return None, []


def read_rows(folder: pathlib.Path, steps: int) -> list[dict[str, Any]]:
    """Return the rows of a run's history up to some step; none, and a warning, if the history is damaged."""
    try:
        return runs.read_history(folder, steps)
    except InputError as error:
        print(f"warning: {error}", file=sys.stderr)
        return []


def count_replicas(folder: pathlib.Path, rows: list[dict[str, Any]], early_stopping: int = 0) -> int:
    """Count the runs that were trained as one program with this one: those beside it that record the very same rate.

    Args:
        folder: the folder of the run.
        rows: its history.
        early_stopping: how many validations without improvement stop a run; 0 for any number. One that was stopped
            so is compared where it ended; any other that ended before this one is not of its program.
    """
    siblings = folder.parent.glob(f"{folder.name.rpartition('-seed')[0]}-seed*") if "-seed" in folder.name else ()
    last = rows[-1]["step"]
    rates = _read_rates(rows)
    beside = [of for sibling in siblings if training.has_ended(of := read_rows(sibling, last), last, early_stopping)]
    return max(1, sum(any(rates.get(step) == rate for step, rate in [*_read_rates(of).items()][-1:]) for of in beside))


def _read_rates(rows: list[dict[str, Any]]) -> dict[int, float]:
    """Return {step: examples per second} of rows, without those whose steps nobody timed, which have a rate of 0."""
    return {row["step"]: row["examples_per_second"] for row in rows if row["examples_per_second"]}


def bring(config: Configuration, folder: pathlib.Path, roots: Iterable[pathlib.Path]) -> None:
    """Copy into `folder` the furthest checkpoint that any folder holds of a run, so that the run goes on from there.

    The folder that it comes from is not changed: its run may still be at work, or belong to somebody else.
    """
    steps = {path: max((step for step in runs.find_checkpoints(path) if step <= config.steps), default=0)
             for path in {folder, *find_folders(config, roots)}}
    furthest = max(steps, key=lambda path: steps[path])
    if steps[furthest] <= steps[folder]:
        return
    runs.write_config(folder, config.as_json())
    for name in ("history.csv", *(f"checkpoints/{step:09d}.npz" for step in runs.find_checkpoints(furthest)
                                  if step <= config.steps)):
        try:
            with files.open_regular(furthest / name) as file:
                content = file.read()
        except OSError:         # its own run has gone on, and tidied up, or it is no file
            continue
        files.write_bytes(folder / name, content)
