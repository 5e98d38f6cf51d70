"""Tables, recipes and results as files; what is left to do; the same configuration trains to the same numbers."""

import dataclasses
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from vae_tf import cli, configured, runs, training
from vae_tf.configuration import SETTINGS, Configuration
from vae_tf.errors import InputError
from vae_tf.experiments import finding, planning, progress, recipes, results, running, scheduling, tables, tasks

TABLE = """
title = "A title"
paper = "A paper"
where = "Table 1"
shows = "Something."
[metrics.dto]
label = "DtO"
better = "lower"
read = "metrics.dto.score"
[[cells]]
row = "a row"
column = "a column"
recipe = "rolinek2018/synthetic_linear_beta_vae"
printed = { dto = [0.5, 0.1] }
quick = { epochs = 2, seeds = 3 }
"""
QUICK = planning.Asked("quick")

CONFIG = Configuration(
    model="vae", network="linear", latents=2, likelihood="gaussian", likelihood_variance=0.01, beta=None,
    beta_warmup_steps=0, dataset="synthetic_linear", data_seed=0, split="random", steps=5, batch_size=64,
    optimizer="adam", learning_rate=1e-3, clip_gradients=0.0, precision="float32", jit_compile="auto", seed=0,
    init_from=None, active_threshold=0.5, data_fingerprint="data", keras={})


def table(tmp_path, text=TABLE):
    path = tmp_path / "a_table.toml"
    path.write_text(text)
    return tables.read(path)


def test_every_table_of_the_package_is_read_with_its_recipes_and_metrics():
    assert tables.list_names() == sorted(tables.load_readable())
    for each in tables.load_readable().values():
        if not each.measure:
            planning.check_metrics(each)
        for cell in each.cells:
            assert each.measure or recipes.read(cell.recipe, cell.flags)


@pytest.mark.parametrize(("old", "new", "said"), [
    ('title = "A title"', "", "title: expected text; got nothing"),
    ('title = "A title"', "title = 3", "title: expected text; got 3"),
    ('title = "A title"', "title = ", "expected a table in TOML"),
    ('where = "Table 1"', 'where = "Table 1"\nextra = 1', "extra: there is no such entry"),
    ('better = "lower"', 'better = "low"', "metrics.dto.better: expected one of higher, lower, neither; got 'low'"),
    ('better = "lower"', 'better = "lower"\ndecimals = -1', "metrics.dto.decimals: expected 0 to 15; got -1"),
    ("dto = [0.5, 0.1]", "mig = 0.5", "cells[0].printed: expected names of dto; got 'mig'"),
    ("dto = [0.5, 0.1]", "dto = [1, 2, 3]", "cells[0].printed.dto: expected a number, or [number, spread]"),
    ("epochs = 2", "epochs = 0", "cells[0].quick: expected epochs above 0"),
    ("epochs = 2", "epochs = 2, steps = 3", "cells[0].quick: expected epochs above 0, or steps, not both"),
    ("seeds = 3", "seeds = 0", "cells[0].quick.seeds: expected a whole number above 0; got 0"),
    ("quick =", 'flags = ["beta=4"]\nquick =', "cells[0].flags: expected flags such as --latents=10; got 'beta=4'"),
    ('recipe = "rolinek2018/synthetic_linear_beta_vae"', "", "cells[0].recipe: expected a recipe"),
    ("seeds = 3 }", 'seeds = 3 }\n[[cells]]\nrow = "a row"\ncolumn = "a column"\nrecipe = "x"',
     "cells[1]: expected one"),
])
def test_a_mistake_in_a_table_is_one_line_that_names_the_entry(tmp_path, old, new, said):
    assert old in TABLE
    with pytest.raises(InputError) as caught:
        table(tmp_path, TABLE.replace(old, new))
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/a_table.toml: ")
    assert "\n" not in str(caught.value)


