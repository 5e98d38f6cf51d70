"""docs/results.md and its figures, from tables and results that are written here, so that every word has its reason."""

import re

import pytest

from vae_tf.errors import InputError
from vae_tf.experiments import figures, listing, page, recipes, results, summaries, tables
from vae_tf.experiments.summaries import Summary

RECIPE = "sikka2019/linear_mixture"         # 15,625 steps
TABLE = """
title = "A title"
paper = "Somebody 1999"
where = "Table 1"
shows = "It shows this."
seeds = 3
spread = "standard deviation over 3 seeds"

[metrics.dto]
label = "DtO"
better = "lower"
read = "metrics.dto.score"

[metrics.score]
label = "Score"
better = "higher"
read = "metrics.score.score"

[metrics.words]
label = "Curve"
better = "higher"
read = "metrics.words.y"
"""
CELL = """
[[cells]]
row = "Data"
column = "{column}"
recipe = "sikka2019/linear_mixture"
flags = ["--beta={beta}"]
printed = {{ dto = {dto}, score = 0.5 }}
needs = "{needs}"
"""
CHECKS = """
[[checks]]
says = "One is below the others."
metric = "dto"
rising = [["one"], ["two", "three"]]

[[checks]]
says = "All are below 1."
metric = "dto"
high = 1

[[figures]]
kind = "scatter"
x = "dto"
y = ["score"]

[[figures]]
kind = "lines"
x = "beta"
y = ["dto", "score"]
series = "row"

[[figures]]
kind = "bars"
x = "row"
y = ["dto"]
"""


def table(folder, cells, more=CHECKS):
    """A table of (column, beta, printed DtO, what it needs)."""
    names = ("column", "beta", "dto", "needs")
    text = TABLE + "".join(CELL.format(**dict(zip(names, cell, strict=True))) for cell in cells) + more
    (folder / "some_table.toml").write_text(text)
    return tables.read(folder / "some_table.toml")


def result(beta, seed, dto, steps=15_625, state="alive", score=0.1):
    """A result of the recipe as the runner writes it; a dead model has no DtO that means anything."""
    entry = {"score": dto} | ({"no_meaning": "no latent says anything about x"} if state == "dead" else {})
    return {"recipe": RECIPE, "flags": dict(recipes.read(RECIPE, (f"--beta={beta}",)).flags), "seed": seed,
            "steps": steps, "epochs": steps * 64 / 10_000, "configuration": {}, "numerics": results.NUMERICS,
            "command": "train.py it", "versions": {"python": "3"}, "machine": "a machine",
            "seconds": {"training": 60.0, "scoring": 1.0}, "verdict": {"state": state},
            "metrics": {"dto": entry, "score": {"score": score}}, "history": {}}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """(tables, results, page), with the first of them in place of the paper's."""
    for name in ("tables", "results"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "tables")
    return tmp_path / "tables", tmp_path / "results", tmp_path / "docs" / "results.md"


CELLS = [("one", 1, "[0.2, 0.05]", ""), ("two", 2, "[0.3, 0.01]", ""), ("three", 3, 0.9, ""),
         ("four", 4, "[1.0, 0.1]", "its data: fetch them")]


def written(places, found=()):
    for each in found:
        results.write(places[1], each)
    return page.write(places[1], places[2]).read_text()


def entries(text, metric):
    """The entries of the one row of a metric's matrix."""
    row = text.split(f"**{metric}**")[1].split("| Data | ")[1].splitlines()[0]
    return row.rstrip("|").split(" | ")


