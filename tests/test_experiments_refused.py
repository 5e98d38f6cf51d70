"""What of a table is refused before anything is trained."""

import pytest
from experiment_cases import QUICK, TABLE, table

from vae_tf.errors import InputError
from vae_tf.experiments import planning, running, tasks


@pytest.mark.parametrize(("read", "said"), [
    ("metrics.nothing.score", "expected metrics.NAME of"), ("metrics", "expected metrics.NAME of"),
    ("metrics.dto", r"expected a number of metrics\.dto, such as metrics\.dto\.score; got the whole entry"),
    ("metric.dto.score", r"begins with one of metrics, .*; got 'metric\.dto\.score'")])
def test_what_no_result_will_have_is_refused_before_anything_is_trained(tmp_path, read, said):
    with pytest.raises(InputError, match=said):
        planning.plan(table(tmp_path, TABLE.replace("metrics.dto.score", read)), [], QUICK, 1, tasks.Places())


@pytest.mark.parametrize(("read", "flag", "said"), [
    ("metrics.dto.score", "--nothing=1", "nothing"),
    ("polarised_regime.active_latents.score", "--examples=300", "flags change what is read of metrics alone")])
def test_flags_that_change_no_metric_are_refused(tmp_path, read, flag, said):
    text = TABLE.replace('better = "lower"', f'better = "lower"\nevaluate = ["{flag}"]')
    with pytest.raises(InputError, match=said):
        planning.plan(table(tmp_path, text.replace("metrics.dto.score", read)), [], QUICK, 1, tasks.Places())


def test_a_recipe_without_a_length_has_none_to_be_shortened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flags/own/endless.flags"
    path.parent.mkdir(parents=True)
    path.write_text("--model=vae\n--dataset=synthetic_linear\n")
    made = table(tmp_path, TABLE.replace("rolinek2018/synthetic_linear_beta_vae", "own/endless"))
    with pytest.raises(InputError, match="expected a recipe with --steps or --epochs for --budget=quick to shorten"):
        planning.plan(made, [], QUICK, 1, tasks.Places())


def test_cells_of_one_seed_alone_are_refused(tmp_path):
    """Results are found by flags without the seed, so that both cells would show the same."""
    other = TABLE[TABLE.index("[[cells]]"):].replace("a column", "another column")
    text = TABLE + other.replace("quick =", 'flags = ["--seed=1"]\nquick =')
    with pytest.raises(InputError, match="another column differs from a row, a column in its seed alone"):
        planning.plan(table(tmp_path, text), [], QUICK, 1, tasks.Places(results=str(tmp_path)))


@pytest.mark.parametrize(("function", "said"), [
    (":f", "there is no module"), (".relative:f", "there is no module"), ("sys:exit", "there is no module sys"),
    ("vae_tf.nothing:f", "there is no module vae_tf.nothing"),
    ("vae_tf.kinds:nothing", "vae_tf.kinds has no function nothing"),
    ("vae_tf.kinds:KINDS", "vae_tf.kinds has no function KINDS")])
def test_a_function_that_is_not_there_is_refused_before_anything_is_run(tmp_path, function, said):
    made = table(tmp_path, f'measure = "{function}"' + TABLE.replace('recipe = "rolinek2018/synthetic_linear_beta_vae"',
                                                                     ""))
    with pytest.raises(InputError, match=said):
        planning.plan(made, [], QUICK, 1, tasks.Places())


def test_a_function_that_returns_no_scores_is_refused(tmp_path, monkeypatch):
    (tmp_path / "module_of_numbers.py").write_text("def f():\n    return {'a': 1.0}\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = tasks.Task("mine", tasks.Places(results=str(tmp_path / "results")), function="module_of_numbers:f")
    with pytest.raises(InputError, match=r"^measure: expected module_of_numbers:f to return .*\"score\": number"):
        running.measure_function(task)
    assert not (tmp_path / "results").exists()


def test_a_module_that_cannot_be_imported_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "module_with_a_mistake.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    made = table(tmp_path, 'measure = "module_with_a_mistake:f"'
                 + TABLE.replace('recipe = "rolinek2018/synthetic_linear_beta_vae"', ""))
    with pytest.raises(InputError, match="importing module_with_a_mistake fails: ZeroDivisionError: division by zero"):
        planning.plan(made, [], QUICK, 1, tasks.Places())
