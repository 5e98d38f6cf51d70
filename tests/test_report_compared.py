"""Many models side by side: groups, tables, figures, and a page without requests."""

import csv
import io
import json
import re

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from pages import check

from vae_tf import comparison, report, verdicts
from vae_tf.errors import InputError
from vae_tf.report.compared import groups as grouping
from vae_tf.report.compared import page, tables
from vae_tf.report.compared.traversed import Pictured
from vae_tf.report.theme import draw_svg

HOSTILE = "</td><script>alert(1)</script> $a_b$ & 5% | \\x \udcff"
ALIVE = verdicts.Verdict(np.array([2.0, 3.0]), np.array([True, True]))


def forge(models=("vae", "beta_vae"), betas=(1.0, 4.0), seeds=3):
    """Rows and recipes of models by name, as results_frame and cards have them."""
    rows, recipes = {}, {}
    for model in models:
        for beta in betas:
            for seed in range(seeds):
                name = f"exported/{model}-{beta:g}-{seed}"
                recipes[name] = {"model": model, "beta": beta, "seed": seed, "dataset": "dsprites"}
                score = 0.1 * beta + 0.01 * seed
                rows[name] = {"export": f"{name}/1", **dict.fromkeys(report.frame.SETTINGS), **recipes[name],
                              "latents": 2, "examples": 1_000, "elbo": -100 * beta - seed, "mig": score,
                              "mig_low": score - 0.1, "mig_high": score + 0.1, "mig_chance": 0.02, "dto": 1 - score,
                              "dto_standard_error": 0.01, "active_latents": 2.0}
                recipes[name]["optimizer"] = "adam"
    return rows, recipes


def measure(rows):
    return {name: comparison.Measured(ALIVE, 2, dict.fromkeys(comparison.MEASURES, row["dto"]))
            for name, row in rows.items()}


@pytest.fixture(scope="module")
def twelve():
    return report.group_models(*forge())


def test_models_of_a_recipe_are_a_group_unless_columns_say_otherwise(twelve):
    assert twelve.labels == ["vae beta=1.0", "vae beta=4.0", "beta_vae beta=1.0", "beta_vae beta=4.0"]
    assert [row["models"] for row in twelve.means] == [3] * 4 and twelve.spread == "over seeds"
    first = twelve.means[0]
    values = [row["mig"] for row in twelve.rows[:3]]
    assert first["mig_mean"] == pytest.approx(np.mean(values)) and first["mig_spread"] == pytest.approx(
        np.std(values, ddof=1))
    rows, recipes = forge()
    for given in (rows, recipes):       # the same model once more, which is no repetition
        given["exported/copy"] = {**given["exported/vae-1-0"]}
    again = report.group_models(rows, recipes)
    assert (again.means, again.rows) == (twelve.means, twelve.rows) and "exported/copy" in again.members[
        "vae beta=1.0"]
    by_model = report.group_models(*forge(), by=("model",))
    assert by_model.labels == ["vae", "beta_vae"] and by_model.spread == "over models that differ in beta and seed"
    assert by_model.means[0]["models"] == 6 and "beta" not in by_model.means[0]
    assert "differ in beta and seed: tests and spreads are over models" in by_model.list_limits()[0]
    assert not twelve.list_limits()
    # Models of one group that differ in more than the seed are no repetitions of each other.
    assert not comparison.list_left_out(by_model.members, measure(forge()[0]))
    by_both = report.group_models(*forge(), by=("model", "beta"))
    assert by_both.labels == ["vae beta=1", "vae beta=4", "beta_vae beta=1", "beta_vae beta=4"]


@pytest.mark.parametrize("betas", [(0.3, 0.1 + 0.2), (1, 1.0)])
def test_values_that_a_label_does_not_tell_apart_are_one_group(betas):
    rows, recipes = forge(models=("vae",), seeds=2)
    for i, name in enumerate(rows):
        rows[name]["beta"] = recipes[name]["beta"] = (*betas, 4.0, 4.0)[i]
    groups = report.group_models(rows, recipes, by=("model", "beta"))
    assert groups.labels == [f"vae beta={betas[0]}", "vae beta=4"]
    assert [(row["beta"], row["models"]) for row in groups.means] == [(betas[0], 2), (4.0, 2)]
    assert len(tables.make_cells(groups, ["mig"])["mig"]) == len(groups.labels) + 1
    by_score = report.group_models(rows, recipes, by=("mig",))
    assert [row["group"] for row in by_score.means] == by_score.labels


def test_columns_that_no_model_has_are_refused_before_anything_is_scored():
    report.check_columns(("model", "beta", "active_latents", "mig"))
    with pytest.raises(InputError, match=r"^--group_by: expected names of export, model, .*; got 'colour'$"):
        report.check_columns(("model", "colour"))
    with pytest.raises(InputError, match=r"^--group_by: .* no model has 'irs'$"):
        report.group_models(*forge(), by=("irs",))


