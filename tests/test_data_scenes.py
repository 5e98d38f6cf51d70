import numpy as np
import reference

from vae_tf import data
from vae_tf.data import ray_casting, scenes

# A pixel is the sum of three weights, each rounded to 1/255, times colours, rounded to 1/256; and is itself rounded.
ROUNDING = 3 * 0.5 + 255 * 0.5 / 256 + 0.5


def test_pixels_against_single_rays():
    rng = np.random.default_rng(0)
    classes = np.stack([rng.integers(0, size, 8) for size in scenes.SIZES], -1)
    classes[:, 4] = np.arange(8) % 4                        # every shape twice
    for image, (row, column), one in zip(scenes.render(classes), rng.integers(0, 64, (8, 2)), classes, strict=True):
        # One pixel anywhere, and 16 around the object, where its edges and its shadow are.
        for i, j in [(row, column), *rng.integers(20, 50, (16, 2)).tolist()]:
            difference = image[i, j] - np.array(reference.scene_pixel(one.tolist(), i, j))
            assert np.abs(difference).max() <= ROUNDING, (one, i, j)


def test_every_geometry_is_another_and_fits_a_byte():
    """The outermost sizes and orientations, their neighbours and all shapes: each step can be seen."""
    geometries = np.array([[[scenes.find_weights(size, shape, orientation) for orientation in (0, 1, 7, 13, 14)]
                            for shape in range(4)] for size in (0, 1, 7)]).reshape(3, 4, 5, -1, 3)
    assert geometries.sum(-1).max() < scenes.LIGHTEST
    assert (geometries[..., 2].max(-1) > 0.5 * scenes.LIGHTEST).all()           # the object is seen in all of them
    for axis in range(3):       # in some pixel, a surface counts more or less by a tenth of the lightest
        assert np.abs(np.diff(geometries, axis=axis)).max((-1, -2)).min() > 0.1 * scenes.LIGHTEST


def test_hues_colour_their_own_surface_alone():
    base = np.array([2, 5, 8, 3, 1, 4])
    weights = scenes.find_weights(*base[3:]).reshape(64, 64, 3)
    for surface in range(3):
        other = base.copy()
        other[surface] = (base[surface] + 5) % 10
        changed = (scenes.render([base]) != scenes.render([other]))[0].any(-1)
        np.testing.assert_array_equal(changed[weights[..., surface] > 2], True)
        assert not changed[weights[..., surface] == 0].any()


def test_scenes_declare_themselves():
    ds = data.load("scenes")
    assert len(ds) == 480_000 and ds.shape == (64, 64, 3) and ds.complete_grid
    assert ds.factor_names == ("floor_hue", "wall_hue", "object_hue", "size", "shape", "orientation")
    assert ds.factor_sizes == (10, 10, 10, 8, 4, 15) and list(ray_casting.SOLIDS) == ["cube", "cylinder", "sphere",
                                                                                      "capsule"]
    i = np.array([0, 1, 479_999])
    np.testing.assert_array_equal(ds.factors_at(i), [[0] * 6, [0] * 5 + [1], np.array(scenes.SIZES) - 1])
    np.testing.assert_array_equal(ds.u_at(i[[0, 2]]), [[0] * 6, [1] * 6])
    np.testing.assert_array_equal(ds.images_at(i[1:]), ds.images_at(i)[1:])     # whatever else is in the batch
    assert ds.images_at(i[:0]).shape == (0, 64, 64, 3)
