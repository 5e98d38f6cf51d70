"""What is usual: the numbers that Rolinek 2018 prints in Table 2, to hold a model against."""

import functools
import importlib.resources
import tomllib
from typing import Any, NamedTuple

from vae_tf.report.facts import Facts

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


def find_usual(facts: Facts, metric: str) -> Usual | None:
    """Return what is usual for a model by a metric; None where the table has no number for it.

    A number is of a model that is scored on the data that it was trained on, and against all of their factors. DtO
    depends on the number of latents, so only models with as many latents as the paper's have a usual DtO.
    """
    if facts.card is None or not facts.own_data:
        return None
    trained_on, model = facts.card["data"], facts.card["model"]
    printed = read_printed().get((trained_on["name"], model), {})
    found = printed.get(metric)
    if found is None or (metric == "dto" and facts.card["latents"] != printed["latents"]):
        return None
    known_factors = {each.get("name") for each in trained_on.get("factors", ())}
    if metric != "dto" and {*(facts.scored.factors or ())} != known_factors:
        return None
    mean, spread = found
    return Usual(mean, spread, f"Rolinek et al. (2018, Table 2) print a {WORDS[metric]} of {mean:.2f} ± "
                               f"{spread:.2f} for {model} on {trained_on['name']}")


def compare_with_usual(score: float, usual: Usual | None) -> str:
    """Say in a sentence how a score stands to what is usual; a score within two spreads counts as usual."""
    if usual is None:
        return ("No number is known here that could be compared with it: of this model, trained and scored on these "
                "data, against all of their factors.")
    reach = 2 * max(usual.spread, 0.01)
    place = "usual" if abs(score - usual.mean) <= reach else "higher than usual" if score > usual.mean else (
        "lower than usual")
    return f"That is {place}: {usual.words}."
