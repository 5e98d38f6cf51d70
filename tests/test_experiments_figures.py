"""The figures of docs/results.md."""

import dataclasses

import pytest
from page_cases import CELLS, CHECKS, result, table

from vae_tf.errors import InputError
from vae_tf.experiments import figures
from vae_tf.experiments.summaries import Summary


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


def test_curves_are_drawn_through_the_rows_that_have_a_number(tmp_path):
    """Rows of history between two validations have no validation_loss."""
    more = '[[figures]]\nkind = "lines"\nx = "step"\ny = ["loss"]\n'
    for name, better in (("step", "neither"), ("loss", "lower")):
        more += f'[metrics.{name}]\nlabel = "{name}"\nbetter = "{better}"\nread = "history.{name}"\n'
    read = table(tmp_path, [("one", 1, 0.5, "")], more)
    steps = list(range(40))
    losses = [abs(step - 12) if step % 4 == 0 else None for step in steps]
    found = [{**result(1, 0, 0.5), "history": {"step": steps, "loss": losses}}]
    figures.draw(Summary(read, found), tmp_path)
    path, = tmp_path.rglob("*.svg")
    assert ">12</text>" in path.read_text()        # where the curve is lowest, which no tick of the axis is


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


def test_a_figure_says_for_how_long_models_were_trained_if_that_was_shortened(tmp_path):
    read = table(tmp_path, CELLS)
    short = [{**result(beta, seed, 0.1 * beta + seed, score=beta), "steps": 1_000}
             for beta in (1, 2) for seed in (0, 1)]
    scatter, lines, _ = read.figures
    summary = Summary(read, short)
    assert list(figures.collect_series(summary, scatter, "score")) == [
        f"{name} (1,000 of 15,625 steps)" for name in ("one", "two")]
    assert list(figures.collect_series(summary, lines, "dto")) == ["Data (1,000 of 15,625 steps)"]
    bars = figures.collect_series(summary, dataclasses.replace(lines, kind="bars"), "dto")["Data"]
    assert [point["name"] for point in bars] == [f"{name}\n1,000 of 15,625 steps" for name in ("one", "two")]
    assert bars[0]["limits"] == (0, float("inf"))
    titles = [title for title, _ in figures.draw(summary, tmp_path)]
    assert "A title, 1,000 of 15,625 steps" in titles
    mixed = Summary(read, [*short[:2], *(result(2, seed, 0.1, score=2) for seed in (0, 1))])
    assert list(figures.collect_series(mixed, lines, "dto")) == ["Data (some shortened)"]
    one = [path.name for _, path in figures.draw(Summary(read, short[:1]), tmp_path)]
    assert len(one) == len(titles) - 1          # no scatter of a single point