def test_a_table_says_how_long_and_with_how_many_seeds_a_budget_trains(tmp_path):
    made = table(tmp_path, TABLE.replace('paper =', 'seeds = 10\npaper ='))
    cell, = made.cells
    assert made.choose_length(cell, "quick") == ("--epochs=2", 3)
    assert made.choose_length(cell, "standard") is None
    assert made.choose_length(cell, "full") == ("", 10)
    assert made.choose_length(cell, "full", seeds=1) == ("", 1)


def test_a_recipe_is_what_its_flagfiles_say_whatever_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = recipes.read("rolinek2018/synthetic_linear_beta_vae", ("--beta=0.5", "--steps=7"))
    assert recipe.flags["beta"] == 0.5
    assert recipe.flags["model"] == "beta_vae"
    assert (recipe.steps, recipe.epochs) == (7, None)
    assert not {"steps", "epochs", "seed", *SETTINGS} & recipe.flags.keys()
    given = recipes.list_arguments("rolinek2018/synthetic_linear_beta_vae", ("--beta=0.5", "--steps=7"))
    assert planning.read_train_flags(given).steps == 7
    assert recipes.read("rolinek2018/synthetic_linear_random_decoder").flags["steps"] == 0
    with pytest.raises(InputError, match=r"expected the name of a recipe; got .*close to it: rolinek2018/"):
        recipes.read("rolinek2018/nothing")


def test_words_for_the_same_number_are_the_same_recipe():
    of = [recipes.read("rolinek2018/synthetic_linear_beta_vae", (f"--beta={text}",)).flags for text in
          ("1e-3", "0.001", ".001")]
    assert of[0] == of[1] == of[2]
    assert of[0] != recipes.read("rolinek2018/synthetic_linear_beta_vae", ("--beta=0.002",)).flags


def a_result(seed=0, steps=100, **more):
    flags = dict(recipes.read("rolinek2018/synthetic_linear_beta_vae").flags)
    return {"recipe": "rolinek2018/synthetic_linear_beta_vae", "flags": flags, "seed": seed, "steps": steps,
            "epochs": 2.0, "configuration": {**flags, "seed": seed, "steps": steps}, "numerics": results.NUMERICS,
            "command": "python train.py", "versions": {}, "machine": "a machine", "seconds": {"scoring": 1.0},
            "metrics": {"dto": {"score": 0.25}, "mig --examples=5": {"score": 0.5},
                        "od_score": {"score": 1.0, "no_meaning": "no latent says anything"}},
            "history": {"step": [50, 100], "kl": [3.0, 2.0]}, **more}


def test_results_are_written_read_and_found_by_flags_longest_first(tmp_path):
    for seed, steps in ((1, 100), (0, 100), (0, 50)):
        results.write(tmp_path, a_result(seed, steps))
    results.write(tmp_path, a_result(2, 200, numerics=results.NUMERICS - 1))
    found = results.read_all(tmp_path)
    assert len(found) == 4
    chosen = results.find_of_cell(found, a_result()["flags"])
    assert [(each["seed"], each["steps"]) for each in chosen] == [(0, 100), (1, 100)]
    assert not results.find_of_cell(found, {"model": "ae"})
    assert results.read_all(tmp_path / "nothing") == []


@pytest.mark.parametrize(("read", "evaluate", "value"), [
    ("metrics.dto.score", (), 0.25), ("metrics.mig.score", (), None), ("metrics.mig.score", ("--examples=5",), 0.5),
    ("metrics.od_score.score", (), None), ("history.kl.-1", (), 2.0), ("history.kl.5", (), None), ("seed", (), 0),
])
def test_a_metric_reads_a_path_in_a_result(read, evaluate, value):
    assert results.read_value(a_result(), tables.Metric("m", "M", "lower", read, evaluate)) == value


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "metrics": {}}', "\x00",
                                  json.dumps({"schema": 1, **a_result(seed="0")}), "[" * 99_999,
                                  json.dumps({"schema": 1, **a_result(metrics={"dto": 3})}),
                                  json.dumps({"schema": 1, **a_result(epochs=1e999)})])
