"""The configuration of every recipe, as it was when its results were recorded: runs and results are found by it.

    python tests/test_configurations.py     writes configurations.json anew, after a change that is meant
"""

import functools
import json
import pathlib

import numpy as np
import pytest
from absl import flags
from cases import NEEDS_MNIST

from vae_tf import cli, data, models

ROOT = pathlib.Path(__file__).parents[1]
RECORDED = pathlib.Path(__file__).with_name("configurations.json")
RECIPES = sorted(str(path.relative_to(ROOT / "flags").with_suffix("")) for path in (ROOT / "flags").glob("*/*.flags")
                 if path.stem != "evaluate")
PLAIN = [f"--model={model} --dataset={name}" for model in models.MODELS for name in ("dsprites", "synthetic_linear")]
OPTIONS = ["--model=ivae --prior_mean=learned", "--model=beta_tcvae --tc_estimator=stratified --beta=2",
           "--model=vae --optimizer_epsilon=1e-8 --epochs=2"]


@functools.cache
def loaded(name):
    """A dataset; in place of a file that does not come with the repository, 50 black images of its name."""
    if name.endswith(".npz"):
        x, v = np.zeros((50, 64, 64, 1), np.uint8), np.arange(50)[:, np.newaxis]
        return data.from_arrays(name, x, v, [data.Factor("v", 50, "ordinal")], made_by=(x, v))
    return data.load(name)


def configuration(line):
    """The configuration of a line of flags, or of a recipe by its name, as config.json has it."""
    values = flags.FlagValues()
    cli.define_train_flags(values)
    flags.DEFINE_string("flagfile", "", "", flag_values=values)
    given = line.split() if line.startswith("--") else [f"--flagfile=flags/{line}.flags"]
    cli.read_flags(values, ["program", *given])
    dataset = loaded(values.dataset).split(values.split, "train", values.data_seed)
    return json.loads(json.dumps(cli.configure(values, dataset).as_json()))


@pytest.mark.parametrize("line", [pytest.param(line, marks=NEEDS_MNIST) if "mnist" in line or "digit" in line else line
                                  for line in (*RECIPES, *PLAIN, *OPTIONS)])
def test_configurations_are_those_that_results_were_recorded_with(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)         # recipes are found from any folder
    recorded = json.loads(RECORDED.read_text())[line]
    assert configuration(line) == recorded


def test_nothing_but_these_lines_is_recorded():
    assert list(json.loads(RECORDED.read_text())) == [*RECIPES, *PLAIN, *OPTIONS]


if __name__ == "__main__":
    lines = [f"{json.dumps(line)}: {json.dumps(configuration(line))}" for line in (*RECIPES, *PLAIN, *OPTIONS)]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
