import pathlib

import numpy as np
import reference

from vae_tf import data
from vae_tf.data import dsprites

REAL = pathlib.Path(__file__).parent / "fixtures" / "dsprites_real_images.npz"


def test_dsprites_matches_every_real_image():
    real = np.load(REAL)
    assert len(real["images"]) == 401
    rendered = dsprites.render(real["latents_classes"][:, 1:])     # without colour, which is constant
    np.testing.assert_array_equal(rendered[..., 0], 255 * real["images"])


def test_dsprites_white_pixels_of_the_whole_set():
    n, chunk = len(data.load("dsprites")), 8192
    white = sum(int(np.bitwise_count(dsprites.render_packed(dsprites.factors_at(np.arange(i, min(i + chunk, n)))))
                    .sum()) for i in range(0, n, chunk))
    assert n == 737_280
    # The archive's published mean is that of 128,328,862; the same geometry in float64 gives 128,328,864, too.
    assert white == 128_328_864


def test_dsprites_against_exact_fractions():
    rng = np.random.default_rng(0)
    classes = np.stack([rng.integers(0, size, 12) for size in dsprites.SIZES], -1)
    classes[:3, 0] = 0, 1, 2
    for image, expected in zip(dsprites.render(classes)[..., 0], map(reference.sprite, classes), strict=True):
        np.testing.assert_array_equal(image, 255 * expected)


def test_dsprites_edges_count_left_and_lower_but_not_right_and_upper():
    # An axis-parallel square through pixel centres: columns and rows 10.5 to 12.5.
    corners = np.array([[10.5, 10.5], [12.5, 10.5], [12.5, 12.5], [10.5, 12.5]]) * 256
    _, row, column = dsprites.find_crossings(*corners.T[:, np.newaxis].astype(np.int64))
    image = np.zeros((64, 65), int)
    for i, j in zip(row, column, strict=True):
        image[i, j:] ^= 1
    assert set(zip(*np.nonzero(image[:, :64]), strict=True)) == {(11, 10), (11, 11), (12, 10), (12, 11)}


def test_dsprites_indices_are_the_archives_order():
    ds = data.load("dsprites")
    np.testing.assert_array_equal(
        ds.factors_at(np.array([0, 1, 32, 1024, 737_279])),
        [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [2, 5, 39, 31, 31]])
    assert ds.factor_names == ("shape", "scale", "orientation", "x", "y") and ds.factor_sizes == (3, 6, 40, 32, 32)
    assert [f.kind for f in ds.factors] == ["categorical", "ordinal", "cyclic", "ordinal", "ordinal"]
    first, last = ds.images_at(np.array([0, 737_279]))
    assert first.shape == ds.shape == (64, 64, 1) and first.dtype == np.uint8
    assert np.argwhere(first)[:, :2].max() < 32 < np.argwhere(last)[:, :2].min()      # from top left to bottom right
    np.testing.assert_array_equal(ds.u_at(np.array([0, 737_279])), [[0] * 5, [1] * 5])