def test_a_damaged_result_is_a_warning_that_names_it(tmp_path, capsys, text):
    good = results.write(tmp_path, a_result())
    (good.parent / "damaged.json").write_text(text)
    assert len(results.read_all(tmp_path)) == 1
    warned = capsys.readouterr().err
    assert f"warning: {good.parent}/damaged.json: " in warned and warned.endswith("; it is passed over\n")
    assert warned.count("\n") == 1


def test_listing_tables_needs_no_tensorflow():
    said = subprocess.run([sys.executable, "-c", "import runpy, sys; sys.argv[1:] = []; "
                           "runpy.run_module('vae_tf.experiments', run_name='__main__'); "
                           "assert 'tensorflow' not in sys.modules"],
                          capture_output=True, text=True, cwd=recipes.CHECKOUT, check=True).stdout
    for name in tables.list_names():
        assert f"\n{name}  " in f"\n{said}"


@pytest.mark.parametrize(("recipe", "flags", "seeds"), [
    ("rolinek2018/synthetic_linear_ae", [], [(0, 1, 2)]), ("rolinek2018/synthetic_nonlinear_ae", [], [(0, 1, 2)]),
    ("rolinek2018/synthetic_linear_ae", ["--network=mlp_mixture"], [(0,), (1,), (2,)]),
    ("rolinek2018/dsprites_vae", [], [(0,), (1,), (2,)]), ("bhowal2024/dsprites_vae", [], [(0,), (1,), (2,)])])
def test_seeds_of_small_networks_alone_train_as_one_program(tmp_path, recipe, flags, seeds):
    made = table(tmp_path, TABLE.replace('"rolinek2018/synthetic_linear_beta_vae"', f'"{recipe}"\nflags = {flags}'))
    assert [task.seeds for task in planning.plan(made, [], QUICK, 1, tasks.Places()).tasks] == seeds


def test_what_is_left_to_do_is_what_has_no_result_of_its_configuration(tmp_path):
    made, places = table(tmp_path), tasks.Places(results=str(tmp_path / "results"))
    task, = planning.plan(made, [], QUICK, 1, places).tasks
    assert (task.seeds, task.steps, task.wanted) == ((0, 1, 2), 5000, (((), ("disentanglement_score", "dto")),))
    assert tasks.Task.from_json(task.as_json()) == task
    config = planning.make_configuration(task.recipe, task.flags, task.length)
    complete = {"dto": {"score": 0.0}, "disentanglement_score": {"skipped": "there are no factors"}}

    def left(**changed):
        result = a_result(1, 5000, **{"metrics": complete, "configuration": {**config.as_json(), "seed": 1}, **changed})
        return [task.seeds for task in planning.plan(made, [result], QUICK, 1, places).tasks]

    assert left() == [(0, 2)]
    assert left(configuration={**config.as_json(), "seed": 1, "steps": 6000}) == [(0, 2)]     # longer is as good
    assert left(configuration={**config.as_json(), "seed": 1, "beta": None}) == [(0, 1, 2)]     # its model's beta is 4
    assert left(configuration={**config.as_json(), "seed": 1, "steps": 4000}) == [(0, 1, 2)]
    assert left(configuration={**config.as_json(), "seed": 1, "data_fingerprint": "other data"}) == [(0, 1, 2)]
    assert left(numerics=results.NUMERICS - 1) == [(0, 1, 2)]
    assert left(metrics={"dto": {"score": 0.0}}) == [(0, 2)]        # another table's metrics are not missed
    assert left(metrics={"mig": {"score": 0.0}}) == [(0, 1, 2)]
    assert not (tmp_path / "results").exists()
    assert left(flags={"model": "of another recipe"}) == [(0, 2)]
    assert results.read_all(tmp_path / "results")[0]["flags"] == recipes.read(task.recipe).flags


def test_a_beta_that_is_left_open_is_that_of_the_model():
    config = dataclasses.replace(CONFIG, model="full_covariance_vae", beta=4.0, steps=5)
    entries = config.as_json()
    assert tasks.is_same_run(config, {**entries, "beta": None, "steps": 9})
    assert not tasks.is_same_run(dataclasses.replace(config, beta=1.0), {**entries, "beta": None})
    assert not tasks.is_same_run(config, {**entries, "model": "vae"})
    assert tasks.covers(config, {**entries, "steps": 9})
    assert not tasks.covers(dataclasses.replace(config, steps=9), entries)
    assert not tasks.covers(dataclasses.replace(config, steps=0), entries)     # an untrained model is no shorter run