def test_numbers_stand_beside_the_papers_with_a_verdict(places):
    table(places[0], CELLS)
    found = [result(1, seed, dto) for seed, dto in enumerate((0.2, 0.24, 0.22))]
    found[1]["seconds"]["training"] = 3600.0      # it was paused
    found += [result(2, 0, 0.5), result(3, 0, 0.8), result(3, 1, 0.8)]
    text = written(places, found)
    one, two, three, four = entries(text, "DtO")
    assert one == "**0.22 ± 0.02**<br>paper 0.20 ± 0.05: inside<br>3 seeds, 15,625 steps"
    assert two == "**0.50**<br>paper 0.30 ± 0.01: same order<br>1 seed, 15,625 steps"
    assert three == "**0.80 ± 0.00**<br>paper 0.90: same order<br>2 seeds, 15,625 steps"
    assert four.strip() == "not run<br>paper 1.00 ± 0.10"
    assert "Not run (Data, four): its data: fetch them" in text
    assert "Of 8 numbers that the papers print, 6 are measured; 6 need no download, and of these 6 are." in text
    assert "[Somebody Table 1: A title](#somebody-table-1-a-title) | 8 | 6 | 1 | 2 | 0 | 3 | 2 of 2 |" in text
    assert "DtO:<br>Data, one: 0.22<br>Data, two: 0.50<br>Data, three: 0.80 | holds so far |" in text
    assert "DtO:<br>Data: one 0.22, then two 0.50, three 0.80 | holds |" in text
    assert "`python train.py --flagfile=flags/sikka2019/linear_mixture.flags --beta=4`" in text
    assert "| Data | one | 1 min a seed | `train.py it` |" in text
    assert "6 runs and experiments, 1.1 hours" in text and "a machine: 6" in text and "python 3" in text


def test_a_table_may_start_with_a_byte_order_mark(places):
    made = table(places[0], CELLS)
    path = places[0] / "some_table.toml"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert tables.read(path) == made


def test_p_values_are_not_averaged_and_a_small_spread_is_not_hidden(places):
    path = places[0] / "some_table.toml"
    table(places[0], CELLS[:1], more="")
    path.write_text(path.read_text().replace('read = "metrics.score.score"',
                                             'read = "metrics.score.score"\nover_seeds = "largest"'))
    text = written(places, [result(1, 0, 0.2, score=0.001), result(1, 1, 0.2001, score=0.2)])
    assert entries(text, "Score")[0].startswith("**0.20**<br>paper")
    assert entries(text, "DtO")[0].startswith("**0.20 ± 7.1e-05**")
    found = results.read_all(places[1])
    shown = [re.split("  +", line) for line in listing.list_numbers(tables.read(path), found)[1:]]
    assert [row[2:5] for row in shown] == [["DtO", "0.20 +- 0.05", "0.20 +- 7.1e-05"], ["Score", "0.50", "0.20"]]
    path.write_text(path.read_text().replace('"largest"', '"smallest"'))
    with pytest.raises(InputError, match=r"metrics.score.over_seeds: expected one of mean, largest; got 'smallest'"):
        tables.read(path)


def test_models_are_compared_if_they_trained_for_the_same_share_of_their_length(places):
    table(places[0], CELLS)
    short = [result(1, 0, 0.7, steps=5_000), result(2, 0, 0.5, steps=5_000), result(3, 0, 0.8, steps=5_000)]
    text = written(places, short)
    assert entries(text, "DtO")[0] == "**0.70**<br>paper 0.20 ± 0.05: neither<br>1 seed, 5,000 of 15,625 steps"
    assert "DtO:<br>Data: one 0.70, then two 0.50, three 0.80 | does not hold after shortened training |" in text
    assert "Data, three: 0.80 | holds so far after shortened training |" in text
    text = written(places, [result(2, 0, 0.5)])       # "two" was trained on; the others were not
    assert entries(text, "DtO")[0] == "**0.70**<br>paper 0.20 ± 0.05: same order<br>1 seed, 5,000 of 15,625 steps"
    assert entries(text, "DtO")[1].startswith("**0.50**<br>paper 0.30 ± 0.01: outside, order not known<br>")
    assert ("DtO:<br>Data: trained for different shares of their length (one 0.32, two 1, three 0.32) | cannot be told"
            in text)
    assert "Data, two: 0.50<br>Data, three: 0.80 | holds so far after shortened training |" in text


def test_a_wrong_order_is_neither_and_a_claim_that_fails_says_so(places):
    table(places[0], CELLS)
    text = written(places, [result(1, 0, 0.7), result(2, 0, 0.5), result(3, 0, 2.0)])
    assert [re.search(r": ([a-z ]+)<br>1 seed", each)[1] for each in entries(text, "DtO")[:3]] == [
        "neither", "neither", "same order"]
    assert text.count("| does not hold |") == 2


