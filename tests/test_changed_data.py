"""Data that change, move or go missing between training, going on and scoring; through the programs themselves."""

import json
import os
import pathlib
import shutil

import cases
import numpy as np
import programs
import pytest
import tensorflow as tf
from commands import run_evaluate, run_train

from vae_tf.errors import InputError

FLAGS = ("--model=vae", "--dataset=mine.npz", "--network=linear", "--latents=2", "--batch_size=4", "--log_every=1")
SCORED = ("--metrics=active_units", "--geometry=", "--theory=", "--jobs=1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mine(folder, n=40, sign=1.0):
    x = np.random.default_rng(0).standard_normal((n, 3))
    np.savez(folder / "mine.npz", data=sign * x, factors=np.arange(n) % 3)


def test_a_run_does_not_go_on_with_changed_data(tmp_path):
    mine(tmp_path)
    code, out, error = programs.run("train.py", *FLAGS, "--steps=2", folder=tmp_path)
    assert code == 0, error
    assert "on mine.npz (32 of 40 examples, chosen at random; the others are held out)" in out
    mine(tmp_path, sign=-1.0)
    before = sorted(tmp_path.rglob("*"))
    code, out, error = programs.run("train.py", *FLAGS, "--steps=4", folder=tmp_path)
    assert code == 2 and not out and error.count("\n") == 1, error
    assert error.startswith("train.py: error: runs/vae_mine was trained on other data than mine.npz holds now")
    assert "--restart" in error and sorted(tmp_path.rglob("*")) == before


def test_a_run_does_not_go_on_with_factors_of_other_names(here):
    arrays = {"data": np.random.default_rng(0).random((64, 3)), "factors": np.indices((4, 4, 4)).reshape(3, -1).T}
    np.savez("mine.npz", **arrays, factor_names=["a", "b", "c"])
    run_train(*FLAGS, "--split=hold_out:a>2", "--steps=2")
    np.savez("mine.npz", **arrays, factor_names=["c", "b", "a"])
    with pytest.raises(InputError, match=r"trained on other data than mine\.npz holds now"):
        run_train(*FLAGS, "--split=hold_out:a>2", "--steps=3")


def test_fewer_rows_are_other_data_and_a_moved_file_is_the_same(here):
    mine(here)
    run_train(*FLAGS, "--steps=2")
    mine(here, n=39)
    with pytest.raises(InputError, match=r"trained on other data than mine\.npz holds now"):
        run_train(*FLAGS, "--steps=3")
    with pytest.raises(InputError, match=r"another configuration .*--data_seed: 0 there, 1 now"):
        run_train(*FLAGS, "--steps=3", "--data_seed=1")
    mine(here)
    os.mkdir("kept")
    os.rename("mine.npz", "kept/mine.npz")
    run_train(*FLAGS, "--dataset=kept/mine.npz", "--steps=3")
    config = json.loads((here / "runs/vae_mine/config.json").read_text())
    assert config["dataset"] == "kept/mine.npz" and config["split"] == "random"

    # A run of before data had fingerprints goes on, and has one from then on.
    older = {name: value for name, value in config.items() if name != "data_fingerprint"}
    (here / "runs/vae_mine/config.json").write_text(json.dumps(older))
    run_train(*FLAGS, "--dataset=kept/mine.npz", "--steps=4")
    assert json.loads((here / "runs/vae_mine/config.json").read_text()) == {**config, "steps": 4}
    with pytest.raises(InputError, match=r"another configuration .*--split: random there, grid now"):
        run_train(*FLAGS, "--dataset=kept/mine.npz", "--steps=5", "--split=grid")


def test_evaluation_says_what_it_scores_and_when_data_are_others_or_missing(here, capsys, monkeypatch):
    mine(here)
    run_train(*FLAGS, "--steps=2", "--name=trained")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")          # the card's path of the data does not depend on the current folder
    run_evaluate("--export=../exported", *SCORED)
    said = f"4 examples of the test part of {here}/mine.npz, none of which was trained on"
    assert said in " ".join(capsys.readouterr().out.split())
    monkeypatch.chdir(here)
    mine(here, n=41)
    run_evaluate("--export=exported/trained", *SCORED)
    said = f"41 examples of {here}/mine.npz, which are other data than those of training (they have changed since)"
    assert said in " ".join(capsys.readouterr().out.split())
    scored = json.loads((here / "exported/trained/1/metrics.json").read_text())
    assert (scored["split"], scored["trained_on"], scored["examples"]) == ("grid", None, 41)
    os.rename("mine.npz", "moved.npz")
    with pytest.raises(InputError, match=r"no file /.*/mine.npz; the model was trained on these data; --dataset names"):
        run_evaluate("--export=exported/trained", *SCORED)
    mine(here)
    run_evaluate("--export=exported/trained", "--dataset=mine.npz", "--split=grid", *SCORED)
    assert "40 examples of mine.npz, 32 of which training could see" in capsys.readouterr().out
    assert json.loads((here / "exported/trained/1/metrics.json").read_text())["trained_on"] == 32

    # A card of before data had fingerprints, whose split was the whole for both.
    path = here / "exported/trained/1/assets.extra/card.json"
    card = json.loads(path.read_text())
    card["recipe"].update(dataset="mine.npz", split="grid")
    del card["recipe"]["data_fingerprint"], card["checksum"]
    path.write_text(json.dumps(card))
    run_evaluate("--export=exported/trained", *SCORED)
    assert "40 examples of mine.npz, all of which training could see" in capsys.readouterr().out


def prepare_digits(folder, first):
    """Prepare MNIST as TensorFlow Datasets does, with 40 and 10 of its digits from a number on."""
    source = next((pathlib.Path(os.environ["TFDS_DATA_DIR"]) / "mnist").iterdir())
    target = folder / "mnist" / source.name
    target.mkdir(parents=True, exist_ok=True)
    info = json.loads((source / "dataset_info.json").read_text())
    for split, count in zip(info["splits"], (40, 10), strict=True):
        name = f"mnist-{split['name']}.tfrecord-00000-of-00001"
        with tf.io.TFRecordWriter(str(target / name)) as written:
            for record in tf.data.TFRecordDataset(str(source / name)).skip(first).take(count):
                written.write(record.numpy())
        split["shardLengths"] = [str(count)]
    (target / "dataset_info.json").write_text(json.dumps(info))
    shutil.copy(source / "features.json", target)


@cases.NEEDS_MNIST
def test_a_run_does_not_go_on_with_a_catalogue_that_was_prepared_anew(tmp_path):
    flags = ("--model=vae", "--dataset=mnist", "--data_dir=tfds", "--network=linear", "--latents=2", "--batch_size=4")
    prepare_digits(tmp_path / "tfds", first=0)
    code, _, error = programs.run("train.py", *flags, "--steps=2", folder=tmp_path)
    assert code == 0, error
    prepare_digits(tmp_path / "tfds", first=1)
    before = sorted(tmp_path.rglob("*"))
    code, out, error = programs.run("train.py", *flags, "--steps=4", folder=tmp_path)
    assert code == 2 and not out and error.count("\n") == 1, error
    assert error.startswith("train.py: error: runs/vae_mnist was trained on other data than mnist holds now")
    assert sorted(tmp_path.rglob("*")) == before
    prepare_digits(tmp_path / "tfds", first=0)
    code, _, error = programs.run("train.py", *flags, "--steps=4", folder=tmp_path)
    assert code == 0, error


def test_a_catalogue_that_cannot_be_reached_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")          # nothing listens there
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
    code, out, line = programs.run("train.py", "--dataset=mnist", folder=tmp_path)
    assert code == 2 and not out
    assert line.count("\n") == 1, line
    assert line.startswith(f"train.py: error: dataset: mnist is not prepared at {tmp_path}/tfds/mnist/")
    assert "point --data_dir or TFDS_DATA_DIR at where it is" in line
