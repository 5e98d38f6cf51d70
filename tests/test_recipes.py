"""Every recipe in flags/ parses, builds its model and says where it comes from."""

import functools
import os

import numpy as np
import pytest
from commands import ROOT, parse

from vae_tf import cli, configured, data, evaluation

EVALUATIONS = sorted((ROOT / "flags").rglob("evaluate*.flags"))
SHARED = [ROOT / "flags/base.flags", *sorted((ROOT / "flags").glob("*/common/*.flags"))]
RECIPES = sorted({*(ROOT / "flags").rglob("*.flags")} - {*EVALUATIONS, *SHARED})


def test_there_are_recipes():
    assert len(RECIPES) > 5


TO_DOWNLOAD = {"shapes3d.npz": (64, 64, 3), "mpi3d.npz": (64, 64, 3), "faces3d.npz": (64, 64, 1)}
NEED_TFDS = ("mnist", "fashion_mnist", "linear_mixture_digits", "translated_digit")


load = functools.cache(data.load)


@pytest.mark.parametrize("recipe", RECIPES, ids=[str(path.relative_to(ROOT / "flags")) for path in RECIPES])
def test_recipes_parse_build_and_say_where_they_come_from(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)      # recipes are found from any folder
    values = parse(cli.define_train_flags, f"--flagfile={recipe}", "--seed=1")
    assert values.seed == 1          # overrides come after
    text = recipe.read_text()
    for word in ("Paper:", "Command:", "Cost:", "Expected:"):
        assert f"# {word}" in text, word
    assert f"--flagfile={recipe.relative_to(ROOT)}" in text
    if values.dataset in TO_DOWNLOAD or (values.dataset in NEED_TFDS and "TFDS_DATA_DIR" not in os.environ):
        shape = TO_DOWNLOAD.get(values.dataset, (28, 28, 1))
        dataset = data.from_arrays(values.dataset, np.zeros((100, *shape), np.uint8),
                                           np.zeros((100, 1), int), [data.Factor("class", 10, "categorical")])
    else:
        dataset = load(values.dataset)
    config = cli.configure(values, dataset)
    assert config.likelihood != "gaussian" or values.likelihood_variance, "a paper's variance is no default of ours"
    assert configured.build_model(config, dataset).count_params()


@pytest.mark.parametrize("recipe", EVALUATIONS, ids=[str(path.relative_to(ROOT / "flags")) for path in EVALUATIONS])
def test_recipes_of_evaluations_parse_and_name_factors_that_are_there(recipe):
    values = parse(cli.define_evaluate_flags, f"--flagfile={recipe}", "--seed=1")
    assert cli.read_options(values).seed == 1
    evaluation.check_factors(values.factors, data.load("dsprites").factor_names)
    for word in ("Paper:", "Command:", "Cost:", "Expected:"):
        assert f"# {word}" in recipe.read_text(), word
    named = [text for train in recipe.parent.glob("dsprites_*.flags") if (text := train.read_text())]
    assert named and all(f"--flagfile={recipe.relative_to(ROOT)}" in text for text in named)