def test_a_dead_model_has_no_score(places):
    table(places[0], CELLS[:2], more="")
    text = written(places, [result(1, 0, 1.7, state="dead"), result(1, 1, 0.2), result(2, 0, 1.9, state="dead")])
    one, two = entries(text, "DtO")
    assert one == "**0.20**<br>paper 0.20 ± 0.05: inside<br>2 seeds, 1 of them dead, 15,625 steps"
    assert two.strip() == "**dead**<br>paper 0.30 ± 0.01<br>1 seed, 1 of them dead, 15,625 steps"
    assert "1.7" not in text and "1.9" not in text
    # A number that means something of any model is there, and says of which models it is.
    one, two = entries(text, "Score")
    assert one.startswith("**0.10 ± 0.00**") and one.endswith("<br>2 seeds, 1 of them dead, 15,625 steps")


def test_the_terminal_says_what_became_of_a_number(places):
    """Runs of a dead model, or whose metric has no meaning, are not "not run"."""
    path = places[0] / "some_table.toml"
    table(places[0], CELLS, more="")
    path.write_text(re.sub("^printed = .*$", "", path.read_text(), flags=re.MULTILINE))     # all metrics of all cells
    lacking, drawn = result(2, 0, 0.3), result(3, 0, 0.8)
    lacking["metrics"]["dto"]["no_meaning"] = "one latent carries information"
    drawn["metrics"]["words"] = {"y": [1.0, 2.0]}
    found = [result(1, 0, 1.7, state="dead"), result(1, 1, 1.7, state="dead"), lacking, drawn]
    rows = [re.split("  +", line)[1:] for line in listing.list_numbers(tables.read(path), found)]
    shown = {(column, metric): ours for column, metric, _, *ours in rows[1:]}
    assert shown["one", "DtO"] == ["dead", "2", "100 epochs"]
    assert shown["two", "DtO"] == ["no score", "1", "100 epochs"]
    assert shown["three", "DtO"] == ["0.80", "1", "100 epochs"]
    assert shown["three", "Curve"] == ["drawn", "1", "100 epochs"]
    assert shown["four", "DtO"] == ["not run"]


def test_the_terminal_names_an_entry_that_results_lack_and_says_which_claims_hold(places):
    path = places[0] / "some_table.toml"
    table(places[0], CELLS)
    path.write_text(path.read_text().replace("metrics.score.score", "metrics.score.scores"))
    found = [result(1, 0, 0.7), result(2, 0, 0.5), result(3, 0, 2.0)]
    made = tables.read(path)
    assert sum("no entry scores" in line for line in listing.list_numbers(made, found)) == 3
    assert summaries.list_claims(Summary(made, found)) == [
        "does not hold: One is below the others. DtO: Data: one 0.70, then two 0.50, three 2.00",
        "does not hold: All are below 1. DtO: Data, one: 0.70; Data, two: 0.50; Data, three: 2.00"]


def test_a_table_of_ones_own_comes_after_those_of_the_papers(places, tmp_path):
    table(places[0], CELLS[:1], more="")
    own = tmp_path / "own.toml"
    own.write_text((places[0] / "some_table.toml").read_text().replace("A title", "My title"))
    results.write(places[1], result(1, 0, 0.2))
    page.write(places[1], places[2], also={str(own): tables.read(own)})
    text = places[2].read_text()
    assert f"\n    python -m vae_tf.experiments {own}\n" in text[text.index("My title"):]
    assert text.index("## Somebody Table 1: A title") < text.index("## Somebody Table 1: My title")


def test_a_score_without_meaning_says_why(places):
    table(places[0], CELLS[:2], more="")
    alone, lacking = result(1, 0, 1.7), result(2, 0, 0.3)
    alone["metrics"]["dto"]["no_meaning"] = "one latent carries information"
    del lacking["metrics"]["dto"]
    one, two = entries(written(places, [alone, lacking]), "DtO")
    assert one.startswith("no score: one latent carries information<br>paper 0.20 ± 0.05<br>1 seed, ")
    assert two.startswith("no score: it was not measured<br>")


def test_a_claim_about_what_the_models_lack_cannot_be_told(places):
    path = places[0] / "some_table.toml"
    table(places[0], CELLS[:1], more='\n[[checks]]\nsays = "It is below 1."\nmetric = "dto"\nhigh = 1\n')
    assert "| It is below 1. |  | not run |" in written(places)
    path.write_text(path.read_text().replace("metrics.dto.score", "polarised_regime.passive.score"))
    lacking = {**result(1, 0, 0.2), "polarised_regime": {"passive": {"skipped": "no latent is passive"}}}
    assert "| It is below 1. | DtO:<br>no score (no latent is passive) | cannot be told |" in written(places, [lacking])


