"""The card of a trained model's export, which describes the model, its data and its training."""

import dataclasses
import pathlib
from typing import Any

from vae_tf import data, export, metrics, training
from vae_tf.configuration import Configuration, Settings
from vae_tf.models import Autoencoder

History = list[dict[str, Any]]


def make_card(config: Configuration, model: Autoencoder, dataset: data.Dataset, history: History,
              settings: Settings) -> dict[str, Any]:
    """Return what an export says of itself: model, data, factors, recipe, scores of its history and versions."""
    best = _find_exported(config, settings, history)
    row = best or (history[-1] if history else {})
    if data.is_path(config.dataset):      # absolute, because the card is read from other folders
        config = dataclasses.replace(config, dataset=str(pathlib.Path(config.dataset).absolute()))
    polarised = metrics.polarised_fraction(history)
    return {
        **export.describe_model(model, dataset), "steps": row.get("step", config.steps),
        "final_terms": row, "recipe": config.as_json(),
        "history": {polarised.name: dataclasses.asdict(polarised)} if polarised else {},
    }


def describe_polarised(active_threshold: float, history: History) -> str:
    """Return what train.py says of the polarised regime; empty if history does not say.

    Args:
        active_threshold: see Configuration.
        history: rows with delta_kl.
    """
    polarised = metrics.polarised_fraction(history)
    if not polarised:
        return ""
    finding = (f"stays within 3 % of its polarised form for the last {polarised.score:.1%} of training"
               if polarised.score else "is not within 3 % of its polarised form at the end")
    return (f"\n             The KL {finding};\n             that form counts latents whose mean posterior variance "
            f"is below {active_threshold:g} prior variances.")


def _find_exported(config: Configuration, settings: Settings, history: History) -> dict[str, Any] | None:
    """Return the row of the best validation if its weights are exported, and None if the last weights are."""
    best = training.find_best(history) if config.early_stopping or settings.export_weights == "best" else None
    return None if best is None else dict(best)


def describe_best(config: Configuration, settings: Settings, history: History) -> str:
    """Return what train.py says of the step whose weights are exported; empty without validation."""
    best = training.find_best(history)
    if best is None:
        return ""
    is_exported = _find_exported(config, settings, history) is not None or best["step"] == config.steps
    stopped = config.early_stopping and history[-1]["step"] < config.steps
    ended = f"Training stopped early at step {history[-1]['step']:,} of {config.steps:,}. " if stopped else ""
    said = (f"Exported are the weights of step {best['step']:,}, where" if is_exported else
            f"Exported are the last weights; at step {best['step']:,}")
    choice = "" if is_exported else " (--export_weights=best exports those)"
    return f"\n             {ended}{said} validation_loss was lowest, {best['validation_loss']:.2f}{choice}."
