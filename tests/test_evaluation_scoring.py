"""Scores with their chance levels, of arrays and of an exported model."""

import json
import time
import types
import warnings

import cases
import numpy as np
import pytest
from codes import noisy
from scored_codes import CHEAP, codes_and_factors

from vae_tf import cli, evaluation, export, metrics, report
from vae_tf.errors import InputError
from vae_tf.evaluation import encoding, scoring


@pytest.fixture(scope="module")
def scored():
    return evaluation.score(evaluation.Codes(*codes_and_factors()), CHEAP)


def test_scores_are_the_metrics_own(scored):
    codes, factors = codes_and_factors()
    for name in ("mig", "mcc", "sap", "total_correlation"):
        # Scoring runs in one thread, this call in as many as there are: float64 sums in another order.
        alone = metrics.METRICS[name].measure(metrics.Context(codes, factors))
        assert scored.results[name].score == pytest.approx(alone.score, rel=1e-9)
    irs = metrics.irs(metrics.make_sampler(codes, factors)).score
    assert scored.results["irs"].score == pytest.approx(irs, rel=1e-9)
    assert not scored.skipped


def test_chance_level_is_far_below_and_missing_without_factors(scored):
    assert set(scored.chance_level) == {"mig", "mcc", "sap", "irs"}
    for name, chance in scored.chance_level.items():
        assert chance < scored.results[name].score - 0.1


def test_scores_do_not_depend_on_the_number_of_processes(scored):
    again = evaluation.score(evaluation.Codes(*codes_and_factors()), CHEAP, jobs=2)
    for part in ("interval", "chance_level"):
        assert getattr(again, part) == {name: pytest.approx(value, rel=1e-9)
                                        for name, value in getattr(scored, part).items()}
    assert {name: result.score for name, result in again.results.items()} == {
        name: pytest.approx(result.score, rel=1e-9) for name, result in scored.results.items()}


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


