"""What is known of a model and its scores, from which answers and the page are made."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import metrics
from vae_tf.evaluation import Evaluation
from vae_tf.report.convergence import Convergence, find_history, judge_convergence
from vae_tf.report.orthogonality import Columns, examine_columns


@dataclasses.dataclass(frozen=True)
class Facts:
    """What answers are made from. Of codes without a model, the fields after `scored` are absent.

    scored: the Evaluation.
    card: the card of the model.
    history: the rows of its training's history, if they are there.
    convergence: whether its training had converged.
    columns: the angles of the decoder's columns; None if they were not examined, or are of fewer than two latents.
    quick: whether the evaluation was a first look.
    own_data: whether the data that were scored are known to be those that the card names.
    """

    scored: Evaluation
    card: dict[str, Any] | None = None
    history: Sequence[Mapping[str, Any]] = ()
    convergence: Convergence | None = None
    columns: Columns | None = None
    quick: bool = False
    own_data: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The class of each latent, one of activity.CLASSES; by whether it is informative, without a posterior."""
        verdict = self.scored.verdict
        if verdict is None or verdict.kl is None:
            count = self.scored.codes.shape[1]
            informative = np.ones(count, bool) if verdict is None else verdict.informative
            return tuple("active" if each else "passive" for each in informative)
        options = {name: result.parts["latents"] for name, result in self.scored.polarised.items()
                   if name in ("active_latents", "mixed_latents", "passive_latents")}
        of = {int(j): name.removesuffix("_latents") for name, latents in options.items() for j in latents}
        return tuple(of.get(j, "active" if each else "passive") for j, each in enumerate(verdict.informative))


def gather_facts(model: Any, scored: Evaluation, names: Sequence[str], quick: bool = False, seed: int = 0,
                 own_data: bool = False) -> Facts:
    """Gather what is known of a model, an export.Exported, beside its Evaluation by metrics of these names.

    Its decoder is examined if metrics of the decoder were asked for; `seed` is that of random rotations. Facts say what
    `quick` and `own_data` are.
    """
    card, history = model.card, find_history(model.path, model.card)
    # While beta grows, the least loss that there is grows, too.
    warmup = card.get("recipe", {}).get("beta_warmup_steps") or 0
    losses = [row["loss"] for row in history if "loss" in row and row["step"] > warmup]
    asks_decoder = any(metrics.METRICS[name].group == "geometry" for name in names)
    return Facts(scored, card, history,
                 judge_convergence(losses, card["steps"], warmup if history else 0),
                 examine_columns(model, scored, seed) if asks_decoder else None, quick, own_data)
