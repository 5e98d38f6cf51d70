"""Checkpoints: which are kept, which are passed over, which are refused; and who may write into a run's folder."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

from vae_tf import runs
from vae_tf.errors import InputError


def save(run, *steps):
    for step in steps:
        rows = [row for row in runs.read_history(run, step) if row["step"] < step]
        runs.save(run, step, {"w": np.full(100, step)}, [*rows, {"step": step, "loss": 1.0}])


def damage(run, *steps):
    for step in steps:
        path = runs.find_checkpoints(run)[step]
        path.write_bytes(path.read_bytes()[:50])


def kept(run):
    return list(runs.find_checkpoints(run))


@contextlib.contextmanager
def unreadable(path):
    """While entered, a path that this process may not read, even if root runs it."""
    mode, root = path.stat().st_mode, os.geteuid() == 0
    path.chmod(0)
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(mode)


def test_the_newest_two_are_kept(tmp_path):
    save(tmp_path, 1, 2, 3, 4)
    assert kept(tmp_path) == [4, 3] and runs.find_newest(tmp_path).name == "000000004.npz"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "history.csv"}


def test_damaged_ones_are_passed_over_and_go_once_there_are_two_whole_ones(tmp_path, capsys):
    save(tmp_path, 39, 40)
    damage(tmp_path, 39, 40)
    assert runs.restore([tmp_path])[0] == 0 and runs.find_newest(tmp_path) is None
    assert capsys.readouterr().err.count("is damaged") == 2
    save(tmp_path, 1)
    assert kept(tmp_path) == [40, 39, 1]            # a single whole one: nothing is thrown away yet
    assert runs.restore([tmp_path])[0] == 1
    save(tmp_path, 2)
    assert kept(tmp_path) == [2, 1]


def test_a_damaged_one_does_not_displace_the_one_that_the_run_went_on_from(tmp_path):
    save(tmp_path, 10, 20)
    damage(tmp_path, 20)
    assert runs.restore([tmp_path])[0] == 10
    save(tmp_path, 25)
    assert kept(tmp_path) == [25, 10]


def test_a_whole_one_beyond_goes_once_there_are_two_of_the_rows_that_are_left(tmp_path):
    save(tmp_path, 20)
    save(tmp_path, 12)                              # such as two replicas of which the other went back
    assert kept(tmp_path) == [20, 12]               # one is not enough to throw another away
    save(tmp_path, 14)
    assert kept(tmp_path) == [14, 12] and runs.find_newest(tmp_path).name == "000000014.npz"
    assert runs.restore([tmp_path])[0] == 14


def test_another_run_s_checkpoint_is_passed_over_and_left_alone(tmp_path, capsys):
    mine, other = tmp_path / "mine", tmp_path / "other"
    for run, beta in ((mine, 1.0), (other, 4.0)):
        runs.write_config(run, {"beta": beta, "steps": 5})
    save(mine, 1, 2)
    save(other, 7)
    foreign = mine / "checkpoints" / "000000007.npz"
    foreign.write_bytes(runs.find_newest(other).read_bytes())
    step, (state,), _ = runs.restore([mine])
    assert step == 2 and set(state) == {"w"} and state["w"][0] == 2
    assert "000000007.npz is of a run with another configuration; it is passed over" in capsys.readouterr().err
    save(mine, 3, 4, 8)
    assert kept(mine) == [8, 7, 4] and foreign.read_bytes() == runs.find_newest(other).read_bytes()
    runs.write_config(mine, {"beta": 1.0, "steps": 9})
    assert runs.restore([mine])[0] == 8             # more steps are the same run


def test_stray_names_do_no_harm(tmp_path):
    save(tmp_path, 20)
    for name in ("5abc.npz", "000000020 (1).npz", "21.npz", "x.npz", ".000000022.npz.77", "000000023.npz.bak"):
        (tmp_path / "checkpoints" / name).write_bytes(b"")
    save(tmp_path, 30, 40)
    assert kept(tmp_path) == [40, 30] and runs.restore([tmp_path])[0] == 40
    assert len(list((tmp_path / "checkpoints").iterdir())) == 8


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_cannot_be_read_is_refused_rather_than_taken_for_damage(tmp_path, what):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:         # pytest's own folders are its user's alone
        if parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(0o755)
    save(tmp_path, 10, 20)
    locked = tmp_path / "checkpoints" if what == "folder" else runs.find_newest(tmp_path)
    with (unreadable(locked),
          pytest.raises(InputError, match=rf"{locked} cannot be read \(Permission denied\)")):
        runs.restore([tmp_path])
    assert runs.restore([tmp_path])[0] == 20


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(InputError, match=r"checkpoints cannot be read \(Not a directory\)"):
        runs.restore([tmp_path])


def test_a_history_or_configuration_that_is_none_is_refused(tmp_path):
    save(tmp_path, 10)
    (tmp_path / "history.csv").write_text("step,loss\n10,many\n")
    with pytest.raises(InputError, match=r"history.csv: expected a row of numbers per line"):
        runs.restore([tmp_path])
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config.json: it cannot be read .not JSON.*--restart"):
        runs.compare_config(tmp_path, {})


def test_compare_config_ignores_steps(tmp_path):
    runs.write_config(tmp_path, {"beta": 1.0, "steps": 5, "seed": 0})
    assert runs.compare_config(tmp_path, {"beta": 4.0, "steps": 9, "seed": 0}) == {"beta": (1.0, 4.0)}
    assert runs.compare_config(tmp_path / "none", {"beta": 4.0}) == {}


def test_a_history_of_rows_with_different_columns_survives(tmp_path):
    history = [{"step": 1, "kl": 1.0}, {"step": 2, "kl": 2.0, "delta_kl": 0.5}, {"step": 3, "kl": 3.0}]
    runs.write_history(tmp_path, history)
    assert (tmp_path / "history.csv").read_text() == "step,kl,delta_kl\n1,1.0,\n2,2.0,0.5\n3,3.0,\n"
    assert runs.read_history(tmp_path, 3) == history
    runs.write_history(tmp_path, [{"step": np.int64(5), "loss": np.float32(1.5)}])
    assert runs.read_history(tmp_path, 5) == [{"step": 5, "loss": 1.5}]


def test_a_checkpoint_of_a_newer_format_is_one_line(tmp_path):
    runs.save(tmp_path, 1, {"w": np.ones(3)}, [])
    path = runs.find_newest(tmp_path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    assert arrays["format"] == 2
    np.savez(path, **{**arrays, "format": 3})
    with pytest.raises(InputError, match=r"000000001.npz: format 3 is of a newer vae_tf, this one reads 2; install"):
        runs.restore([tmp_path])


def test_data_that_moved_and_a_longer_run_are_the_same_run(tmp_path):
    config = {"dataset": "mine.npz", "data_fingerprint": "ab", "beta": 1.0, "steps": 5}
    runs.write_config(tmp_path, config)
    save(tmp_path, 1, 2)
    for entry, value in (("dataset", "kept/mine.npz"), ("steps", 9)):
        assert runs.restore([tmp_path], [{**config, entry: value}])[0] == 2
    with pytest.raises(InputError, match=r"holds checkpoints of a run with another configuration alone; .*--restart"):
        runs.restore([tmp_path], [{**config, "beta": 4.0}])


def test_a_checkpoint_under_another_name_is_passed_over(tmp_path, capsys):
    save(tmp_path, 1, 2)
    os.rename(tmp_path / "checkpoints/000000002.npz", tmp_path / "checkpoints/000000003.npz")
    assert runs.restore([tmp_path])[0] == 1
    assert "000000003.npz is of another step than its name says; it is passed over" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "link to nothing", "link to itself"])
def test_a_checkpoint_that_is_no_file_is_passed_over_and_left(tmp_path, capsys, kind):
    save(tmp_path, 1)
    path = tmp_path / "checkpoints/000000002.npz"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if "itself" in kind else "nothing")
    assert runs.restore([tmp_path])[0] == 1
    assert "000000002.npz is not a file; it is passed over" in capsys.readouterr().err
    save(tmp_path, 3, 4)
    assert os.path.lexists(path) and kept(tmp_path) == [4, 3, 2]


@pytest.mark.parametrize(("text", "message"), [
    ("", "the last line is cut"), ("step,loss\n1,1.0\n2,1", "the last line is cut"),
    ("step,loss\n1,1.0\n2\n", "line 3 has 1 cells, the first line 2"), ("loss\n1.0\n", "does not name the columns"),
    ("step,loss\n2,1.0\n1,1.0\n", "line 3 has no step beyond that of the line before"),
    ("step,loss\n1,1.0\n2,2.0\n", r"the rows up to step 2 are not those that the checkpoint was written with"),
    ("step,loss\n1,1.0\n", r"the rows up to step 2 are not those"),
])
def test_a_history_that_is_cut_or_changed_is_one_line_with_the_remedy(tmp_path, text, message):
    save(tmp_path, 1, 2)
    (tmp_path / "history.csv").write_text(text)
    with pytest.raises(InputError, match=rf"history.csv: .*{message}.*; restore the file, or delete it to go on"):
        runs.restore([tmp_path])


def test_a_run_goes_on_without_a_history_that_was_deleted(tmp_path, capsys):
    save(tmp_path, 1, 2)
    (tmp_path / "history.csv").unlink()
    step, _, histories = runs.restore([tmp_path])
    assert (step, histories) == (2, [[]]) and "history.csv is missing; the run goes on" in capsys.readouterr().err
    save(tmp_path, 3)
    assert runs.restore([tmp_path])[0] == 3


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "expected a JSON object; got"), ('{"beta": "1"}', 'expected beta to be a finite number or null; got "1"'),
    ('{"beta": NaN}', "expected beta to be a finite number or null; got NaN"),
    ('{"steps": 1e400}', "expected steps to be a whole number; got Infinity"),
    ('{"data_fingerprint": 3}', "expected data_fingerprint to be text; got 3"),
    ('{"keras": ' + "[" * 500 + "]" * 500 + "}", "it is nested too deeply"),
    ('{"keras": ' + "[" * 50_000, "it cannot be read"), ("\xff", "expected a JSON object|not JSON"),
])
def test_a_configuration_that_is_none_is_one_line_with_the_remedy(tmp_path, text, message):
    (tmp_path / "config.json").write_bytes(text.encode("latin1"))
    with pytest.raises(InputError, match=rf"config.json: .*({message}).*--restart starts over") as caught:
        runs.compare_config(tmp_path, {"beta": 1.0})
    assert "\n" not in str(caught.value)


def test_a_folder_is_held_against_other_processes_until_this_one_ends(tmp_path):
    program = "import pathlib, sys; from vae_tf import runs; runs.hold(pathlib.Path(sys.argv[1])).__enter__()"
    run = tmp_path / "runs" / "a"

    def hold_elsewhere():
        return subprocess.run([sys.executable, "-c", program, run], capture_output=True, text=True)

    with runs.hold(run), runs.hold(run):
        refused = hold_elsewhere()
        assert refused.returncode == 1
        assert f"InputError: {run}: another process trains in this folder; wait" in refused.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()         # nothing was written
    with runs.hold(run):
        runs.write_config(run, {"beta": 1.0})
    (run / "checkpoints").mkdir()
    for left in (run / ".writing.0123456789abcdef", run / "checkpoints/.writing.0123456789abcdef"):
        left.write_text("of a process that was killed")
    assert hold_elsewhere().returncode == 0
    assert sorted(path.name for path in run.rglob("*")) == ["checkpoints", "config.json"]


@pytest.mark.parametrize(("name", "make"), [
    ("config.json", "folder"), ("history.csv", "folder"), ("checkpoints", "file"), ("checkpoints", "link to nothing"),
    (".", "file"), (".", "link to itself")])
def test_what_stands_where_a_run_must_write_is_refused_before_training(tmp_path, name, make):
    path = tmp_path / "run" / name
    path.parent.mkdir(exist_ok=True)
    {"folder": path.mkdir, "file": lambda: path.write_text(""), "link to nothing": lambda: path.symlink_to("nothing"),
     "link to itself": lambda: path.symlink_to(path)}[make]()
    with pytest.raises(InputError, match=r"expected a (folder|file)"):
        runs.check_folder(tmp_path / "run")


def test_a_checkpoint_whose_arrays_would_be_larger_than_the_file_is_not_read(tmp_path):
    save(tmp_path, 1, 2)
    path = runs.find_newest(tmp_path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez_compressed(path, **{**arrays, "w": np.zeros(10**7)})
    assert path.stat().st_size < 10**6 and runs.find_newest(tmp_path).name == "000000001.npz"


def test_columns_with_commas_are_read_as_they_were_written(tmp_path):
    rows = [{"step": 1, 'mean of "a", b': 0.5}, {"step": 2, 'mean of "a", b': 0.25}]
    runs.write_history(tmp_path, rows)
    assert runs.read_history(tmp_path, 2) == rows


def test_a_run_of_damaged_checkpoints_alone_says_that_it_starts_over(tmp_path, capsys):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/000000005.npz").write_text("damaged")
    assert runs.restore([tmp_path])[0] == 0
    said = capsys.readouterr().err
    assert "it is passed over" in said and "can be used; training starts over at step 0" in said
