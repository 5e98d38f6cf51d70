import numpy as np
import pytest
import scipy.ndimage
from mixtures import check_posterior

from vae_tf import data
from vae_tf.data import synthetic


@pytest.mark.parametrize(("name", "ratio"), [("synthetic_linear", 2), ("synthetic_linear_1_0", 1),
                                             ("synthetic_linear_1_2", 1.2), ("synthetic_linear_1_5", 1.5)])
def test_synthetic_linear_is_a_rotated_stretched_square(name, ratio):
    ds = data.load(name)
    assert ds.name == name
    i = np.arange(len(ds))
    x, v = ds.images_at(i).astype(float), ds.factors_at(i).astype(float)
    assert len(ds) == 50_000 and x.shape[1] == 3
    transform, *_ = np.linalg.lstsq(v, x, rcond=None)
    np.testing.assert_allclose(v @ transform, x, atol=1e-6)
    np.testing.assert_allclose(transform @ transform.T, np.diag([ratio**2, 1]), atol=1e-6)     # orthogonal
    axis = np.array([1, -1, 1]) / np.sqrt(3)
    np.testing.assert_allclose(transform @ axis, np.array([ratio, -1]) / np.sqrt(3), atol=1e-6)  # the axis stays put


def test_rotation():
    R = synthetic.make_rotation([1, -1, 1], np.pi / 4)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(R), 1)
    np.testing.assert_allclose(R @ [1, -1, 1], [1, -1, 1])
    np.testing.assert_allclose(np.trace(R), 1 + 2 * np.cos(np.pi / 4))                   # the angle
    np.testing.assert_allclose(synthetic.make_rotation([0, 0, 1], np.pi / 2) @ [1, 0, 0], [0, 1, 0], atol=1e-12)


def test_synthetic_nonlinear_lies_in_a_tanh_box_and_bends():
    ds = data.load("synthetic_nonlinear")
    i = np.arange(len(ds))
    x, v = ds.images_at(i).astype(float), ds.factors_at(i)
    assert x.shape == (50_000, 6) and np.abs(x).max() <= 1
    design = np.column_stack([v, np.ones(len(v))])
    residual = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    assert (residual.var(0) / x.var(0)).max() > 0.01


def test_nonstationary_sources_change_scale_by_segment():
    ds = data.load("nonstationary_sources")
    i = np.arange(len(ds))
    s, u = ds.factors_at(i).astype(float), ds.u_at(i)
    assert len(ds) == 40_000 and ds.shape == (5,) and ds.u_size == 40
    np.testing.assert_array_equal(u.argmax(1), np.repeat(np.arange(40), 1000))
    np.testing.assert_array_equal(u.sum(1), 1)
    stddev = np.array([s[u.argmax(1) == k].std(0) for k in range(40)])
    # A standard deviation of 1,000 draws is known to 1 / sqrt(2000), 2.2 %: 5 standard errors.
    assert stddev.min() > 0.5 * (1 - 5 * 0.022) and stddev.max() < 3 * (1 + 5 * 0.022)
    assert stddev.min() < 0.7 and stddev.max() > 2.8
    assert np.linalg.matrix_rank(ds.images_at(i)) == 5


def test_circles_lie_in_their_cells():
    ds = data.load("circles")
    i = np.arange(len(ds))
    x, v = ds.images_at(i).astype(float), ds.factors_at(i)
    assert len(ds) == 1_800 == np.prod(ds.factor_sizes) and ds.choose_split() == "grid"
    for (row, column, circle, angle), point in zip(v[::37], x[::37], strict=True):
        turn = np.exp(2j * np.pi * angle / 100) * (1.5, 3.0)[circle]
        np.testing.assert_allclose(point, [8 * (column - 1) + turn.real, 8 * (row - 1) + turn.imag], atol=1e-5)
    # What the betas of allen's Figure 2 lie between: the variances of circles about their centres, and of all points.
    around = [x[(v[:, :3] == [1, 1, circle]).all(1)].var(0) for circle in (0, 1)]
    np.testing.assert_allclose(around, [[1.125] * 2, [4.5] * 2], rtol=1e-5)
    assert 0.55 < around[0][0] < 2.2 < 3.8 < around[1][0] < x.var(0).max() < 60


def test_linear_mixture_and_its_posterior():
    ds, A = data.load("linear_mixture"), np.full((128, 2), 0.5)
    A[0, 0] = A[1, 1] = 1
    x = ds.images_at(np.arange(len(ds)))
    assert ds.shape == (128,) and ds.factor_names == ("s1", "s2")
    # An entry of the covariance has the standard error sqrt((C_ii C_jj + C_ij^2) / N).
    C = A @ A.T + np.eye(128)
    error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / len(ds))
    assert (np.abs(np.cov(x.T, bias=True) - C) < 6 * error).all()
    matrix = check_posterior(ds, A)
    np.testing.assert_allclose(ds.posterior_at(np.arange(9))[0], x[:9] @ matrix.T, atol=1e-5)


def test_translated_digit_is_where_its_sources_put_it():
    digit = np.zeros((12, 10), np.uint8)
    digit[3:9, 2:7] = np.random.default_rng(0).integers(1, 256, (6, 5))
    A = np.array([[2.73, 0.73], [0.73, 2.73]])
    ds = synthetic.make_translated_digit(digit, seed=1, examples=3_000, canvas=48)
    matrix = check_posterior(ds, A)
    i = np.arange(40)
    images = ds.images_at(i)[..., 0]
    centre = np.linalg.lstsq(matrix, ds.posterior_at(np.arange(3_000))[0].T, rcond=None)[0].T[i]    # A is square
    for image, (right, down) in zip(images, centre, strict=True):
        blank = np.zeros((48, 48))
        blank[18:30, 19:29] = digit
        moved = scipy.ndimage.shift(blank, (down, right), order=1, prefilter=False)
        # uint8 rounds to a half; a shift within float rounding of a whole pixel changes nothing
        assert np.abs(image - moved).max() <= 0.5 + 1e-6
    # A canvas too small cuts off what leaves it, and no more.
    small = synthetic.make_translated_digit(digit, seed=1, examples=3_000, canvas=12)
    np.testing.assert_array_equal(small.images_at(i)[..., 0], images[:, 18:30, 18:30])
    assert small.images_at(np.arange(3_000)).max(axis=(1, 2, 3)).min() == 0        # some are wholly outside
    np.testing.assert_array_equal(ds.images_at(np.array([7]))[0, ..., 0], images[7])
