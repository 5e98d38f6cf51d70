"""docs/results.md and its figures, from tables and results that are written here, so that every word has its reason."""

import re

import pytest
from page_cases import CELLS, entries, result, table, written

from vae_tf.errors import InputError
from vae_tf.experiments import __main__ as program
from vae_tf.experiments import listing, page, recipes, results, summaries, tables
from vae_tf.experiments.summaries import Summary


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
    assert "Of 8 printed numbers, 6 are measured; 6 need no download, and of these 6 are." in text
    assert "[Somebody Table 1: A title](#somebody-table-1-a-title) | 8 | 6 | 1 | 2 | 0 | 3 | 2 of 2 |" in text
    assert "DtO:<br>Data, one: 0.22<br>Data, two: 0.50<br>Data, three: 0.80 | holds so far |" in text
    assert ("DtO:<br>Data: one 0.22, then two 0.50, three 0.80; one seed of two, and so no standard error | holds |"
            in text)
    assert "`python train.py --flagfile=flags/sikka2019/linear_mixture.flags --beta=4`" in text
    assert "| Data | one | 1 min a seed | `train.py it` |" in text
    assert "6 runs and experiments, 1.1 hours" in text and "a machine: 6" in text and "python 3" in text


def test_names_do_not_break_the_tables(places):
    table(places[0], [("one | <b>", 1, "[0.2, 0.05]", "")], more="")
    text = written(places)
    assert text.count(r"| | one \| &lt;b> |") == 2 and r"| Data | one \| &lt;b> | " in text and "<b>" not in text


def test_a_table_may_start_with_a_byte_order_mark(places):
    made = table(places[0], CELLS)
    path = places[0] / "some_table.toml"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert tables.read(path) == made


def test_a_row_shows_its_models_at_one_length_and_longer_trainings_below(places):
    made = table(places[0], CELLS)
    found = [result(beta, seed, 0.1 * beta + 0.02 * seed, steps=1_000) for beta in (1, 2, 3) for seed in (0, 1)]
    longer = [result(1, 0, 0.25, steps=10_000), result(3, 0, 0.7, steps=10_000), result(3, 1, 0.9, steps=10_000)]
    text = written(places, [*found, *longer])
    lengths = [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:3]]
    assert lengths == ["2 seeds, 1,000 of 15,625 steps"] * 3
    assert "Data: one 0.11, then two 0.21, three 0.31 | holds after shortened training |" in text
    listed = ["Longer trainings, which fewer seeds or not all models of the row have:", "",
              "- Data, one, 1 seed, 10,000 of 15,625 steps: DtO 0.25, Score 0.10",
              "- Data, three, 2 seeds, 10,000 of 15,625 steps: DtO 0.80 ± 0.14, Score 0.10 ± 0.00", ""]
    assert "\n".join(listed) in text
    assert "9 runs and experiments" in text
    told = [re.split("  +", line) for line in listing.list_numbers(made, [*found, *longer])]
    assert [[row[1], row[4], *row[-2:]] for row in told[-4:] if row[2] == "DtO"] == [
        ["one", "0.25", "1", "64 epochs"], ["three", "0.80 +- 0.14", "2", "64 epochs"]]
    # Once each model has as many seeds of the longer training, the row shows that, and nothing stands below.
    text = written(places, [result(1, 1, 0.27, steps=10_000), result(2, 0, 0.4, steps=10_000),
                            result(2, 1, 0.4, steps=10_000)])
    assert [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:3]] == ["2 seeds, 10,000 of 15,625 steps"] * 3
    assert "Longer trainings, which" not in text


def test_models_beyond_the_recipes_length_are_compared_at_one_length(places):
    table(places[0], CELLS)
    text = written(places, [result(1, 0, 0.2), result(1, 1, 0.2), result(1, 1, 0.4, steps=20_000), result(2, 0, 0.3)])
    assert [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:2]] == [
        "2 seeds, 15,625 steps", "1 seed, 15,625 steps"]
    assert "- Data, one, 1 seed, 20,000 steps: DtO 0.40, Score 0.10" in text
    text = written(places, [result(2, 0, 0.4, steps=20_000)])
    assert [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:2]] == ["1 seed, 20,000 steps"] * 2


def test_a_full_length_that_all_models_have_comes_before_shortened_ones_with_more_seeds(places):
    table(places[0], CELLS)
    text = written(places, [result(beta, seed, 0.1 * beta, steps=steps) for beta in (1, 2) for seed, steps in
                            ((0, 1_000), (1, 1_000), (0, 15_625))])
    assert [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:2]] == ["1 seed, 15,625 steps"] * 2


