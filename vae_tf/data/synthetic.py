"""Synthetic data with known factors: rolinek's embedded unit squares, Khemakhem's non-stationary sources."""

import numpy as np

from vae_tf.data import dataset

EXAMPLES = 50_000


def _unit_square(rng):
    return rng.uniform(size=(EXAMPLES, 2)), (dataset.Factor("v1", None, "continuous"),
                                             dataset.Factor("v2", None, "continuous"))


def rotation(axis, angle):
    """Rotation matrix [3, 3] about an axis [3] by an angle in radians (Rodrigues)."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def synthetic_linear(seed=0, ratio=2.0):
    """Unit square, one axis stretched by `ratio`, in R^3, rotated by 45 degrees about (1, -1, 1) (rolinek 8.5)."""
    v, factors = _unit_square(np.random.default_rng(seed))
    embedded = np.pad(v * [ratio, 1], [(0, 0), (0, 1)])
    x = embedded @ rotation([1, -1, 1], np.pi / 4).T
    return dataset.from_arrays("synthetic_linear", x.astype(np.float32), v.astype(np.float32), factors)


def synthetic_nonlinear(seed=0):
    """Unit square through a random tanh network 2-10-6 with biases (rolinek 8.5).

    Weights and biases are N(0, 1): the paper says "random initialization" and no more.
    """
    rng = np.random.default_rng(seed)
    v, factors = _unit_square(rng)
    x = v
    for fan_in, fan_out in ((2, 10), (10, 6)):
        x = np.tanh(x @ rng.standard_normal((fan_in, fan_out)) + rng.standard_normal(fan_out))
    return dataset.from_arrays("synthetic_nonlinear", x.astype(np.float32), v.astype(np.float32), factors)


def _well_conditioned(rng, size, draws=10_000):
    """A random matrix with unit columns whose condition number is in the best quarter (Khemakhem's code)."""
    matrices = rng.uniform(-1, 1, (draws, size, size))
    matrices /= np.linalg.norm(matrices, axis=1, keepdims=True)
    condition = np.linalg.cond(matrices)
    return matrices[np.flatnonzero(condition <= np.percentile(condition, 25))[0]]


def nonstationary_sources(seed=0, segments=40, per_segment=1_000, sources=5):
    """Gaussian sources whose scale changes by segment, mixed by three layers (Khemakhem 2020, 4.1).

    Each source's standard deviation in each segment is U[0.5, 3]. The mixing has one square,
    well-conditioned matrix per layer and x -> tanh x + 0.1 x after all but the last. u is the one-hot segment.
    """
    rng = np.random.default_rng(seed)
    segment = np.repeat(np.arange(segments), per_segment)
    stddev = rng.uniform(0.5, 3, (segments, sources))
    s = rng.standard_normal((len(segment), sources)) * stddev[segment]
    x = s
    for layer in range(3):
        x = (x if layer == 0 else np.tanh(x) + 0.1 * x) @ _well_conditioned(rng, sources)
    factors = tuple(dataset.Factor(f"s{k + 1}", None, "continuous") for k in range(sources))
    return dataset.from_arrays("nonstationary_sources", x.astype(np.float32), s.astype(np.float32), factors,
                               dataset.one_hot(segment, segments))
