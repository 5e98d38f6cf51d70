"""Whether the scores beside a model are those that an evaluation would compute."""

import pathlib
from collections.abc import Mapping
from typing import Any

from vae_tf import schemas
from vae_tf.errors import InputError
from vae_tf.evaluation.options import Options
from vae_tf.evaluation.scoring import count_examples

SCHEMA = {"metrics": schemas.OBJECT, "skipped": schemas.OBJECT, "examples": schemas.COUNT,
          "latents": schemas.list_of(schemas.COUNT, "indices")}


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
        numbers = schemas.read_json(path, SCHEMA, SCHEMA, "it is written anew")
    except FileNotFoundError:
        return "it has not been scored"
    except InputError:
        return "its metrics.json is damaged"
    wanted = min(count_examples(options.list_metrics_of_codes(), options.examples), len(dataset))
    lacking = [name for name in options.names or () if name not in {*numbers["metrics"], *numbers["skipped"]}]
    if any(numbers.get(name) != value for name, value in settings.items()):
        return "its scores are of other data"
    if numbers["examples"] < wanted:
        return f"its scores are of {numbers['examples']:,} examples, and {wanted:,} are asked for"
    if lacking:
        return f"its scores lack {', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''}"
    if numbers["latents"] != list(range(latents)) or numbers.get("factors") != (list(dataset.factor_names or ())
                                                                                 or None):
        return "its scores are of some latents or some factors alone"
    if numbers.get("passive_kl") != options.passive_kl:
        return "its scores are for another --passive_kl"
    return None
