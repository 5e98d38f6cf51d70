"""What an export says of itself, and what train.py says at its end."""

import dataclasses
import importlib.metadata
import math
import pathlib

from vae_tf import metrics


def card(config, model, dataset, history):
    """What an export says of itself: model, data, factors, recipe, scores of its history and versions."""
    if config["dataset"].endswith(".npz"):      # the card is read in other folders than this
        config = {**config, "dataset": str(pathlib.Path(config["dataset"]).absolute())}
    polarised = metrics.polarised_fraction(history)
    of_history = {polarised.name: dataclasses.asdict(polarised)} if polarised else {}
    return {
        "model": config["model"], "beta": model.beta, "latents": model.latents, "u_size": model.u_size,
        "likelihood": config["likelihood"],
        "likelihood_variance": (None if config["likelihood"] == "bernoulli"
                                else math.exp(float(model.likelihood_layer.log_variance))),
        "data": {"name": dataset.name, "shape": dataset.shape,
                 "dtype": "uint8" if dataset.is_image else "float32", "training_examples": len(dataset),
                 "factors": [factor._asdict() for factor in dataset.factors]},
        "steps": config["steps"], "final_terms": history[-1] if history else {}, "recipe": config,
        "history": of_history,
        "versions": {name: importlib.metadata.version(name)
                     for name in ("vae_tf", "tensorflow", "tensorflow-probability", "keras", "numpy")},
    }


def polarised_line(config, history):
    """What train.py says of the polarised regime; empty if history does not say."""
    polarised = metrics.polarised_fraction(history)
    if not polarised:
        return ""
    said = (f"stays within 3 % of its polarised form for the last {polarised.score:.1%} of training" if polarised.score
            else "is not within 3 % of its polarised form at the end")
    return (f"\n             The KL {said};\n             that form counts latents whose mean posterior variance "
            f"is below {config['active_threshold']:g} prior variances.")


def listed(run_dirs, file=""):
    """A file of every run, for people: the first to the last."""
    return " to ".join(f"{run_dir}{file}" for run_dir in dict.fromkeys((run_dirs[0], run_dirs[-1])))
