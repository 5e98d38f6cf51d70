"""Draw the picture of an image model: data, reconstructions, and what each latent does."""

import pathlib
from typing import Any

import numpy as np

from vae_tf import files, models
from vae_tf.errors import InputError, make_printable
from vae_tf.evaluation import Evaluation
from vae_tf.metrics import information


def draw_overview(path: pathlib.Path, model: Any, dataset: Any, evaluation: Evaluation, columns: int = 9,
                  reach: float = 2.0) -> None:
    """Draw an image model to a PNG: data, reconstructions, and one row per latent as it moves.

    A row moves its latent from -reach to reach prior standard deviations; all other latents stay as encoded from the
    first example. The latent that says most about x comes first, and a row names the factor that its latent knows best,
    if it knows more of it than chance would. Of images with other than 1 or 3 channels the first 1 or 3 are shown.

    Args:
        path: path of the PNG.
        model: an `export.Exported` of images.
        dataset: a `data.Dataset` of the model's shape.
        evaluation: the Evaluation of the model on the dataset.
        columns: the number of examples, and of places of a latent.
        reach: how far a latent moves, in prior standard deviations; an autoencoder has none, so its latents move in
            standard deviations of its codes.
    """
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    rows = _make_rows(model, dataset, evaluation, columns, reach)
    channels = dataset.shape[-1]
    shown = 1 if channels < 3 else 3
    figure, axes = plt.subplots(len(rows), columns, figsize=(columns * 0.8 + 1.8, len(rows) * 0.8 + 0.5), squeeze=False,
                                gridspec_kw={"wspace": 0.04, "hspace": 0.04})
    for row, (label, images) in zip(axes, rows, strict=True):
        for axis in row:
            axis.set_axis_off()
        for axis, image in zip(row, images, strict=False):
            axis.imshow(image[..., :shown], cmap="gray" if shown == 1 else None, vmin=0, vmax=1)
        row[0].text(-0.15, 0.5, label, transform=row[0].transAxes, ha="right", va="center", fontsize=8,
                    parse_math=False)
    title = f"{make_title(model.card)}: each latent from {-reach:g} to {reach:g} prior standard deviations"
    if shown != channels:
        title += f"; channels 1 to {shown} of {channels}" if shown > 1 else f"; channel 1 of {channels}"
    figure.suptitle(title, fontsize=9, y=0.91, parse_math=False)
    files.write_whole(path, lambda file: figure.savefig(file, format="png", dpi=110, bbox_inches="tight"))
    plt.close(figure)


def make_title(card: dict[str, Any]) -> str:
    """Return what a model is called in a picture; its path may be anything."""
    return make_printable(f"{card['model']} on {card['data']['name']}, {card['latents']} latents, "
                          f"{card['steps']:,} steps")


def _make_rows(model: Any, dataset: Any, evaluation: Evaluation, columns: int, reach: float,
               ) -> list[tuple[str, np.ndarray]]:
    """Return the rows of the picture: a label and images [columns, H, W, C] of each."""
    indices = evaluation.indices[:columns]
    x, u = dataset.images_at(indices), model.u_at(dataset, indices)
    codes = model.encode(x, u=u)
    labels, order = _label_rows(evaluation, dataset)
    stddev = codes.get("prior_stddev", np.ones_like(codes["mean"]))[0]
    if not models.find_declared(model.card).has_prior:       # latents move as far as the codes vary
        stddev = evaluation.codes.std(0)
    rows = [("data", x / np.float32(255)), ("reconstruction", model.reconstruct(x, u=u)["mean"])]
    for j in order:
        z = np.repeat(codes["mean"][:1], columns, 0)
        z[:, j] = np.linspace(-reach, reach, columns) * stddev[j]
        rows.append((labels[j], model.decode(z)["mean"]))
    return rows


def _label_rows(evaluation: Evaluation, dataset: Any) -> tuple[list[str], np.ndarray]:
    """Return what stands beside each latent's row, and the order of rows: the latent that says most about x first."""
    verdict, codes = evaluation.verdict, evaluation.posterior
    if verdict is not None and verdict.kl is not None:
        size, name = verdict.kl, "KL"
    else:
        size, name = evaluation.codes.var(0), "Var(mean)"
    labels = [f"z{j}  {name} {value:.2g}" for j, value in enumerate(size)]
    known: list[tuple[int, float] | None] = [None] * len(size)
    try:
        if codes.factors is not None:
            known = information.find_best_known_factors(codes.mean, codes.factors)
    except InputError:          # some factors cannot be put into classes
        pass
    for j, best in enumerate(known):
        if best is not None:
            labels[j] += f"\n{make_printable(dataset.factors[best[0]].name)} {best[1]:.0%}"
    return labels, np.argsort(-size)
