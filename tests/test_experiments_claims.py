"""What a table claims, and whether its results bear it out."""

import re

import pytest
from page_cases import CELLS, entries, result, table, written

from vae_tf.errors import InputError
from vae_tf.experiments import tables, values
from vae_tf.experiments.summaries import ALONE, INSIDE, NEITHER, Summary, describe_length, is_shortened


def test_models_are_compared_if_they_trained_for_the_same_share_of_their_length(places):
    table(places[0], CELLS)
    short = [result(1, 0, 0.7, steps=5_000), result(3, 0, 0.8, steps=5_000)]
    text = written(places, [*short, result(2, 0, 0.5)])       # "two" was trained for longer
    assert entries(text, "DtO")[0] == "**0.70**<br>paper 0.20 ± 0.05: same order<br>1 seed, 5,000 of 15,625 steps"
    assert entries(text, "DtO")[1].startswith("**0.50**<br>paper 0.30 ± 0.01: outside, order not known<br>")
    assert ("DtO:<br>Data: trained for different shares of their length (one 0.32, two 1, three 0.32) | cannot be told"
            in text)
    assert "Data, two: 0.50<br>Data, three: 0.80 | holds so far after shortened training |" in text
    text = written(places, [result(2, 0, 0.5, steps=5_000)])
    assert entries(text, "DtO")[0] == "**0.70**<br>paper 0.20 ± 0.05: neither<br>1 seed, 5,000 of 15,625 steps"
    assert ("DtO:<br>Data: one 0.70, then two 0.50, three 0.80; one seed each, and so no standard error | "
            "does not hold after shortened training |") in text
    assert "Data, three: 0.80 | holds so far after shortened training |" in text


def test_models_that_trained_for_different_lengths_above_the_recipes_are_not_compared(tmp_path):
    read = table(tmp_path, CELLS)
    summary = Summary(read, [result(1, 0, 0.1), result(2, 0, 0.5, steps=31_250), result(3, 0, 0.8)])
    assert summary.judge(read.cells[1], "dto") == ALONE
    assert summary.check(read.checks[0]) == (
        "cannot be told", ["Data: trained for different shares of their length (one 1, two 2, three 1)"])


def test_a_wrong_order_is_neither_and_a_claim_that_fails_says_so(places):
    table(places[0], CELLS)
    text = written(places, [result(1, 0, 0.7), result(2, 0, 0.5), result(3, 0, 2.0)])
    assert [re.search(r": ([a-z ]+)<br>1 seed", each)[1] for each in entries(text, "DtO")[:3]] == [
        "neither", "neither", "same order"]
    assert text.count("| does not hold |") == 2


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
        assert line.endswith("; one seed of two, and so no standard error") == (len(more) == 1)


def test_an_order_with_dead_models_says_so(tmp_path):
    read = table(tmp_path, CELLS)
    order = read.checks[0]
    dead = [result(2, seed, 0.5, state="dead") for seed in range(2)]
    state, lines = Summary(read, [result(1, 0, 0.2), result(3, 0, 0.8), *dead]).check(order)
    assert state == "holds so far" and "then three 0.80; two no score (no latent says anything about x)" in lines[0]
    state, lines = Summary(read, [result(1, 0, 0.2), *dead]).check(order)
    assert state == "cannot be told" and "two no score (no latent says anything about x)" in lines[0]
    assert Summary(read, [result(1, 0, 0.2)]).check(order) == ("not run", [])


@pytest.mark.parametrize(("entry", "message"), [
    ('metric = "dto"', "checks[0]: expected bounds (low, high, or both), or groups of columns in `rising`"),
    ('metric = "dto"\nhigh = 1\nrising = [["one"]]', "expected bounds"),
    ('metric = "dto"\nrising = ["one"]', "checks[0].rising: expected lists of columns"),
    ('metric = "dto"\nrising = [["one", "two"]]', "checks[0].rising: expected at least two groups"),
    ('metric = "dto"\nrising = [["one"], ["one"]]', "checks[0].rising: expected each column once; got one, one"),
    ('metric = "dto"\nlow = 1\nhigh = 0', "checks[0]: expected finite bounds, low no larger than high; got 1"),
    ('metric = "dto"\nlow = nan', "checks[0]: expected finite bounds"),
    ('metric = "dto"\nrising = [["one"], ["five"]]', "checks[0].columns: expected one of one, two"),
    ('metric = "mig"\nlow = 0', "checks[0].metric: expected one of dto, score, words; got 'mig'"),
    ('metric = "dto"\nlow = "much"', "checks[0].low: expected a number; got 'much'")])
