"""What is left to do of a table, and what running tasks tell; what is refused is in test_experiments_refused.py."""

import dataclasses
import pathlib
import re
import shutil

import numpy as np
import pytest
from experiment_cases import CONFIG, QUICK, TABLE, a_result, table

from vae_tf import runs
from vae_tf.cli import training_request
from vae_tf.errors import InputError
from vae_tf.evaluation.computing import KILLED
from vae_tf.experiments import finding, planning, progress, recipes, results, running, scheduling, tables, tasks
from vae_tf.export import checksums


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

    def left(asked=QUICK, **changed):
        result = a_result(1, 5000, **{"metrics": complete, "configuration": {**config.as_json(), "seed": 1}, **changed})
        return [task.seeds for task in planning.plan(made, [result], asked, 1, places).tasks]

    assert left() == [(0, 2)]
    assert left(configuration={**config.as_json(), "seed": 1, "steps": 6000}) == [(0, 1, 2)]
    full = planning.Asked("full", seeds=3)
    for steps, seeds in ((1_499_999, (0, 1, 2)), (1_500_000, (0, 2)), (1_500_001, (0, 2))):     # 600 epochs, or longer
        assert left(full, configuration={**config.as_json(), "seed": 1, "steps": steps}) == [seeds]
    assert left(configuration={**config.as_json(), "seed": 1, "beta": None}) == [(0, 1, 2)]     # its model's beta is 4
    assert left(configuration={**config.as_json(), "seed": 1, "steps": 4000}) == [(0, 1, 2)]
    assert left(configuration={**config.as_json(), "seed": 1, "data_fingerprint": "other data"}) == [(0, 1, 2)]
    assert left(numerics=results.NUMERICS - 1) == [(0, 1, 2)]
    assert left(metrics={"dto": {"score": 0.0}}) == [(0, 2)]        # another table's metrics are not missed
    assert left(metrics={"mig": {"score": 0.0}}) == [(0, 1, 2)]
    assert not (tmp_path / "results").exists()
    assert left(flags={"model": "of another recipe"}) == [(0, 2)]
    assert results.read_all(tmp_path / "results")[0]["flags"] == recipes.read(task.recipe).flags


def test_a_shortened_budget_trains_nothing_of_a_row_that_is_shown_at_full_length(tmp_path):
    cell = TABLE[TABLE.index("[[cells]]"):]
    other = cell.replace("beta_vae", "ae").replace("a column", "another column")
    elsewhere = other.replace("a row", "another row").replace("linear_ae", "nonlinear_ae")
    made, places = table(tmp_path, TABLE + other + elsewhere), tasks.Places(results=str(tmp_path / "results"))

    def left(*there, longer=""):
        """Return what is planned if columns of the first row are there at full length, and one at twice that length."""
        found = []
        for each in made.cells[:2]:
            config = planning.make_configuration(each.recipe).as_json()
            found += [a_result(seed, 0, configuration={**config, "seed": seed, "steps": times * config["steps"]},
                               metrics={"dto": {"score": 0.0}}) for seed in range(3)
                      for times, columns in ((1, there), (2, [longer])) if each.column in columns]
        return [task.recipe for task in planning.plan(made, found, QUICK, 1, places).tasks]

    recipes_ = [each.recipe for each in made.cells]
    assert left() == recipes_ and left("a column") == recipes_
    assert left("a column", "another column") == recipes_[2:]
    # Models that were trained for different lengths are not compared.
    assert left("a column", longer="another column") == recipes_
    assert left("a column", "another column", longer="another column") == recipes_[2:]
    # A run that another row shares is trained for that row.
    shared = cell.replace("a row", "another row").replace("a column", "a third column")
    made = table(tmp_path, TABLE + other + elsewhere + shared)
    assert left("a column", "another column") == [recipes_[0], recipes_[2]]
    # A row that the budget does not shorten shows what is there.
    made = table(tmp_path, TABLE + other + re.sub("quick = .*", "", shared))
    assert left("a column", "another column") == []


