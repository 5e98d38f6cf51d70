"""Tables, recipes and results as files; the same configuration trains to the same numbers."""

import json
import pathlib
import subprocess
import sys

import pytest
from experiment_cases import TABLE, a_result, table

from vae_tf import cli, configured, training
from vae_tf.configuration import SETTINGS
from vae_tf.errors import InputError
from vae_tf.experiments import planning, recipes, results, tables


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
    ("dto = [0.5, 0.1]", "dto = nan", "cells[0].printed.dto: expected a number, or [number, spread]"),
    ("dto = [0.5, 0.1]", "dto = [0.5, -0.1]", "cells[0].printed.dto: expected a number, or [number, spread]"),
    ("epochs = 2", "epochs = 0", "cells[0].quick: expected epochs above 0"),
    ("epochs = 2", "epochs = 2, steps = 3", "cells[0].quick: expected epochs above 0, or steps, not both"),
    ("seeds = 3", "seeds = 0", "cells[0].quick.seeds: expected a whole number above 0; got 0"),
    ("quick =", 'flags = ["beta=4"]\nquick =', "cells[0].flags: expected flags such as --latents=10; got 'beta=4'"),
    ('recipe = "rolinek2018/synthetic_linear_beta_vae"', "", "cells[0].recipe: expected a recipe"),
    ("seeds = 3 }", 'seeds = 3 }\n[[cells]]\nrow = "a row"\ncolumn = "a column"\nrecipe = "x"',
     "cells[1]: expected one"),
    ("synthetic_linear_beta_vae", "synthetic_beta_vae", "cells[0]: recipe: expected the name of a recipe"),
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
    with pytest.raises(InputError, match=r"expected the name of a recipe, .*; got .*close to it: rolinek2018/"):
        recipes.read("rolinek2018/nothing")


def test_the_command_of_an_untrained_model_does_not_train_it():
    untrained, trained = (recipes.write_command(f"rolinek2018/dsprites_{name}", seed=3, length="--epochs=1")
                          for name in ("random_decoder", "beta_vae"))
    assert untrained == "python train.py --flagfile=flags/rolinek2018/dsprites_random_decoder.flags --seed=3"
    assert trained == "python train.py --flagfile=flags/rolinek2018/dsprites_beta_vae.flags --epochs=1 --seed=3"


def test_a_command_names_its_seed_once():
    command = recipes.write_command("rolinek2018/dsprites_ae", ("--seed=2", "--epochs=1"), seed=3)
    assert command == "python train.py --flagfile=flags/rolinek2018/dsprites_ae.flags --epochs=1 --seed=3"


def test_words_for_the_same_number_are_the_same_recipe():
    of = [recipes.read("rolinek2018/synthetic_linear_beta_vae", (f"--beta={text}",)).flags for text in
          ("1e-3", "0.001", ".001")]
    assert of[0] == of[1] == of[2]
    assert of[0] != recipes.read("rolinek2018/synthetic_linear_beta_vae", ("--beta=0.002",)).flags


@pytest.mark.parametrize("text", ["2024_11_05", "007", "infinity", "nan", "1.5e", "-", "1e0001"])
def test_a_name_that_python_would_take_for_a_number_stays_as_it_is(text):
    name = "rolinek2018/synthetic_linear_beta_vae"
    assert f"--dataset={text}" in recipes.list_arguments(name, (f"--dataset={text}",))


def test_a_setting_that_is_turned_off_is_written_as_train_py_takes_it():
    assert "--noaccept_dark" in recipes.list_arguments("rolinek2018/dsprites_ae", ("--noaccept_dark",))


def test_weights_of_the_best_validation_are_those_of_another_run():
    one, other = (recipes.read("rolinek2018/dsprites_ae", (f"--export_weights={which}",)) for which in ("last", "best"))
    assert one.flags != other.flags and "export_weights" not in one.output


def test_results_are_written_read_and_found_by_flags_and_length(tmp_path):
    for seed, steps in ((1, 100), (0, 100), (0, 50)):
        results.write(tmp_path, a_result(seed, steps))
    results.write(tmp_path, a_result(2, 200, numerics=results.NUMERICS - 1))
    found = results.read_all(tmp_path)
    assert len(found) == 4
    by_length = results.find_by_length(found, a_result()["flags"])
    assert [[(each["seed"], each["steps"]) for each in of] for of in by_length] == [[(0, 100), (1, 100)], [(0, 50)]]
    assert not results.find_by_length(found, {"model": "ae"})
    assert results.read_all(tmp_path / "nothing") == []


@pytest.mark.parametrize("name", ["data_fingerprint", "optimizer", "keras"])
def test_results_of_several_data_or_settings_are_not_mixed(tmp_path, capsys, name):
    def of(value, seed):
        return a_result(seed, configuration={**a_result()["configuration"], name: value})

    found = [of("old", 0), of("old", 1), of("new", 2)]
    assert results.find_by_length(found, a_result()["flags"]) == [found[:2]]
    for each in found:
        results.write(tmp_path, each)
    assert len(results.read_all(tmp_path)) == 3
    said = capsys.readouterr().err
    assert f"has results that differ in {name}. Tables show those of which there are most" in said and "seed2-" in said


def test_a_second_file_of_a_run_is_no_further_seed(tmp_path, capsys):
    path = results.write(tmp_path, a_result(0))
    results.write(tmp_path, a_result(1))
    copy = tmp_path / "backup" / path.name      # before the other in the order of paths
    copy.parent.mkdir()
    copy.write_text(path.read_text())
    assert [each["seed"] for each in results.read_all(tmp_path)] == [0, 1]
    assert f"warning: {copy}: a result of the same run as {path}; it is passed over" in capsys.readouterr().err


def test_results_in_the_repository_can_all_be_read(capsys):
    folder = pathlib.Path(__file__).parents[1] / "results"
    assert len(results.read_all(folder)) == len(list(folder.rglob("*.json")))
    assert not capsys.readouterr().err


def test_results_that_train_nothing_are_of_the_code_there_is():
    measured = {name: table.measure for name, table in tables.load_readable().items() if table.measure}
    found = results.read_all(pathlib.Path(__file__).parents[1] / "results")
    stale = [name for name, measure in measured.items() for each in results.find_of_experiment(found, name)
             if each["source"] != planning.digest_source(measure)]
    assert measured and not stale, f"run these again: python -m vae_tf.experiments NAME, for {stale}"


@pytest.mark.parametrize(("read", "evaluate", "value"), [
    ("metrics.dto.score", (), 0.25), ("metrics.mig.score", (), None), ("metrics.mig.score", ("--examples=5",), 0.5),
    ("metrics.od_score.score", (), None), ("history.kl.-1", (), 2.0), ("history.kl.5", (), None), ("seed", (), 0),
])
def test_a_metric_reads_a_path_in_a_result(read, evaluate, value):
    assert results.read_value(a_result(), tables.Metric("m", "M", "lower", read, evaluate)) == value


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "metrics": {}}', "\x00",
                                  json.dumps({"schema": 1, **a_result(seed="0")}), "[" * 99_999,
                                  json.dumps({"schema": 1, **a_result(metrics={"dto": 3})}),
                                  json.dumps({"schema": 1, **a_result(versions={"numpy": ["2"]})}),
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
