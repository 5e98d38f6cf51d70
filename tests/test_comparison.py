"""Recipes against each other, over seeds: who is left out and why, and what the answer rests on."""

import csv
import itertools
import re
import shutil

import absl.flags
import exports
import numpy as np
import pytest
from cases import build, dataset
from pages import check

from vae_tf import cli, comparison, export, verdicts
from vae_tf.comparison import Measured
from vae_tf.errors import InputError
from vae_tf.programs import evaluate, train

ALIVE = verdicts.Verdict(np.array([2.0, 3.0]), np.array([True, True]))


def models(values, active=2, start=0):
    """{name: Measured} of models with these distances from orthogonality."""
    return {f"m{start + i}": Measured(ALIVE, active, dict.fromkeys(comparison.MEASURES, value))
            for i, value in enumerate(values)}


def test_recipes_are_groups_and_seeds_are_not():
    base = {"model": "vae", "beta": None, "dataset": "d", "steps": 3}
    recipes = {"a0": {**base, "seed": 0}, "a1": {**base, "seed": 1}, "b": {**base, "beta": 2.0, "seed": 0},
               "c": {**base, "model": "ae", "seed": 0}}
    assert comparison.group_by_recipe(recipes) == {"vae": {"a0": 0, "a1": 1}, "vae beta=2.0": {"b": 0}, "ae": {"c": 0}}
    assert comparison.group_by_recipe({"a0": recipes["a0"]}) == {"vae": {"a0": 0}}


def test_labels_have_as_much_of_a_fingerprint_as_tells_data_apart():
    base = {"model": "vae", "dataset": "d", "data_fingerprint": "0123456789abcdef", "seed": 0}
    changed, other = {**base, "data_fingerprint": "abcdef0123456789"}, {**base, "dataset": "e", "data_fingerprint": "f"}
    assert list(comparison.group_by_recipe({"a": base, "b": other})) == ["vae dataset=d", "vae dataset=e"]
    assert list(comparison.group_by_recipe({"a": base, "b": changed})) == [
        "vae data_fingerprint=01234567", "vae data_fingerprint=abcdef01"]


@pytest.mark.parametrize("entry", comparison.LATER)
def test_models_of_before_an_entry_are_in_the_group_of_those_since(entry):
    known = {"a": {"model": "vae", "seed": 0, entry: 3}, "b": {"model": "vae", "seed": 1, entry: 3},
             "c": {"model": "ae", "seed": 0, entry: 4}}
    old, other = {"old": {"model": "vae", "seed": 2}}, {"d": {"model": "vae", "seed": 0, entry: 4}}
    assert comparison.leave_out_unsaid(known) == known
    named = comparison.leave_out_unsaid({**known, **old})
    assert comparison.group_by_recipe(named) == {"vae": {"a": 0, "b": 1, "old": 2}, f"ae {entry}=4": {"c": 0}}
    # Nobody knows of which of two groups the old one is.
    assert comparison.leave_out_unsaid({**known, **old, **other}) == {**known, **old, **other}


def test_p_is_that_of_a_loop_over_all_ways_to_deal_the_models_out():
    one, other = [0.1, 0.35, 0.2, 0.15, 0.3], [0.33, 0.6, 0.4, 0.55, 0.25]
    pooled, observed = np.array(one + other), np.mean(one) - np.mean(other)
    dealt = [pooled[list(rows)].mean() - np.delete(pooled, rows).mean()
             for rows in itertools.combinations(range(10), 5)]
    least = min(np.mean(np.array(dealt) <= observed + 1e-12), np.mean(np.array(dealt) >= observed - 1e-12))
    said = comparison.answer("A", models(one), "B", models(other))
    assert "A has the more orthogonal columns: A 0.22 ± 0.104 against B 0.426 ± 0.147 by dto_active" in said
    assert f"permutation test over 5 and 5 models, p = {2 * least:.2g})" in said and 2 * least < 0.05
    assert "B has the more orthogonal" in comparison.answer("A", models(other), "B", models(one))


def test_what_cannot_be_told_is_said_so():
    low, high = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]
    assert "A has the more" in comparison.answer("A", models(low), "B", models(high))         # p = 2 / 70
    said = comparison.answer("A", models(low), "B", models(high), pairs=3)
    assert "cannot be told from 4 and 4 models" in said and "could not get below p = 0.086" in said
    assert "from 3 and 3 models" in comparison.answer("A", models(low[:3]), "B", models(high[:3]))
    overlap = comparison.answer("A", models([0.1, 0.5, 0.3, 0.7]), "B", models([0.2, 0.4, 0.6, 0.8]))
    assert "It cannot be told: A 0.4 ± 0.258 against B 0.5 ± 0.258 by dto_active (permutation" in overlap
    assert "no model of B has columns that mean anything" in comparison.answer("A", models(low), "B", {})


def test_recipes_with_other_numbers_of_active_latents_are_compared_by_angles():
    said = comparison.answer("A", models([0.1] * 4), "B", models([0.2, 0.3, 0.2, 0.3], active=3))
    assert "by column_cosine, as DtO grows with the number of active latents" in said


