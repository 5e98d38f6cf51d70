"""Whether the scores beside a model are those that an evaluation would compute."""

import importlib.metadata
import math
import pathlib
from collections.abc import Mapping
from typing import Any

from vae_tf import metrics, schemas
from vae_tf.errors import InputError
from vae_tf.evaluation.computing import KILLED
from vae_tf.evaluation.options import Options
from vae_tf.evaluation.scoring import count_examples

SCHEMA = {"metrics": schemas.OBJECT, "skipped": schemas.OBJECT, "examples": schemas.COUNT, "seed": schemas.COUNT,
          "latents": schemas.list_of(schemas.COUNT, "indices")}
MAY_HOLD = {**SCHEMA, "geometry_examples": schemas.COUNT, "versions": schemas.OBJECT}       # which older files lack


def list_scored(path: pathlib.Path) -> set[str]:
    """Return the names of the scores in a metrics.json; none if it is not there, or damaged."""
    try:
        return {*schemas.read_json(path, MAY_HOLD, SCHEMA, "it is written anew")["metrics"]}
    except (FileNotFoundError, InputError):
        return set()


def explain_missing(path: pathlib.Path, options: Options, dataset: Any, settings: Mapping[str, Any],
                    latents: int) -> str | None:
    """Return why a model is to be scored before it is compared with others, or None if it need not be.

    Args:
        path: its metrics.json.
        options: the evaluation that is asked for.
        dataset: the data.Dataset to score it on.
        settings: the settings of that dataset, see data.held_out.Scored.
        latents: the number of the model's latents.
    """
    try:
        numbers = schemas.read_json(path, MAY_HOLD, SCHEMA, "it is written anew")
    except FileNotFoundError:
        return "it has not been scored"
    except InputError:
        return "its metrics.json is damaged"
    wanted = min(count_examples(options.list_metrics_of_codes(), options.examples), len(dataset))
    wanted_around = min(options.around, wanted) if options.list_metrics_of_model() else 0
    told = {*numbers["metrics"], *(name for name, why in numbers["skipped"].items() if not may_change(name, why))}
    lacking = [name for name in options.names or () if name not in told]
    if not {*settings, "samples_per_value", "quick"} <= numbers.keys():
        return "its metrics.json is of an older version, which does not say all of what was scored"
    differ = [name for name, value in settings.items() if numbers[name] != value]
    if differ == ["trained_on"]:
        return "its metrics.json says otherwise how many of the examples were trained on"
    if differ:
        return "its scores are of other data"
    if numbers.get("versions", {}).get("vae_tf") != importlib.metadata.version("vae_tf"):
        return "its scores are of another version of vae_tf"
    if numbers["examples"] < wanted:
        return f"its scores are of {numbers['examples']:,} examples, and {wanted:,} are asked for"
    if numbers.get("geometry_examples", 0) < wanted_around:
        return f"its scores of the decoder are of fewer than the {wanted_around:,} examples that are asked for"
    few = [name for name in options.list_metrics_of_codes() if _get_examples(numbers["metrics"].get(name)) < min(
        count_examples([name], options.examples), len(dataset))]
    if few:
        return f"{', '.join(few[:5])}{', ...' if len(few) > 5 else ''}: scored on fewer examples than are asked for"
    if lacking:
        return f"its scores lack {', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''}"
    if numbers["latents"] != list(range(latents)) or numbers.get("factors") != (list(dataset.factor_names or ())
                                                                                 or None):
        return "its scores are of some latents or some factors alone"
    if numbers.get("passive_kl") != options.passive_kl:
        return "its scores are for another --passive_kl"
    if numbers["samples_per_value"] != options.samples_per_value:
        return "its scores are for another --samples_per_value"
    if numbers["quick"] and not options.quick:
        return "its scores are those of --quick, which takes fewer resamples"
    if numbers["seed"] != options.seed:
        return "its scores are for another --seed"
    return None


def may_change(name: str, why: str) -> bool:
    """Return whether a metric that was left out for some reason may have a score when it is computed again.

    What failed for lack of memory may not fail again, nor a metric of an extension, whose code may have changed. What
    the model or the data lack, they still do.
    """
    if why == str(KILLED.result):
        return True
    metric = metrics.METRICS.get(name)
    return metric is not None and not metric.is_own and why not in metric.list_lacks()


def _get_examples(entry: Any) -> float:
    """Return how many examples a score in metrics.json was measured on; infinity where it does not say so."""
    measured = entry.get("measured") if isinstance(entry, dict) else None
    count = measured.get("examples") if isinstance(measured, dict) else None
    return count if isinstance(count, int) else math.inf