def test_an_unknown_metric_is_refused_before_anything_is_trained(tmp_path):
    for old, new, said in (("metrics.dto.score", "metrics.nothing.score", "expected metrics.NAME of"),
                           ('better = "lower"', 'better = "lower"\nevaluate = ["--nothing=1"]', "nothing")):
        with pytest.raises(InputError, match=said):
            planning.plan(table(tmp_path, TABLE.replace(old, new)), [], QUICK, 1, tasks.Places())


def test_cells_of_one_length_alone_are_told_apart(tmp_path):
    other = TABLE[TABLE.index("[[cells]]"):].replace("a column", "another column")
    text = TABLE.replace("quick =", 'flags = ["--steps=20"]\nquick =') + other
    said = "another column differs from a row, a column in its length alone"
    with pytest.raises(InputError, match=said):
        planning.plan(table(tmp_path, text), [], planning.Asked("full"), 1, tasks.Places())
    # A budget may make their lengths the same, or others.
    assert planning.plan(table(tmp_path, text), [], QUICK, 1, tasks.Places(tmp_path)).tasks
    with pytest.raises(InputError, match=said):
        planning.plan(table(tmp_path, TABLE + other.replace("epochs = 2", "epochs = 3")), [], QUICK, 1, tasks.Places())


@pytest.mark.parametrize(("function", "said"), [
    (":f", "there is no module"), ("vae_tf.nothing:f", "there is no module vae_tf.nothing"),
    ("vae_tf.kinds:nothing", "vae_tf.kinds has no function nothing"),
    ("vae_tf.kinds:KINDS", "vae_tf.kinds has no function KINDS")])
def test_a_function_that_is_not_there_is_refused_before_anything_is_run(tmp_path, function, said):
    made = table(tmp_path, f'measure = "{function}"' + TABLE.replace('recipe = "rolinek2018/synthetic_linear_beta_vae"',
                                                                     ""))
    with pytest.raises(InputError, match=said):
        planning.plan(made, [], QUICK, 1, tasks.Places())


def test_a_cell_whose_data_are_missing_says_what_it_needs(tmp_path):
    made = table(tmp_path, TABLE.replace("quick =", f'flags = ["--dataset={tmp_path}/no.npz"]\nneeds = "no.npz: '
                                                    'curl"\nquick ='))
    plan = planning.plan(made, [], QUICK, 1, tasks.Places())
    assert plan == planning.Plan([], 0, ["a row, a column is not run: no.npz: curl"])


def test_cells_that_are_not_run_for_one_reason_are_one_line(tmp_path):
    text = TABLE.replace("quick =", 'flags = ["--network=unheard_of"]\nquick =')
    other = text[text.index("[[cells]]"):].replace("a column", "another column")
    made = table(tmp_path, text + other.replace("unheard_of", 'unheard_of", "--beta=2'))
    line, = planning.plan(made, [], QUICK, 1, tasks.Places()).problems
    assert line.startswith("a row, a column and 1 more cell are not run: ")
    assert "unheard_of" in line


def test_seeds_train_side_by_side_from_a_common_step(tmp_path):
    def folder(seed, *steps):
        path = tmp_path / f"run-seed{seed}"
        shutil.rmtree(path, ignore_errors=True)
        (path / "checkpoints").mkdir(parents=True)
        for step in steps:
            (path / "checkpoints" / f"{step:09d}.npz").write_bytes(b"")
        return path

    assert running.group_seeds({seed: folder(seed) for seed in (0, 1, 3)}) == [[0, 1], [3]]
    assert running.group_seeds({0: folder(0, 5, 10), 1: folder(1, 5)}) == [[0, 1]]
    assert running.group_seeds({0: folder(0, 10), 1: folder(1), 2: folder(2)}) == [[1, 2], [0]]