def test_a_result_of_another_recipe_takes_nothing_from_a_runs_own(tmp_path):
    made, places = table(tmp_path), tasks.Places(results=str(tmp_path / "results"))
    cell, = made.cells
    config = planning.make_configuration(cell.recipe, cell.flags, "--epochs=2")

    def reuse(wanted):
        """Say whether there is a result with a metric, and return the names of the own one's metrics."""
        there = planning.reuse(config, cell.recipe, cell.flags, (((), (wanted,)),), found, places, longer=False)
        return there, [list(each["metrics"]) for each in results.read_all(places.results) if each["flags"] == own]

    own, numbers = recipes.read(cell.recipe).flags, {"score": 0.0}
    for flags, names in (({"a": "first in the order of paths", **own}, ["dto", "sap"]), (own, ["dto", "mig"])):
        results.write(places.results, a_result(0, 5000, configuration=config.as_json(), flags=flags,
                                               metrics=dict.fromkeys(names, numbers)))
    found = sorted(results.read_all(places.results), key=lambda each: each["flags"] == own)
    assert reuse("dto") == (True, [["dto", "mig"]])
    assert reuse("mcc") == (False, [["dto", "mig"]])
    assert reuse("sap") == (True, [["dto", "sap", "mig"]])


def test_a_beta_that_is_left_open_is_that_of_the_model():
    config = dataclasses.replace(CONFIG, model="full_covariance_vae", beta=4.0, steps=5)
    entries = config.as_json()
    assert tasks.is_same_run(config, {**entries, "beta": None, "steps": 9})
    assert not tasks.is_same_run(dataclasses.replace(config, beta=1.0), {**entries, "beta": None})
    assert not tasks.is_same_run(config, {**entries, "model": "vae"})
    assert tasks.covers(config, {**entries, "steps": 9}, longer=True)
    assert not tasks.covers(config, {**entries, "steps": 9}, longer=False)
    assert not tasks.covers(dataclasses.replace(config, steps=9), entries, longer=True)
    untrained = dataclasses.replace(config, steps=0)        # which is no shorter run
    assert tasks.covers(untrained, untrained.as_json(), longer=True)
    assert not tasks.covers(untrained, entries, longer=True)


def test_what_has_other_numerics_is_left_alone_and_counts_as_not_done(tmp_path, monkeypatch):
    recipe = "rolinek2018/synthetic_linear_beta_vae"
    before = planning.make_configuration(recipe)
    assert "numerics" not in before.as_json()
    monkeypatch.setattr(training_request, "NUMERICS", 2)
    config = planning.make_configuration(recipe)
    assert config == dataclasses.replace(before, numerics=2)
    assert not tasks.is_same_run(config, before.as_json()) and tasks.digest(config) != tasks.digest(before)
    for result in (a_result(numerics=1), a_result(numerics=1, experiment="x", source="y")):
        old, new = (results.write(tmp_path, {**result, "numerics": numerics}) for numerics in (1, 2))
        assert old.exists() and "numerics" not in old.name and new.name == f"{old.stem}-numerics2.json"


def test_data_of_a_relative_path_are_those_of_the_absolute_path_in_the_card():
    config = dataclasses.replace(CONFIG, dataset="mine.npz")
    entries = {**config.as_json(), "dataset": "/home/me/mine.npz"}
    assert finding.find_export(config, {pathlib.Path("exported/mine/1"): {"recipe": entries}})
    assert not tasks.is_same_run(config, {**entries, "data_fingerprint": "other data"})
    assert not tasks.is_same_run(dataclasses.replace(config, data_fingerprint=""), {**entries, "data_fingerprint": ""})


def test_a_metric_that_lacked_memory_is_measured_again():
    for key in ("mig", "mig --examples=5"):
        for why, measured in ((str(KILLED.result), False), ("a posterior is needed", True)):
            assert planning.is_measured(key, {key: {"skipped": why}}) == measured
        assert planning.is_measured(key, {key: {"score": 0.5}}) and not planning.is_measured(key, {})


def test_names_of_factors_may_have_spaces(tmp_path):
    made = table(tmp_path, TABLE.replace('better = "lower"', 'better = "lower"\nevaluate = ["--factors=floor hue"]'))
    assert planning.list_wanted(made.cells[0], [made]) == ((("--factors=floor hue",), ("dto",)),)


def test_what_is_only_to_be_scored_is_not_trained(tmp_path):
    places = tasks.Places(*(str(tmp_path / name) for name in ("runs", "exported", "results")))
    task = tasks.Task("mine", places, seeds=(0, 1), score_only=True)
    configs = {seed: dataclasses.replace(CONFIG, seed=seed) for seed in task.seeds}
    with pytest.raises(InputError, match=r"^--score_only: expected whole exports .* got none of seed 0, 1$"):
        running.train_missing(task, configs)
    assert not (tmp_path / "runs").exists()


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


def test_tasks_of_cells_that_differ_by_a_default_alone_have_labels_of_their_own(tmp_path):
    other = TABLE[TABLE.index("[[cells]]"):].replace("a column", "another column")
    made = table(tmp_path, TABLE + other.replace("quick =", 'flags = ["--data_seed=0"]\nquick ='))
    one, two = planning.plan(made, [], QUICK, 1, tasks.Places()).tasks
    assert one.name == two.name and one.label != two.label


