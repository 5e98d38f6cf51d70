"""Export a model of which no run is known, such as one that Keras' own loops have trained: nobody writes its card."""

import pathlib
from typing import Any

from vae_tf import checks, data
from vae_tf.data import described
from vae_tf.errors import InputError
from vae_tf.export.card import describe_model
from vae_tf.export.saving import save
from vae_tf.models import Autoencoder
from vae_tf.models.keras_inputs import ROUNDING

OWN = "own networks"        # what a card calls networks that are not built by name


def export_model(folder: str | pathlib.Path, model: Autoencoder, dataset: data.Dataset | None = None) -> pathlib.Path:
    """Write the next version of `folder`; returns its path, exported/NAME/VERSION.

    The card says what the model knows of its origin. It says nothing of the rest, and evaluate.py then asks for it.

    Args:
        folder: exported/NAME.
        model: a model, which has perhaps been trained.
        dataset: what it was trained on; None for what its last training was given.

    Raises:
        InputError: data that the model does not take.
        OSError: the folder cannot be written, or the disk is full.
    """
    if not isinstance(dataset, data.Dataset | None):
        raise InputError(f'data: expected a data.Dataset, such as data.load("mine.npz"); got '
                         f"{checks.describe(dataset)}")
    origin = model.describe_origin()
    shape = tuple(model.encoder.inputs[0].shape[1:])
    known = data.describe(dataset) if dataset is not None else origin.get("data") or data.describe_examples(
        "data that the card does not name", shape, u_size=model.u_size)
    if tuple(known["shape"]) != shape or (model.u_size and known["u_size"] != model.u_size):
        raise InputError(f"data: expected examples of shape {shape}" + f" with u of size {model.u_size}"
                         * bool(model.u_size) + f"; got {known['name']} of shape {tuple(known['shape'])} with u of "
                         f"size {known['u_size']}")
    low, high = known.get("span") or (0, 1)
    if len(shape) == 3 and (low < -ROUNDING or high > 1 + ROUNDING):
        raise InputError(f"data: expected images of floats in [0, 1], because servers take uint8 for them; the model "
                         f"was trained on {low:g} to {high:g}")
    examples = described.restore(known)
    card = {**describe_model(model, examples), "steps": origin["steps"], "recipe": _describe_recipe(model, known)}
    dark = origin.get("dark", True) if dataset is None else dataset.is_image and data.has_dark(dataset)
    return save(folder, model, examples, card, accept_dark=dark)


def _describe_recipe(model: Autoencoder, known: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of how a model was made, under the names of Configuration."""
    origin, likelihood = model.describe_origin(), model.likelihood_layer
    seed = {"seed": origin["seed"]} if "seed" in origin else {}
    # A learned variance is no setting; the card has it beside the recipe.
    variance = {} if likelihood.kind == "gaussian_learned" else {
        "likelihood_variance": float(f"{likelihood.variance:.7g}")}
    # The number of parameters tells networks apart that are not built by name.
    return {"model": model.name_kind(), "network": origin.get("network", OWN),
            "parameters": model.count_params(), "latents": model.latents, "likelihood": likelihood.kind, **variance,
            "beta": float(model.beta), "steps": origin["steps"], "dataset": known["dataset"], "split": known["split"],
            "data_seed": known["data_seed"], "data_fingerprint": known["fingerprint"], **seed,
            **{option.name: getattr(model, option.name) for option in model.options}}
