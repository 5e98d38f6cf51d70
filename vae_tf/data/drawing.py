"""Draw a page of a dataset: examples, and what each factor changes."""

import io
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.data.dataset import Dataset
from vae_tf.typing import Integers

COLUMNS = 10
SIDE, GAP = 0.65, 0.04      # the larger side of an image in inches, and between images as a share of it
LEFT, ABOVE = 1.6, 0.4      # inches for labels and for the title
TWO_LINES = 0.3             # inches that two lines of a label need
TRIED = 30                  # examples for which others are searched that differ in one factor alone


MARK = b"Software\0vae_tf"        # what a page says in its first bytes that no other picture says


def draw_page(path: pathlib.Path, dataset: Dataset, seed: int = 0) -> None:
    """Write a PNG: of images, two rows of examples and a row for each factor; of vectors, a plot for each factor.

    Args:
        path: the file, which appears whole or not at all.
        dataset: the examples.
        seed: which examples are drawn.
    """
    figure = _plot_images(dataset, seed) if dataset.is_image else _plot_vectors(dataset, seed)
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore", category=UserWarning):    # of names in scripts that the font lacks
        figure.savefig(buffer, format="png", dpi=110, facecolor="white", bbox_inches="tight",
                       metadata={"Software": "vae_tf"})
    files.write_bytes(path, buffer.getvalue())


def is_page(path: pathlib.Path) -> bool:
    """Return whether a file is a page that `draw_page` has written."""
    with path.open("rb") as file:
        return MARK in file.read(1_000)


def choose_range(dataset: Dataset, factor: int, seed: int = 0) -> Integers:
    """Return up to 10 examples in which a factor rises, by index.

    The other factors stay as they are in one of the examples, if at least half as many values of the factor occur
    beside them as are shown, as in a complete grid. Otherwise they vary, too. The values are from the least to the
    greatest of those that occur.
    """
    if dataset.factors_at is None:
        raise ValueError("expected a dataset with factors")
    values = dataset.factors_at(np.arange(len(dataset)))
    known = np.flatnonzero(~np.isnan(values[:, factor]))
    if not len(known):
        return known
    values = values[known]
    others, shown = np.delete(values, factor, axis=1), min(COLUMNS, len(np.unique(values[:, factor])))
    chosen, most = np.arange(len(known)), max(1, (shown - 1) // 2)
    for start in np.random.default_rng(seed).choice(len(known), min(TRIED, len(known)), replace=False):
        beside = np.flatnonzero((others == others[start]).all(1))
        different = len(np.unique(values[beside, factor]))
        if different > most:
            chosen, most = beside, different
        if most >= shown:
            break
    order = chosen[np.unique(values[chosen, factor], return_index=True)[1]]        # from least to greatest
    return known[order[np.unique(np.linspace(0, len(order) - 1, COLUMNS).round().astype(int))]]


def plot_images(rows: Sequence[np.ndarray], labels: Sequence[str], title: str = "") -> Any:
    """Plot rows of images, each with a label on its left, as a Matplotlib figure.

    Args:
        rows: images [T, H, W, C] of each row, from 0 to 1; of other than 1 or 3 channels the first 1 or 3 are shown.
        labels: what stands beside each row.
        title: the title above.
    """
    from matplotlib.figure import Figure  # it takes a second

    columns, (height, width, channels) = max(map(len, rows)), rows[0].shape[1:]
    shown, gap = 1 if channels < 3 else 3, GAP * max(height, width)
    across, down = columns * (width + gap), len(rows) * (height + gap)          # all images together, in their pixels
    inches = SIDE / max(height, width)
    if inches * height < TWO_LINES:
        labels = [label.replace("\n", "  ") for label in labels]
    size = inches * across + LEFT, inches * down + ABOVE
    figure = Figure(figsize=size)
    # There is a single axis, because to make one takes longer than to draw an image.
    axis = figure.add_axes((LEFT / size[0], 0, 1 - LEFT / size[0], 1 - ABOVE / size[1]))
    axis.set_axis_off()
    for i, (label, images) in enumerate(zip(labels, rows, strict=True)):
        top = i * (height + gap)
        for j, image in enumerate(images):
            left = j * (width + gap)
            axis.imshow(np.clip(image[..., :shown], 0, 1), cmap="gray" if shown == 1 else None, vmin=0, vmax=1,
                        extent=(left, left + width, top + height, top))
        axis.text(-3 * gap, top + height / 2, label, ha="right", va="center", fontsize=8, parse_math=False)
    axis.set(xlim=(0, across), ylim=(down, 0))
    figure.suptitle(title, fontsize=9, y=1 - 0.15 / size[1], parse_math=False)
    return figure


def _plot_images(dataset: Dataset, seed: int) -> Any:
    """Return a plot of two rows of examples, and of a row for each factor."""
    drawn = np.random.default_rng(seed).choice(len(dataset), min(2 * COLUMNS, len(dataset)), replace=False)
    rows: list[tuple[str, Integers]] = [("examples", drawn[:COLUMNS]), ("", drawn[COLUMNS:])]
    rows += [(factor.name, choose_range(dataset, k, seed)) for k, factor in enumerate(dataset.factors)]
    rows = [row for row in rows if len(row[1])]
    return plot_images([dataset.images_at(indices) / np.float32(255) for _, indices in rows],
                       [label for label, _ in rows], f"{dataset.name}: {len(dataset):,} images")


def _plot_vectors(dataset: Dataset, seed: int) -> Any:
    """Return a plot for each factor of the first two entries of examples, coloured by the factor."""
    from matplotlib.figure import Figure

    indices = np.random.default_rng(seed).choice(len(dataset), min(2_000, len(dataset)), replace=False)
    x = dataset.images_at(indices)
    values = dataset.factors_at(indices) if dataset.factors_at else np.zeros((len(indices), 1))
    names = dataset.factor_names or ("no factors",)
    figure = Figure(figsize=(3 * len(names), 3))
    for k, (axis, name) in enumerate(zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True)):
        axis.scatter(x[:, 0], x[:, min(1, x.shape[1] - 1)], c=values[:, k], s=4)
        axis.set_title(name, fontsize=9, parse_math=False)
        axis.set_xlabel("first entry", fontsize=8)
        axis.set_ylabel("second entry" if x.shape[1] > 1 else "first entry", fontsize=8)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        figure.tight_layout()
    return figure