def test_warnings_reach_the_caller_once():
    codes, factors = codes_and_factors()
    more = np.hstack([factors, np.ones((300, 1), int)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluation.score(evaluation.Codes(codes, more), ["mig"])
        evaluation.score(evaluation.Codes(codes, more), ["mig", "sap", "mcc"])
    assert [str(w.message) for w in caught] == ["mig leaves out constant factors: v3",
                                                "2 metrics leave out constant factors: v3 (mig, sap)"]


def test_why_there_is_no_interval_is_said():
    factors = np.repeat(np.arange(20), 2)[:, np.newaxis]
    codes = factors + 0.1 * np.random.default_rng(0).standard_normal(factors.shape)
    with pytest.warns(UserWarning, match="^mig has no interval, because halves of the rows have no score: factors: "
                                         "expected classes that recur"):
        scored = evaluation.score(evaluation.Codes(codes, factors), ["mig"], quick=True, jobs=1)
    assert "mig" in scored.results and not scored.interval


def test_categorical_factors_are_classified_and_others_regressed():
    codes, factors = codes_and_factors()
    scored = evaluation.score(evaluation.Codes(codes, factors, ("categorical", "ordinal")), ["disentanglement_score"])
    expected = metrics.disentanglement_score(codes, factors, ("categorical", "ordinal"))
    assert scored.results["disentanglement_score"].score == pytest.approx(expected.score, rel=1e-9)


def test_metrics_that_learn_see_half_as_many_rows_again():
    scored = evaluation.score(evaluation.Codes(*codes_and_factors(300)), ["mig", "sap", "irs"], examples=200)
    assert [scored.measured[name]["examples"] for name in ("mig", "sap", "irs")] == [200, 300, 300]
    assert evaluation.count_examples(["mig"], 200) == 200 and evaluation.count_examples(["mig", "sap"], 200) == 300


def test_rows_in_order_are_scored_as_rows_at_random():
    """The first rows of a grid lack most of its first factor, which is not encoded here, so that MIG was too high."""
    grid = np.indices((3, 20, 20)).reshape(3, -1).T
    z = grid[:, 1:] + 0.1 * np.random.default_rng(0).standard_normal((len(grid), 2))
    scored = evaluation.score(evaluation.Codes(z, grid), ["mig", "sap"], examples=400, quick=True)
    assert (scored.measured["mig"]["examples"], scored.measured["sap"]["examples"]) == (400, 600)
    assert len(np.unique(grid[scored.indices], axis=0)) == 600
    np.testing.assert_array_equal(scored.codes, z[scored.indices])
    with pytest.warns(UserWarning, match="constant factors"):
        first = metrics.mig(z[:400], grid[:400]).score
    whole = metrics.mig(z, grid).score
    assert abs(scored.results["mig"].score - whole) < (first - whole) / 3     # MIG of few rows is a little too low


def test_progress_counts_to_the_end():
    seen = []
    evaluation.score(evaluation.Codes(*codes_and_factors(60)), ["mig"], progress=lambda *at: seen.append(at))
    total = 2 + evaluation.RESAMPLES
    assert seen == [(i, total) for i in range(total + 1)]


def test_numbers_and_table(scored):
    written = json.loads(evaluation.as_json(scored, seed=0))
    mig = written["metrics"]["mig"]
    assert mig["score"] == scored.results["mig"].score and mig["interval"] == list(scored.interval["mig"])
    assert mig["measured"].keys() == {"examples", "resamples", "seed", "seconds"}
    assert {"scikit-learn", "numpy", "joblib", "python"} <= written["versions"].keys()
    table = report.write_table(scored)
    assert "for the score of this many x, its bias included: more x may score outside it" in " ".join(table.split())
    assert f"{scored.results['mig'].score:.3f} [" in table and f"chance {scored.chance_level['mig']:.3f}" in table


def flags(**values):
    return types.SimpleNamespace(**{"metrics": ["default"], "examples": 10_000, "seed": 0, "quick": False, "jobs": 1,
                                    "latents": "all", "factors": None, "samples_per_value": None, "passive_kl": 0.01,
                                    "geometry": [], "theory": [], "geometry_examples": 200, "codes": None,
                                    **values})


def test_flags_name_metrics():
    assert cli.read_options(flags()).names == metrics.list_default_names()
    assert cli.read_options(flags(metrics=["all"])).names == metrics.list_names("metrics")
    assert cli.read_options(flags(metrics=["mig", "dci", "mig"])).names == ("mig", "dci")
    assert cli.read_options(flags(quick=True)).examples == cli.QUICK_EXAMPLES
    assert cli.read_options(flags(quick=True, examples=50)).examples == 50
    assert cli.read_options(flags(metrics=["ima_contrast", "hadamard_gap"], geometry=["dto"])).names == (
        "hadamard_gap", "dto")
    for given, codes in (("mug", None), ("ima_contrast", "my.npz")):
        with pytest.raises(InputError, match=f"got '{given}'"):
            cli.read_options(flags(metrics=[given], codes=codes))


@pytest.mark.parametrize("name", ["ae", "beta_vae", "full_covariance_vae", "ivae"])
def test_an_exported_model_is_scored(tmp_path, name):
    dataset = cases.dataset((3,))
    model = cases.build(name, "linear", (3,), "gaussian", {})
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


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_decoder_is_examined_before_the_scores_of_codes_are_there(tmp_path, jobs):
    dataset = cases.dataset((3,))
    model = cases.build("vae", "linear", (3,), "gaussian", {})
    card = {"model": "vae", "u_size": 0, "data": {"shape": (3,)}}
    exported = export.load(export.save(tmp_path / "vae", model, dataset, card))
    begun, names = [], ["mig", "mcc", "dto"]
    scored = evaluation.evaluate(exported, dataset, names, examples=30, around=5, jobs=jobs, meanwhile=begun.append)
    apart = evaluation.measure_around(evaluation.evaluate(exported, dataset, names[:2], examples=30), exported, dataset,
                                      names[2:], examples=5)
    terms = [*apart.results][:-3]
    assert [*begun[0].results] == [*terms, "dto"] and [*scored.results] == [*terms, *names] == [*apart.results]
    assert begun[0].posterior.mean.shape == (30, 3) and begun[0].verdict is not None and len(begun[0].gram) == 5
    # The same program runs on the same shapes.
    assert {name: each.score for name, each in scored.results.items()} == {
        name: each.score for name, each in apart.results.items()}
    assert scored.measured.keys() == apart.measured.keys() and scored.chance_level == apart.chance_level


def test_progress_tells_what_was_done_meanwhile_all_at_once(tmp_path):
    """The first of it alone, after as long as the decoder takes, would tell a long time left."""
    dataset, seen = cases.dataset((3,)), []
    model = cases.build("vae", "linear", (3,), "gaussian", {})
    card = {"model": "vae", "u_size": 0, "data": {"shape": (3,)}}
    exported = export.load(export.save(tmp_path / "vae", model, dataset, card))
    for wait in (0, 3):         # the processes are there by the second time, and need no three seconds
        seen.clear()
        evaluation.evaluate(exported, dataset, ["mig", "mcc"], examples=30, jobs=2, quick=True,
                            progress=lambda *at: seen.append(at), meanwhile=lambda _, wait=wait: time.sleep(wait))
    assert seen[0] == (0, 4) and seen[1:] == [(4, 4)]


def pretend(seeds):
    """What an evaluation asks of an exported model, without one: its posterior has a full covariance."""
    factor = np.array([[0.5, 0.0, 0.0], [0.9, 0.1, 0.0], [-0.4, 0.3, 0.2]])
    return types.SimpleNamespace(
        card={}, u_at=lambda *_: None, encode_with_terms=lambda x, seed, u: (
            seeds.append(seed), ({"mean": x, "scale_tril": np.tile(factor, (len(x), 1, 1))}, {"loss": x[:, 0]}))[1])


def test_standard_deviations_of_a_full_covariance_are_those_of_its_marginals():
    codes, _ = encoding.encode(pretend([]), cases.dataset((3,)), np.arange(4), 0)
    np.testing.assert_allclose(codes.stddev, np.tile(np.sqrt([0.25, 0.82, 0.29]), (4, 1)), rtol=1e-12)


def test_other_seeds_draw_other_rows():
    codes = evaluation.Codes(*codes_and_factors(300))
    drawn = [evaluation.score(codes, ["total_correlation"], examples=200, quick=True, seed=seed, jobs=1)
             for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0].indices, drawn[1].indices)
    assert not np.array_equal(drawn[0].indices, drawn[2].indices)


def test_other_seeds_draw_other_examples(monkeypatch):
    monkeypatch.setattr(scoring, "check_dataset", lambda *_: None)
    drawn = [set(evaluation.evaluate(pretend([]), cases.dataset((3,)), (), examples=10, seed=seed).indices)
             for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_batch_of_an_evaluation_has_noise_of_its_own(monkeypatch):
    monkeypatch.setattr(encoding, "BATCH", 10)
    seeds = []
    for seed in (0, 1):
        encoding.encode(pretend(seeds), cases.dataset((3,)), np.arange(35), seed)
    assert len(set(seeds)) == len(seeds) == 8


def test_the_regime_is_of_the_examples_that_are_scored():
    codes, factors = noisy(300)
    found = evaluation.score(evaluation.Codes(codes, factors, None, np.full(codes.shape, 0.3)), ["sap"], examples=200,
                             quick=True, jobs=1)
    assert len(found.posterior.mean) == 200 and len(found.codes) == 300
    np.testing.assert_array_equal(found.posterior.mean, found.codes[:200])