def test_a_claim_that_cannot_be_checked_is_refused(tmp_path, entry, message):
    with pytest.raises(InputError, match=re.escape(message)):
        table(tmp_path, CELLS, more=f'\n[[checks]]\nsays = "It is so."\n{entry}\n')


@pytest.mark.parametrize(("mean", "inside"), [(0.904, True), (0.896, True), (0.906, False), (0.894, False)])
def test_a_number_without_a_spread_is_inside_its_rounding(tmp_path, mean, inside):
    read = table(tmp_path, CELLS)               # it prints 0.9
    summary = Summary(read, [result(3, 0, mean)])
    assert (summary.judge(read.cells[2], "dto") == INSIDE) == inside


def test_a_bound_may_be_reached(tmp_path):
    read = table(tmp_path, CELLS[:1], more='\n[[checks]]\nsays = "So."\nmetric = "dto"\nlow = 0.5\nhigh = 0.5\n')
    assert Summary(read, [result(1, 0, 0.5)]).check(read.checks[0])[0] == "holds"


@pytest.mark.parametrize(("second", "state"), [(0.5, "does not hold"), (0.501, "holds")])
def test_equal_numbers_do_not_rise(tmp_path, second, state):
    read = table(tmp_path, CELLS)
    found = [result(1, 0, 0.5), result(2, 0, second), result(3, 0, 0.8)]
    assert Summary(read, found).check(read.checks[0])[0] == state


def test_equal_numbers_are_in_no_order(tmp_path):
    read = table(tmp_path, CELLS)
    assert Summary(read, [result(1, 0, 0.7), result(2, 0, 0.7)]).judge(read.cells[0], "dto") == NEITHER


@pytest.mark.parametrize(("steps", "epochs", "shown", "holds"), [
    (133, 4.987, "5 epochs", True), (134, 5.025, "5 epochs", True), (27, 1.012, "1.012 of 5 epochs", False)])
def test_a_run_is_a_whole_number_of_steps(tmp_path, steps, epochs, shown, holds):
    """5 epochs of 640 examples in batches of 24 are 133.3 steps, as long as 200 steps in batches of 16."""
    table(tmp_path, CELLS[:2], more='\n[[checks]]\nsays = "Two is above."\nmetric = "dto"\n'
                                    'rising = [["one"], ["two"]]\n')
    path = tmp_path / "some_table.toml"
    for beta in (1, 2):
        path.write_text(path.read_text().replace(f'"--beta={beta}"', f'"--beta={beta}", "--epochs=5"'))
    read = tables.read(path)
    summary = Summary(read, [{**result(1, 0, 0.2, steps=steps), "epochs": epochs},
                             {**result(2, 0, 0.3, steps=200), "epochs": 5.0}])
    assert describe_length(summary, read.cells[0]) == shown and is_shortened(summary, read.cells[0]) != holds
    assert summary.check(read.checks[0])[0] == ("holds" if holds else "cannot be told")


def test_shares_of_few_steps_are_equal_up_to_a_step():
    fifth = values.Share(27 / (400 / 3), 27)        # a fifth is 26.7 steps
    assert values.are_equal_shares(fifth, values.Share(0.2, 40), values.Share(0.2, 40_000))
    assert not values.are_equal_shares(values.Share(29 / (400 / 3), 29), values.Share(0.2, 40))
    assert not values.Share(0.9, 36).is_whole() and values.Share(39.6 / 40, 40).is_whole()


def test_parts_of_a_row_are_read_where_each_model_has_them(tmp_path):
    """With over_largest, a number is the mean of parts, each divided by its largest in the row."""
    table(tmp_path, CELLS[:2], more="")
    path = tmp_path / "some_table.toml"
    text = path.read_text().replace('read = "metrics.dto.score"', 'read = "metrics.dto.score"\nover_largest = ["a"]')
    path.write_text(text.replace('column = "two"', 'column = "two"\nread = { dto = "metrics.other.score" }'))
    read = tables.read(path)
    found = [{**result(beta, 0, 0.0), "metrics": {name: {"score": 0.0, "a": a}}}
             for beta, name, a in ((1, "dto", 1.0), (2, "other", 4.0))]
    summary = Summary(read, found)
    assert [summary.get_number(cell, "dto").mean for cell in read.cells] == [0.25, 1.0]