def test_one_seed_twice_is_no_repetition_and_dead_models_come_first():
    dead = verdicts.judge(np.zeros((9, 2)), np.ones((9, 2)))
    measured = {**models([0.1, 0.2, 0.1]), "d": Measured(dead, 0, {}, verdicts.describe(dead))}
    assert "\x1b" not in "".join(comparison.report({"A\x1b[2J": {"m0": 0}}, measured))      # clears a terminal
    lines = comparison.report({"A": {"m0": 0, "m1": 1, "m2": 0}, "B": {"d": 0}}, measured)
    assert "m2: the recipe and seed of m0" in lines[0] and "d: No latent says anything about x" in lines[1]
    assert lines[3].split()[:4] == ["A", "2", "of", "3"] and "0.15 ± 0.0707" in lines[3]
    assert lines[4].split()[:5] == ["B", "0", "of", "1", "-"]


@pytest.mark.parametrize(("model", "given", "beta"), [("beta_vae", None, 4.0), ("beta_vae", 4.0, 4.0),
                                                      ("beta_vae", 0.0, 0.0), ("vae", None, None)])
def test_the_default_beta_and_the_same_beta_from_a_flag_are_one_recipe(model, given, beta):
    card = {"model": model, "beta": 4.0 if given is None else given, "recipe": {"model": model, "beta": given}}
    assert evaluate.read_recipe(card) == {"model": model, "beta": beta} and card["recipe"]["beta"] == given


@pytest.mark.parametrize(("change", "are_others"), [
    ({}, False), ({"seed": 1}, False), ({"data_seed": 1}, False), ({"split": "random"}, True),
    ({"data_fingerprint": "cd"}, True), ({"data_fingerprint": None, "data_seed": 1}, True)])
def test_models_of_other_examples_are_named(change, are_others):
    def say(**cards):
        return evaluate.say_other_examples({name: export.list_trainings(card) for name, card in cards.items()})

    recipe = {"dataset": "d", "data_fingerprint": "ab", "split": "grid", "data_seed": 0, "seed": 0}
    card, other = {"recipe": recipe}, {**recipe, **change}
    assert say(a=card, b={"recipe": other}) == [
        "What is said of training here is about a; these models were, or may have been, trained on other examples: "
        "b."] * are_others
    assert bool(say(a=card, b={**card, "trained_before": [other]})) == are_others
    random = {**recipe, "split": "random"}
    assert say(a={"recipe": random}, b={"recipe": {**random, "data_seed": 1}})


def run(main, define, *argv):
    values = absl.flags.FlagValues()
    define(values)
    cli.read_flags(values, ["program", *argv])
    main(values)


def test_the_question_is_answered_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    base = ("--dataset=synthetic_linear", "--network=linear", "--likelihood_variance=0.01", "--learning_rate=0.01",
            "--polarised_every=0", "--replicas=2", "--steps=1000", "--log_every=1000", "--checkpoint_every=1000")
    run(train.main, cli.define_train_flags, "--model=vae", *base)
    run(train.main, cli.define_train_flags, "--model=full_covariance_vae", "--beta=1", *base)
    run(train.main, cli.define_train_flags, "--model=beta_vae", "--beta=1000", "--name=dead", *base[:-4],
        "--steps=200")
    assert "dead: No latent says anything about x: posterior collapse." in capsys.readouterr().out
    quick = ("--quick", "--metrics=active_units", "--geometry=column_cosine", "--theory=", "--jobs=1",
             "--geometry_examples=8")
    printed = []
    for order in (["exported/*_synthetic_linear-seed?", "exported/dead"],
                  ["exported/dead/*", "exported/full*", f"{tmp_path}/exported/vae*"]):
        run(evaluate.main, cli.define_evaluate_flags, f"--compare={','.join(order)}", *quick,
            *["--comparison_dir=again"] * bool(printed))
        printed.append(capsys.readouterr().out.splitlines())
    assert sum(line.startswith("Scoring") for line in printed[0]) == 5          # and none a second time
    printed[0] = [line for line in printed[0] if not line.startswith("Scoring")]
    for lines in printed:
        first = {line.split()[0] for line in lines if line.strip()}
        assert {"active_units", "column_cosine"} <= first and "elbo" not in first       # which nobody asked for
        assert lines[0].startswith("Decoder columns around 8 of the ")
        assert re.match("  left out: exported/dead(/1)?: No latent says anything about x", lines[1])
        answers = [line for line in lines if "more orthogonal than" in line]
        assert sum("no model of beta_vae" in line for line in answers) == 2 and len(answers) == 3
        assert sum("It cannot be told from 2 and 2 models" in line for line in answers) == 1
    rows = [sorted(line for line in lines if line.startswith(("  vae", "  full")) and " of " in line)
            for lines in printed]
    assert rows[0] == rows[1] and len(rows[0]) == 2         # names and order change nothing
    assert all("2 of 2   2 " in row for row in rows[0])
    page = check((tmp_path / "comparison/comparison.html").read_text())
    assert "5 models in 3 groups on synthetic_linear" in page.words
    means = [sorted(csv.DictReader((tmp_path / folder / "comparison.csv").open()), key=lambda row: row["group"])
             for folder in ("comparison", "again")]
    assert means[0] == means[1] and [row["models"] for row in means[0]] == ["1", "2", "2"]
    check_bad_input(tmp_path)


