"""Scenes of one solid in a room, rendered in process: 480,000 colour images, 64x64, with 3DShapes' factors.

The hues of floor, walls and object, the object's size and shape, and the camera's orientation have as many values as
in 3DShapes, but the room, the solids and the light are our own: a score on `scenes` is no score on 3DShapes.

The light is white and every surface reflects it diffusely (Lambert). So an image is linear in the three colours:
pixel = sum over surfaces of weight * colour, where a weight is how much of the pixel the surface fills times its
brightness there. The weights depend on size, shape and orientation alone. `vae_tf/data/ray_casting.py` computes them
for each of these 480 geometries when it is first asked for; an image is then three multiplications per pixel.
"""

import colorsys
import functools

import numpy as np

from vae_tf.data import columns, dataset, in_memory, ray_casting
from vae_tf.data.ray_casting import PIXELS
from vae_tf.data.registry import register
from vae_tf.typing import ArrayLike, Floats, Integers

VERSION = 1       # version of the images: raise it with any change that alters them
NAMES = ("floor_hue", "wall_hue", "object_hue", "size", "shape", "orientation")
SIZES = (10, 10, 10, 8, 4, 15)
FACTORS = tuple(map(dataset.Factor, NAMES, SIZES, ("cyclic", "cyclic", "cyclic", "ordinal", "categorical", "ordinal")))

SCALES = np.linspace(0.7, 1.2, 8)                                       # of the object
ORIENTATIONS = np.radians(np.linspace(-30, 30, 15))                     # of the camera, on its way around the object
COLOURS = {"floor": (0.65, 0.85), "wall": (0.45, 1.0), "object": (0.9, 1.0)}    # saturation and value, at every hue

# Weights are whole numbers of 1/255, and colours of 1/256: their products and sums are then exact in float32, so that
# an image is the same on every processor that rounds its weights to the same numbers.
LIGHTEST, BRIGHTEST = 255, 256


@functools.cache
def make_palettes() -> Integers:
    """Return the colours by surface and hue, around the colour circle of HSV: float32 [3, 10, RGB], 0 to 256."""
    colours = [[colorsys.hsv_to_rgb(hue / SIZES[0], saturation, value) for hue in range(SIZES[0])]
               for saturation, value in COLOURS.values()]
    return np.rint(BRIGHTEST * np.array(colours)).astype(np.float32)


@functools.cache
def find_weights(size: int, shape: int, orientation: int) -> Integers:
    """Return what each surface's colour counts in each pixel: float32 [64 x 64, 3], 0 to 255; classes as in FACTORS."""
    weights: Floats = ray_casting.cast(tuple(ray_casting.SOLIDS)[shape], SCALES[size], ORIENTATIONS[orientation])
    return np.rint(LIGHTEST * weights.reshape(-1, len(COLOURS))).astype(np.float32)


def render(classes: ArrayLike) -> Integers:
    """Return images of factor classes [B, 6]: uint8 [B, 64, 64, 3]."""
    classes = np.asarray(classes)
    colours = make_palettes()[np.arange(len(COLOURS)), classes[:, :3]]                              # [B, 3, RGB]
    weights = np.reshape([find_weights(*geometry) for geometry in classes[:, 3:].tolist()],
                         (-1, PIXELS**2, len(COLOURS))).astype(np.float32, copy=False)
    pixels = weights @ colours / BRIGHTEST + 0.5                    # the largest is below 256, see ray_casting.cast
    return pixels.astype(np.uint8).reshape(-1, PIXELS, PIXELS, 3)


def factors_at(indices: Integers) -> Integers:
    """Return the factor classes int64 [B, 6] of indices [B]; the orientation changes fastest."""
    return np.stack(np.unravel_index(indices, SIZES), axis=-1)


def load() -> dataset.Dataset:
    """Return the scenes as a Dataset; an image is rendered when it is asked for."""
    high = np.array(SIZES) - 1
    return dataset.Dataset(
        name="scenes", size=int(np.prod(SIZES)), shape=(PIXELS, PIXELS, 3), factors=FACTORS,
        images_at=lambda indices: render(factors_at(indices)), factors_at=factors_at, complete_grid=True,
        fingerprint=in_memory.fingerprint("scenes", VERSION),
        u_at=lambda indices: columns.scale(factors_at(indices), 0, high), u_size=len(SIZES),
        u_range=(np.zeros_like(high), high))


register("scenes", lambda data_dir, seed: load(), suited={"network": "conv_locatello", "latents": 10, "steps": 4_000})