def test_tables_say_the_same_in_every_form(twelve):
    names = report.list_scores(twelve)
    assert names == ["elbo", "mig", "dto", "active_latents"]
    cells = ["0.110 ± 0.010", "0.410 ± 0.010", "0.110 ± 0.010", "0.410 ± 0.010", "0.020"]
    markdown = report.write_markdown(twelve, names).splitlines()
    assert [cell.strip() for cell in markdown[3].strip("|").split("|")] == ["mig", *cells]
    latex = report.write_latex(twelve, names)
    assert "  mig & " + " & ".join(cells).replace("±", r"$\pm$") + r" \\" in latex
    assert r"\toprule" in latex and r"\bottomrule" in latex and "beta\\_vae beta=1.0" in latex
    rows = list(csv.DictReader(io.StringIO(report.write_csv(twelve.means))))
    assert [row["group"] for row in rows] == twelve.labels and float(rows[0]["mig_mean"]) == twelve.means[0]["mig_mean"]
    assert "over seeds" in markdown[-1] and "over seeds" in latex


@pytest.mark.parametrize("width", [60, 140])
def test_terminals_of_any_width_show_every_group(twelve, width):
    text = report.table.write_plain(report.make_compared_table(twelve, ["elbo", "mig"], width), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width and "standard deviation over seeds" in " ".join(text.split())
    cells = re.findall(r"\S+ ± \S+", " ".join(line for line in lines if line.strip().startswith("mig")))
    assert cells == ["0.110 ± 0.010", "0.410 ± 0.010", "0.110 ± 0.010", "0.410 ± 0.010"]
    assert text.partition("Mean ±")[0].count("3 models") == 4


def test_settings_without_a_column_are_named_and_models_without_a_seed_are_no_copies():
    rows, recipes = forge(models=("vae",))
    for i, recipe in enumerate(recipes.values()):
        recipe["optimizer"] = "adam" if i % 2 else "sgd"
    mixed = report.group_models(rows, recipes, by=("beta",))
    assert mixed.spread == "over models that differ in seed and optimizer" and mixed.list_limits()
    for recipe in recipes.values():
        del recipe["seed"], recipe["optimizer"]
    for by in ((), ("beta",)):
        assert [row["models"] for row in report.group_models(rows, recipes, by).means] == [3, 3]


@pytest.mark.parametrize("by", [(), ("model",)])
def test_models_of_which_not_all_is_known_are_copies_if_their_weights_are_equal(by):
    rows, recipes = forge(models=("vae",), betas=(1.0,))
    for recipe in recipes.values():
        recipe["seed"] = 0
        del recipe["optimizer"]
    groups = report.group_models(rows, recipes, by, dict(zip(rows, ["ab", "cd", "ab"], strict=True)))
    assert [row["export"] for row in groups.rows] == ["exported/vae-1-0/1", "exported/vae-1-1/1"]
    assert comparison.list_left_out(groups.members, measure(rows)) == [
        "exported/vae-1-2: the recipe and seed of exported/vae-1-0, or its weights, so no repetition."]
    assert "may differ in more than the seed" in groups.list_limits()[0]


@pytest.mark.parametrize("by", [(), ("beta",)])
def test_models_that_stopped_early_are_seeds_of_one_recipe(by):
    rows, recipes = forge(models=("vae",))
    for i, name in enumerate(rows):
        recipes[name]["steps"], rows[name]["steps"] = 100, 10 * i
    stopped = report.group_models(rows, recipes, by)
    assert stopped.spread == "over seeds" and [row["models"] for row in stopped.means] == [3, 3]
    if by:
        recipes["exported/vae-1-0"]["steps"] = 200
        assert "differ in seed and steps" in report.group_models(rows, recipes, by).list_limits()[0]


def test_scores_that_mean_nothing_for_some_models_say_of_how_many_they_are():
    rows, recipes = forge(models=("vae",), betas=(1.0,))
    rows["exported/vae-1-0"]["mig"] = None
    assert "(2/3)" in report.write_markdown(report.group_models(rows, recipes), ["mig"])


@hypothesis.settings(max_examples=2 * hypothesis.settings().max_examples)
@hypothesis.given(strategies.text(), strategies.text(), strategies.one_of(
    strategies.none(), strategies.floats(), strategies.integers(-2**63, 2**63)))
def test_tables_hold_whatever_cards_and_scores_say(model, dataset, score):
    recipe = {"model": model, "dataset": dataset, "seed": 0}
    row = {"export": "a/1", **dict.fromkeys(report.frame.SETTINGS), **recipe, "elbo": -1.0,
           "mig": None if score is None or not np.isfinite(score) else float(score)}
    groups = report.group_models({"a": row, "b": {**row, "seed": 1}}, {"a": recipe, "b": {**recipe, "seed": 1}})
    names = report.list_scores(groups)
    lines = report.write_markdown(groups, names).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[:2 + len(names)]} == {4}
    body = [line for line in report.write_latex(groups, names).splitlines() if line.endswith(r"\\")]
    assert len(body) == 2 + len(names) and {len(re.findall(r"(?<!\\)&", line)) for line in body} == {2}
    assert not {"<", ">", "|"} & {*"".join(body)}
    read, = csv.DictReader(io.StringIO(report.write_csv(groups.means)))
    assert read["models"] == "2" and read["group"] == groups.labels[0]


