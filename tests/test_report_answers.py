"""What people ask of a model is answered from its numbers."""

import dataclasses
import pathlib
import tomllib

import numpy as np
import pytest
from scipy.stats import special_ortho_group

from vae_tf import evaluation, report, runs, verdicts
from vae_tf.metrics import Result
from vae_tf.report import orthogonality, usual

CARD = {"model": "beta_vae", "beta": 4.0, "latents": 5, "steps": 1_000, "likelihood": "bernoulli",
        "data": {"name": "dsprites"}, "recipe": {"batch_size": 64, "seed": 3, "network": "mlp_dsprites"}}
N = 300


def scored_codes(width=0.2, noise=0.0, d=3):
    """An evaluation of codes that follow a factor each, but for noise."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (N, d))
    mean = (factors - 1.5) / np.sqrt(1.25) * np.sqrt(1 - width**2) + noise * rng.standard_normal((N, d))
    return evaluation.score(evaluation.Codes(mean, factors, None, np.full((N, d), width)), ["mig", "mcc"])


def answers_of(facts):
    return {answer.word: answer for answer in report.answer_all(facts)}


def facts_of(scored, loss=(), columns=None, **card):
    card = {**CARD, **card}
    return report.Facts(scored, card, (), report.judge_convergence(loss, card["steps"]), columns)


def test_a_model_is_described_and_judged_against_chance():
    found = answers_of(facts_of(scored_codes()))
    assert list(found) == ["Trained", "Converged", "Latents", "Disentangled", "Orthogonal", "Theory", "Next"]
    assert found["Trained"].short == ("beta_vae with 5 latents (mlp_dsprites) on dsprites, trained for 1,000 steps of "
                                      "64 examples, beta 4, seed 3.")
    assert found["Latents"].count == "3 of 3" and "3 are active" in found["Latents"].more
    assert found["Disentangled"].verdict == "yes" and "(chance 0.0" in found["Disentangled"].short
    assert found["Orthogonal"].verdict == found["Theory"].verdict == "unknown"
    noise = answers_of(facts_of(scored_codes(noise=50)))["Disentangled"]
    assert noise.verdict == "no" and noise.short.startswith("No better than chance: MIG 0.0")


@pytest.mark.parametrize(("verdict", "said"), [
    (None, "The posterior is not finite, so this cannot be told."),
    (verdicts.Verdict(np.full(3, 1e-3), np.zeros(3, bool), dependence=2.0),
     "No latent carries information alone, only all together, so single columns say nothing."),
    (verdicts.Verdict(np.full(3, 1e-3), np.zeros(3, bool)), "Fewer than two latents carry information."),
    (verdicts.Verdict(np.full(3, 1.0), np.ones(3, bool)), "It was not measured (--geometry).")])
def test_why_columns_cannot_be_compared_is_said(verdict, said):
    found = answers_of(facts_of(scored_codes()._replace(verdict=verdict)))["Orthogonal"]
    assert (found.verdict, found.short) == ("unknown", said)


@pytest.mark.parametrize(("beta", "advised"), [(4.0, False), (1.0, True)])
def test_who_has_a_beta_above_1_is_not_told_to_try_one(beta, advised):
    recipe = {**CARD["recipe"], "beta": None}       # no flag gave it
    found = answers_of(facts_of(scored_codes(noise=50), beta=beta, recipe=recipe))["Next"]
    assert ("Try --model=beta_vae" in found.short) == advised


@pytest.mark.parametrize(("kind", "end"), [
    ("ordinal", "; 1 is perfect, which SAP cannot reach for discrete factors."), ("continuous", "; 1 is perfect.")])
def test_1_is_not_called_perfect_of_a_score_that_cannot_reach_it(kind, end):
    factors = np.random.default_rng(0).integers(0, 4, (N, 2)).astype(float)
    scored = evaluation.score(evaluation.Codes(factors, factors, (kind,) * 2, np.full((N, 2), 0.2)), ["mcc", "sap"])
    assert (scored.results["sap"].score > 0.9) == (kind == "continuous")
    assert answers_of(report.Facts(scored))["Disentangled"].short.endswith(end)


def test_perfect_codes_are_never_said_to_be_bad():
    """SAP of perfect codes of balanced classes is far below 1, and of rare ones it may be below its chance level."""
    drawn = np.random.default_rng(0).random((1_000, 3))
    for factors in ((5 * drawn).astype(int), (drawn < 0.05).astype(int)):
        scored = evaluation.score(evaluation.Codes(2.0 * factors - 1, factors), ["sap"])
        found = answers_of(report.Facts(scored))["Disentangled"]
        assert scored.results["sap"].score < 0.5
        assert found.verdict == "unknown" and found.short.startswith("This cannot be told by SAP alone: SAP 0."), found


def test_a_score_whose_interval_includes_chance_leaves_the_question_open():
    scored = scored_codes()
    scored = scored._replace(interval={**scored.interval, "mig": (-0.1, 0.9)})
    found = answers_of(report.Facts(scored))["Disentangled"]
    assert found.verdict == "unknown" and found.short.startswith("Perhaps, but it may be chance: MIG 0.")


def test_codes_that_may_be_rounding_are_not_called_entangled():
    factors = np.random.default_rng(0).integers(0, 5, (N, 2))
    found = answers_of(report.Facts(evaluation.score(evaluation.Codes(factors + 1e6, factors), ["mig"])))
    assert found["Disentangled"].verdict == "unknown" and "may be rounding" in found["Disentangled"].short


def test_a_score_that_may_exceed_1_is_judged_by_its_part_that_may_not():
    """Of classes, the disentanglement score of a weak code is far above what its bounded part is."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 10, (600, 2))
    mean = np.where(rng.random((600, 2)) < 0.25, factors, rng.integers(0, 10, (600, 2))) + 0.01 * rng.normal(
        size=(600, 2))
    codes = evaluation.Codes(mean, factors, ("categorical",) * 2, np.full((600, 2), 0.2))
    scored = evaluation.score(codes, ["disentanglement_score"])
    result = scored.results["disentanglement_score"]
    bounded, chance = result.parts["bounded"], result.parts["bounded_chance_level"]
    assert result.score > 4 * bounded and 0 <= chance < bounded
    low, high = result.parts["bounded_interval"]
    assert low < bounded < high
    found = answers_of(report.Facts(scored))["Disentangled"]
    assert found.verdict != "yes" and f"score {bounded:.2f} (chance {chance:.2f})" in found.short


