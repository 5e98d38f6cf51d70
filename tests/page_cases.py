"""A table and results that tests write, so that every word of docs/results.md has its reason."""

from vae_tf.experiments import page, recipes, results, tables

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
CELLS = [("one", 1, "[0.2, 0.05]", ""), ("two", 2, "[0.3, 0.01]", ""), ("three", 3, 0.9, ""),
         ("four", 4, "[1.0, 0.1]", "its data: fetch them")]


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


def written(places, found=()):
    for each in found:
        results.write(places[1], each)
    return page.write(places[1], places[2]).read_text()


def entries(text, metric):
    """The entries of the one row of a metric's matrix."""
    row = text.split(f"**{metric}**")[1].split("| Data | ")[1].splitlines()[0]
    return row.rstrip("|").split(" | ")
