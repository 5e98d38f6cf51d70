"""Images of dSprites in exact fractions."""

from fractions import Fraction

import numpy as np

from vae_tf.data import dsprites


def sprite(classes):
    """One dSprites image, pixel by pixel in exact fractions: uint8 [64, 64], 0 or 1.

    Even-odd rule: a centre is inside if an odd number of edges cross its row at or left of it.
    """
    shape, scale, orientation, x, y = (np.array([c]) for c in classes)
    columns, rows = dsprites.place_vertices(dsprites.OUTLINES[int(shape[0])], scale, orientation, x, y)
    corners = [(Fraction(int(c), 256), Fraction(int(r), 256)) for c, r in zip(columns[0], rows[0], strict=True)]
    image = np.zeros((64, 64), np.uint8)
    half = Fraction(1, 2)
    for i in range(64):
        at = []
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
            if min(y0, y1) < i + half <= max(y0, y1):
                at.append(x0 + (i + half - y0) * (x1 - x0) / (y1 - y0))
        for j in range(64):
            image[i, j] = sum(crossing <= j + half for crossing in at) % 2
    return image
