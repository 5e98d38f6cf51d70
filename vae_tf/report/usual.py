"""What is usual: the numbers that Rolinek 2018 prints in Table 2, to hold a model against."""

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

WORDS = {"dto": "DtO", "disentanglement_score": "disentanglement score"}


class Usual(NamedTuple):
    """A printed mean and spread over restarts, and of which models on which data."""

    mean: float
    spread: float
    words: str


@functools.cache
def read_printed() -> dict[tuple[str, str], dict[str, Any]]:
    """Return {(dataset, model): the number of latents, and mean and spread by metric}, from the file usual.toml."""
    rows = tomllib.loads(importlib.resources.files("vae_tf.report").joinpath("usual.toml").read_text())["models"]
    return {(row.pop("dataset"), row.pop("model")): row for row in rows}


def find_usual(card: Mapping[str, Any], metric: str) -> Usual | None:
    """Return what is usual for a model with this card by a metric; None where the table has no number for it.

    DtO depends on the number of latents, so only models with as many latents as the paper's have a usual DtO.
    """
    dataset, model = card["data"]["name"], card["model"]
    printed = read_printed().get((dataset, model), {})
    found = printed.get(metric)
    if found is None or (metric == "dto" and card["latents"] != printed["latents"]):
        return None
    mean, spread = found
    return Usual(mean, spread, f"Rolinek et al. (2018, Table 2) print a {WORDS[metric]} of {mean:.2f} ± "
                               f"{spread:.2f} for {model} on {dataset}")


def compare_with_usual(score: float, usual: Usual | None) -> str:
    """Say in a sentence how a score stands to what is usual; a score within two spreads counts as usual."""
    if usual is None:
        return "No number is known here that would be usual for this model on these data."
    reach = 2 * max(usual.spread, 0.01)
    place = "usual" if abs(score - usual.mean) <= reach else "higher than usual" if score > usual.mean else (
        "lower than usual")
    return f"That is {place}: {usual.words}."
