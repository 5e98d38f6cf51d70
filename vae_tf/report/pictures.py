"""The pictures of an image model: data, reconstructions, and what each latent does."""

from typing import Any

import numpy as np

from vae_tf.data.drawing import plot_images
from vae_tf.errors import InputError, make_printable
from vae_tf.evaluation import Evaluation
from vae_tf.metrics import information
from vae_tf.report.theme import as_png, shorten, use_theme

LONGEST = 24            # characters of a factor's name, for which there is room beside a row


def draw_overview(model: Any, dataset: Any, evaluation: Evaluation, columns: int = 9, reach: float = 2.0) -> bytes:
    """Draw an image model as a PNG: data, reconstructions, and one row per latent as it moves.

    A row moves its latent from -reach to reach standard deviations around the prior's mean; all other latents stay as
    encoded from the first example. The rows are in the order of `order_latents`. A row names the factor that its latent
    knows best, if the latent carries information and knows more of it than chance would. Of images with other than 1 or
    3 channels the first 1 or 3 are shown.

    Args:
        model: an `export.Exported` of images.
        dataset: a `data.Dataset` of the model's shape.
        evaluation: the Evaluation of the model on the dataset, whose scores need not be there.
        columns: the number of examples, and of places of a latent.
        reach: how far a latent moves, in prior standard deviations; an autoencoder has none, so its latents move in
            standard deviations of its codes.
    """
    x, reconstructed = reconstruct(model, dataset, evaluation, columns)
    order = order_latents(evaluation)
    moved = move_latents(model, dataset, evaluation, order, np.linspace(-reach, reach, columns))
    labels = label_latents(evaluation, dataset, LONGEST)
    rows = ["data", "reconstruction", *(labels[j] for j in order)]
    title = f"{make_title(model.card)}: each latent from {-reach:g} to {reach:g} standard deviations"
    channels = dataset.shape[-1]
    if channels not in (1, 3):
        title += "; channel 1 of 2" if channels == 2 else f"; channels 1 to 3 of {channels}"
    with use_theme():
        return as_png(plot_images([x, reconstructed, *moved], rows, title), dpi=110, tight=True)


def make_title(card: dict[str, Any]) -> str:
    """Return what a model is called in a picture; its path may be anything."""
    latents = card["latents"]
    return make_printable(f"{card['model']} on {card['data']['name']}, {latents} latent{'s' * (latents != 1)}, "
                          f"{card['steps']:,} steps")


def reconstruct(model: Any, dataset: Any, evaluation: Evaluation, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first examples of an evaluation and their reconstructions, [count, ...] each; images are in [0, 1]."""
    indices = evaluation.indices[:count]
    x, u = dataset.images_at(indices), model.u_at(dataset, indices)
    return x / np.float32(255) if dataset.is_image else x, model.reconstruct(x, u=u)["mean"]


def move_latents(model: Any, dataset: Any, evaluation: Evaluation, latents: np.ndarray, places: np.ndarray,
                 ) -> list[np.ndarray]:
    """Return what the decoder makes of the first example while one latent moves: an array [T, ...] for each latent.

    Args:
        model: an `export.Exported`.
        dataset: a `data.Dataset` of the model's shape.
        evaluation: the Evaluation of the model on the dataset.
        latents: the indices of the latents that move.
        places: [T], in standard deviations of the prior around its mean, or in those of the codes for an autoencoder.
    """
    from vae_tf import models  # imports TensorFlow, which scoring codes does not need

    first = evaluation.indices[:1]
    codes = model.encode(dataset.images_at(first), u=model.u_at(dataset, first))
    if models.find_declared(model.card).has_prior:
        centre = codes.get("prior_mean", np.zeros_like(codes["mean"]))[0]
        stddev = codes.get("prior_stddev", np.ones_like(codes["mean"]))[0]
    else:       # latents move where the codes are
        centre, stddev = evaluation.codes.mean(0), evaluation.codes.std(0)
    moved = []
    for j in latents:
        z = np.repeat(codes["mean"][:1], len(places), 0)
        z[:, j] = centre[j] + places * stddev[j]
        moved.append(model.decode(z)["mean"])
    return moved


def order_latents(evaluation: Evaluation) -> np.ndarray:
    """Return the indices of the latents, by falling KL, or by falling variance of the codes where there is no KL."""
    return np.argsort(-_measure_latents(evaluation)[1])


def label_latents(evaluation: Evaluation, dataset: Any, longest: int = 60) -> list[str]:
    """Return what stands beside each latent: its KL, and the factor that it knows best if it carries information.

    The factor's name has at most `longest` characters.
    """
    name, size = _measure_latents(evaluation)
    labels = [f"z{j}  {name} {value:.2g}" for j, value in enumerate(size)]
    codes, verdict = evaluation.posterior, evaluation.verdict
    known: list[tuple[int, float] | None] = [None] * len(size)
    try:
        if codes.factors is not None and not evaluation.explain_no_meaning("mig"):
            complete = ~np.isnan(codes.factors).any(1)
            known = information.find_best_known_factors(codes.mean[complete], codes.factors[complete],
                                                        kinds=codes.kinds)
    except InputError:          # some factors cannot be put into classes
        pass
    for j, best in enumerate(known):
        if best is not None and (verdict is None or verdict.informative[j]):
            names = evaluation.factors or dataset.factor_names
            labels[j] += f"\n{shorten(make_printable(names[best[0]]), longest)} {best[1]:.0%}"
    return labels


def _measure_latents(evaluation: Evaluation) -> tuple[str, np.ndarray]:
    """Return by what latents are ordered, its name and its numbers [d]: the KL, or the variance of codes alone."""
    verdict = evaluation.verdict
    if verdict is not None and verdict.kl is not None:
        return "KL", verdict.kl
    return "Var(mean)", evaluation.codes.var(0)
