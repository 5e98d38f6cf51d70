"""benchmarks/conformal_optimum.py computes the loss of a VAE: the one that distributions of scipy give."""

import pathlib
import runpy

import numpy as np
import pytest
import scipy.stats

from vae_tf.data import conformal

PROGRAM = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "benchmarks/conformal_optimum.py"))


def find_share(u):
    """The share of points of a square of side 1 that lie below u on a diagonal, counted from the centre."""
    corner = (np.sqrt(0.5) - np.abs(u)) ** 2        # the area of the corner beyond
    return np.where(u > 0, 1 - corner, corner)


@pytest.mark.parametrize("along", PROGRAM["ALONG"])
def test_the_loss_is_that_of_the_model_made_by_hand(along):
    sources, a, variance = conformal.draw_sources(0)[:2_000], 0.95, 0.01
    mixing, standard = conformal.draw_map(0), scipy.stats.norm
    kl, reconstruction = PROGRAM["measure_loss"](sources, along, variance, a, 1, np.random.default_rng(0))

    if along == "the sources":
        shares = sources
    else:
        one, other = sources.T
        shares = find_share(np.stack([one + other - 1, one - other], 1) / np.sqrt(2))
    means = standard.ppf(0.5 + a * (shares - 0.5))
    np.testing.assert_allclose(PROGRAM["decode"](means, along, a), sources, atol=1e-9)

    def decode(z):
        return mixing.mix(PROGRAM["decode"](z, along, a))

    steps = 1e-5 * np.eye(2)
    columns = np.stack([(decode(means + step) - decode(means - step)) / 2e-5 for step in steps], -1)     # [N, n, d]
    stddevs = 1 / np.sqrt(1 + np.sum(columns**2, 1) / variance)
    z = standard.rvs(means, stddevs, random_state=np.random.default_rng(1))
    ratios = np.sum(standard.logpdf(z, means, stddevs) - standard.logpdf(z), 1)
    losses = -np.sum(standard.logpdf(mixing.mix(sources), decode(z), np.sqrt(variance)), 1)
    assert kl == pytest.approx(np.mean(ratios), abs=5 * np.std(ratios) / np.sqrt(len(ratios)))
    assert reconstruction == pytest.approx(np.mean(losses), abs=5 * np.std(losses) / np.sqrt(len(losses)))