def test_a_dead_model_is_not_called_disentangled_and_is_told_what_to_do():
    found = answers_of(facts_of(scored_codes(width=0.9999)))
    assert found["Latents"].verdict == found["Disentangled"].verdict == "no"
    assert "no latent says anything" in found["Disentangled"].short
    assert found["Next"].short.startswith("Try a --beta below 4")


def test_a_latent_that_is_alone_is_not_called_disentangled():
    """It holds every factor, and MIG is nearly 1, because no other latent knows any of them."""
    factors = np.random.default_rng(0).integers(0, 4, (N, 2))
    mean, stddev = np.c_[factors @ [0.8, 0.2], np.zeros(N)], np.tile([0.1, 1.0], (N, 1))
    found = evaluation.score(evaluation.Codes(mean, factors, None, stddev), ["mig"])
    assert found.verdict.count == 1 and found.results["mig"].score > 0.8
    answers = answers_of(facts_of(found))
    assert answers["Disentangled"].verdict == "unknown" and "no other to be" in answers["Disentangled"].short
    assert "--latents=active" not in answers["Next"].short + answers["Next"].more


def test_metrics_that_chance_alone_satisfies_are_not_said_to_be_missing():
    codes, factors = np.random.default_rng(0).standard_normal((N, 2)), np.random.default_rng(1).integers(0, 4, (N, 1))
    found = evaluation.score(evaluation.Codes(codes, factors), ["dci_fast"], quick=True)
    assert found.chance_level["dci_fast"] > 0.9       # one factor: whatever latent matters, it is of that factor
    short = answers_of(facts_of(found))["Disentangled"].short
    assert short == "Chance alone reaches 0.9 or more by dci_fast, so that this cannot be told."


def test_columns_of_a_model_that_is_nearly_dead_are_not_judged():
    columns = orthogonality.Columns(np.eye(2), 0.67, np.full(100, 0.5), np.ones((4, 2)))
    scored = scored_codes(width=0.9, d=2)
    assert scored.verdict.state == "nearly dead"
    found = answers_of(facts_of(scored, columns=columns))["Orthogonal"]
    assert found.verdict == "unknown" and "have no meaning: all latents together say" in found.short


def test_codes_alone_are_asked_less():
    plain = evaluation.score(evaluation.Codes(np.random.default_rng(0).standard_normal((N, 2))), ["active_units"])
    found = answers_of(report.Facts(plain))
    assert list(found) == ["Latents", "Disentangled", "Next"] and "no factors" in found["Disentangled"].short


