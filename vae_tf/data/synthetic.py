"""Synthetic data with known factors: embedded unit squares (rolinek), non-stationary sources (Khemakhem), circles
(allen), mixed sources and shifted digits, whose true posterior is known (sikka)."""

import dataclasses

import numpy as np

from vae_tf import theory
from vae_tf.data import columns, dataset, in_memory
from vae_tf.data.dataset import Dataset
from vae_tf.data.registry import register
from vae_tf.typing import ArrayLike, Floats, Integers

EXAMPLES = 50_000
VERSION = 1         # version of all generators here: raise it with any change that alters examples

Factors = tuple[dataset.Factor, ...]


def _draw_unit_square(rng: np.random.Generator) -> tuple[Floats, Factors]:
    """Return points spread evenly over a unit square [N, 2], and their two factors."""
    return rng.uniform(size=(EXAMPLES, 2)), (dataset.Factor("v1", None, "continuous"),
                                             dataset.Factor("v2", None, "continuous"))


def make_rotation(axis: ArrayLike, angle: float) -> Floats:
    """Return the rotation matrix [3, 3] about an axis [3] by an angle in radians (Rodrigues)."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def make_synthetic_linear(seed: int = 0, ratio: float = 2.0, name: str = "synthetic_linear") -> Dataset:
    """Return a unit square in R^3, an axis stretched by `ratio`, turned 45 degrees about (1, -1, 1) (rolinek 8.5)."""
    v, factors = _draw_unit_square(np.random.default_rng(seed))
    embedded = np.pad(v * [ratio, 1], [(0, 0), (0, 1)])
    x = embedded @ make_rotation([1, -1, 1], np.pi / 4).T
    return in_memory.from_arrays(name, x.astype(np.float32), v.astype(np.float32), factors,
                                 made_by=("synthetic_linear", VERSION, seed, ratio))


def make_synthetic_nonlinear(seed: int = 0) -> Dataset:
    """Return a unit square embedded by a random tanh network 2-10-6 with biases (rolinek 8.5).

    Weights and biases are N(0, 1): the paper says "random initialization" and no more.
    """
    rng = np.random.default_rng(seed)
    v, factors = _draw_unit_square(rng)
    x = v
    for fan_in, fan_out in ((2, 10), (10, 6)):
        x = np.tanh(x @ rng.standard_normal((fan_in, fan_out)) + rng.standard_normal(fan_out))
    return in_memory.from_arrays("synthetic_nonlinear", x.astype(np.float32), v.astype(np.float32), factors,
                                 made_by=("synthetic_nonlinear", VERSION, seed))


def _draw_well_conditioned(rng: np.random.Generator, size: int, draws: int = 10_000) -> Floats:
    """Return a random matrix with unit columns whose condition number is in the best quarter (Khemakhem's code)."""
    matrices = rng.uniform(-1, 1, (draws, size, size))
    matrices /= np.linalg.norm(matrices, axis=1, keepdims=True)
    condition = np.linalg.cond(matrices)
    return matrices[np.flatnonzero(condition <= np.percentile(condition, 25))[0]]


def make_nonstationary_sources(seed: int = 0, segments: int = 40, per_segment: int = 1_000,
                               sources: int = 5) -> Dataset:
    """Return Gaussian sources whose scale changes by segment, mixed by three layers (Khemakhem 2020, 4.1).

    Each source's standard deviation in each segment is U[0.5, 3]. The mixing has one square,
    well-conditioned matrix per layer and x -> tanh x + 0.1 x after all but the last. u is the one-hot segment.
    """
    rng = np.random.default_rng(seed)
    segment = np.repeat(np.arange(segments), per_segment)
    stddev = rng.uniform(0.5, 3, (segments, sources))
    s = rng.standard_normal((len(segment), sources)) * stddev[segment]
    x = s
    for layer in range(3):
        x = (x if layer == 0 else np.tanh(x) + 0.1 * x) @ _draw_well_conditioned(rng, sources)
    factors = tuple(dataset.Factor(f"s{k + 1}", None, "continuous") for k in range(sources))
    return in_memory.from_arrays("nonstationary_sources", x.astype(np.float32), s.astype(np.float32), factors,
                                 columns.one_hot(segment, segments),
                                 made_by=("nonstationary_sources", VERSION, seed, segments, per_segment, sources))


def make_circles(cells: int = 3, spacing: float = 8.0, radii: tuple[float, ...] = (1.5, 3.0),
                 points: int = 100) -> Dataset:
    """Return points on concentric circles, a set in each cell of a square grid in the plane (allen Figure 2).

    The figure is Rezende and Viola's (2018) and gives no numbers. These suit the betas that it prints, for a Gaussian
    likelihood of variance 1: about its centre a circle of radius r has the variance r^2 / 2 along each axis, 1.1 and
    4.5, and all points together have 45.5. Each is used where beta is below it: .55, 2.2, 3.8 and 60 lie between them.
    Nothing is drawn at random.

    Args:
        cells: the number of cells in each row and column of the grid.
        spacing: the distance from one centre to the next.
        radii: the radii of the circles about each centre.
        points: the number of points, evenly spaced, on each circle.
    """
    sizes = cells, cells, len(radii), points
    v = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), -1)
    angle = 2 * np.pi * v[:, 3] / points
    centre = spacing * (v[:, 1::-1] - (cells - 1) / 2)                 # x from the column, y from the row
    x = centre + np.take(radii, v[:, 2])[:, np.newaxis] * np.stack([np.cos(angle), np.sin(angle)], -1)
    factors = tuple(dataset.Factor(name, size, kind) for name, size, kind in zip(
        ("row", "column", "circle", "angle"), sizes, ("ordinal", "ordinal", "ordinal", "cyclic"), strict=True))
    return in_memory.from_arrays("circles", x.astype(np.float32), v, factors, complete_grid=True,
                                 made_by=("circles", VERSION, cells, spacing, radii, points))