def test_a_table_with_the_file_name_of_one_of_the_papers_is_measured(tmp_path):
    (tmp_path / "rolinek_figure3.toml").write_text(TABLE.replace("metrics.dto.score", "metrics.mig.score"))
    task, = planning.plan(tables.read(tmp_path / "rolinek_figure3.toml"), [], QUICK, 1, tasks.Places()).tasks
    assert task.wanted == (((), ("disentanglement_score", "dto", "mig")),)


def test_cells_that_share_their_runs_get_the_seeds_of_the_one_that_has_most(tmp_path):
    other = TABLE[TABLE.index("[[cells]]"):].replace("a column", "another column").replace("seeds = 3", "seeds = 4")
    task, = planning.plan(table(tmp_path, TABLE + other), [], QUICK, 1, tasks.Places()).tasks
    assert task.seeds == (0, 1, 2, 3)


def test_a_cell_whose_data_are_missing_says_what_it_needs(tmp_path):
    made = table(tmp_path, TABLE.replace("quick =", f'flags = ["--dataset={tmp_path}/no.npz"]\nneeds = "no.npz: '
                                                    'curl"\nquick ='))
    plan = planning.plan(made, [], QUICK, 1, tasks.Places())
    assert plan == planning.Plan([], 0, ["a row, a column is not run: no.npz: curl"])


def test_a_budget_that_no_cell_has_is_told(tmp_path):
    made = table(tmp_path, re.sub("quick = .*", "", TABLE))
    line, = planning.plan(made, [], QUICK, 1, tasks.Places()).problems
    assert line.endswith("has a budget quick, so that none is run; --budget=full runs all of them")


def test_cells_that_are_not_run_for_one_reason_are_one_line(tmp_path):
    text = TABLE.replace("quick =", 'flags = ["--network=unheard_of"]\nquick =')
    other = text[text.index("[[cells]]"):].replace("a column", "another column")
    made = table(tmp_path, text + other.replace("unheard_of", 'unheard_of", "--beta=2'))
    line, = planning.plan(made, [], QUICK, 1, tasks.Places()).problems
    assert line.startswith("a row, a column and 1 more cell are not run: ")
    assert "unheard_of" in line


def test_an_export_is_a_runs_own_if_its_training_was_as_long():
    trained = {"mine/1": {}, "mine/2": {}, "longer/1": {"steps": CONFIG.steps + 1}, "other/1": {"seed": 9}}
    cards = {pathlib.Path("exported", name): {"recipe": {**CONFIG.as_json(), **more}} for name, more in trained.items()}
    assert finding.find_export(CONFIG, cards) == pathlib.Path("exported/mine/2")
    assert finding.find_export(dataclasses.replace(CONFIG, steps=CONFIG.steps - 1), cards) is None


def test_the_newest_whole_export_is_taken(tmp_path, capsys):
    cards = {}
    for version in (9, 10, 11):
        path = tmp_path / "mine" / str(version)
        path.mkdir(parents=True)
        (path / "weights").write_text("whole")
        cards[path] = {"recipe": CONFIG.as_json(), "files": checksums.compute_checksums(path)}
    (tmp_path / "mine/11/weights").write_text("damaged")
    assert finding.find_export(CONFIG, cards) == tmp_path / "mine/10"
    assert "weights is damaged or of another model" in capsys.readouterr().err


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


def test_a_run_whose_learning_rate_depends_on_its_length_goes_on_at_this_length_alone(tmp_path):
    for steps in (20, 200):
        runs.write_config(tmp_path / f"{steps}", dataclasses.replace(CONFIG, steps=steps).as_json())
        falling = dataclasses.replace(CONFIG, steps=steps, learning_rate_schedule="cosine")
        runs.write_config(tmp_path / f"cosine-{steps}", falling.as_json())
    named = [[path.name for path in finding.find_folders(config, [tmp_path])]
             for config in (dataclasses.replace(CONFIG, steps=200), falling)]
    assert named == [["20", "200"], ["cosine-200"]]


def test_a_run_that_stopped_early_has_its_history_its_seconds_and_its_last_step(tmp_path):
    config = dataclasses.replace(CONFIG, steps=100, validate_every=10, early_stopping=1)
    runs.write_config(tmp_path / "run", config.as_json())
    rows = [{"step": 10 * i, "examples_per_second": 64.0, "validation_loss": loss} for i, loss in ((1, 3.0), (2, 4.0))]
    task = tasks.Task("a", tasks.Places(run_root=str(tmp_path)))
    runs.write_history(tmp_path / "run", rows[:1])
    assert not running.read_run(task, config, 1.0)["history"]       # it goes on
    runs.write_history(tmp_path / "run", rows)
    read = running.read_run(task, config, 1.0)
    assert (read["history"]["step"], read["seconds"]["training"], read["stopped_at"]) == ([10, 20], 20.0, 20)