def test_a_claim_needs_scores_of_half_of_the_seeds(tmp_path):
    read = table(tmp_path, CELLS)
    order, bound = read.checks
    dead = [result(2, seed, 0.5, state="dead") for seed in range(2)]
    for alive, told in (([result(2, 2, 0.5)], False), ([result(2, 2, 0.5), result(2, 3, 0.5)], True)):
        summary = Summary(read, [result(1, 0, 0.2), result(3, 0, 0.8), *dead, *alive])
        for check in (order, bound):
            line = "; ".join(summary.check(check)[1])
            assert ("no score in 2 of 3 runs (no latent says anything about x)" in line) == (not told)
            assert ("0.50" in line) == told


def test_an_order_names_the_means_that_seeds_could_turn_round(tmp_path):
    read = table(tmp_path, CELLS)
    found = [result(1, 0, 0.2), result(1, 1, 0.4), result(3, 0, 0.8), result(3, 1, 0.9)]     # 0.3 +- 0.1
    near, far = ([result(2, 0, mean - 0.1), result(2, 1, mean + 0.1)] for mean in (0.57, 0.59))     # +- 0.1
    said = "; less than two standard errors apart: one and two"
    for more, named in ((near, True), (far, False), ([result(2, 0, 0.31)], False)):     # two errors are 0.283
        state, (line,) = Summary(read, [*found, *more]).check(read.checks[0])
        assert state == "holds" and line.endswith(said) == named and ("standard errors" in line) == named


def test_an_order_with_dead_models_says_so(tmp_path):
    read = table(tmp_path, CELLS)
    order = read.checks[0]
    dead = [result(2, seed, 0.5, state="dead") for seed in range(2)]
    state, lines = Summary(read, [result(1, 0, 0.2), result(3, 0, 0.8), *dead]).check(order)
    assert state == "holds so far" and "then three 0.80; two no score (no latent says anything about x)" in lines[0]
    state, lines = Summary(read, [result(1, 0, 0.2), *dead]).check(order)
    assert state == "cannot be told" and "two no score (no latent says anything about x)" in lines[0]
    assert Summary(read, [result(1, 0, 0.2)]).check(order) == ("not run", [])


def test_a_printed_number_that_changes_shows_on_the_page(places):
    table(places[0], CELLS[:1], more="")
    before = written(places, [result(1, 0, 0.2)])
    table(places[0], [("one", 1, "[0.4, 0.05]", "")], more="")
    after = written(places)
    assert "paper 0.20 ± 0.05: inside" in before and "paper 0.40 ± 0.05: outside, order not known" in after