def test_runs_that_stopped_early_are_told(places):
    table(places[0], CELLS)
    found = [result(1, 0, 0.2), {**result(1, 1, 0.2), "stopped_at": 9_000}, {**result(1, 2, 0.2), "stopped_at": 2_000},
             {**result(2, 0, 0.3, steps=1_000), "stopped_at": 500}]
    assert [entry.split("<br>")[-1] for entry in entries(written(places, found), "DtO")[:2]] == [
        "3 seeds, 15,625 steps (2 stopped early, at steps 2,000 to 9,000)",
        "1 seed, 1,000 of 15,625 steps (1 stopped early, at step 500)"]


def test_models_without_a_common_length_show_their_longest(places):
    table(places[0], CELLS)
    found = [result(1, 0, 0.2, steps=1_000), result(1, 1, 0.2, steps=500), result(2, 0, 0.3, steps=100)]
    text = written(places, found)
    assert [entry.split("<br>")[-1] for entry in entries(text, "DtO")[:2]] == [
        "1 seed, 1,000 of 15,625 steps", "1 seed, 100 of 15,625 steps"]
    assert "Longer trainings, which" not in text


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


def test_models_without_a_score_are_counted(places):
    table(places[0], CELLS[:1], more="")
    one, = entries(written(places, [result(1, 0, None), result(1, 1, 0.2)]), "DtO")
    one = one.strip()
    assert one == "**0.20**<br>paper 0.20 ± 0.05: inside<br>2 seeds, 15,625 steps; 1 without the score"


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
        "does not hold: One is below the others. DtO: Data: one 0.70, then two 0.50, three 2.00; one seed each, and so "
        "no standard error",
        "does not hold: All are below 1. DtO: Data, one: 0.70; Data, two: 0.50; Data, three: 2.00"]


def test_what_a_table_costs_is_told_by_what_its_results_say_of_seconds(places):
    made = table(places[0], CELLS[:1], more="")
    found = result(1, 0, 0.2)
    found["seconds"] = {"training": 3600.0, "scoring": None}
    assert listing.describe_cost(made, [found]) == "3.0 hours of one process on a machine"


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
    places[2].write_text(f"{page.OWN} ![](results/old.svg)")
    old, own = (folder / "results" / name for name in ("old.svg", "own.svg"))
    old.write_text("of a table that is no more")
    own.write_text("of somebody who drew it")
    written(places)
    assert not old.exists() and own.read_text() == "of somebody who drew it"
    own.unlink()
    assert first == {path.name: path.read_bytes() for path in folder.rglob("*.*")}
    drawn = first["some_table-2.svg"].decode()
    assert "DtO" in drawn and "printed in the paper" in drawn and "<dc:date>" not in drawn
    assert all(f">{label}</text>" in first["some_table-3.svg"].decode() for label in ("Data", "one", "two", "three"))


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


def test_a_page_of_no_folder_is_refused_and_the_old_one_is_kept(places):
    table(places[0], CELLS)
    text = written(places, [result(1, 0, 0.2)])
    drawn = list(places[2].with_suffix("").iterdir())
    with pytest.raises(InputError, match=r"^results: expected a folder of results, .*; got no$"):
        page.write("no", places[2])
    assert places[2].read_text() == text and drawn == list(places[2].with_suffix("").iterdir()) != []


def test_a_page_of_somebody_elses_is_refused_and_kept(places, monkeypatch):
    table(places[0], CELLS)
    places[2].parent.mkdir(exist_ok=True)
    places[2].write_text("my own page")
    with pytest.raises(InputError, match=r"^page: expected nothing at .*results.md, or a page that .* wrote; got anot"):
        written(places, [result(1, 0, 0.2)])
    assert places[2].read_text() == "my own page" and not places[2].with_suffix("").exists()

    monkeypatch.setattr(page, "PAGE", places[2])
    monkeypatch.setattr(program, "run", lambda *_: pytest.fail("a table is run before the page is looked at"))
    monkeypatch.setattr("sys.argv", ["experiments", tables.list_names()[0], "--page"])
    with pytest.raises(SystemExit):
        program.main()


def test_tables_whose_figures_would_have_one_name_are_refused(places, monkeypatch, capsys):
    monkeypatch.setattr(page, "PAGE", places[2])
    monkeypatch.setattr(program, "run", lambda *_: pytest.fail("a table is run before the names are looked at"))
    own = [places[2].parent / name for name in ("a", "b")]
    for folder in own:
        folder.mkdir(parents=True)
        table(folder, CELLS)
    for folders in (own, [own[0]]):         # of two files, and of one beside a table of the package's name
        monkeypatch.setattr("sys.argv", ["experiments", *(f"{folder}/some_table.toml" for folder in folders), "--page"])
        with pytest.raises(SystemExit):
            program.main()
        assert "got another some_table; rename the file some_table.toml" in capsys.readouterr().err
        table(places[0], CELLS)


def test_a_folder_to_adopt_from_must_hold_what_is_adopted(places, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["experiments", f"--adopt={places[0]}"])
    with pytest.raises(SystemExit):
        program.main()
    assert f"--adopt: expected a folder that holds runs/ or exported/; got {places[0]}" in capsys.readouterr().err
