"""Metrics of the whole posterior, by Monte Carlo, against quadrature, loops and posteriors whose score is known."""

import numpy as np
import pytest
import reference
from scipy.stats import norm

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import mixtures

SEEDS = 40


def gaussians(values=6, rows=240):
    """Four latents that know a factor of `values` values nearly wholly, partly, hardly and not: means, stddevs, v."""
    rng = np.random.default_rng(0)
    v = np.arange(rows) % values
    means = np.stack([v - values / 2, v / values + rng.standard_normal(rows), rng.standard_normal(rows),
                      0.02 * rng.standard_normal(rows)], -1)
    return means, np.tile([0.25, 0.5, 0.3, 1.0], (rows, 1)), v[:, np.newaxis]


def by_quadrature(means, stddevs, v):
    """H(z_j) and H(z_j|v) of mixtures, by the trapezoidal rule; values are equally frequent."""
    marginal = reference.mixture_entropy(means, stddevs)
    return marginal, np.mean([reference.mixture_entropy(means[v == value], stddevs[v == value])
                              for value in np.unique(v)])


def independent(means, stddevs, factors, samples, rng):
    """Chen's estimator of I(z_j; v): H(z_j) and H(z_j|v) from different samples."""
    marginal, _ = mixtures.entropies(means, stddevs, factors, samples, rng)
    _, conditional = mixtures.entropies(means, stddevs, factors, samples, rng)
    return marginal - conditional[:, 0]


@pytest.fixture(scope="module")
def estimates():
    """Entropies of the Gaussians from 480 samples, by seed: marginal [SEEDS, d], conditional [SEEDS, d]."""
    case = gaussians()
    drawn = [mixtures.entropies(*case, 480, np.random.default_rng(seed)) for seed in range(SEEDS)]
    return np.array([marginal for marginal, _ in drawn]), np.array([conditional[:, 0] for _, conditional in drawn])


def test_entropies_and_information_are_unbiased(estimates):
    means, stddevs, v = gaussians()
    marginal, conditional = estimates
    for j in range(means.shape[1]):
        expected = by_quadrature(means[:, j], stddevs[:, j], v[:, 0])
        for got, truth in ((marginal[:, j], expected[0]), (conditional[:, j], expected[1]),
                           (marginal[:, j] - conditional[:, j], expected[0] - expected[1])):
            assert abs(got.mean() - truth) < 5 * got.std(ddof=1) / np.sqrt(SEEDS)


def test_information_from_the_same_samples_spreads_less(estimates):
    marginal, conditional = estimates
    same = (marginal - conditional).std(0, ddof=1)
    apart = np.std([independent(*gaussians(), 480, np.random.default_rng([1, seed])) for seed in range(SEEDS)], 0,
                   ddof=1)
    # 200 seeds: 2.1, 3.6, 2.9 and 400 times. 40 give a standard deviation to 11 %, so a ratio to 16 %.
    assert (apart / same > [1.3, 2, 1.6, 100]).all(), apart / same


def test_a_passive_latent_knows_nothing_however_few_the_samples():
    """Error below 0 is not cut off: a cut would leave the mean of the errors above 0."""
    means, stddevs, v = gaussians()
    table = np.array([metrics.mig_posterior(means, stddevs, v, samples=240, seed=seed).parts["normalised_information"]
                      for seed in range(SEEDS)])
    passive = table[:, 3, 0]
    truth = np.subtract(*by_quadrature(means[:, 3], stddevs[:, 3], v[:, 0])) / np.log(6)
    assert passive.min() < 0
    assert abs(passive.mean() - truth) < 5 * passive.std(ddof=1) / np.sqrt(SEEDS)
    assert abs(passive.mean() - truth) < 1e-4       # a cut, on entropies of different samples, left 0.01


def test_conditional_entropies_weigh_values_by_how_often_they_occur():
    means, stddevs = np.array([[0.0], [0], [0], [5]]), np.array([[1.0], [1], [1], [0.01]])
    factors = np.array([[0], [0], [0], [1]])
    normal = 0.5 * np.log(2 * np.pi * np.e)
    _, conditional = mixtures.entropies(means, stddevs, factors, 100_000, np.random.default_rng(0))
    # log q(z|v) has a standard deviation of 1/sqrt(2)
    assert abs(conditional[0, 0] - (normal + 0.25 * np.log(0.01))) < 5 / np.sqrt(2 * 100_000)


def test_samples_per_value_of_the_factor_with_most_values():
    means, stddevs, v = gaussians()
    two = np.hstack([v, v % 3])
    by_value = metrics.mig_posterior(means, stddevs, two, samples_per_value=50)
    assert by_value.parts["samples"] == 6 * 50
    assert by_value.score == metrics.mig_posterior(means, stddevs, two, samples=300).score
    assert metrics.mig_sup_posterior(means, stddevs, two, samples_per_value=50).parts["samples"] == 300
    for argument in ("samples", "samples_per_value"):
        with pytest.raises(InputError, match=f"{argument}: expected a whole number, 1 to 10,000,000; got 0"):
            metrics.mig_posterior(means, stddevs, two, **{argument: 0})


