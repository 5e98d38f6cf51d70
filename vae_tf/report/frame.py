"""The scores of many models as rows, which pandas.DataFrame takes, and their mean and spread over seeds."""

import json
import pathlib
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vae_tf import console, export, schemas
from vae_tf.errors import InputError

SCHEMA = {"metrics": schemas.OBJECT, "polarised_regime": schemas.OBJECT}
OF_CARD = ("model", "beta", "latents", "steps")
OF_RECIPE = ("network", "dataset", "likelihood", "learning_rate", "batch_size", "seed")
SETTINGS = (*OF_CARD, *OF_RECIPE)
NOT_SCORES = ("export", "group", "examples", *SETTINGS)
OVER_X = ("_low", "_high", "_standard_error", "_chance")        # ends of columns that stand beside a score


def results_frame(paths: Iterable[str | pathlib.Path]) -> list[dict[str, Any]]:
    """Return a row for each exported model: how it was trained, and its scores from metrics.json.

    A row has `export`, `model`, `beta`, `latents`, `steps`, `network`, `dataset`, `likelihood`, `learning_rate`,
    `batch_size`, `seed` and `examples`, the number of examples that were scored. For each score it has NAME, and where
    there is one NAME_low and NAME_high, the 95 % interval over half-samples of x; NAME_standard_error over x; and
    NAME_chance. A score that means nothing for a model is None, and has none of these.

    Args:
        paths: folders as `export.load` takes them: exported/NAME for its newest version, or exported/NAME/VERSION.

    Raises:
        InputError: there is no model, it has not been scored, or metrics.json is damaged.
    """
    if isinstance(paths, str | pathlib.Path):
        raise InputError(f"paths: expected several folders, such as [{str(paths)!r}]; got a single path")
    rows = []
    for path in paths:
        folder = export.find_newest(path)
        card = export.read_card(folder)
        recipe = card.get("recipe", {})
        rows.append({"export": str(folder), **{name: card.get(name) for name in OF_CARD},
                     **{name: recipe.get(name) for name in OF_RECIPE}, **_read_scores(folder)})
    return rows


def summarise(rows: Iterable[dict[str, Any]], by: Sequence[str] = ("model", "beta")) -> list[dict[str, Any]]:
    """Return a row for each group of models: the mean of each score, and its spread over the models of the group.

    A row has the values of `by`; `models`, their number; and for each score NAME_mean, NAME_spread (the standard
    deviation, None for one model) and NAME_count, the number of models in which the score means something.

    Args:
        rows: as of `results_frame`.
        by: names of columns whose values make a group.

    Raises:
        InputError: a column that no row has.
    """
    rows = list(rows)
    known = {name for row in rows for name in row}
    for name in by:
        if rows and name not in known:
            raise InputError(f"by: expected names of {', '.join(sorted(known))}; got {name!r}")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row.get(name) for name in by]), []).append(row)
    return [{**{name: group[0].get(name) for name in by}, "models": len(group), **_average(group, {*by})}
            for group in groups.values()]


def _average(group: Sequence[dict[str, Any]], by: set[str]) -> dict[str, Any]:
    """Return mean, spread and number of each score of a group."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in group for name in row):
        if name in {*NOT_SCORES, *by} or name.endswith(OVER_X):     # a spread over x is none over seeds
            continue
        values = [row[name] for row in group if row.get(name) is not None]
        found[f"{name}_mean"] = float(np.mean(values)) if values else None
        found[f"{name}_spread"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        found[f"{name}_count"] = len(values)
    return found


def _read_scores(folder: pathlib.Path) -> dict[str, float | None]:
    """Return the scores of metrics.json, with their intervals and chance levels, by the names of columns."""
    path, command = folder / "metrics.json", f"{console.name_command('evaluate')} --export="
    remedy = f"{command}{shlex.quote(folder.as_posix())} scores the model"
    try:
        numbers = schemas.read_json(path, SCHEMA, SCHEMA, remedy)
    except FileNotFoundError:
        raise InputError(f"{path}: expected the scores of the model; got no such file; {remedy}") from None
    columns: dict[str, Any] = {}
    examples = numbers.get("examples")
    for name, entry in {**numbers["polarised_regime"], **numbers["metrics"]}.items():
        if not isinstance(entry, dict) or "no_meaning" in entry or not schemas.NUMBER.holds(entry.get("score")):
            entry = {}
        interval = entry.get("interval")
        low, high = interval if isinstance(interval, list) and len(interval) == 2 else (None, None)
        columns |= {name: entry.get("score"), f"{name}_low": low,
                    f"{name}_high": high, f"{name}_standard_error": entry.get("standard_error"),
                    f"{name}_chance": entry.get("chance_level")}
    scores = {*numbers["polarised_regime"], *numbers["metrics"]}
    return {"examples": examples if schemas.NUMBER.holds(examples) else None,
            **{name: float(value) if schemas.NUMBER.holds(value) else None for name, value in columns.items()
               if name in scores or schemas.NUMBER.holds(value)}}
