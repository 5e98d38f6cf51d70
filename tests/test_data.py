import pathlib

import numpy as np
import pytest
import reference
import scipy.ndimage
from cases import NEEDS_MNIST

from vae_tf import data
from vae_tf.data import dsprites, synthetic
from vae_tf.errors import InputError

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


def test_u_is_scaled_by_the_global_range():
    values = np.array([[0, 5], [4, 5], [2, 5]])
    ds = data.dataset.from_arrays("x", np.zeros((3, 2), np.float32), values)
    np.testing.assert_array_equal(ds.u_at(np.arange(3)), [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_array_equal(ds.u_at(np.array([1, 1])), [[1, 0], [1, 0]])     # constant in this batch


@pytest.mark.parametrize("name", ["dsprites", "synthetic_linear", "synthetic_nonlinear", "nonstationary_sources",
                                  "linear_mixture"])
def test_datasets_agree_with_what_they_say(name):
    ds = data.load(name)
    i = np.array([5, 0, len(ds) - 1])
    x, v, u = ds.images_at(i), ds.factors_at(i), ds.u_at(i)
    assert x.shape == (3, *ds.shape) and x.dtype == (np.uint8 if ds.is_image else np.float32)
    assert v.shape == (3, len(ds.factors)) and u.shape == (3, ds.u_size) and u.dtype == np.float32
    assert u.min() >= 0 and u.max() <= 1
    np.testing.assert_array_equal(x[1:2], ds.images_at(np.array([0])))
    again, other = data.load(name), data.load(name, seed=1)
    np.testing.assert_array_equal(again.images_at(i), x)
    assert name == "dsprites" or not np.array_equal(other.images_at(i), x)


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


def calibrated(dataset, A):
    """Whether sources less the posterior's mean are draws of the posterior: unbiased, of its covariance, unlike x."""
    i = np.arange(len(dataset))
    mean, covariance = dataset.posterior_at(i)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (dataset.factors_at(i) - mean).T)
    n, k = len(i), A.shape[1]
    # Standard errors of a mean, of a variance and of a covariance of standard normals; 5 of them.
    assert np.abs(whitened.mean(1)).max() < 5 / np.sqrt(n)
    assert np.abs(np.cov(whitened, bias=True) - np.eye(k)).max() < 5 * np.sqrt(2 / n)
    assert np.abs(whitened @ mean / n).max() < 5 * mean.std(0).max() / np.sqrt(n)
    inverse = np.linalg.inv(A @ A.T + np.eye(len(A)))                  # conditioning (sikka (49)), not the code's form
    np.testing.assert_allclose(covariance, np.eye(k) - A.T @ inverse @ A, atol=1e-10)
    part = dataset.take(i[::-1][:3])
    # A product of matrices is rounded otherwise for a batch of another size: float64, sums of some hundred terms.
    np.testing.assert_allclose(part.posterior_at(np.array([2, 0]))[0], mean[[n - 3, n - 1]], rtol=1e-12, atol=1e-12)
    return A.T @ inverse


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
    matrix = calibrated(ds, A)
    np.testing.assert_allclose(ds.posterior_at(np.arange(9))[0], x[:9] @ matrix.T, atol=1e-5)


def test_translated_digit_is_where_its_sources_put_it():
    digit = np.zeros((12, 10), np.uint8)
    digit[3:9, 2:7] = np.random.default_rng(0).integers(1, 256, (6, 5))
    A = np.array([[2.73, 0.73], [0.73, 2.73]])
    ds = synthetic.make_translated_digit(digit, seed=1, examples=3_000, canvas=48)
    matrix = calibrated(ds, A)
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


@NEEDS_MNIST
def test_digits_are_mixed_and_moved():
    train = data.load("mnist").split("grid", "train")
    mixed = data.load("linear_mixture_digits")
    A = mixed_columns(train)
    assert mixed.shape == (784,) and len(mixed.factors) == 10
    matrix = calibrated(mixed, A)
    i = np.arange(20)
    np.testing.assert_allclose(mixed.posterior_at(i)[0], mixed.images_at(i) @ matrix.T, atol=1e-4)
    moved = data.load("translated_digit")
    assert moved.shape == (64, 64, 1) and moved.u_size == 2
    whole = moved.images_at(np.arange(500)).astype(float).sum((1, 2, 3))
    ink = 255 * A[:, 3].sum()
    # Interpolation keeps the sum; rounding moves each of at most 29 x 29 pixels by a half at most.
    assert np.abs(whole - ink).max() < 29 * 29 / 2


def mixed_columns(train):
    labels = train.factors_at(np.arange(1_000))[:, 0]
    first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    return train.images_at(np.array(first)).reshape(10, 784).T / 255


@pytest.mark.parametrize("how", ["grid", "random"])
def test_split(how):
    ds = data.load("synthetic_linear")
    parts = {part: ds.split(how, part, seed=3) for part in ("train", "validation", "test")}
    sizes = [len(part) for part in parts.values()]
    assert sizes == ([50_000] * 3 if how == "grid" else [40_000, 5_000, 5_000])
    if how == "random":
        rows = np.concatenate([part.images_at(np.arange(len(part))) for part in parts.values()])
        assert len(np.unique(rows, axis=0)) == len(np.unique(ds.images_at(np.arange(50_000)), axis=0))
        part = parts["test"]
        i = np.array([3, 1])
        np.testing.assert_allclose(part.images_at(i) @ synthetic.make_rotation([1, -1, 1], np.pi / 4)[:, :2] / [2, 1],
                                   part.factors_at(i), atol=1e-6)     # factors go with their images


def save(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return str(path)


def test_npz_of_images(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 3), np.uint8)
    ds = data.load(save(tmp_path, images=images, factors=np.array([[0, 10], [1, 30]] * 3 + [[2, 20]]),
                        factor_names=["a", "b"]))
    i = np.array([6, 0])
    np.testing.assert_array_equal(ds.images_at(i), images[i])
    np.testing.assert_array_equal(ds.factors_at(i), [[2, 1], [0, 0]])       # values become 0..size-1, in order
    assert ds.factors == (data.Factor("a", 3, "ordinal"), data.Factor("b", 3, "ordinal"))
    np.testing.assert_array_equal(ds.u_at(i), [[1, 0.5], [0, 0]])


def test_npz_of_vectors_with_u(tmp_path):
    x, u, v = np.ones((4, 3)), np.eye(4), np.linspace(0, 1, 4)
    ds = data.load(save(tmp_path, data=x, u=u, factors=v))
    assert not ds.is_image and ds.u_size == 4 and ds.factors == (data.Factor("v1", None, "continuous"),)
    np.testing.assert_array_equal(ds.u_at(np.array([2])), [[0, 0, 1, 0]])


def test_npz_images_come_as_bits_floats_or_without_channel(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (5, 4, 4), np.uint8)
    for images in (bits, bits[..., np.newaxis], bits.astype(np.float32)):
        ds = data.load(save(tmp_path, images=images))
        np.testing.assert_array_equal(ds.images_at(np.arange(5))[..., 0], 255 * bits)
        assert ds.factors == () and ds.u_size == 0


@pytest.mark.parametrize(("arrays", "message"), [
    ({"labels": np.ones(3)}, "expected one array `images` .*got labels"),
    ({"images": np.ones((3, 4, 4, 1), np.uint8), "data": np.ones((3, 2))}, "got images, data"),
    ({"images": np.full((3, 4, 4, 1), np.nan)}, "expected finite images, got 48 NaN"),
    ({"images": np.full((3, 4, 4, 1), 2.0)}, r"floats in \[0, 1\], got floats in \[2, 2\]"),
    ({"images": np.ones((3, 4), np.uint8)}, r"expected images \[N, H, W, C\], got shape \(3, 4\)"),
    ({"data": np.array([[1.0, np.inf]])}, "expected finite data, got 1"),
    ({"data": np.ones((3, 2)), "factors": np.ones((2, 1))}, "expected 3 rows of factors, .*got 2"),
    ({"data": np.ones((3, 2)), "u": np.ones((4, 1))}, "expected 3 rows of u, .*got 4"),
    ({"data": np.ones((3, 2)), "factors": np.ones((3, 2)), "factor_names": ["a"]}, "expected 2 factor_names, got 1"),
    ({"data": np.ones((0, 2))}, "at least one example"),
    ({"data": np.array([["a"]])}, "real numbers"),
    ({"data": np.array([[None]])}, "plain arrays"),
])
def test_bad_npz(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message) as error:
        data.load(save(tmp_path, **arrays))
    assert "\n" not in str(error.value) and "mine.npz" in str(error.value)


def test_unreadable_npz(tmp_path):
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 not a zip")
    for path, message in [("torn.npz", "not a readable .npz"), ("none.npz", "no file")]:
        with pytest.raises(InputError, match=message):
            data.load(tmp_path / path)
    with pytest.raises(InputError, match=r"expected one of dsprites, .*got 'cifar'"):
        data.load("cifar")


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@NEEDS_MNIST
def test_mnist_through_tfds(name):
    ds = data.load(name)
    assert len(ds) == 70_000 and ds.shape == (28, 28, 1) and ds.u_size == 10
    train, test = ds.split("grid", "train"), ds.split("grid", "test")
    assert (len(train), len(test)) == (60_000, 10_000)
    labels = test.factors_at(np.arange(10_000))
    per_class = {"mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009], "fashion_mnist": [1000] * 10}
    np.testing.assert_array_equal(np.bincount(labels[:, 0]), per_class[name])
    np.testing.assert_array_equal(test.u_at(np.arange(9)).argmax(1), labels[:9, 0])
    mean = ds.split("grid", "train").images_at(np.arange(60_000)).mean() / 255
    assert mean == pytest.approx({"mnist": 0.1307, "fashion_mnist": 0.2860}[name], abs=5e-5)   # as is widely published