def test_a_run_goes_on_from_a_copy_of_the_furthest_checkpoint_that_is_there(tmp_path):
    config = dataclasses.replace(CONFIG, seed=3, steps=20)
    for name, stored, steps in (("theirs", config.as_json(), (10, 15, 25)),
                                ("other", {**config.as_json(), "seed": 4}, (20,)),
                                ("longer", {**config.as_json(), "steps": 99}, (12,))):
        runs.write_config(tmp_path / "runs" / name, stored)
        for step in steps:
            runs.save(tmp_path / "runs" / name, step, {"weight": np.array([step])},
                      [{"step": each} for each in steps if each <= step])
    finding.bring(config, tmp_path / "mine", [tmp_path / "runs"])
    assert max(runs.find_checkpoints(tmp_path / "mine")) == 15
    step, states, _ = runs.restore([tmp_path / "mine"])
    assert (step, states[0]["weight"].tolist()) == (15, [15])
    assert sorted(runs.find_checkpoints(tmp_path / "runs" / "theirs")) == [15, 25]       # as it was


def test_time_left_is_that_of_all_tasks_and_says_when_some_are_not_known(tmp_path):
    seconds = {"training": 20.0, "replicas": 2, "scoring": 1.0}
    places = tasks.Places()
    known = tasks.Task("a", places, "rolinek2018/synthetic_linear_beta_vae", seeds=(0, 1), steps=100)
    other = tasks.Task("b", places, "rolinek2018/synthetic_linear_ae", seeds=(0,), steps=100)
    shown = progress.Progress([known, other], [a_result(seconds=seconds)])
    assert shown.left({known.label: 0}, 0, 1) == "0:22 left"
    assert shown.left({known.label: 50}, 0, 1) == "0:12 left"
    assert shown.left({known.label: 0, other.label: 0}, 0, 2) == "at least 0:22 left"
    assert shown.left({other.label: 0}, 0, 1) == "time left not known yet"
    text = "step 50/1,000  loss 1\nstep 1,000/1,000  loss 1\nscoring"
    (tmp_path / "log").write_text(text)
    assert progress.read_steps(tmp_path / "log") == 1000
    (tmp_path / "log").write_text(f"{text}\n{scheduling.STARTED}\n")
    assert progress.read_steps(tmp_path / "log") == 0


# The loss of the fifth step from seed 0. They hold results.NUMERICS to what it says: whoever changes the order of
# examples, the noise, initial weights, an objective or an update rule sees it here, and raises NUMERICS.
GOLDEN = [
    (("--model=ae", "--dataset=dsprites"), 2667.9341),
    (("--model=vae", "--dataset=dsprites", "--optimizer=rmsprop"), 2578.7603),
    (("--model=beta_vae", "--optimizer=adagrad"), 1544.8324),
    (("--model=full_covariance_vae",), 321.54114),
    (("--model=beta_tcvae", "--beta_warmup_steps=9"), 1600.4829),
    (("--model=ivae", "--dataset=nonstationary_sources"), 5244.8145),
]
# Processors sum float32 in different orders. Weights that differ by 1e-6, 16 units in the last place, change these
# losses by 4e-6 at most; a learning rate that differs by 1 % changes them by 4e-4 at least. This is between.
ROUNDING = 1e-4


@pytest.mark.parametrize(("given", "loss"), GOLDEN)
def test_the_same_configuration_trains_to_the_same_numbers(given, loss):
    values = planning.read_train_flags(["--dataset=synthetic_nonlinear", "--steps=5", "--batch_size=16",
                                        "--learning_rate=0.01", *given])
    dataset = planning.load_training_part(values)
    config = cli.configure(values, dataset)
    model = configured.build_model(config, dataset)
    optimizer = training.make_optimizer(config.optimizer, config.learning_rate)
    history = training.fit(model, dataset, optimizer, seed=0, steps=5, batch_size=16, log_every=1,
                           warmup_steps=config.beta_warmup_steps)
    assert history[-1]["loss"] == pytest.approx(loss, rel=ROUNDING)
