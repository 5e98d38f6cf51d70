"""What the tables of the papers say: each is read, and each of its recipes is there and gives a configuration."""

import functools
import math
import os
import pathlib

import numpy as np
import pytest
from absl import flags

from vae_tf import cli, data, metrics
from vae_tf.experiments import recipes, results, summaries, tables
from vae_tf.experiments.measured import bhowal

ROOT = pathlib.Path(__file__).parents[1]
TABLES = {name: tables.load(name) for name in tables.list_names()}
TRAINED = sorted({(cell.recipe, cell.flags, cell.needs) for table in TABLES.values() for cell in table.cells
                  if cell.recipe})
OF_TFDS = ("mnist", "fashion_mnist", "linear_mixture_digits", "translated_digit")
# Counted in the papers: rolinek Tables 1, 2 and S4; bhowal Tables 1, 2, 4, 5, 6 and 7.
PRINTED = {"rolinek_table1": 10, "rolinek_table2": 31, "rolinek_tableS4": 6, "bhowal_table1": 24, "bhowal_table2": 24,
           "bhowal_table4": 12, "bhowal_table5": 12, "bhowal_table6": 12, "bhowal_table7": 6}


def test_every_printed_number_of_the_papers_is_there():
    counts = {name: sum(len(cell.printed) for cell in table.cells) for name, table in TABLES.items()}
    assert {name: count for name, count in counts.items() if count} == PRINTED
    printed = [number for table in TABLES.values() for cell in table.cells for number in cell.printed.values()]
    assert all(math.isfinite(mean) and (spread is None or 0 <= spread < math.inf) for mean, spread in printed)
    without_download = sum(len(cell.printed) for table in TABLES.values() for cell in table.cells if not cell.needs)
    assert (sum(counts.values()), without_download) == (137, 74)


def test_every_trained_cell_has_a_recipe_and_every_recipe_a_use():
    used = {recipe for recipe, _, _ in TRAINED}
    named = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for path in sorted((ROOT / "flags").rglob("*.flags")):
        name = str(path.relative_to(ROOT / "flags").with_suffix(""))
        shared = [other for other in (ROOT / "flags").rglob("*.flags")
                  if f"\n--flagfile=flags/{name}.flags" in other.read_text()]
        assert name in used or shared or f"flags/{name}.flags" in named, f"no table and no document uses {name}"
        used.discard(name)
    assert not used


def parsed(*argv):
    values = flags.FlagValues()
    cli.define_train_flags(values)
    flags.DEFINE_string("flagfile", "", "", flag_values=values)
    cli.read_flags(values, ["train.py", *argv])
    return values


@functools.cache
def load_training_part(name, split, seed):
    return data.load(name).split(split, "train", seed)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_cell_gives_a_configuration_that_trains(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)      # recipes are found from any folder
    for cell in table.cells:
        if not cell.recipe:
            continue
        values, same = parsed(f"--flagfile=flags/{cell.recipe}.flags", *cell.flags), parsed(
            *recipes.list_arguments(cell.recipe, cell.flags))
        values["flagfile"].value = same["flagfile"].value
        assert same.flag_values_dict() == values.flag_values_dict(), "an experiment trains what train.py does"
        assert values.dataset.endswith(".npz") == bool(cell.needs)
        if not cell.needs and (values.dataset not in OF_TFDS or "TFDS_DATA_DIR" in os.environ):
            dataset = load_training_part(values.dataset, values.split, values.data_seed)
            config = cli.configure(values, dataset)
            assert (config.steps == 0) == ("random_decoder" in cell.recipe)
            assert config.likelihood == values.likelihood, "a paper's likelihood is no default of ours"


def test_recipes_that_differ_do_not_share_results():
    """A result is found by its flags without seed and length: an untrained decoder is not a trained one."""
    lengths = {}
    for recipe, extra, _ in TRAINED:
        read = recipes.read(recipe, extra)
        lengths.setdefault(str(read.flags), set()).add((read.steps, read.epochs))
    assert all(len(length) == 1 for length in lengths.values())


def od_results(cells, raw, steps=5):
    """Results of some cells, {column: the parts of the OD-score by seed}."""
    return [{"flags": dict(recipes.read(cells[column].recipe, cells[column].flags).flags), "steps": steps, "seed": seed,
             "numerics": results.NUMERICS, "epochs": 10, "metrics": {"od_score": parts}}
            for column, of in raw.items() for seed, parts in enumerate(of)]


def test_an_od_score_is_relative_to_the_other_models_of_its_row():
    table = TABLES["bhowal_table6"]
    cells = {cell.column: cell for cell in table.cells if cell.row == "dSprites"}
    rng = np.random.default_rng(0)
    raw = {column: [{part: float(rng.uniform()) for part in ("d_u", "d_sigma", "d_v")} | {"score": 1.0}
                    for _ in range(3)] for column in cells}
    found = od_results(cells, raw)
    means = {column: {part: np.mean([each[part] for each in of]) for part in of[0]} for column, of in raw.items()}
    for column, cell in cells.items():
        of = summaries.Summary(table, found).get_number(cell, "od_score")
        wanted = np.mean([means[column][part] / max(mean[part] for mean in means.values())
                          for part in ("d_u", "d_sigma", "d_v")])
        assert of.mean == pytest.approx(wanted) and len(of.values) == 3
        assert summaries.Summary(table, found).get_number(cell, "d_v").values == tuple(
            each["d_v"] for each in raw[column])


@pytest.mark.parametrize("fault, why", [
    ("missing", "it compares the models of a row, and VAE has none"),
    ("longer", "it compares the models of a row, which were trained for different lengths"),
    ("dead", None)])
def test_an_od_score_needs_models_that_are_trained_alike(fault, why):
    table = TABLES["bhowal_table6"]
    cells = {cell.column: cell for cell in table.cells if cell.row == "dSprites"}
    raw = {column: [{"d_u": at, "d_sigma": at, "d_v": at, "score": 1.0}] * 2
           for column, at in zip(cells, (1.0, 2.0, 4.0), strict=True)}
    found = od_results(cells, raw)
    if fault == "missing":
        found = found[:-2]
    elif fault == "longer":
        found[0]["epochs"] = found[1]["epochs"] = 50
    else:       # one seed says nothing about x
        found[-1] = {**found[-1], "metrics": {"od_score": {"no_meaning": "it is dead"}}, "verdict": {"state": "dead"}}
    summary, first = summaries.Summary(table, found), next(iter(cells.values()))
    number = summary.get_number(first, "od_score")
    assert number.values == (() if why else (0.25, 0.25))
    assert not why or summary.explain_none(first, "od_score") == why
    assert len(summary.get_number(cells["VAE"], "od_score").values) == (0 if why else 1)


def test_errors_of_principal_axes_are_those_of_rebuilt_images():
    small = data.load("dsprites").images_at(np.arange(0, 737_280, 200))[:, ::5, ::5]
    ranges = {"few": (0, 10), "middle": (5, 60), "all": (0, 169)}
    found = bhowal.table7(data.from_arrays("small", small), 3_000, ranges)
    x = small[np.random.default_rng(0).permutation(len(small))[:3_000]] / 255
    errors, _ = metrics.principal_axes(x, list(ranges.values()))
    assert errors[1] > errors[0] > 1
    np.testing.assert_allclose([each["score"] for each in found.values()], errors, rtol=1e-9, atol=1e-8)