@pytest.mark.usefixtures("theme")
class TestFigures:
    @pytest.fixture
    def theme(self):
        with report.use_theme():
            yield

    def test_a_scatter_tells_groups_apart_by_colour_and_mark(self):
        figure = report.plot_scatter({"a": ([1, 2], [3, 4]), "b": ([5.0], [6.0])}, "dto", "mig")
        axis, = figure.axes
        assert (axis.get_xlabel(), axis.get_ylabel()) == ("dto", "mig")
        first, second = axis.collections
        np.testing.assert_array_equal(first.get_offsets(), [[1, 3], [2, 4]])
        assert not np.array_equal(first.get_facecolor(), second.get_facecolor())
        assert len(first.get_paths()[0]) != len(second.get_paths()[0])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]

    def test_a_sweep_has_a_panel_per_score_with_spreads_as_bars(self):
        line = ([1.0, 4.0, 16.0], [0.1, 0.2, 0.3], [0.01, 0.02, np.nan])
        figure = report.plot_sweep({"mig": {"vae": line}, "dto": {"vae": line, "ae": ([1.0], [0.5], [0.1])}}, "beta")
        mig, dto = figure.axes
        assert (mig.get_title(loc="left"), figure.get_supxlabel(), mig.get_xscale()) == ("mig", "beta", "log")
        drawn, _, (bars,) = mig.containers[0]
        np.testing.assert_allclose(drawn.get_xydata(), np.transpose(line[:2]))
        np.testing.assert_allclose(bars.get_segments()[1][:, 1], [0.18, 0.22])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["vae", "ae"]
        assert len(dto.containers) == 2 and [tick.get_text() for tick in mig.get_xticklabels()] == ["1", "4", "16"]

    def test_the_axis_of_many_settings_has_plain_numbers(self):
        betas = [0.5, 1, 2, 3, 4, 5, 6, 8, 16]
        drawn = draw_svg("sweep", report.plot_sweep, {"mig": {"vae": (betas, betas, [0.1] * 9)}}, "beta")
        assert "mathdefault" not in drawn and ">10</text>" in drawn

    def test_rank_correlations_are_scipys_and_leave_out_what_cannot_be_told(self):
        from scipy.stats import spearmanr

        x, y = np.random.default_rng(0).normal(size=(2, 8))
        rows = [{"x": a, "y": b, "same": 1.0, "few": a if i < 2 else None} for i, (a, b) in enumerate(zip(x, y,
                                                                                                          strict=True))]
        found = report.correlate_ranks(rows, ["x", "y", "same", "few"])
        assert found[0, 1] == pytest.approx(spearmanr(x, y).statistic) and found[0, 0] == pytest.approx(1)
        assert np.isnan(found[2:]).all() and np.isnan(found[:, 2:]).all()
        axis, bar = report.plot_rank_correlations(found, ["x", "y", "same", "few"]).axes
        assert axis.images[0].get_clim() == (-1, 1) and "Spearman" in bar.get_ylabel()
        assert axis.texts[0].get_text() == "1.00" and axis.texts[-1].get_text() == "-"
        assert [tick.get_text() for tick in axis.get_yticklabels()] == ["x", "y", "same", "few"]


def test_the_page_holds_everything_and_asks_nobody(twelve):
    pictured = [Pictured(label, "exported/a") for label in twelve.labels[:3]]
    text = report.make_comparison_page(twelve, measure(forge()[0]), "Jacobians around 10 examples", pictured)
    words = " ".join(" ".join(check(text).words).split())
    sections = check(text).find("section")
    assert [section["id"] for section in sections] == ["answers", "means", "pairs", "sweep", "ranks", "pictures",
                                                       "models"]
    assert "without a posterior, the one whose codes vary most" in words
    elsewhere = report.make_comparison_page(twelve, measure(forge()[0]), "", dataset="folder/other.npz")
    assert "12 models in 4 groups on other.npz" in " ".join(check(elsewhere).words)
    assert "12 models in 4 groups on dsprites" in words and "Means, and spreads over seeds" in words
    assert "0.110 ± 0.010" in words and "1 further groups are not pictured" in words
    assert "0.110 [0.01, 0.21]" in words and "0.890 ± 0.010" in words         # of one model, over x
    points = json.loads(next(each["data-models"] for _, each in check(text).elements if "data-models" in each))
    assert points["groups"] == twelve.labels and len(points["rows"]) == 12
    assert points["rows"][3]["values"] == [twelve.rows[3][name] for name in points["names"]]
    chosen = [name for tag, each in check(text).elements if tag == "select" for name in [each["id"]]]
    assert chosen == ["across", "upward"]


