"""Scores with their noise floors and intervals, of arrays and of an exported model."""

import json
import types
import warnings

import cases
import numpy as np
import pytest

from vae_tf import cli, evaluation, export, metrics, report
from vae_tf.errors import InputError

CHEAP = ("mig", "mcc", "sap", "irs", "total_correlation")


def codes_and_factors(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, 3, rows), rng.integers(0, 4, rows)], -1)
    return factors + 0.4 * rng.standard_normal((rows, 2)), factors


@pytest.fixture(scope="module")
def scored():
    return evaluation.score(evaluation.Codes(*codes_and_factors()), CHEAP)


def test_scores_are_the_metrics_own(scored):
    codes, factors = codes_and_factors()
    for name in ("mig", "mcc", "sap", "total_correlation"):
        # Scoring runs in one thread, this call in as many as there are: float64 sums in another order.
        alone = metrics.METRICS[name].measure(metrics.Context(codes, factors))
        assert scored.results[name].score == pytest.approx(alone.score, rel=1e-9)
    assert scored.results["irs"].score == pytest.approx(metrics.irs(metrics.sampler(codes, factors)).score, rel=1e-9)
    assert not scored.skipped


def test_noise_floor_is_far_below_and_missing_without_factors(scored):
    assert set(scored.noise_floor) == {"mig", "mcc", "sap", "irs"}
    for name, floor in scored.noise_floor.items():
        assert floor < scored.results[name].score - 0.1


def test_interval_holds_the_score(scored):
    for name, (low, high) in scored.interval.items():
        assert low < scored.results[name].score < high
    assert set(scored.interval) == set(CHEAP) - {"irs"}
    assert scored.measured["irs"]["resamples"] == 0 and "it has no interval" in scored.results["irs"].meaning


def test_scores_do_not_depend_on_the_number_of_processes(scored):
    again = evaluation.score(evaluation.Codes(*codes_and_factors()), CHEAP, jobs=2)
    for part in ("interval", "noise_floor"):
        assert getattr(again, part) == {name: pytest.approx(value, rel=1e-9)
                                        for name, value in getattr(scored, part).items()}
    assert {name: result.score for name, result in again.results.items()} == {
        name: pytest.approx(result.score, rel=1e-9) for name, result in scored.results.items()}


def test_half_samples_spread_as_the_score_does():
    """The standard error of a mean: sigma / sqrt(N), from half-samples of one sample."""
    rng = np.random.default_rng(0)
    sample = rng.standard_normal(400)
    halves = [rng.permutation(sample)[:200].mean() for _ in range(2_000)]
    low, high = evaluation.interval(sample.mean(), halves)
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
        low, high = evaluation.interval(information(z), halves)
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
        low, high = evaluation.interval(sample.max(), halves)
        held += low <= truth <= high
    assert held / 400 < 0.9         # a share of 400 varies by sqrt(0.95 * 0.05 / 400) = 0.011
    assert [name for name, metric in metrics.METRICS.items() if metric.extremes] == ["irs"]


def test_rows_drawn_with_replacement_would_let_a_metric_cheat():
    """Why intervals come from half-samples: copies of a test row in the training part raise kNN above its score."""
    codes, factors = np.random.default_rng(0).uniform(size=(2, 400, 2))
    resampled = np.random.default_rng(1).integers(0, 400, 400)
    cheated = metrics.disentanglement_score(codes[resampled], factors[resampled]).parts["performance"]
    assert (cheated > metrics.disentanglement_score(codes, factors).parts["performance"]).all()


def test_what_is_missing_is_said():
    codes, _ = codes_and_factors()
    without = evaluation.score(evaluation.Codes(codes), ["mig", "mig_posterior", "elbo_decomposition", "active_units"])
    assert without.skipped == {"mig": "there are no factors", "mig_posterior": "there are no factors",
                               "elbo_decomposition": "there is no posterior, only codes"}
    assert list(without.results) == ["active_units"]
    constant = evaluation.score(evaluation.Codes(codes, np.zeros((300, 1), int)), ["mig", "mcc"])
    assert constant.skipped == {"mig": "factors: expected at least one that varies; all are constant"}
    assert constant.results["mcc"].score == 0
    full = evaluation.Codes(codes, stddev=np.ones(codes.shape), independent=False)
    assert evaluation.score(full, ["elbo_decomposition"]).skipped == {
        "elbo_decomposition": "q(z|x) has a full covariance"}


