"""Moving pictures of an image model: every latent goes to and fro, as a GIF and as a WebP."""

import io
import math
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from vae_tf import files
from vae_tf.evaluation import Evaluation
from vae_tf.report import pictures
from vae_tf.report.theme import as_png, use_theme
from vae_tf.typing import ArrayLike

REACH, PLACES = 2.0, 13             # how far a latent moves, in prior standard deviations, and in how many steps
MILLISECONDS = 90                   # that a frame is shown
MOST_BYTES = 2_000_000
MOST_LATENTS, ACROSS = 12, 6
LONGEST = 14                    # characters of a factor's name, for which there is room above an image
RESOLUTIONS = (110, 80, 60, 45, 30, 20)         # dots per inch; the first whose file is small enough is taken
FILES = ("traversals.gif", "traversals.webp")


def write_animations(folder: pathlib.Path, model: Any, dataset: Any, evaluation: Evaluation) -> None:
    """Write FILES: the latents of an image model as they move, all at once and in a loop; at most 2 MB each.

    Args:
        folder: the folder of the files.
        model: an `export.Exported` of images.
        dataset: a `data.Dataset` of the model's shape.
        evaluation: the Evaluation of the model on the dataset.
    """
    order = pictures.order_latents(evaluation)[:MOST_LATENTS]
    places = np.linspace(-REACH, REACH, PLACES)
    moved = np.stack(pictures.move_latents(model, dataset, evaluation, order, places))
    labels = pictures.label_latents(evaluation, dataset, LONGEST)
    made = make_animations(moved, places, [labels[j] for j in order], pictures.make_title(model.card))
    for name, content in made.items():
        files.write_bytes(folder / name, content)


def make_animations(moved: np.ndarray, places: ArrayLike, labels: Sequence[str], title: str = "",
                    most: int = MOST_BYTES) -> dict[str, bytes]:
    """Return the content of each of FILES, in the first of RESOLUTIONS in which it has at most `most` bytes.

    A file that is larger in all of them has the last.

    Args:
        moved: [L, T, H, W, C], images from 0 to 1 of L latents at T places.
        places: [T], in prior standard deviations.
        labels: what stands above each latent, L.
        title: the title above.
        most: bytes.
    """
    made: dict[str, bytes] = {}
    for dpi in RESOLUTIONS:
        frames = draw_frames(moved, places, labels, title, dpi)
        made.update({name: animate(frames, name.rpartition(".")[2]) for name in FILES
                     if name not in made or len(made[name]) > most})
        if max(map(len, made.values())) <= most:
            break
    return made


def plot_latents(images: Sequence[np.ndarray], labels: Sequence[str], place: float, title: str = "") -> Any:
    """Plot what the decoder makes of one example while each latent stands at one place, as a Matplotlib figure.

    Args:
        images: an image [H, W, C] for each latent, from 0 to 1; of other than 1 or 3 channels the first 1 or 3 are
            shown.
        labels: what stands above each image.
        place: where the latents stand, in prior standard deviations.
        title: the title above.
    """
    from matplotlib.figure import Figure

    columns = min(ACROSS, len(images))
    rows = math.ceil(len(images) / columns)
    width = max(3.2, 1.15 * columns)
    figure = Figure(figsize=(width, 1.5 * rows + 0.75), facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={
        "left": 0.02, "right": 0.98, "bottom": 0.3 / (1.5 * rows + 0.75), "top": 1 - 0.75 / (1.5 * rows + 0.75),
        "wspace": 0.06, "hspace": 0.4})
    for axis in axes.flat:
        axis.set_axis_off()
    shown = 1 if images[0].shape[-1] < 3 else 3
    for axis, image, label in zip(axes.flat, images, labels, strict=False):
        axis.imshow(np.clip(image[..., :shown], 0, 1), cmap="gray" if shown == 1 else None, vmin=0, vmax=1)
        axis.set_title(label, fontsize=7, fontweight="normal", loc="center", pad=3, parse_math=False)
    figure.suptitle(textwrap.fill(title, round(15 * width)), fontsize=8, y=1 - 0.1 / (1.5 * rows + 0.75),
                    parse_math=False)
    figure.text(0.5, 0.08 / (1.5 * rows + 0.75), f"every latent at {place:+.1f} standard deviations",
                ha="center", fontsize=8)
    return figure


def draw_frames(moved: np.ndarray, places: ArrayLike, labels: Sequence[str], title: str, dpi: int) -> list[bytes]:
    """Return the PNG of each place; `make_animations` has the arguments, and dpi are dots per inch."""
    with use_theme():
        return [as_png(plot_latents(list(np.nan_to_num(moved[:, t])), labels, place, title), dpi)
                for t, place in enumerate(np.asarray(places))]


def animate(frames: Sequence[bytes], kind: str) -> bytes:
    """Return frames, each a PNG, as an animation of a kind (gif or webp) that goes to and fro for ever."""
    from PIL import Image

    shown = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in (*frames, *frames[-2:0:-1])]
    if kind == "gif":       # one palette for all frames, so that still parts stay still
        palette = shown[len(frames) // 2].quantize(128)
        shown = [frame.quantize(128, palette=palette, dither=Image.Dither.NONE) for frame in shown]
    buffer = io.BytesIO()
    options: dict[str, Any] = {"optimize": True} if kind == "gif" else {"quality": 80, "method": 4}
    shown[0].save(buffer, format=kind, save_all=True, append_images=shown[1:], duration=MILLISECONDS, loop=0, **options)
    return buffer.getvalue()