def test_the_page_and_its_figures_are_the_same_bytes_again(places):
    table(places[0], CELLS)
    found = [result(beta, seed, 0.1 * beta + 0.01 * seed, score=0.5 - 0.1 * beta) for beta in (1, 2, 3)
             for seed in range(2)]
    written(places, found)
    folder = places[2].parent
    first = {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    assert sorted(first) == ["results.md", "some_table-1.svg", "some_table-2.svg", "some_table-3.svg"]
    for path in folder.rglob("*.*"):
        path.unlink()
    (folder / "results" / "old.svg").write_text("of a table that is no more")
    written(places)
    assert first == {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    drawn = first["some_table-2.svg"].decode()
    assert "DtO" in drawn and "printed in the paper" in drawn and "<dc:date>" not in drawn
    assert all(f">{label}</text>" in first["some_table-3.svg"].decode() for label in ("Data", "one", "two", "three"))


@pytest.mark.parametrize("x", ["betaa", "epochs"])
def test_a_figure_over_a_flag_that_a_recipe_leaves_open_is_refused(tmp_path, x):
    with pytest.raises(InputError, match=rf"figures\[1\]\.x: expected a metric .*; got .{x}., which that of Data"):
        table(tmp_path, [("one", 1, 0.5, "")], CHECKS.replace('x = "beta"', f'x = "{x}"'))


@pytest.mark.parametrize(("kind", "y", "said"), [
    ("points", "dto", r"figures of kind 'points' draw \{label: \{x, y\}\} for each seed; got a float for Data, one"),
    ("lines", "words", "figures of kind 'lines' draw a number for each seed; got a list for Data, one")])
def test_a_figure_of_something_else_is_one_line(tmp_path, kind, y, said):
    more = f'[[figures]]\nkind = "{kind}"\nx = "beta"\ny = ["{y}"]\n'
    read = table(tmp_path, [("one", 1, 0.5, "")], more)
    found = [{**result(1, 0, 0.5), "metrics": {"dto": {"score": 0.5}, "words": {"y": [1.0, 2.0]}}}]
    with pytest.raises(InputError, match=said):
        figures.draw(Summary(read, found), tmp_path)


def test_figures_draw_what_was_measured(tmp_path):
    read = table(tmp_path, CELLS)
    found = [result(beta, seed, 0.1 * beta + seed, score=beta) for beta in (1, 2) for seed in (0, 1)]
    scatter, lines, _ = read.figures
    summary = Summary(read, found)
    points = figures.collect_series(summary, scatter, "score")
    assert list(points) == ["one", "two"] and points["two"][0]["x"] == [0.2, 1.2]
    assert points["two"][0]["y"] == [2, 2] and points["two"][0]["printed"] == (0.3, 0.5, None)
    points = figures.collect_series(summary, lines, "dto")["Data"]
    assert [(point["x"][0], point["printed"]) for point in points] == [(1, (1, 0.2, 0.05)), (2, (2, 0.3, 0.01))]
    assert figures.draw(Summary(read, []), tmp_path) == []


def test_the_page_in_the_repository_is_what_tables_and_results_say(tmp_path):
    written = page.write(recipes.CHECKOUT / "results", tmp_path / "results.md").read_text()
    assert (recipes.CHECKOUT / page.PAGE).read_text() == written, "write it again: python -m vae_tf.experiments --page"
    drawn = {path.name for path in (tmp_path / "results").glob("*.svg")}
    assert drawn == {path.name for path in (recipes.CHECKOUT / page.PAGE).with_suffix("").glob("*.svg")}


def test_every_table_is_on_the_page_and_links_to_its_section(tmp_path):
    (tmp_path / "results").mkdir()
    text = page.write(tmp_path / "results", tmp_path / "results.md").read_text()
    headings = {page.make_anchor(line[3:]) for line in text.splitlines() if line.startswith("## ")}
    rows = text.split("\n\n")[3].splitlines()
    assert len({row.count("|") for row in rows}) == 1 and len(rows) == 2 + len(tables.list_names())
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert len(links) == len(tables.list_names()) and set(links) <= headings
    assert all(f"    python -m vae_tf.experiments {name}\n" in text for name in tables.list_names())


@pytest.mark.parametrize(("entry", "message"), [
    ('metric = "dto"', "checks[0]: expected bounds (low, high, or both), or groups of columns in `rising`"),
    ('metric = "dto"\nhigh = 1\nrising = [["one"]]', "expected bounds"),
    ('metric = "dto"\nrising = ["one"]', "checks[0].rising: expected lists of columns"),
    ('metric = "dto"\nrising = [["one"], ["five"]]', "checks[0].columns: expected one of one, two"),
    ('metric = "mig"\nlow = 0', "checks[0].metric: expected one of dto, score, words; got 'mig'"),
    ('metric = "dto"\nlow = "much"', "checks[0].low: expected a number; got 'much'")])
def test_a_claim_that_cannot_be_checked_is_refused(tmp_path, entry, message):
    with pytest.raises(InputError, match=re.escape(message)):
        table(tmp_path, CELLS, more=f'\n[[checks]]\nsays = "It is so."\n{entry}\n')


def test_a_page_of_no_folder_is_refused_and_the_old_one_is_kept(places):
    table(places[0], CELLS)
    text = written(places, [result(1, 0, 0.2)])
    drawn = list(places[2].with_suffix("").iterdir())
    with pytest.raises(InputError, match=r"^results: expected a folder of results, .*; got no$"):
        page.write("no", places[2])
    assert places[2].read_text() == text and drawn == list(places[2].with_suffix("").iterdir()) != []