def test_rank_correlations_are_of_the_models_that_have_both_scores():
    rows, recipes = forge()
    for i, row in enumerate(rows.values()):
        row["sap"], row["mcc"] = (row["mig"] if i < few else None for few in (7, 4))
    text = " ".join(check(report.make_comparison_page(report.group_models(rows, recipes), measure(rows), "")).words)
    assert "that have both scores, 7 to 12 models:" in text and "fewer than 5 models have are left out" in text
    few = report.group_models(*forge(models=("vae",), seeds=2))
    assert "rank correlation" not in report.make_comparison_page(few, measure(forge(("vae",), seeds=2)[0]), "")


def test_the_page_escapes_what_cards_say_and_does_without_what_is_missing():
    rows, recipes = forge(models=(HOSTILE,), betas=(1.0,), seeds=2)
    for row in rows.values():
        row.update(dict.fromkeys(("mig", "dto", "elbo")), dataset=HOSTILE)
    rows[next(iter(rows))]["examples"] = 50
    groups = report.group_models(rows, recipes)
    text = report.make_comparison_page(groups, measure({name: {"dto": 0.5} for name in rows}), HOSTILE)
    found = check(text) if "<script>" in text else None
    assert found is None and "alert(1)" in text and "&lt;script&gt;" in text
    assert "50 examples, others on up to 1,000" in groups.list_limits()[0] in text


def test_files_appear_whole_and_in_a_folder_of_their_own(twelve, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "make_comparison_page", lambda *_: "page \udcff")
    report.write_comparison(tmp_path / "new", twelve, {}, "")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(report.COMPARISON_FILES)
    models = list(csv.DictReader(io.StringIO((tmp_path / "new/models.csv").read_text())))
    assert len(models) == 12 and models[0]["group"] == "vae beta=1.0" and float(models[0]["mig_low"]) < 0.02


def test_series_are_lines_over_the_setting_that_varies(twelve):
    assert grouping.find_varying_setting(twelve) == "beta"
    series = grouping.list_series(twelve, "beta")
    assert list(series) == ["vae", "beta_vae"] and [row["beta"] for row in series["vae"]] == [1.0, 4.0]
    assert grouping.find_varying_setting(report.group_models(*forge(betas=(1.0,)))) is None


def test_a_series_has_one_value_of_every_other_entry_of_the_recipe():
    rows, recipes = forge(models=("vae",), betas=(1.0, 2.0, 4.0, 8.0))
    for recipe in recipes.values():
        recipe["jacobian_weight"] = 0 if recipe["beta"] < 3 else 9
    for by in ((), ("beta",)):
        series = grouping.list_series(report.group_models(rows, recipes, by), "beta")
        assert {label: [row["beta"] for row in line] for label, line in series.items()} == {
            "jacobian_weight=0": [1.0, 2.0], "jacobian_weight=9": [4.0, 8.0]}
    recipes["exported/vae-1-0"]["jacobian_weight"] = 9      # the entry differs within a group, so the spread is over it
    assert list(grouping.list_series(report.group_models(rows, recipes, ("beta",)), "beta")) == ["all models"]


@pytest.mark.parametrize("parameters", [{}, {5: 100, 10: 150}])
def test_lines_are_over_the_first_setting_that_gives_lines(parameters):
    rows, recipes = {}, {}
    for model, betas in (("vae", (1.0,)), ("beta_vae", (4.0,))):
        for latents in (5, 10):
            more_rows, more_recipes = forge((model,), betas)
            for name in more_rows:
                unlike = {"parameters": parameters[latents]} if parameters else {}
                rows[f"{name}-{latents}"] = more_rows[name] | {"latents": latents}
                recipes[f"{name}-{latents}"] = {**more_recipes[name], "latents": latents, **unlike}
    groups = report.group_models(rows, recipes)
    assert grouping.find_varying_setting(groups) == "latents"
    series = grouping.list_series(groups, "latents")
    assert {label: [row["latents"] for row in line] for label, line in series.items()} == {
        "vae beta=1": [5, 10], "beta_vae beta=4": [5, 10]}
