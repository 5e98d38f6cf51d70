"""Traversals for the page: a strip of images for each latent, as a PNG within the page."""

import base64
import dataclasses
import io
import math
from typing import Any

import numpy as np

from vae_tf.report import pictures
from vae_tf.report.facts import Facts

FRAMES = 11
REACH = 2.0                 # prior standard deviations
LARGEST_SIDE = 96           # pixels of an image on the page
MOST_BYTES = 2_000_000      # of the pixels of all strips, which keeps the page under 5 MB however they compress


@dataclasses.dataclass(frozen=True)
class Latent:
    """A latent on the page: its name, its class, what is known of it, and its images side by side."""

    name: str
    kind: str
    known: str
    image: str
    frames: int = FRAMES
    reach: float = REACH

    @property
    def step(self) -> float:
        """How far a latent moves between two images, in prior standard deviations."""
        return 2 * self.reach / (self.frames - 1)


def list_latents(facts: Facts, model: Any, dataset: Any, most: int | None = None) -> list[Latent]:
    """Return the latents of an image model, ordered by `pictures.order_latents`: `most`, or as many as fit a page."""
    order = pictures.order_latents(facts.scored)[:count_fitting(dataset.shape) if most is None else most]
    moved = pictures.move_latents(model, dataset, facts.scored, order, np.linspace(-REACH, REACH, FRAMES))
    labels = pictures.label_latents(facts.scored, dataset)
    return [Latent(f"z{j}", facts.kinds[j], ", ".join(labels[j].split("  ", 1)[1].split("\n")), draw_strip(images))
            for j, images in zip(order, moved, strict=True)]


def count_fitting(shape: tuple[int, ...]) -> int:
    """Count the strips of images [H, W, C] that fit on the page; at least one."""
    side = [min(length, LARGEST_SIDE) for length in shape[:2]]
    return max(1, MOST_BYTES // (FRAMES * math.prod(side) * (1 if shape[-1] < 3 else 3)))


def draw_strip(images: np.ndarray) -> str:
    """Return images [T, H, W, C] from 0 to 1, side by side, as the data URI of a PNG.

    Large images are thinned out; of other than 1 or 3 channels the first 1 or 3 are shown.
    """
    from PIL import Image

    every = [-(-length // LARGEST_SIDE) for length in images.shape[1:3]]
    shown = 1 if images.shape[-1] < 3 else 3
    thinned = np.nan_to_num(np.asarray(images)[:, ::every[0], ::every[1], :shown])
    pixels = np.round(255 * np.clip(thinned, 0, 1)).astype(np.uint8)
    strip = np.concatenate(list(pixels), axis=1)
    buffer = io.BytesIO()
    Image.fromarray(strip[..., 0] if shown == 1 else strip).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