def test_a_few_rows_have_scores_and_no_interval():
    few = evaluation.score(evaluation.Codes(*codes_and_factors(12)), ["mig", "active_units"])
    assert set(few.results) == {"mig", "active_units"} and not few.interval


def test_warnings_reach_the_caller_once():
    codes, factors = codes_and_factors()
    more = np.hstack([factors, np.ones((300, 1), int)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluation.score(evaluation.Codes(codes, more), ["mig"])
    assert [str(w.message) for w in caught] == ["mig leaves out the constant factors [2]"]


def test_categorical_factors_are_classified_and_others_regressed():
    codes, factors = codes_and_factors()
    scored = evaluation.score(evaluation.Codes(codes, factors, ("categorical", "ordinal")), ["disentanglement_score"])
    expected = metrics.disentanglement_score(codes, factors, ("categorical", "ordinal"))
    assert scored.results["disentanglement_score"].score == pytest.approx(expected.score, rel=1e-9)


def test_metrics_that_learn_see_half_as_many_rows_again():
    scored = evaluation.score(evaluation.Codes(*codes_and_factors(300)), ["mig", "sap", "irs"], examples=200)
    assert [scored.measured[name]["examples"] for name in ("mig", "sap", "irs")] == [200, 300, 300]
    assert evaluation.count_examples(["mig"], 200) == 200 and evaluation.count_examples(["mig", "sap"], 200) == 300


def test_progress_counts_to_the_end():
    seen = []
    evaluation.score(evaluation.Codes(*codes_and_factors(60)), ["mig"], progress=lambda *at: seen.append(at))
    total = 2 + evaluation.RESAMPLES
    assert seen == [(i, total) for i in range(1, total + 1)]


def test_numbers_and_table(scored):
    written = json.loads(evaluation.as_json(scored, seed=0))
    mig = written["metrics"]["mig"]
    assert mig["score"] == scored.results["mig"].score and mig["interval"] == list(scored.interval["mig"])
    assert mig["measured"].keys() == {"examples", "resamples", "seed", "seconds"}
    assert {"scikit-learn", "numpy", "joblib", "python"} <= written["versions"].keys()
    table = report.table(scored)
    assert "for the score of this many x, its bias included: more x may score outside it" in " ".join(table.split())
    assert f"{scored.results['mig'].score:.3f} [" in table and f"chance {scored.noise_floor['mig']:.3f}" in table


def test_codes_from_a_file(tmp_path):
    codes, factors = codes_and_factors(200)
    np.savez(tmp_path / "my.npz", codes=codes.astype(np.float32), factors=factors, stddev=np.ones(codes.shape))
    read = evaluation.read_codes(tmp_path / "my.npz", examples=100)
    assert read.mean.shape == read.stddev.shape == (150, 2)
    rows = {(*code, *factor) for code, factor in zip(codes.astype(np.float32).tolist(), factors.tolist(), strict=True)}
    assert {(*code, *factor) for code, factor in zip(read.mean.tolist(), read.factors.tolist(), strict=True)} <= rows


@pytest.mark.parametrize(("arrays", "message"), [
    ({"z": np.zeros((3, 2))}, r"expected an array `codes` \[N, d\], .* got z"),
    ({"codes": np.full((3, 2), np.nan)}, "codes: expected finite values; got 6 NaN or infinite"),
    ({"codes": np.zeros((3, 2)), "factors": np.zeros((2, 1))}, "factors: expected 3 rows"),
    ({"codes": np.zeros((3, 2)), "stddev": np.ones((3, 1))}, r"expected stddev of shape \(3, 2\)"),
    ({"codes": np.zeros((3, 2)), "factors": np.zeros((3, 1)), "factor_kinds": ["nominal"]},
     "kinds: expected one of categorical, ordinal, cyclic, continuous for each of 1 factors; got nominal"),
])
def test_bad_files_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "my.npz", **arrays)
    with pytest.raises(InputError, match=message):
        evaluation.read_codes(tmp_path / "my.npz", examples=10)


def test_missing_file_and_unknown_metric():
    with pytest.raises(InputError, match=r"codes: no file nowhere\.npz"):
        evaluation.read_codes("nowhere.npz", examples=10)
    with pytest.raises(InputError, match=r"metrics: expected names of active_units, .*; got 'mug'"):
        evaluation.score(evaluation.Codes(*codes_and_factors(20)), ["mug"])


def flags(**values):
    return types.SimpleNamespace(**{"metrics": ["default"], "examples": 10_000, "seed": 0, "quick": False, "jobs": 1,
                                    "latents": "all", "factors": None, "samples_per_value": None, "passive_kl": 0.01,
                                    "geometry": [], "theory": [], "geometry_examples": 200,
                                    **values})


def test_flags_name_metrics():
    assert cli.scoring(flags())["names"] == metrics.default_names()
    assert cli.scoring(flags(metrics=["all"]))["names"] == metrics.names("metrics")
    assert cli.scoring(flags(metrics=["mig", "dci", "mig"]))["names"] == ("mig", "dci")
    assert cli.scoring(flags(quick=True))["examples"] == cli.QUICK_EXAMPLES
    assert cli.scoring(flags(quick=True, examples=50))["examples"] == 50
    with pytest.raises(InputError, match="got 'mug'"):
        cli.scoring(flags(metrics=["mug"]))


@pytest.mark.parametrize("name", ["ae", "beta_vae", "full_covariance_vae", "ivae"])
def test_an_exported_model_is_scored(tmp_path, name):
    dataset = cases.dataset((3,))
    model = cases.build(name, "mlp_synthetic", (3,), "gaussian", {})
    card = {"model": name, "u_size": model.u_size, "data": {"shape": dataset.shape}}
    exported = export.load(export.save(tmp_path / name, model, dataset, card))
    names = ("mig", "mcc", "mig_posterior", "elbo_decomposition")
    scored = evaluation.evaluate(exported, dataset, names, examples=30)
    alone = evaluation.evaluate(exported, dataset, ["mcc"], examples=30, factors=("b",))
    assert alone.factors == ("b",) and scored.factors == ("a", "b")
    assert alone.results["mcc"].score == pytest.approx(
        metrics.mcc(scored.codes, dataset.factors_at(scored.indices)[:, 1:]).score, abs=1e-6)
    with pytest.raises(InputError, match="factors: expected names of a, b; got 'colour'"):
        evaluation.evaluate(exported, dataset, ["mcc"], examples=30, factors=("colour",))
    np.testing.assert_allclose(scored.codes, exported.encode(dataset.images_at(scored.indices),
                               **({"u": dataset.u_at(scored.indices)} if name == "ivae" else {}))["mean"], atol=1e-5)
    expected = {"ae": {"mig_posterior", "elbo_decomposition"}, "full_covariance_vae": {"elbo_decomposition"}}
    assert set(scored.skipped) == expected.get(name, set())
    if "elbo_decomposition" in scored.results:
        # One draw of z per example gives the bound's KL, 10,000 draws the decomposition's.
        parts = scored.results["elbo_decomposition"].parts
        kl = scored.results["kl"]
        error = parts["standard_errors"].sum() + kl.parts["standard_error"]
        assert abs(scored.results["elbo_decomposition"].score - kl.score) < 5 * error


def test_quick_has_fewer_resamples():
    codes = evaluation.Codes(*codes_and_factors(60))
    quick = evaluation.score(codes, ["mig", "explicitness"], quick=True)
    assert quick.measured["mig"]["resamples"] == evaluation.SLOW_RESAMPLES and "mig" in quick.interval
    assert quick.measured["explicitness"]["resamples"] == 0 and "explicitness" not in quick.interval
    assert set(quick.noise_floor) == {"mig", "explicitness"}
