"""What the programs write: whole or not at all, on a full disk and past planted links, and safe to print."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from programs import run

from vae_tf import data, export

EVALUATE = ("--examples=20", "--metrics=active_units", "--geometry=", "--theory=", "--jobs=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """whole.npz, and part.npz with some of its rows, whose factors have another range."""
    folder, rng = tmp_path_factory.mktemp("outputs"), np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 4, 4, 1), np.uint8)
    factors = np.stack([np.arange(60) ** 2, 10 * (np.arange(60) % 5)], -1)
    np.savez(folder / "whole.npz", images=x, factors=factors)
    np.savez(folder / "part.npz", images=x[:30], factors=factors[:30])
    return folder


def train(folder, *argv, largest=None):
    return run("train.py", "--model=ivae", "--network=linear", "--latents=2", "--batch_size=4", "--log_every=1", *argv,
               folder=folder, largest=largest)


@pytest.fixture(scope="module")
def trained(folder):
    """exported/m/1, a model of whole.npz, which no test changes."""
    code, _, error = train(folder, "--name=m", "--dataset=whole.npz", "--steps=3")
    assert code == 0, error
    return folder / "exported/m/1"


def hidden(folder):
    return [path for path in folder.rglob(".*") if path.name.startswith(".")]


def test_an_export_on_a_full_disk_is_one_line_and_the_same_command_makes_it_once(folder):
    command = ("--name=full", "--dataset=whole.npz", "--steps=3")
    code, _, error = train(folder, *command, largest=100_000)
    last = error.splitlines()[-1]
    assert code == 2 and "Traceback" not in error, error
    assert last.startswith("train.py: error: ") and "exported/full: the model could not be exported" in last
    assert not (folder / "exported/full").exists() and (folder / "runs/full/checkpoints/000000003.npz").exists()
    for argv, versions, said in [(command, ["1"], "exported/full/1: "),
                                 (command, ["1"], "exported/full/1 (was there already)"),
                                 ((*command[:2], "--steps=4"), ["1", "2"], "exported/full/2: ")]:
        code, out, error = train(folder, *argv)
        assert code == 0 and said in out, error
        assert sorted(os.listdir(folder / "exported/full")) == versions
    assert not hidden(folder)


def test_evaluation_on_a_full_disk_is_one_line_and_a_card_cannot_rule_the_terminal(folder, trained):
    path = shutil.copytree(trained, folder / "exported/marked/1")
    code, out, error = run("evaluate.py", "--export=exported/marked/1", *EVALUATE, folder=folder)
    assert code == 0 and f"Data: {folder / 'whole.npz'}, which the model's card names" in out, error
    sizes = {name: (path / name).stat().st_size for name in ("metrics.json", "polarised.png", "assets.extra/card.json")}
    limit = max(sizes["metrics.json"], sizes["assets.extra/card.json"]) + 1_000
    assert limit < sizes["polarised.png"]
    (path / "polarised.png").unlink()

    card = json.loads((path / export.CARD).read_text())
    del card["checksum"]
    card["model"], card["data"]["name"] = "ivae\x1b[2J", "data\x1b]0;title\x07\x9b31m"
    (path / export.CARD).write_text(json.dumps(card))
    code, out, error = run("evaluate.py", "--export=exported/marked/1", *EVALUATE, folder=folder, largest=limit)
    last = error.splitlines()[-1]
    assert code == 2 and "Traceback" not in error and "\x1b" not in out + error and "\x9b" not in out + error
    assert r"ivae\x1b[2J" in out and r"data\x1b]0;title\x07\x9b31m" in out
    assert last.startswith("evaluate.py: error: ") and "exported/marked/1/polarised.png could not be written" in last
    assert not (path / "polarised.png").exists() and not hidden(folder)
    (path / export.CARD).write_text('{"model": "ivae"}')
    code, out, error = run("evaluate.py", "--export=exported/marked/1", *EVALUATE, folder=folder)
    assert code == 2 and error.count("\n") == 1 and "card.json: expected an entry u_size; got none; restore" in error


def test_a_model_that_is_trained_further_keeps_the_range_of_its_factors(folder, trained):
    code, _, error = train(folder, "--init_from=exported/m", "--name=further", "--dataset=part.npz", "--steps=1")
    assert code == 0, error
    first, further = (export.read_card(folder / "exported" / name) for name in ("m/1", "further/1"))
    assert first["u"] == further["u"] == {"names": ["v1", "v2"], "low": [0, 0], "high": [59**2, 40]}
    assert further["recipe"]["dataset"] == str(folder / "part.npz")
    assert data.load(folder / "part.npz").u_range[1][0] == 29**2


@pytest.mark.parametrize(("name", "flag"), [
    *(("train.py", flag) for flag in ("run_root", "export_root", "data_dir", "dataset", "init_from", "name")),
    *(("evaluate.py", flag) for flag in ("export", "codes", "compare", "dataset", "data_dir"))])
def test_an_empty_path_is_refused(tmp_path, name, flag):
    before = set(pathlib.Path("/").iterdir())
    code, out, error = run(name, f"--{flag}=", folder=tmp_path)
    assert (code, out) == (2, "") and error.count("\n") == 1
    assert error.startswith(f"{name}: error: flag --{flag}=") and "expected a name or path; got an empty one" in error
    assert set(pathlib.Path("/").iterdir()) == before and not os.listdir(tmp_path)