def _mix(A: Floats, examples: int, seed: int) -> tuple[Floats, Floats]:
    """Return sources s ~ N(0, I_k), float64 [N, k], and A s + eta, eta ~ N(0, I), [N, n]."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((examples, A.shape[1]))
    return s, s @ A.T + rng.standard_normal((examples, len(A)))


def _make_with_sources(name: str, x: Floats, s: Floats, mixed: Floats, A: Floats, made_by: tuple) -> Dataset:
    """Return the Dataset of x with factors s and, as true posterior, that of s given A s + eta (sikka (19))."""
    factors = tuple(dataset.Factor(f"s{k + 1}", None, "continuous") for k in range(s.shape[1]))
    matrix, covariance = theory.linear_posterior(A)
    return dataclasses.replace(in_memory.from_arrays(name, x, s.astype(np.float32), factors, made_by=made_by),
                               posterior_at=lambda indices: (mixed[indices] @ matrix.T, covariance))


def make_linear_mixture(seed: int = 0, A: Floats | None = None, examples: int = 10_000,
                        name: str = "linear_mixture") -> Dataset:
    """Return x = A s + eta with s ~ N(0, I_k) and eta ~ N(0, I_n) (sikka (17)).

    A is [n, k]; by default A_ij = (1 + delta_ij) / 2 with n = 128, k = 2 (sikka IV.B).
    """
    A = (1 + np.eye(128, 2)) / 2 if A is None else A
    s, x = _mix(A, examples, seed)
    return _make_with_sources(name, x.astype(np.float32), s, x, A, ("linear_mixture", VERSION, seed, examples, A))


def make_translated_digit(digit: Integers, seed: int = 0, examples: int = 10_000, canvas: int = 64) -> Dataset:
    """Return images of a digit on a blank canvas, centred A s + eta pixels right and down of the middle (sikka Fig. 3).

    A_ij = 2 delta_ij + 0.73, s ~ N(0, I_2), eta ~ N(0, I_2). A shift by parts of a pixel is linear interpolation, so
    the image tells the centre, and the true posterior is that of s given the centre. A coordinate's standard deviation
    is 3 pixels; a digit leaves the canvas beyond 6 of them. Images are drawn when they are asked for.

    Args:
        digit: uint8 [H, W].
        seed: the seed for sources and noise.
        examples: N.
        canvas: height and width of an image.
    """
    A = 2 * np.eye(2) + 0.73
    s, centre = _mix(A, examples, seed)
    height, width = digit.shape
    border = np.pad(digit.astype(np.float64), 1)                    # a pixel on each side for the interpolation
    corner = centre[:, ::-1] + (canvas - np.array([height, width])) / 2 - 1         # row, column of border[0, 0]

    def images_at(indices: Integers) -> Integers:
        whole = np.floor(corner[indices]).astype(int)
        part = corner[indices] - whole
        images = np.zeros((len(indices), canvas, canvas, 1), np.uint8)
        for image, (row, column), (down, right) in zip(images, whole, part, strict=True):
            shifted = (1 - down) * border + down * np.roll(border, 1, 0)
            shifted = np.rint((1 - right) * shifted + right * np.roll(shifted, 1, 1))
            rows, columns = (slice(max(start, 0), max(min(start + size, canvas), 0))
                             for start, size in ((row, len(border)), (column, border.shape[1])))
            image[rows, columns, 0] = shifted[rows.start - row:rows.stop - row,
                                              columns.start - column:columns.stop - column]
        return images

    vectors = _make_with_sources("translated_digit", centre, s, centre, A,
                                 ("translated_digit", VERSION, seed, examples, canvas, digit))
    return dataclasses.replace(vectors, shape=(canvas, canvas, 1), images_at=images_at)


# The likelihood variance s^2 of the vectors is large: the larger beta s^2, the faster latents rotate into place.
# But for a beta of 4, too, beta s^2 stays below the least of the data's eigenvalues that the latents encode.
# `benchmarks/defaults.py` checks these numbers; docs/defaults.md has its table and the reasons at length.
LINEAR = {"network": "linear", "latents": 2, "steps": 30_000, "likelihood_variance": 0.01, "learning_rate": 3e-3}

register("synthetic_linear", lambda data_dir, seed: make_synthetic_linear(seed), suited=LINEAR)
register("synthetic_linear_1_0", lambda data_dir, seed: make_synthetic_linear(seed, 1.0, "synthetic_linear_1_0"),
         suited=LINEAR)
register("synthetic_linear_1_2", lambda data_dir, seed: make_synthetic_linear(seed, 1.2, "synthetic_linear_1_2"),
         suited=LINEAR)
register("synthetic_linear_1_5", lambda data_dir, seed: make_synthetic_linear(seed, 1.5, "synthetic_linear_1_5"),
         suited=LINEAR)
register("synthetic_nonlinear", lambda data_dir, seed: make_synthetic_nonlinear(seed),
         suited={"network": "mlp_synthetic", "latents": 2, "steps": 20_000, "likelihood_variance": 5e-4,
                 "learning_rate": 3e-3})
register("nonstationary_sources", lambda data_dir, seed: make_nonstationary_sources(seed),
         suited={"network": "mlp_tcl", "latents": 5, "steps": 12_500, "likelihood_variance": 3e-4})
register("circles", lambda data_dir, seed: make_circles(),
         suited={"network": "mlp_synthetic", "latents": 2, "steps": 20_000, "likelihood_variance": 1.0,
                 "learning_rate": 3e-3})
# sikka has s^2 = 1, the variance of the noise in the data; the steps are the paper's 1000 epochs of 1,000 examples.
register("linear_mixture", lambda data_dir, seed: make_linear_mixture(seed),
         suited={"network": "linear", "latents": 2, "steps": 15_625, "likelihood_variance": 1.0})
