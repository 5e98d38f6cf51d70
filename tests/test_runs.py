"""Checkpoints: which are kept, which are passed over, which are refused."""

import os

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


def test_a_whole_one_beyond_is_left_until_it_is_replaced(tmp_path):
    save(tmp_path, 10, 20)
    save(tmp_path, 12, 14)                          # such as two replicas of which the other went back
    assert kept(tmp_path) == [20, 14, 12]
    save(tmp_path, 20, 22)
    assert kept(tmp_path) == [22, 20]


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
    assert "000000007.npz is of a run with another configuration; going back" in capsys.readouterr().err
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
    mode = locked.stat().st_mode
    locked.chmod(0)
    root = os.geteuid() == 0
    try:
        if root:            # who may read everything
            os.seteuid(65534)
        with pytest.raises(InputError, match=rf"{locked} cannot be read \(Permission denied\)"):
            runs.restore([tmp_path])
    finally:
        if root:
            os.seteuid(0)
        locked.chmod(mode)
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


def test_a_checkpoint_of_a_newer_format_is_one_line(tmp_path):
    runs.save(tmp_path, 1, {"w": np.ones(3)}, [])
    path = runs.find_newest(tmp_path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    assert arrays["format"] == 2
    np.savez(path, **{**arrays, "format": 3})
    with pytest.raises(InputError, match=r"000000001.npz: format 3 is of a newer vae_tf, this one reads 2; install"):
        runs.restore([tmp_path])
