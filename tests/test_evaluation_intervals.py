"""Intervals of scores: what they cover, and why they come from half-samples."""

import numpy as np
import pytest
from scored_codes import CHEAP, codes_and_factors

from vae_tf import evaluation, metrics


@pytest.fixture(scope="module")
def scored():
    return evaluation.score(evaluation.Codes(*codes_and_factors()), CHEAP)


def test_interval_holds_the_score(scored):
    for name, (low, high) in scored.interval.items():
        assert low < scored.results[name].score < high
    assert set(scored.interval) == set(CHEAP) - {"irs"}
    assert scored.measured["irs"]["resamples"] == 0 and "it has no interval" in scored.results["irs"].meaning


def test_half_samples_spread_as_the_score_does():
    """The standard error of a mean: sigma / sqrt(N), from half-samples of one sample."""
    rng = np.random.default_rng(0)
    sample = rng.standard_normal(400)
    halves = [rng.permutation(sample)[:200].mean() for _ in range(2_000)]
    low, high = evaluation.estimate_interval(sample.mean(), halves)
    # 1.96 sigma / sqrt(400) either way; a standard deviation from 2,000 is known to 1/sqrt(4,000) = 1.6 %.
    assert (high - low) / 2 == pytest.approx(1.96 * sample.std(ddof=1) / 20, rel=5 * 0.016)


def test_interval_covers_scores_of_fresh_samples():
    """Of 30 samples' intervals for MCC, which has no bias to speak of, 95 % should hold the score of a vast sample."""
    truth = metrics.mcc(*codes_and_factors(200_000, seed=99)).score
    held = 0
    for seed in range(30):
        low, high = evaluation.score(evaluation.Codes(*codes_and_factors(300, seed)), ["mcc"]).interval["mcc"]
        held += low <= truth <= high
    assert held >= 24       # 28.5 expected, standard deviation 1.2: 24 is 3.8 below


def test_intervals_cover_the_score_at_this_number_of_examples_and_not_its_limit():
    """Histograms of 300 independent normals show information, on average .44 nats, where there is none."""
    def information(z):
        return metrics.METRICS["mutual_information"](z).score

    rng = np.random.default_rng(0)
    average = np.mean([information(rng.standard_normal((300, 3))) for _ in range(100)])
    covers = []
    for _ in range(20):
        z = rng.standard_normal((300, 3))
        halves = [information(z[rng.permutation(300)[:150]]) for _ in range(10)]
        low, high = evaluation.estimate_interval(information(z), halves)
        covers.append((low <= average <= high, low <= 0 <= high))
    at_this_number, at_the_limit = np.sum(covers, axis=0)
    assert at_this_number >= 16         # 19 expected, standard deviation 1: 16 is 3 below
    assert at_the_limit == 0


def test_halves_do_not_tell_how_a_maximum_spreads():
    """Why metrics of extremes have no interval: for the maximum of 400 normals, halves claim 95 % and hold 78 %."""
    rng = np.random.default_rng(0)
    samples, truth, held = rng.standard_normal((400, 400)), rng.standard_normal((5_000, 400)).max(1).mean(), 0
    for sample in samples:
        halves = [rng.permutation(sample)[:200].max() for _ in range(evaluation.RESAMPLES)]
        low, high = evaluation.estimate_interval(sample.max(), halves)
        held += low <= truth <= high
    assert held / 400 < 0.9         # a share of 400 varies by sqrt(0.95 * 0.05 / 400) = 0.011
    assert [name for name, metric in metrics.METRICS.items() if metric.extremes] == ["irs"]


def test_rows_drawn_with_replacement_would_let_a_metric_cheat():
    """Why intervals come from half-samples: copies of a test row in the training part raise kNN above its score."""
    codes, factors = np.random.default_rng(0).uniform(size=(2, 400, 2))
    resampled = np.random.default_rng(1).integers(0, 400, 400)
    cheated = metrics.disentanglement_score(codes[resampled], factors[resampled]).parts["performance"]
    assert (cheated > metrics.disentanglement_score(codes, factors).parts["performance"]).all()


def test_a_few_rows_have_scores_and_no_interval():
    few = evaluation.score(evaluation.Codes(*codes_and_factors(12)), ["mig", "active_units"])
    assert set(few.results) == {"mig", "active_units"} and not few.interval


def test_quick_has_fewer_resamples():
    codes = evaluation.Codes(*codes_and_factors(60))
    quick = evaluation.score(codes, ["mig", "explicitness"], quick=True)
    assert quick.measured["mig"]["resamples"] == evaluation.SLOW_RESAMPLES and "mig" in quick.interval
    assert quick.measured["explicitness"]["resamples"] == 0 and "explicitness" not in quick.interval
    assert set(quick.chance_level) == {"mig", "explicitness"}


@pytest.mark.parametrize(("level", "t"), [(0.95, 2.7764), (0.9, 2.1318)])       # Student's, 4 degrees of freedom
def test_the_reach_of_an_interval_is_students(level, t):
    low, high = evaluation.estimate_interval(7.0, [1, 2, 3, 4, 5], level)
    assert [7 - low, high - 7] == pytest.approx([t * np.sqrt(2.5)] * 2, rel=1e-4)