def test_metrics_of_one_posterior_compute_its_densities_once(monkeypatch):
    means, stddevs, v = gaussians()
    calls, log_mixture = [], mixtures.log_mixture
    monkeypatch.setattr(mixtures, "log_mixture", lambda *columns: [calls.append(1), log_mixture(*columns)][1])
    first = metrics.mig_posterior(means, stddevs, v, samples=300, seed=11)
    assert len(calls) == means.shape[1] * (1 + 6)           # a mixture of all examples, and one for each of 6 values
    metrics.mig_sup_posterior(means, stddevs, v, samples=300, seed=11)
    metrics.elbo_decomposition(means, stddevs, samples=300, seed=11)
    assert len(calls) == means.shape[1] * (1 + 6)
    means[0] += 1e-9                                        # arrays that changed in place are other arrays
    assert metrics.mig_posterior(means, stddevs, v, samples=300, seed=11).score != first.score
    assert len(calls) == 2 * means.shape[1] * (1 + 6)


def test_mig_from_stored_entropies():
    marginal, of_factor = [2.0, 1.5, 0.2], [1.0, 0.5]
    conditional = [[1.0, 2.0], [1.1, 1.5], [0.3, 0.0]]      # information 1.0, 0; 0.4, 0; -0.1, 0.2
    scored = metrics.mig_from_entropies(marginal, conditional, of_factor)
    np.testing.assert_allclose(scored.parts["gap"], [0.6, 0.4], atol=1e-12)
    assert scored.score == pytest.approx(0.5, abs=1e-12)
    sup = metrics.mig_sup_from_entropies(marginal, conditional, of_factor, active=[True, False, True])
    np.testing.assert_allclose(sup.parts["gap"], [1.0, 0.4, 0.5], atol=1e-12)
    assert sup.score == pytest.approx(0.75, abs=1e-12)


def test_stored_entropies_of_mig_posterior_score_the_same():
    scored = metrics.mig_posterior(*gaussians(), samples=500)
    stored = [scored.parts[name] for name in ("marginal_entropy", "conditional_entropy", "factor_entropy")]
    assert metrics.mig_from_entropies(*stored).score == pytest.approx(scored.score, abs=1e-12)


def test_mig_posterior_of_separate_clusters_is_one_and_of_drowned_means_zero():
    factors = np.tile(np.indices((4, 3)).reshape(2, -1).T, (5, 1))
    means = factors.astype(float)
    sharp = metrics.mig_posterior(means, np.full(means.shape, 0.01), factors)
    # 60 narrow peaks on 4 (3) places: log q(z_j|v_j) - log q(z_j) is log 4 (log 3) for every z. Of the other factor
    # z_j knows nothing, but 10,000 samples of 60 examples leave some values drawn one time in 500 more often.
    assert sharp.score == pytest.approx(1, abs=1e-3)
    assert metrics.mig_sup_posterior(means, np.full(means.shape, 0.01), factors).score == pytest.approx(1, abs=1e-3)
    drowned = metrics.mig_posterior(means, np.full(means.shape, 100.0), factors)
    assert drowned.score == pytest.approx(0, abs=1e-3)
    assert metrics.mig(means, factors).score == pytest.approx(1)      # the histogram of means does not see the noise


@pytest.mark.parametrize(("width", "scale", "worst"), [
    (0.1, 1, 1e-5), (4.5e-3, 1, 1e-4), (1e-5, 1, 1e-9), (0.1, 1e-28, 1e-5), (0.1, 1e-40, 1e-12), (0.1, 1e40, 1e-12)],
    ids=["usual", "narrowest in float32", "narrower", "small", "too small for float32", "too large for float32"])
def test_densities_of_a_mixture_in_float32_and_float64(width, scale, worst):
    rng = np.random.default_rng(0)
    means = scale * (5 + rng.standard_normal(2_000))
    stddevs = scale * width * rng.uniform(1, 2, 2_000)
    z = (means + stddevs * rng.standard_normal(2_000))[:300]
    got = mixtures.log_mixture(z, means, stddevs)
    slowly = [np.log(np.mean(norm.pdf((at - means) / stddevs) / stddevs)) for at in z]
    np.testing.assert_allclose(got, slowly, atol=worst, rtol=1e-12)


