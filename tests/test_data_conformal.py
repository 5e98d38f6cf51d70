"""The mixing of conformal_mixture is conformal: its Jacobian is a rotation or reflection times a number."""

import numpy as np
import pytest

from vae_tf import data, metrics
from vae_tf.data import conformal

ROUNDING = np.finfo(np.float64).eps


@pytest.mark.parametrize("sources", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_mixing_is_conformal(sources, seed):
    mixing = conformal.draw_map(seed, sources)
    s = conformal.draw_sources(seed, sources)[:200]
    jacobian = mixing.compute_jacobian(s)
    gram = jacobian.transpose(0, 2, 1) @ jacobian
    length = np.trace(gram, axis1=1, axis2=2) / sources
    # Sums of d products of numbers below the columns' length, in J's own product and in J^T J.
    off = gram - length[:, np.newaxis, np.newaxis] * np.eye(sources)
    assert np.max(np.abs(off) / length[:, np.newaxis, np.newaxis]) < 20 * sources * ROUNDING
    # The gap is second order in the cosines, but its logarithms round the cosines' eigenvalues, which are near 1.
    contrast = metrics.hadamard_gap(gram)
    assert contrast.parts["per_example"].max() < 20 * sources * ROUNDING

    # Central differences err by h^2 times a third derivative, which is at most 50 lengths / distance^2, and by
    # rounding over h.
    h = 1e-5
    nearest = np.linalg.norm(s - mixing.pole, axis=1).min()
    assert nearest > conformal.MARGIN
    for k in range(sources):
        step = h * np.eye(sources)[k]
        differences = (mixing.mix(s + step) - mixing.mix(s - step)) / (2 * h)
        error = np.abs(differences - jacobian[:, :, k]) / np.sqrt(length)[:, np.newaxis]
        assert error.max() < 50 * h**2 / nearest**2 + 100 * ROUNDING / h


def test_a_mixing_that_is_not_conformal_is_told_apart():
    """The same sources, turned before they are mixed by a map that stretches: columns are no longer orthogonal."""
    mixing = conformal.draw_map(0, 2)
    s = conformal.draw_sources(0, 2)[:200]
    shear = np.array([[1.0, 0.5], [0.0, 1.0]])
    jacobian = mixing.compute_jacobian(s) @ shear
    gap = metrics.hadamard_gap(jacobian.transpose(0, 2, 1) @ jacobian).score
    assert gap == pytest.approx(np.log(1.25) / 2)       # the columns (1, 0) and (1/2, 1) have the area 1


def test_the_dataset_is_the_mixing_of_its_factors():
    ds = data.load("conformal_mixture", seed=3)
    i = np.arange(len(ds))
    s, x = ds.factors_at(i).astype(float), ds.images_at(i).astype(float)
    assert ds.shape == (2,) and ds.factor_names == ("s1", "s2") and len(ds) == 50_000
    mixing = conformal.draw_map(3)
    np.testing.assert_allclose(mixing.mix(conformal.draw_sources(3)), x, atol=1e-6)
    # The factors are sources rounded to float32, which the map stretches by at most its longest column.
    stretch = np.sqrt(np.sum(mixing.A[:, 0]**2)) / conformal.MARGIN**2
    np.testing.assert_allclose(mixing.mix(s), x, atol=stretch * 2**-24 * 2 + np.abs(x).max() * 2**-24)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-6)
    assert x.var(0).mean() == pytest.approx(1, abs=1e-6)
    # The mean of 50,000 draws from U(0, 1) has the standard error sqrt(1 / 12 / 50,000); so has any corner's share.
    assert s.min() >= 0 and s.max() <= 1 and np.abs(s.mean(0) - 0.5).max() < 4 * np.sqrt(1 / 12 / len(s))
    corner = ((s > 0.5).all(1)).mean()
    assert abs(corner - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(s))
