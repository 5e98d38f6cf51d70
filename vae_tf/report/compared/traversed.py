"""One model of each group, side by side: what its decoder does while one latent after the other moves."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vae_tf import evaluation
from vae_tf.comparison import Measured
from vae_tf.errors import make_printable
from vae_tf.report import figures, pictures
from vae_tf.report.compared.groups import Groups
from vae_tf.report.facts import Facts
from vae_tf.report.theme import draw_svg
from vae_tf.report.traversals import Latent, count_fitting, list_latents

MOST_GROUPS, MOST_LATENTS = 8, 10       # that are pictured
EXAMPLES = 500                          # by which latents are ordered
LONGEST = 20                            # characters of a factor's name


@dataclasses.dataclass(frozen=True)
class Pictured:
    """A model that stands for its group: the group's label, its name, and its latents as images or as a figure."""

    group: str
    model: str
    latents: tuple[Latent, ...] = ()
    svg: str = ""


def picture_groups(groups: Groups, models: Mapping[str, Any], measured: Mapping[str, Measured], dataset: Any,
                   seed: int = 0) -> list[Pictured]:
    """Picture one model of each of the first groups; one that is alive, where there is one.

    Args:
        groups: the groups.
        models: {name: export.Exported} of all models.
        measured: {name: Measured}, see `comparison.measure`.
        dataset: the data.Dataset whose example all of them encode.
        seed: the seed of the choice of the example.
    """
    shown = list(groups.members.items())[:MOST_GROUPS]
    found = []
    for number, (label, names) in enumerate(shown):
        name = min(names, key=lambda each: measured[each].left_out is not None)
        found.append(_picture(make_printable(label), name, models[name], dataset, seed,
                              count_fitting(dataset.shape) // len(shown) if dataset.is_image else 0, number))
    return found


def _picture(label: str, name: str, model: Any, dataset: Any, seed: int, fitting: int, number: int) -> Pictured:
    scored = evaluation.evaluate(model, dataset, (), examples=EXAMPLES, seed=seed)
    if dataset.is_image:
        latents = list_latents(Facts(scored), model, dataset, min(MOST_LATENTS, max(1, fitting)))
        return Pictured(label, make_printable(name), tuple(latents))
    places = np.linspace(-2, 2, 21)
    order = pictures.order_latents(scored)[:MOST_LATENTS]
    moved = pictures.move_latents(model, dataset, scored, order, places)
    labels = pictures.label_latents(scored, dataset, LONGEST)
    svg = draw_svg(f"group{number}", figures.plot_responses, places, np.reshape(moved, (len(order), len(places), -1)),
                   [labels[j] for j in order])
    return Pictured(label, make_printable(name), svg=svg)
