"""What the tables of the papers say: each is read, and each of its recipes is there and gives a configuration."""

import functools
import math
import os
import pathlib

import numpy as np
import pytest
from absl import flags

from vae_tf import cli, data, metrics
from vae_tf.experiments import listing, recipes, results, summaries, tables
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


def test_an_od_score_is_relative_to_the_other_models_of_its_row():
    table = TABLES["bhowal_table6"]
    cells = {cell.column: cell for cell in table.cells if cell.row == "dSprites"}
    rng = np.random.default_rng(0)
    raw = {column: [{part: float(rng.uniform()) for part in ("d_u", "d_sigma", "d_v")} for _ in range(3)]
           for column in cells}
    found = [{"flags": dict(recipes.read(cell.recipe, cell.flags).flags), "numerics": results.NUMERICS, "steps": 5,
              "seed": seed, "metrics": {"od_score": {"score": 1.0, **parts}}}
             for column, cell in cells.items() for seed, parts in enumerate(raw[column])]
    means = {column: {part: np.mean([each[part] for each in of]) for part in of[0]} for column, of in raw.items()}
    for column, cell in cells.items():
        of = listing.read_values(table, cell, "od_score", found)
        wanted = np.mean([means[column][part] / max(mean[part] for mean in means.values()) for part in means[column]])
        assert np.mean(of) == pytest.approx(wanted) and len(of) == 3
        assert listing.read_values(table, cell, "d_v", found) == [each["d_v"] for each in raw[column]]
    assert listing.read_values(table, cells["VAE"], "od_score", found[3:]) == [None] * 3      # a model is missing
    assert summaries.Summary(table, found).get_number(cells["VAE"], "od_score").mean == pytest.approx(
        np.mean(listing.read_values(table, cells["VAE"], "od_score", found)))


def test_errors_of_principal_axes_are_those_of_rebuilt_images():
    small = data.load("dsprites").images_at(np.arange(0, 737_280, 200))[:, ::5, ::5]
    ranges = {"few": (0, 10), "middle": (5, 60), "all": (0, 169)}
    found = bhowal.table7(data.dataset.from_arrays("small", small), 3_000, ranges)
    x = small[np.random.default_rng(0).permutation(len(small))[:3_000]] / 255
    errors, _ = metrics.principal_axes(x, list(ranges.values()))
    assert errors[1] > errors[0] > 1
    np.testing.assert_allclose([each["score"] for each in found.values()], errors, rtol=1e-9, atol=1e-8)