@pytest.mark.parametrize(("gap", "verdict", "words"), [
    (0.03, "yes", "3 %"), (0.3, "partly", "30 %"), (0.8, "no", "80 %"), (118027.95, "no", "120,000 times its size")])
def test_theory_agrees_up_to_an_error(gap, verdict, words):
    scored = scored_codes()
    scored = scored._replace(results={**scored.results, "posterior_covariance_gap": Result("gap", gap, {}, "")})
    theory = answers_of(facts_of(scored))["Theory"]
    assert theory.verdict == verdict and f"is off by {words}" in theory.short


def test_the_linear_optimum_is_told_in_nats():
    """The score is the excess over beta."""
    scored = scored_codes()
    optimum = Result("linear_optimum", 0.1, {"excess": 0.4}, "")
    found = facts_of(scored._replace(results={**scored.results, "linear_optimum": optimum}))
    assert "the objective is 0.4 nats above the linear optimum" in answers_of(found)["Theory"].short
    (what, _, measured), = report.page._compare_theory(found)
    assert (what, measured) == ("objective above its least, nats", "0.4")


@pytest.mark.parametrize(("slope", "state"), [(0.0, "converged"), (-0.05, "falling"), (0.05, "rising")])
def test_convergence_is_judged_against_the_noise_of_the_loss(slope, state):
    rows = 100 + slope * np.arange(200) + np.random.default_rng(0).standard_normal(200) / 10
    found = report.judge_convergence(rows, 1_000)
    assert found.state == state
    assert "within its noise" in found.words if state == "converged" else f"still {state}" in found.words
    advice = answers_of(facts_of(scored_codes(), rows))["Next"].short
    assert {"converged": "Train more seeds", "falling": "Train longer", "rising": "--learning_rate"}[state] in advice


def test_convergence_is_not_judged_by_too_few_rows():
    assert "not here" in report.judge_convergence([], 10).words
    assert "untrained" in report.judge_convergence([], 0).words
    assert "19 of the 20 rows" in report.judge_convergence([1.0] * 19, 10).words
    assert report.judge_convergence([float("nan"), *[1.0] * 30], 10).state == "converged"
    assert "Beta grew until step 100" in report.judge_convergence([1.0] * 19, 200, warmup=100).words


def test_the_history_is_that_of_the_models_own_run(tmp_path):
    model, run = tmp_path / "exported/a/1", tmp_path / "runs/a"
    run.mkdir(parents=True)
    rows = [{"step": step, "loss": 10.0 - step} for step in (1, 2, 3)]
    runs.write_history(run, rows)
    recipe = {"model": "vae", "seed": 0, "steps": 2}
    assert report.find_history(model, {"recipe": recipe, "steps": 2}) == []         # of a run without a configuration
    (run / "config.json").write_text('{"model": "vae", "seed": 0, "steps": 3}')
    assert report.find_history(model, {"recipe": recipe, "steps": 2}) == rows[:2]
    for other in ({"seed": 1}, {"learning_rate_schedule": "cosine"}):
        assert report.find_history(model, {"recipe": {**recipe, **other}, "steps": 2}) == []
    (run / "config.json").write_text('{"model": "vae", "seed": 0, "steps": 3, "learning_rate_schedule": "cosine"}')
    assert report.find_history(model, {"recipe": recipe, "steps": 2}) == []
    (run / "config.json").write_text('{"model": "vae", "optimizer": "adam", "seed": 0, "steps": 3}')
    assert report.find_history(model, {"recipe": recipe, "steps": 2}) == rows[:2]   # of Keras' loops: no optimizer
    # Card and configuration of older versions do not say which weights a run began with.
    (run / "config.json").write_text('{"model": "vae", "seed": 0, "steps": 3, "init_from_weights": "ab"}')
    for weights, found in (({}, rows[:2]), ({"init_from_weights": "ab"}, rows[:2]), ({"init_from_weights": "cd"}, [])):
        assert report.find_history(model, {"recipe": {**recipe, **weights}, "steps": 2}) == found
    (run / "history.csv").write_text("step,loss\n1,x\n")
    assert report.find_history(model, {"recipe": recipe, "steps": 2}) == []