def test_models_of_other_data_are_compared_on_the_same_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        v = rng.integers(0, 4, (400, 2))
        np.savez(f"{name}.npz", data=(v @ rng.standard_normal((2, 6))).astype(np.float32), factors=v)
        run(train.main, cli.define_train_flags, "--model=vae", f"--dataset={name}.npz", f"--name={name}", "--latents=2",
            "--steps=5", "--polarised_every=0")
    scored = ("--quick", "--metrics=mig", "--geometry=dto", "--geometry_examples=8", "--theory=", "--jobs=1")
    run(evaluate.main, cli.define_evaluate_flags, "--compare=exported/a,exported/b", "--dataset=b.npz", *scored)
    rows = list(csv.DictReader((tmp_path / "comparison/models.csv").open()))
    assert [row["examples"] for row in rows] == ["40", "40"]        # the test part that one of them did not see
    with pytest.raises(InputError, match=r"^--compare: exported/a: dataset: the model takes examples of shape \(6,\)"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=exported/a,exported/b", "--dataset=circles", *scored)


def test_a_posterior_that_is_not_finite_is_one_line_that_names_the_model(tmp_path):
    model, data = build(*exports.SMALLEST), dataset(exports.SMALLEST[2])
    model.encoder.weights[-1].assign(np.full(model.encoder.weights[-1].shape, 1e3))     # the log-variances
    loaded = export.load(export.save(tmp_path / "wide", model, data, exports.card(exports.SMALLEST)))
    with pytest.raises(InputError, match=r"^wide: encode: stddev came out NaN, infinite, or 0"):
        comparison.measure({"wide": loaded}, data)


def check_bad_input(folder):
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError, match="--compare: expected a pattern that exported models fit; got 'exported/x"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=exported/x*")
    (folder / "exported/a[1]/1/assets.extra").mkdir(parents=True)
    (folder / "exported/a[1]/1" / export.CARD).write_text("{}")
    assert cli.find_exports(["exported/a[1]"]) == ["exported/a[1]"]     # a name as it is, and not a pattern
    shutil.rmtree(folder / "exported/a[1]")
    with pytest.raises(InputError, match="--compare: expected a folder that holds an exported model"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=none")
    with pytest.raises(InputError, match=r"^--group_by: expected names of export, model, .*; got 'colour'$"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=exported/vae*", "--group_by=colour")
    (folder / "file").touch()
    with pytest.raises(InputError, match=r"^comparison_dir: expected a folder that can be written, got file"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=exported/vae*", "--comparison_dir=file")
    (folder / "file").unlink()
    next((folder / "exported").glob(f"vae*/*/{export.CARD}")).unlink()
    with pytest.raises(InputError, match=r"^--compare: .*card\.json: it cannot be read"):
        run(evaluate.main, cli.define_evaluate_flags, "--compare=" + ",".join(
            f"exported/{path.name}" for path in (folder / "exported").glob("vae*")))
    assert len(sorted(folder.rglob("*"))) == len(before) - 1


def test_latents_are_active_in_units_of_the_models_own_prior():
    mean, stddev = np.random.default_rng(0).standard_normal((9, 2)), np.full((9, 2), 0.3)
    prior = {"prior_mean": np.zeros((9, 2)), "prior_stddev": np.full((9, 2), [0.3, 1.0])}
    assert comparison.judge({"mean": mean, "stddev": stddev, **prior})[1].tolist() == [False, True]


def test_a_full_covariance_is_judged_by_its_marginals():
    mean = np.random.default_rng(0).standard_normal((9, 2))
    L = np.tile([[0.1, 0.0], [0.9, 0.1]], (9, 1, 1))        # standard deviations 0.1 and 0.9055
    verdict, _ = comparison.judge({"mean": mean, "scale_tril": L})
    expected = verdicts.judge(mean, np.tile(np.sqrt([0.01, 0.82]), (9, 1)))
    np.testing.assert_allclose(verdict.kl, expected.kl, rtol=1e-12)


def test_p_is_multiplied_by_the_number_of_pairs():
    one, other = [0.1, 0.35, 0.2, 0.15, 0.3], [0.33, 0.6, 0.4, 0.55, 0.25]
    alone, three = (comparison.answer("A", models(one), "B", models(other), pairs) for pairs in (1, 3))
    p = float(alone.split("p = ")[1].split(")")[0])
    assert "A has the more orthogonal columns" in alone and p < 0.05 < 3 * p
    assert "It cannot be told" in three
    assert float(three.split("p = ")[1].split(" ")[0]) == pytest.approx(3 * p, rel=0.1)
    assert "(times 3 pairs)" in three
