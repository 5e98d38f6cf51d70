"""dSprites, rendered in process: 3 shapes x 6 scales x 40 orientations x 32 x 32 positions, 64x64, binary.

The geometry was recovered from published images of the archive (google-deepmind/dsprites-dataset) and
reproduces 401 of them pixel for pixel. All 737,280 images have 128,328,864 white pixels; the archive's
published mean gives 128,328,862, so this is not proven bit-identical to it.

A shape is a polygon whose vertices are rounded to 1/256 pixel. A pixel is set if its centre is inside; a
centre exactly on a left or lower edge counts, on a right or upper edge does not. All of that is exact in
integers: each edge crosses some rows' centre lines, and a crossing flips every pixel to its right.
"""

import numpy as np

from vae_tf.data import columns, dataset, in_memory
from vae_tf.data.registry import register
from vae_tf.typing import ArrayLike, Floats, Integers

VERSION = 1       # version of the images: raise it with any change that alters them
SIZES = (3, 6, 40, 32, 32)
FACTORS = tuple(map(dataset.Factor, ("shape", "scale", "orientation", "x", "y"), SIZES,
                    ("categorical", "ordinal", "cyclic", "ordinal", "ordinal")))

SCALES = np.linspace(0.5, 1, 6)
ORIENTATIONS = np.linspace(0, 2 * np.pi, 40)
POSITIONS = np.linspace(0, 1, 32)

UNIT = 9.6        # pixels per unit of the outlines, at scale 1
FIXED = 256       # vertices are whole multiples of 1/256 pixel
CENTRE = FIXED // 2


def _make_circle(vertices: int) -> Floats:
    """Return the angles of the vertices of a regular polygon, in radians."""
    return 2 * np.pi * np.arange(vertices) / vertices


def _make_outlines() -> tuple[Floats, Floats, Floats]:
    """Return the vertices (x right, y down) of square, ellipse and heart, in the archive's order."""
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
    t = _make_circle(100)
    ellipse = np.stack([1.33 * np.cos(t), np.sin(t) / 1.33], -1)
    t = _make_circle(150)
    y_up = (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 14.5 + 0.15
    return square, ellipse, np.stack([np.sin(t) ** 3, -y_up], -1)


OUTLINES = _make_outlines()


def place_vertices(outline: Floats, scale: Integers, orientation: Integers, x: Integers,
                   y: Integers) -> tuple[Integers, Integers]:
    """Return the corners of an outline [V, 2] in B poses (factor values [B]), in 1/256 pixel: x and y, int64 [B, V]."""
    angle, unit = ORIENTATIONS[orientation][:, np.newaxis], UNIT * SCALES[scale][:, np.newaxis]
    u, v = outline.T
    columns = 16 + 32 * POSITIONS[x][:, np.newaxis] + unit * (u * np.cos(angle) + v * np.sin(angle))
    rows = 16 + 32 * POSITIONS[y][:, np.newaxis] + unit * (-u * np.sin(angle) + v * np.cos(angle))
    return np.rint(columns * FIXED).astype(np.int64), np.rint(rows * FIXED).astype(np.int64)


def find_crossings(x: Integers, y: Integers) -> tuple[Integers, Integers, Integers]:
    """Find where the polygons' edges cross the centre lines of pixel rows.

    x and y are [B, V], in 1/256 pixel. Returns, one entry per crossing, the polygon, the row, and the first
    column whose centre is at or right of the crossing.
    """
    x_next, y_next = np.roll(x, -1, axis=1), np.roll(y, -1, axis=1)
    down = y <= y_next                                   # orient every edge from its upper end to its lower
    x0, x1 = np.where(down, (x, x_next), (x_next, x)).reshape(2, -1)
    y0, y1 = np.where(down, (y, y_next), (y_next, y)).reshape(2, -1)
    first = (y0 - CENTRE) // FIXED + 1                   # rows whose centre c has y0 < c <= y1
    count = (y1 - CENTRE) // FIXED + 1 - first
    edge = np.repeat(np.arange(x0.size), count)
    row = first[edge] + np.arange(edge.size) - np.repeat(np.cumsum(count) - count, count)
    x0, y0, dx, dy = x0[edge], y0[edge], (x1 - x0)[edge], (y1 - y0)[edge]
    # the crossing is at x0 + (c - y0) dx / dy; ceil((crossing - CENTRE) / FIXED), in integers
    column = -(-((x0 - CENTRE) * dy + (row * FIXED + CENTRE - y0) * dx) // (FIXED * dy))
    return edge // x.shape[1], row, column


def render_packed(classes: ArrayLike) -> Integers:
    """Return packed images uint64 [B, 64] of classes [B, 5]: a word per pixel row, whose highest bit is at the left."""
    shape, *pose = np.asarray(classes).T
    words = np.zeros((len(shape), 64), np.uint64)
    for kind, outline in enumerate(OUTLINES):
        of_kind = np.flatnonzero(shape == kind)
        polygon, row, column = find_crossings(*place_vertices(outline, *(factor[of_kind] for factor in pose)))
        right_of = np.uint64(2**64 - 1) >> column.astype(np.uint64)
        np.bitwise_xor.at(words, (of_kind[polygon], row), right_of)
    return words


def render(classes: ArrayLike) -> Integers:
    """Return images of factor classes [B, 5]: uint8 [B, 64, 64, 1], 0 or 255."""
    bits = np.unpackbits(render_packed(classes).astype(">u8").view(np.uint8), axis=-1)
    return 255 * bits.reshape(-1, 64, 64, 1)


def factors_at(indices: Integers) -> Integers:
    """Return the factor classes int64 [B, 5] of the archive's indices [B]."""
    return np.stack(np.unravel_index(indices, SIZES), axis=-1)


def load() -> dataset.Dataset:
    """Return dSprites as a Dataset; an image is rendered when it is asked for, in about 5 microseconds."""
    high = np.array(SIZES) - 1
    return dataset.Dataset(
        name="dsprites", size=int(np.prod(SIZES)), shape=(64, 64, 1), factors=FACTORS,
        images_at=lambda indices: render(factors_at(indices)), factors_at=factors_at, complete_grid=True,
        fingerprint=in_memory.fingerprint("dsprites", VERSION),
        u_at=lambda indices: columns.scale(factors_at(indices), 0, high), u_size=len(SIZES),
        u_range=(np.zeros_like(high), high))


register("dsprites", lambda data_dir, seed: load(), suited={"network": "conv_locatello", "latents": 10, "steps": 4_000})
