"""The card of a trained model's export, which describes the model, its data and its training."""

import dataclasses
import importlib.metadata
import math
import pathlib
from typing import Any

from vae_tf import data, metrics
from vae_tf.configuration import Configuration
from vae_tf.models import Autoencoder

History = list[dict[str, Any]]
PACKAGES = ("vae_tf", "tensorflow", "tensorflow-probability", "keras", "numpy")


def make_card(config: Configuration, model: Autoencoder, dataset: data.Dataset, history: History) -> dict[str, Any]:
    """Return what an export says of itself: model, data, factors, recipe, scores of its history and versions."""
    if config.dataset.endswith(".npz"):      # absolute, because the card is read from other folders
        config = dataclasses.replace(config, dataset=str(pathlib.Path(config.dataset).absolute()))
    polarised = metrics.polarised_fraction(history)
    bernoulli = config.likelihood == "bernoulli"
    return {
        "model": config.model, "beta": model.beta, "latents": model.latents, "u_size": model.u_size,
        "likelihood": config.likelihood,
        "likelihood_variance": None if bernoulli else math.exp(float(model.likelihood_layer.log_variance)),
        "data": {"name": dataset.name, "shape": dataset.shape,
                 "dtype": "uint8" if dataset.is_image else "float32", "training_examples": len(dataset),
                 "factors": [factor._asdict() for factor in dataset.factors]},
        "steps": config.steps, "final_terms": history[-1] if history else {}, "recipe": config.as_json(),
        "history": {polarised.name: dataclasses.asdict(polarised)} if polarised else {},
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
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
