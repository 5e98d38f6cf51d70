"""Whatever the environment says: the programs work, or they say in one line which variable is wrong."""

import json
import os
import pathlib
import subprocess
import sys

import hypothesis
import pytest
from outcomes import check_outcome, read_corpus

ROOT = pathlib.Path(__file__).parents[2]
CASES = read_corpus("environments")
REFUSED = [case for case in CASES if case["names"]]
TAKEN = [case for case in CASES if not case["names"]]
TRAIN = ("train.py", "--model=vae", "--dataset=circles", "--steps=2", "--batch_size=4", "--name=run")
SCORE = ("evaluate.py", "--examples=60", "--metrics=mig,active_units", "--jobs=2", "--geometry_examples=3")


def start(folder, environment, name, *argv):
    """What check_outcome takes of a program in a folder; None takes a variable out of the environment."""
    spelled = {key: str(folder) if value == "KERAS" else value for key, value in environment.items()}
    whole = {key: value for key, value in {**os.environ, **spelled}.items() if value is not None}
    done = subprocess.run([sys.executable, ROOT / name, *argv], cwd=folder, env=whole, capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def write_keras_settings(folder):
    (folder / "keras.json").write_text(json.dumps({"floatx": "float128", "epsilon": "small", "backend": "foo",
                                                   "image_data_format": "channels_first"}))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case["environment"]))
def test_absurd_variables_are_refused_at_once(tmp_path, case):
    code, out, error = start(tmp_path, case["environment"], *TRAIN)
    assert code == 2 and not out and not list(tmp_path.iterdir())
    check_outcome(code, out, error, names=case["names"])


def test_all_other_variables_together_change_nothing(tmp_path):
    """One pair of processes for all, because each imports TensorFlow; the long profile takes them one by one.

    `slow` are those of XLA's settings and PYTHONOPTIMIZE=1, for which Python compiles all of TensorFlow anew.
    """
    write_keras_settings(tmp_path)
    environment = {key: value for case in TAKEN if not case.get("slow") for key, value in case["environment"].items()}
    for argv in (TRAIN, SCORE):
        code, out, error = start(tmp_path, environment, *argv)
        assert code == 0, error[-3_000:]
        check_outcome(code, out, error)
        assert "INFO" not in error      # what TensorFlow logs at that level is for --verbosity=0
    assert "mig" in out and (tmp_path / "exported/run/1/metrics.json").exists()


@pytest.mark.skipif(hypothesis.settings().max_examples < 1_000, reason="only with --hypothesis-profile=long")
@pytest.mark.parametrize("case", TAKEN, ids=lambda case: str(case["environment"]))
def test_each_variable_alone_changes_nothing(tmp_path, case):
    write_keras_settings(tmp_path)
    code, out, error = start(tmp_path, case["environment"], *TRAIN)
    assert code == 0, error[-3_000:]
    check_outcome(code, out, error)
