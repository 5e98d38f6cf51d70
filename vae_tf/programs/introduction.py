"""Find the models that are to be scored and say what their cards tell, before TensorFlow is imported for seconds."""

import dataclasses
import pathlib
from typing import Any

from vae_tf import cli, data, export


def find_models(asked: cli.ScoringRequest) -> cli.ScoringRequest:
    """Return the request with folders in place of patterns and of the address of a model, which is introduced.

    Raises:
        InputError: there are no such data, no such model, or its card lacks what scoring needs.
    """
    if asked.data.dataset is not None:
        data.check_name(asked.data.dataset)
    if asked.compare:
        return dataclasses.replace(asked, compare=tuple(cli.find_exports(asked.compare)))
    path, card = cli.find_export("--export", asked.export, export.SCORED, pulls=True)
    print(introduce(path, card), flush=True)
    return dataclasses.replace(asked, export=str(path))


def introduce(path: pathlib.Path, card: dict[str, Any]) -> str:
    """Write what a model is, and the terms of the objective over the last steps up to its weights."""
    trained = f"{card['steps']:,} steps" if card["steps"] else "untrained"
    latents = f"{card['latents']} latent{'s' * (card['latents'] != 1)}"
    lines = [f"{path}: {card['model']} ({card['recipe']['network']}, {latents}, {trained} on {card['data']['name']})"]
    if said := export.describe_terms(card):
        lines.append(f"Over the last steps up to step {card['steps']:,}, nats per training example: {said}")
    return "\n".join(lines)
