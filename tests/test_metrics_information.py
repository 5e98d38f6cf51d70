"""mig, mig_sup and modularity: the published protocol, and numbers by hand."""

import numpy as np
import pytest
import reference
from codes import EXACT, grid, noisy, standardised

from vae_tf import metrics


def test_information_metrics_equal_the_published_protocol():
    codes, factors = noisy()
    assert metrics.mig(codes, factors).score == pytest.approx(reference.mig(codes, factors), abs=EXACT)
    assert metrics.mig_sup(codes, factors).score == pytest.approx(reference.mig_sup(codes, factors), abs=EXACT)
    assert metrics.modularity(codes, factors).score == pytest.approx(reference.modularity(codes, factors), abs=EXACT)


def test_mig_by_hand():
    # v over 4 rows, z0 = v, z1 tells {0, 1} from {2, 3}: I(z1; v0) = log 2 of H(v0) = log 4, so the gap is 1/2.
    factors = np.array([[0], [1], [2], [3]]).repeat(3, 0)
    codes = np.concatenate([factors, factors // 2], axis=1).astype(float)
    scored = metrics.mig(codes, factors)
    assert scored.score == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(scored.parts["mutual_information"][:, 0], [np.log(4), np.log(2)], atol=1e-12)


def test_modularity_by_hand():
    # z0 = v0, z1 = both factors: deviation 0 and 1 of K - 1 = 1; a dead z2 counts 0.
    factors = grid(2, 2, copies=3)
    codes = np.stack([factors[:, 0], 2 * factors[:, 0] + factors[:, 1], np.zeros(12)], -1)
    scored = metrics.modularity(codes, factors)
    np.testing.assert_allclose(scored.parts["per_latent"], [1, 0, 0], atol=1e-12)
    assert scored.parts["active_only"] == pytest.approx(0.5)


def test_one_outlier_ruins_equal_width_bins_and_not_quantiles():
    factors = grid(5, 5, copies=20)
    codes = standardised(factors) + 0.01 * np.random.default_rng(0).standard_normal(factors.shape)
    spoilt = codes.copy()
    spoilt[0] = 1e6
    assert metrics.mig(codes, factors).score > 0.95
    assert metrics.mig(spoilt, factors).score < 0.05
    assert metrics.mig(spoilt, factors, binning="quantile").score > 0.9


@pytest.mark.parametrize(("rows", "chance"), [(10_000, 0.010), (1_000, 0.10)])
def test_chance_level_of_mig(rows, chance):
    """Chance codes know (bins - 1)(values - 1) / 2N nats of a factor; their gap is far less, and never 0."""
    sizes, seeds, latents = np.array((3, 6, 40, 32, 32)), 5, 10
    scores = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        scores.append(metrics.mig(rng.uniform(size=(rows, latents)), rng.integers(0, sizes, (rows, 5))))
    nats = np.mean([s.parts["mutual_information"].mean(0) for s in scores], axis=0)
    freedom = 19 * (sizes - 1)       # 2N I is chi-squared; the next order is 1/6 over the expected count of a cell
    error = 5 * np.sqrt(2 * freedom / (seeds * latents)) / freedom + 20 * sizes / (6 * rows)
    dense = rows / (20 * sizes) >= 5        # that expansion needs some examples in every cell
    assert (np.abs(nats / (freedom / (2 * rows)) - 1) < error)[dense].all()
    assert nats[2] / np.log(40) == pytest.approx(chance, rel=0.2)      # the largest factor's share of its entropy
    assert 0 < np.mean([s.score for s in scores]) < chance / 10


@pytest.mark.parametrize("rows", range(1_000, 1_020))
def test_a_constant_latent_has_no_modularity(rows):
    """Its information is a sum of rounded terms, which are a little above 0 for some numbers of rows."""
    factors = np.random.default_rng(rows).integers(0, 5, (rows, 3))
    score = metrics.modularity(np.column_stack([factors, np.full(rows, 0.1)]), factors)
    assert not score.parts["mutual_information"][3].any() and score.parts["per_latent"][3] == 0
    assert score.score == pytest.approx(0.75, abs=1e-3)
