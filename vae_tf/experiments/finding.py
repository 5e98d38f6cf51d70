"""Runs and exports that are there already, whoever made them and whatever they are called, by their configuration."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from vae_tf import export, files, runs
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError
from vae_tf.experiments.tasks import Places, covers, same_run


def run_roots(places: Places) -> list[pathlib.Path]:
    """The folders that hold runs: run_root, and runs/ of every folder to adopt from."""
    return [pathlib.Path(places.run_root), *(pathlib.Path(each, "runs") for each in places.adopt)]


def export_roots(places: Places) -> list[pathlib.Path]:
    """The folders that hold exports: export_root, and exported/ of every folder to adopt from."""
    return [pathlib.Path(places.export_root), *(pathlib.Path(each, "exported") for each in places.adopt)]


def exports(roots: Iterable[pathlib.Path]) -> dict[pathlib.Path, dict[str, Any]]:
    """{exported/NAME/VERSION: its card} of every export that says how it was trained."""
    found = {}
    for path in sorted(card.parents[1] for root in roots for card in root.glob(f"*/*/{export.CARD}")):
        try:
            found[path] = export.read_card(path, ("recipe", "steps"))
        except InputError:      # damaged, or not ours: as good as not there
            continue
    return found


def export_of(config: Configuration, cards: Mapping[pathlib.Path, dict[str, Any]]) -> pathlib.Path | None:
    """The export of a run, of its own length or else of the longest there is beyond; None if there is none."""
    lengths = {path: card["recipe"]["steps"] for path, card in cards.items()
               if covers(config, card["recipe"])}
    exact = [path for path, steps in lengths.items() if steps == config.steps]
    return max(exact, default=max(lengths, key=lambda path: lengths[path], default=None))


def trained(config: Configuration, cards: Mapping[pathlib.Path, dict[str, Any]]) -> tuple[int, list[int]]:
    """The longest training of a recipe that there is of any seed: its steps, and the seeds. (0, []) if there is none.

    That of an untrained model, of no step, has steps 0 and its seeds.
    """
    seeds: dict[int, set[int]] = {}
    for recipe in (card["recipe"] for card in cards.values()):
        of_seed = dataclasses.replace(config, seed=recipe.get("seed"))
        if same_run(of_seed, recipe) and bool(recipe["steps"]) == bool(config.steps):
            seeds.setdefault(recipe["steps"], set()).add(recipe["seed"])
    longest = max(seeds, default=0)
    return longest, sorted(seeds.get(longest, ()))


def folders_of(config: Configuration, roots: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """The folders of a run, whatever its length there."""
    found = []
    for path in sorted(path for root in roots for path in root.glob("*/config.json")):
        try:
            stored = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if same_run(config, stored):
            found.append(path.parent)
    return found


def history_of(steps: int, folders: Iterable[pathlib.Path]) -> tuple[pathlib.Path | None, list[dict[str, Any]]]:
    """A run's history up to some steps, and the folder it is in; no rows if no folder has them all."""
    for folder in folders:
        rows = runs.read_history(folder, steps)
        if rows and rows[-1]["step"] == steps:
            return folder, rows
    return None, []


def replicas_of(folder: pathlib.Path, rows: list[dict[str, Any]]) -> int:
    """How many runs were trained as one program with this one: those beside it that tell the very same rate."""
    siblings = folder.parent.glob(f"{folder.name.rpartition('-seed')[0]}-seed*") if "-seed" in folder.name else ()
    rate, step = rows[-1]["examples_per_second"], rows[-1]["step"]
    return max(1, sum(any(row["step"] == step and row["examples_per_second"] == rate for row in
                          runs.read_history(sibling, step)[-1:]) for sibling in siblings))


def bring(config: Configuration, folder: pathlib.Path, roots: Iterable[pathlib.Path]) -> None:
    """Have a run go on in `folder` from the furthest checkpoint that any folder holds of it.

    Checkpoints are copied, never taken from where they are: that run may still be at work, or be somebody's own.
    """
    steps = {path: max((step for step in runs.find_checkpoints(path) if step <= config.steps), default=0)
             for path in {folder, *folders_of(config, roots)}}
    furthest = max(steps, key=lambda path: steps[path])
    if steps[furthest] <= steps[folder]:
        return
    runs.write_config(folder, config.as_json())
    for name in ("history.csv", *(f"checkpoints/{step:09d}.npz" for step in runs.find_checkpoints(furthest)
                                  if step <= config.steps)):
        try:
            content = (furthest / name).read_bytes()
        except FileNotFoundError:       # its own run has gone on, and tidied up
            continue
        files.write_bytes(folder / name, content)
