"""Which models --compare scores: those whose metrics.json is not what it would write."""

import importlib.metadata
import json
import pathlib
import tempfile

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from vae_tf import data, evaluation, metrics
from vae_tf.evaluation import computing

DATASET = data.from_arrays("mine", np.zeros((60, 3), np.float32), np.zeros((60, 2)),
                                   [data.Factor(name, 3, "ordinal") for name in ("a", "b")])
SETTINGS = {"dataset": "mine", "data_seed": 0, "split": "grid", "trained_on": None,
            "data_fingerprint": "ab12"}
WHOLE = {**SETTINGS, "examples": 60, "seed": 0, "geometry_examples": 60, "latents": [0, 1], "factors": ["a", "b"],
         "passive_kl": 0.01, "samples_per_value": None, "quick": False,
         "metrics": {"mig": {"score": 0.5, "measured": {"examples": 60}}}, "skipped": {"dto": "no decoder"},
         "versions": {"vae_tf": importlib.metadata.version("vae_tf")}}
OPTIONS = evaluation.Options(("mig", "dto"), examples=100)


def explain(folder, numbers, options=OPTIONS):
    (folder / "metrics.json").write_text(json.dumps(numbers))
    return evaluation.explain_missing(folder / "metrics.json", options, DATASET, SETTINGS, 2)


@pytest.mark.parametrize(("change", "why"), [
    ({}, None), ({"examples": 59}, "59 examples, and 60 are asked for"), ({"examples": 90}, None),
    ({"dataset": "other", "trained_on": 9}, "of other data"), ({"trained_on": 9}, "says otherwise how many"),
    ({"data_fingerprint": "cd34"}, "of other data"),
    ({"geometry_examples": 20}, "fewer than the 60 examples"), ({"seed": 3}, "another --seed"),
    ({"skipped": {"dto": str(computing.KILLED.result)}}, "lack dto"), ({"metrics": {}}, "lack mig"),
    ({"skipped": {"dto": "dto failed (KeyError)"}}, None),
    ({"latents": [1]}, "some latents"), ({"versions": {"vae_tf": "0.0.1"}}, "another version of vae_tf"),
    # Codes of another metric are more: those that learn have half as many again.
    ({"examples": 90, "metrics": {"mig": {"score": 0.5, "measured": {"examples": 40}}}}, "mig: scored on fewer"),
    ({"metrics": {"mig": {"measured": {"examples": "x"}}}}, None), ({"metrics": {"mig": 3}}, None),
    ({"factors": ["a"]}, "some factors"), ({"passive_kl": 1}, "--passive_kl"), ({"metrics": 3}, "damaged"),
    ({"samples_per_value": 100}, "another --samples_per_value"), ({"quick": True}, "those of --quick"),
])
def test_scores_count_if_they_are_those_that_would_be_written(tmp_path, change, why):
    said = explain(tmp_path, {**WHOLE, **change})
    assert said is None if why is None else why in said


def test_a_metric_of_an_extension_that_failed_is_scored_again(tmp_path, registries):
    metrics.register(needs=("codes",), meaning="a toy", name="code_length")(lambda codes: None)
    options = evaluation.Options(("mig", "code_length"), examples=100)
    assert "lack code_length" in explain(tmp_path, {**WHOLE, "skipped": {"code_length": "it failed"}}, options)


@pytest.mark.parametrize(("need", "lacks"), [("factors", True), ("sampler", True), ("stddevs", False)])
def test_a_metric_of_an_extension_whose_need_is_missing_is_not_scored_again(tmp_path, registries, need, lacks):
    metrics.register(needs=("codes", need), meaning="a toy", name="toy")(lambda codes, needed: None)
    lacking = evaluation.score(evaluation.Codes(np.eye(9)), ("toy",), jobs=1, quick=True).skipped
    options = evaluation.Options(("mig", "toy"), examples=100)
    assert explain(tmp_path, {**WHOLE, "skipped": lacking}, options) is None
    # Such words are a failure where the metric needs something else.
    said = explain(tmp_path, {**WHOLE, "skipped": {"toy": "there are no factors"}}, options)
    assert said is None if lacks else "lack toy" in said


def test_a_quick_comparison_takes_quick_scores(tmp_path):
    assert explain(tmp_path, {**WHOLE, "quick": True}, evaluation.Options(("mig", "dto"), quick=True)) is None


@pytest.mark.parametrize("entry", ["data_fingerprint", "samples_per_value", "quick"])
def test_a_file_of_an_older_version_is_scored_anew(tmp_path, entry):
    assert "older version" in explain(tmp_path, {name: value for name, value in WHOLE.items() if name != entry})


def test_a_model_without_scores_is_scored(tmp_path):
    assert "not been scored" in evaluation.explain_missing(tmp_path / "metrics.json", OPTIONS, DATASET, SETTINGS, 2)


VALUES = strategies.recursive(strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats()
                              | strategies.text(max_size=3), lambda inner: strategies.lists(inner, max_size=2)
                              | strategies.dictionaries(strategies.text(max_size=3), inner, max_size=2), max_leaves=4)


@hypothesis.settings(max_examples=5 * hypothesis.settings().max_examples)
@hypothesis.given(strategies.binary(max_size=40) | strategies.dictionaries(strategies.sampled_from(sorted(WHOLE)),
                                                                          VALUES, max_size=4))
def test_whatever_stands_in_the_file_ends_in_words(content):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "metrics.json")
        path.write_bytes(content if isinstance(content, bytes) else json.dumps({**WHOLE, **content}).encode())
        said = evaluation.explain_missing(path, OPTIONS, DATASET, SETTINGS, 2)
    assert said is None or (isinstance(said, str) and "\n" not in said)