@pytest.mark.parametrize(("gap", "worst"), [(0, 1e-6), (3, 1e-4), (6, 1e-3), (8, 1e-3), (50, 1e-6)])
def test_densities_from_a_grid_where_components_lie_in_groups(gap, worst):
    """The curve turns most sharply in wide gaps, in which hardly any sample lies: the error of the mean stays small."""
    rng = np.random.default_rng(0)
    stddevs = rng.uniform(0.5, 0.6, 90)         # so few that all is float64
    means = gap * 0.5 * rng.integers(0, 6, 90)
    z = means + stddevs * rng.standard_normal((200, 90))
    got = mixtures.log_mixture(z.ravel(), means, stddevs)
    exact = np.concatenate([mixtures.log_mixture(np.array([at]), means, stddevs) for at in z.ravel()])
    assert not np.array_equal(got, exact)       # a grid was used, which there is none of for one z
    assert np.abs(got - exact).max() < worst
    assert np.abs(got - exact).mean() < 1e-5


def test_densities_where_all_samples_are_equal():
    z, ones = np.full(50, 0.3), np.ones(50)
    np.testing.assert_allclose(mixtures.log_mixture(z, 0 * z, ones), norm.logpdf(z), rtol=1e-12)


def test_elbo_decomposition_against_loops():
    rng = np.random.default_rng(0)
    means, stddevs = rng.standard_normal((6, 3)), rng.uniform(0.3, 1, (6, 3))
    z = rng.standard_normal((5, 3))
    got = mixtures.log_joint_mixture(z, means, stddevs)
    np.testing.assert_allclose(got, [reference.log_mixture(row, means, stddevs) for row in z], atol=1e-12)
    parts = metrics.elbo_decomposition(means, stddevs)
    kl = np.mean([reference.diagonal_kl(m, s) for m, s in zip(means, stddevs, strict=True)])
    error = 5 * parts.parts["standard_errors"].sum()
    assert abs(parts.score - kl) < error
    assert 0 <= parts.parts["mutual_information"] <= np.log(6) + error


@pytest.mark.parametrize(("width", "offset"), [(0.1, 0.0), (1e-8, 0.0), (1e-3, 1e5)])
def test_joint_densities_of_narrow_components_and_far_from_zero(width, offset):
    """Differences of squares had no digits left: the mutual information of narrow posteriors was above log N."""
    rng = np.random.default_rng(0)
    means, stddevs = offset + rng.standard_normal((200, 3)), np.full((200, 3), width)
    z = means[:50] + stddevs[:50] * rng.standard_normal((50, 3))
    got = mixtures.log_joint_mixture(z, means, stddevs)
    # z is rounded, too, which moves its exponent by its place times the rounding of the offset in units of the width.
    atol = max(1e-6, 20 * np.finfo(float).eps * (offset + 1) / width)
    np.testing.assert_allclose(got, [reference.log_mixture(row, means, stddevs) for row in z], atol=atol)
    parts = metrics.elbo_decomposition(means, stddevs, prior_means=offset).parts
    assert parts["mutual_information"] <= np.log(200) + 1e-6


def test_standard_errors_are_those_of_other_examples():
    def measure(seed):
        means = np.random.default_rng(seed).normal(size=(100, 3)) * [1, 0.7, 0.1]
        means[:, 1] += 0.5 * means[:, 0]
        return metrics.elbo_decomposition(means, np.full((100, 3), 0.3), seed=seed).parts

    drawn = [measure(seed) for seed in range(60)]
    spread = np.std([[parts[name] for name in ("mutual_information", "total_correlation", "dimension_wise_kl")]
                     for parts in drawn], 0, ddof=1)
    # A standard deviation of 60 draws is known to 1 / sqrt(120), which is 9 %; it was 7 times the error that was told.
    np.testing.assert_allclose(np.mean([parts["standard_errors"] for parts in drawn], 0), spread, rtol=0.36)


def test_elbo_decomposition_of_one_posterior_and_of_a_learned_prior():
    mean, stddev = np.array([[0.5, -1.0]]), np.array([[0.7, 1.3]])
    parts = metrics.elbo_decomposition(mean, stddev).parts
    assert parts["mutual_information"] == pytest.approx(0, abs=1e-12)      # q(z) is q(z|x), a product
    assert parts["total_correlation"] == pytest.approx(0, abs=1e-12)
    same = metrics.elbo_decomposition(mean, stddev, prior_means=mean, prior_stddevs=stddev)
    assert same.score == pytest.approx(0, abs=1e-12)


def test_a_posterior_that_is_each_examples_own_prior_has_no_kl():
    rng = np.random.default_rng(0)
    means, stddevs = rng.standard_normal((6, 3)), rng.uniform(0.3, 1, (6, 3))
    scored = metrics.elbo_decomposition(means, stddevs, prior_means=means, prior_stddevs=stddevs)
    assert scored.score == pytest.approx(0, abs=1e-12)
