"""The history of a model's training, and whether the training had converged at its end."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf import configuration, runs
from vae_tf.errors import InputError

FEWEST = 20             # rows of a history by which convergence is judged
SMALL = 0.001           # share of the loss; a smaller change in a tenth of training counts as none
STATES = ("converged", "falling", "rising", "unknown")


class Convergence(NamedTuple):
    """Whether training had converged: a name of STATES, and a sentence that says why."""

    state: str
    words: str


def find_history(path: pathlib.Path, card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the history of an exported model from the folder of its run; empty if the run is not found.

    The run is looked for as `runs/NAME` beside the folder of exports and in the working folder. One with another
    configuration than the model's card is not taken. The card of a model that Keras' own loops have trained lacks
    settings that every run writes; these are not compared.

    Args:
        path: the folder of the model, exported/NAME/VERSION.
        card: its card.
    """
    path, recipe = path.absolute(), {**configuration.DEFAULTS, **card.get("recipe", {})}
    for folder in dict.fromkeys((path.parents[1].parent / "runs", pathlib.Path("runs").absolute())):
        run = folder / path.parent.name
        try:
            config = runs.read_config(run)
            if config and all(recipe.get(key) == value for key, value in {**configuration.DEFAULTS, **config}.items()
                              if key in recipe and key not in ("steps", "dataset")):
                return runs.read_history(run, recipe.get("steps", card["steps"]))     # it may have stopped early
        except (InputError, OSError):       # a damaged run says nothing of the model
            continue
    return []


def judge_convergence(loss: Sequence[float], steps: int, warmup: int = 0) -> Convergence:
    """Judge whether training had converged: the last tenth of its loss, at least five rows, against as many before.

    The loss counts as falling if its mean over these last rows is lower by more than two standard errors, which the
    spread of the rows gives, and by more than 0.1 % of itself.

    Args:
        loss: [R], the loss of each row of a history, in nats, after beta has grown to its value.
        steps: the number of training steps; 0 for an untrained model.
        warmup: the number of steps in which beta grew.
    """
    if not steps:
        return Convergence("unknown", "The model is untrained: its weights are random.")
    values = np.asarray([value for value in loss if math.isfinite(value)], float)
    if warmup and len(values) < FEWEST:
        return Convergence("unknown", f"Beta grew until step {min(warmup, steps):,}, and the loss with it. It takes "
                                      f"{FEWEST} rows of the history after that to tell, and there are {len(values)}.")
    if not len(values):
        return Convergence("unknown", "The history of its run is not here (runs/NAME), so this cannot be told.")
    if len(values) < FEWEST:
        return Convergence("unknown", f"Its history has {len(values)} of the {FEWEST} rows that it takes to tell.")
    tenth = max(len(values) // 10, 5)
    last, before = values[-tenth:], values[-2 * tenth:-tenth]
    change = float(last.mean() - before.mean())
    error = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / tenth)
    part = f"{tenth / len(values):.0%} of training{' after the warm-up of beta' if warmup else ''}"
    if abs(change) <= max(2 * error, SMALL * abs(before.mean())):
        return Convergence("converged", f"The loss is level: over the last {part} it changed by "
                                        f"{change:+.3g} nats, within its noise.")
    way = "falling" if change < 0 else "rising"
    return Convergence(way, f"The loss is still {way}: by {abs(change):.3g} nats ({abs(change / before.mean()):.1%}) "
                            f"over the last {part}, where noise explains {2 * error:.2g}.")