def test_columns_are_held_against_turned_latents():
    lengths = np.diag([1.0, 3.0, 9.0])
    aligned = np.tile(lengths**2, (4, 1, 1))
    R = special_ortho_group.rvs(3, random_state=np.random.default_rng(5))
    all_informative = np.ones(3, bool)
    found = report.compare_with_rotations(aligned, all_informative)
    assert found.measured == 0 and found.chance.min() > 0.1 and len(found.chance) == orthogonality.ROTATIONS
    np.testing.assert_array_equal(found.cosines, np.eye(3))
    np.testing.assert_allclose(found.squared_norms, np.tile([1, 9, 81], (4, 1)))
    turned = report.compare_with_rotations(R.T @ aligned @ R, all_informative)
    assert turned.chance.min() < turned.measured < turned.chance.max()
    assert report.compare_with_rotations(aligned, np.array([True, False, False])) is None
    still = aligned * np.outer([1, 0, 0], [1, 0, 0])        # two latents do not move x, and have no direction
    assert report.compare_with_rotations(still, all_informative) is None
    scored = scored_codes()._replace(gram=still)
    assert "moves x along fewer than two" in answers_of(facts_of(scored))["Orthogonal"].short
    words = [answers_of(facts_of(scored_codes(), columns=columns))["Orthogonal"] for columns in (found, turned)]
    assert [answer.verdict for answer in words] == ["yes", "no"] and "none have columns" in words[0].more


def test_cosines_are_those_of_a_loop():
    J = np.random.default_rng(0).standard_normal((5, 7, 3))
    J[:, :, 2] = 0
    found = orthogonality.compute_cosines(np.swapaxes(J, 1, 2) @ J)
    expected = np.mean([abs(j[:, 0] @ j[:, 1]) / np.linalg.norm(j[:, 0]) / np.linalg.norm(j[:, 1]) for j in J])
    assert found[0, 1] == pytest.approx(expected) and found[0, 2] == 0 and found[2, 2] == 1


def test_what_is_usual_is_what_the_paper_prints():
    """The numbers are those of the table that the experiments measure against, and only for as many latents."""
    path = pathlib.Path(usual.__file__).parents[1] / "experiments/tables/rolinek_table2.toml"
    cells = tomllib.loads(path.read_text())["cells"]
    printed = {cell["recipe"].removeprefix("rolinek2018/"): cell["printed"] for cell in cells}
    for (dataset, model), numbers in usual.read_printed().items():
        assert {name: number for name, number in numbers.items() if name != "latents"} == printed[f"{dataset}_{model}"]
    assert len(usual.read_printed()) == sum("random" not in recipe for recipe in printed)
    data = {"name": "dsprites", "factors": [{"name": name} for name in ("v1", "v2", "v3")]}
    facts = dataclasses.replace(facts_of(scored_codes(), data=data), own_data=True)
    found = usual.find_usual(facts, "disentanglement_score")
    assert "usual: Rolinek" in usual.compare_with_usual(0.3, found)
    assert "higher than usual" in usual.compare_with_usual(0.9, found)
    assert usual.find_usual(facts, "dto").mean == 0.76
    others = dataclasses.replace(facts, own_data=False)         # as with evaluate.py --dataset=other.npz
    assert usual.find_usual(others, "disentanglement_score") is usual.find_usual(others, "dto") is None
    some = dataclasses.replace(facts, scored=facts.scored._replace(factors=("v1",)))
    assert usual.find_usual(some, "disentanglement_score") is None and usual.find_usual(some, "dto")
    assert usual.find_usual(dataclasses.replace(facts, card={**facts.card, "latents": 6}), "dto") is None
    assert "No number is known" in usual.compare_with_usual(0.9, None)


def test_what_limits_the_scores_is_said():
    scored = scored_codes()
    factors = scored.posterior.factors.copy()
    factors[:, 1] = np.random.default_rng(0).choice(4, N, p=[0.7, 0.1, 0.1, 0.1])
    kl = np.array([2.0, 2.0, 0.0])
    scored = scored._replace(posterior=scored.posterior._replace(factors=factors), polarised={},
                             verdict=verdicts.Verdict(kl, kl > 0.01))
    found = report.list_warnings(dataclasses.replace(facts_of(scored), card=None), None,
                                 "of the 9 examples, all of which training could see")
    assert any("1 of 3 latents are passive" in line and "z2" in line for line in found)
    assert any("300 examples" in line for line in found) and any("held-out" in line for line in found)
    assert not [line for line in found if "the KL says nothing of x" in line]
    mean = scored.posterior.mean * [1, 1e-3, 1]         # z1 has a KL, and the same code for all x
    stddev = np.full(mean.shape, 0.1)
    same = scored._replace(posterior=scored.posterior._replace(mean=mean, stddev=stddev))
    said = report.list_warnings(dataclasses.replace(facts_of(same), card=None))
    assert any(line.startswith("z1: the KL says nothing of x") for line in said)
    assert [line for line in found if "unbalanced" in line] == [line for line in found if "factor v2 is unb" in line]
