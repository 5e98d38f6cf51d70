"""The folder of a run through train.py: a refused command leaves nothing behind, and two processes do not share one."""

import json
import os

import keras
import numpy as np
import pytest
from absl import flags
from cases import CASES, build, dataset, find
from commands import run_train

from vae_tf import files, runs, training
from vae_tf.errors import InputError

FLAGS = ("--model=vae", "--dataset=mine.npz", "--network=linear", "--batch_size=4", "--log_every=1", "--name=m",
         "--polarised_every=0")
CASE = CASES[find("vae", "linear")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", data=np.random.default_rng(0).standard_normal((40, 3)))
    return tmp_path


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}


@pytest.mark.parametrize(("argv", "message"), [
    (("--name=.writing-x",), "--name: expected a folder's name of printable characters that does not begin with a dot"),
    (("--name=..",), "--name: "), (("--name=a/b",), "--name: "), (("--name=a\nb",), "--name: "),
    (("--name=" + "a" * 300,), "--name=a+: expected names of files and folders of at most 255 bytes"),
    (("--run_root=mine.npz",), "--run_root: expected a folder that can be written"),
    (("--export_root=loop",), "--export_root: expected a folder that can be written"),
    (("--export_root=a[1]",), r"--export_root: expected a path without \[...\] and .*; got a\[1\]"),
    (("--name=m[1]",), "--name: expected a path without"),
    (("--run_root=dangling",), "--run_root: expected a folder that can be written"),
])
def test_a_folder_that_cannot_be_made_is_refused_and_nothing_is_left(here, argv, message):
    (here / "loop").symlink_to("loop")
    (here / "dangling").symlink_to("nothing")
    before = everything(here)
    with pytest.raises((InputError, flags.Error), match=message):
        run_train(*FLAGS, "--steps=2", *argv)
    assert everything(here) == before


def test_a_command_that_is_refused_changes_nothing_of_the_run(here):
    run_train(*FLAGS, "--steps=3")
    before = everything(here)
    with pytest.raises(InputError, match="is at step 3 already; expected at least as many, got 2"):
        run_train(*FLAGS, "--steps=2")
    with files.hold_lock(here / "runs/m/.lock"), pytest.raises(InputError, match="runs/m: another process trains"):
        run_train(*FLAGS, "--steps=4")
    assert everything(here) == before
    os.rename("mine.npz", "moved.npz")      # the same data go on with the weights that there are
    run_train(*FLAGS, "--dataset=moved.npz", "--steps=4")
    assert sorted(runs.find_checkpoints("runs/m")) == [3, 4]
    assert json.loads((here / "runs/m/config.json").read_text())["steps"] == 4
    assert [row["step"] for row in runs.read_history(here / "runs/m", 9)] == [1, 2, 3, 4]


def test_a_run_in_the_place_of_another_is_refused(here):
    run_train(*FLAGS, "--steps=2")
    (here / "runs/m/config.json").unlink()
    before = everything(here)
    with pytest.raises(InputError, match="holds checkpoints of a run with another configuration alone"):
        run_train(*FLAGS, "--steps=4", "--seed=5")
    assert everything(here) == before


def test_a_run_whose_configuration_goes_while_it_trains_can_go_on(here, capsys):
    """Somebody who cleans a disk may delete it, and checkpoints are known by it."""
    config = {"seed": 0}

    def train(steps, **options):
        return training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=steps, batch_size=8,
                            run_dir=here / "runs/m", config=config, log_every=1, checkpoint_every=1, **options)

    train(4, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epoch == 1 and (
        here / "runs/m/config.json").unlink())])
    assert "warning: " in (error := capsys.readouterr().err) and "config.json has gone and is written again" in error
    assert [row["step"] for row in train(5)] == [1, 2, 3, 4, 5]
    assert "passed over" not in capsys.readouterr().err


def test_a_run_that_was_stopped_before_its_first_checkpoint_is_in_nobody_s_way(here):
    run_train(*FLAGS, "--steps=2")
    for left in ("history.csv", *(f"checkpoints/{step:09d}.npz" for step in (1, 2))):
        (here / "runs/m" / left).unlink(missing_ok=True)
    run_train(*FLAGS, "--steps=2", "--seed=5")
    assert json.loads((here / "runs/m/config.json").read_text())["seed"] == 5


@pytest.mark.parametrize("kind", ["file", "link to itself"])
def test_a_run_goes_on_without_tensorboard_logs_that_cannot_be_written(tmp_path, kind):
    path = tmp_path / "tensorboard"
    _ = path.write_text("mine") if kind == "file" else path.symlink_to(path)
    with pytest.warns(UserWarning, match=r"TensorBoard logs of .* cannot be written .*; training goes on without"):
        history = training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=4, batch_size=8,
                               run_dir=tmp_path, log_every=1)
    assert len(history) == 4 and max(runs.find_checkpoints(tmp_path)) == 4


def test_a_checkpoint_with_an_array_of_another_shape_is_one_line(tmp_path):
    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=2, **options)
    path = runs.find_newest(tmp_path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    name = next(name for name in arrays if name.endswith("kernel"))
    for wrong in (arrays[name][:1], arrays[name].astype(str)):
        np.savez(path, **{**arrays, name: wrong})
        with pytest.raises(InputError, match=rf"checkpoint: expected an array {name} of float32 of shape .*; got .*"):
            training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=4, **options)