def test_a_machine_is_named_with_its_gpus(monkeypatch):
    alone = running.name_machine()
    monkeypatch.setattr(running.tf.config, "list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(running.tf.config.experimental, "get_device_details", lambda gpu: {"device_name": f"a {gpu}"})
    assert running.name_machine() == f"{alone}, a GPU"


def test_runs_of_one_program_count_each_other_wherever_they_stopped(tmp_path):
    rows = [{"step": 10 * i, "examples_per_second": rate, "validation_loss": loss}
            for i, (rate, loss) in enumerate(((5.0, 3.0), (6.0, 4.0), (7.0, 2.0), (0.0, 1.0)), 1)]

    def count(*lengths, early_stopping=0):
        for seed, length in enumerate(lengths):
            runs.write_history(tmp_path / f"run-seed{seed}", rows[:length])
        return [finding.count_replicas(tmp_path / f"run-seed{seed}", rows[:length], early_stopping)
                for seed, length in enumerate(lengths)]

    runs.write_history(tmp_path / "run-seed3", [{"step": 10, "examples_per_second": 4.0}])
    assert count(2, 3, 3, early_stopping=1) == [3, 3, 3]
    assert count(3, 3, 3) == count(4, 4, 4) == [3, 3, 3]        # nobody timed the steps of the last row
    # Runs that were not stopped early, but ended before the first, are not those that it went on with.
    assert count(4, 1, 1)[0] == count(4, 1, 1, early_stopping=1)[0] == 1
    assert finding.count_replicas(tmp_path / "run-seed3", rows[3:]) == 1


def test_steps_that_nobody_timed_count_for_no_seconds(tmp_path):
    config = dataclasses.replace(CONFIG, steps=20)
    runs.write_config(tmp_path / "run", config.as_json())
    runs.write_history(tmp_path / "run", [{"step": 10, "examples_per_second": 64.0},
                                          {"step": 20, "examples_per_second": 0.0}])
    read = running.read_run(tasks.Task("a", tasks.Places(run_root=str(tmp_path))), config, 1.0)
    assert read["seconds"]["training"] == 10.0


def test_time_left_is_that_of_all_tasks_and_says_when_some_are_not_known(tmp_path):
    seconds = {"training": 20.0, "replicas": 2, "scoring": 1.0}
    places = tasks.Places()
    known = tasks.Task("a", places, "rolinek2018/synthetic_linear_beta_vae", seeds=(0, 1), steps=100)
    other = tasks.Task("b", places, "rolinek2018/synthetic_linear_ae", seeds=(0,), steps=100)
    shown = progress.Progress([known, other], [a_result(seconds=seconds)])
    assert shown.left({known.label: 0}, 0, 1) == "0:22 left"
    assert shown.left({known.label: 50}, 0, 1) == "0:12 left"
    assert shown.left({known.label: 0, other.label: 0}, 0, 2) == "at least 0:22 left"
    paused = a_result(seconds={"training": 2000.0, "replicas": 2, "scoring": 900.0})
    assert progress.Progress([known], [a_result(seconds=seconds), paused, a_result(seconds=seconds)]).left(
        {known.label: 0}, 0, 1) == "0:22 left"
    assert shown.left({other.label: 0}, 0, 1) == "time left not known yet"
    # A task that is at work is half as fast as in the results: so is the one that has not begun.
    later = dataclasses.replace(known, seeds=(2, 3))
    shown = progress.Progress([known, later], [a_result(seconds=seconds)])
    assert shown.left({known.label: 10, later.label: 0}, 0, 1) == "0:42 left"       # 90 steps of .2 s and 100, 4 scores
    assert shown.left({known.label: 60, later.label: 0}, 20, 1) == "1:04 left"      # 140 steps of .4 s, scores of 2 s
    assert shown.left({later.label: 0}, 60, 1) == "0:44 left"                       # what ended is remembered
    text = "step 50/1,000  loss 1\nstep 1,000/1,000  loss 1\nscoring"
    (tmp_path / "log").write_text(text)
    assert progress.read_steps(tmp_path / "log") == 1000
    (tmp_path / "log").write_text(f"{text}\n{scheduling.STARTED}\n")
    assert progress.read_steps(tmp_path / "log") == 0
