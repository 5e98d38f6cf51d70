"""Metrics declare what they need, in the package and outside of it; everything else follows from that."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import programs
import pytest
import tensorflow as tf
import test_metrics_properties as properties

from vae_tf import evaluation, metrics, report
from vae_tf.errors import InputError
from vae_tf.metrics import page, registry

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def registered(monkeypatch):
    """METRICS that are as before when the test has ended."""
    monkeypatch.setattr(registry, "METRICS", dict(registry.METRICS))
    monkeypatch.setattr(metrics, "METRICS", registry.METRICS)
    monkeypatch.setattr(page, "METRICS", registry.METRICS)
    return registry.METRICS


def declare_toy(**options):
    """A metric from outside: 1 less the share of the codes' mean absolute deviation that other rows could have."""
    @metrics.register(needs=("codes", "factors"), meaning="a toy", name="toy", **options)
    def toy(codes, factors, kinds=None, seed=0):
        codes, factors = metrics.check_arrays(codes, factors)
        r = abs(np.corrcoef(codes.T, factors.T)[:codes.shape[1], codes.shape[1]:]).max()
        return metrics.Result("toy", float(r), {"kinds": kinds, "seed": seed}, "0: nothing; 1: a straight line")

    return toy


def codes_and_factors(rows=80):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (rows, 2))
    return evaluation.Codes(factors + 0.3 * rng.standard_normal((rows, 2)), factors)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_metric_from_outside_is_scored_like_any_other(registered, jobs):
    declare_toy()
    scored = evaluation.score(codes_and_factors(), ["mig", "toy"], seed=3, jobs=jobs)
    result = scored.results["toy"]
    assert result.parts == {"kinds": ("categorical", "categorical"), "seed": 3} and 0.9 < result.score < 1
    assert scored.chance_level["toy"] < 0.4 and scored.measured["toy"]["resamples"] == evaluation.RESAMPLES
    assert "  toy " in report.write_table(scored) and '"toy": {' in evaluation.as_json(scored)
    assert "| `toy` | a toy | codes, factors |" in page.list_declarations("metrics")


def test_a_metric_from_outside_is_held_to_the_properties_that_it_declares(registered):
    declare_toy(range=(0, 1), unchanged_by=("permutation", "sign"), nearly_unchanged_by=("scale",))
    codes, factors = properties.example()
    before = properties.scored("toy", codes, 1, factors)
    properties.check_range("toy", before)
    properties.check_change("toy", "permutation", before)
    properties.check_change("toy", "scale", before)
    with pytest.raises(AssertionError, match="relabelling"):
        declare_toy(unchanged_by=("relabelling",))
        properties.check_change("toy", "relabelling", before)


def test_a_metric_of_an_extension_scores_codes_from_the_command_line(tmp_path):
    """The metric of examples/extension.py; test_extensions.py scores a model with it."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "my.npz", codes=rng.uniform(0, 3, (80, 2)), factors=rng.integers(0, 3, (80, 2)))
    code, table, error = programs.run(
        "evaluate.py", "--codes=my.npz", "--metrics=latent_range,mig", "--jobs=1", folder=tmp_path,
        environment={"PYTHONPATH": str(ROOT / "examples"), "VAE_TF_EXTENSIONS": "extension"})
    assert code == 0, error
    told = json.loads((tmp_path / "my.metrics.json").read_text())["metrics"]
    assert 2.8 < told["latent_range"]["score"] < 3 and "interval" not in told["latent_range"]
    assert f"latent_range             {told['latent_range']['score']:.4g} " in table and "units of z" in table
    assert set(told) == {"latent_range", "mig"}


@pytest.mark.parametrize(("options", "default", "resamples", "rows"), [
    ({}, True, 20, 80), ({"cost": "seconds"}, True, 5, 80), ({"cost": "minutes"}, False, 5, 80),
    ({"extremes": True}, True, 0, 80), ({"learns": True}, True, 20, 80)])
def test_what_is_declared_decides_how_a_metric_is_scored(registered, options, default, resamples, rows):
    declare_toy(**options)
    assert ("toy" in metrics.list_default_names()) == default and "toy" in metrics.list_names("metrics")
    scored = evaluation.score(codes_and_factors(), ["toy"], examples=60)
    assert scored.measured["toy"]["resamples"] == resamples
    assert scored.measured["toy"]["examples"] == (80 if options.get("learns") else 60)


def test_what_is_missing_is_said_in_one_way():
    """One measure for metrics of codes, of the posterior, of the decoder and of the whole model."""
    codes = np.random.default_rng(0).standard_normal((30, 2))
    results, skipped = metrics.measure(("active_units", "mig", "irs", "mig_posterior", "dto", "loss_split",
                                        "linear_optimum"), metrics.Context(codes))
    assert list(results) == ["active_units"]
    assert skipped == {"mig": "there are no factors", "irs": "there are no factors",
                       "mig_posterior": "there are no factors", "dto": "there is no decoder, only codes",
                       "loss_split": "there is no decoder, only codes",
                       "linear_optimum": "there is no model, only codes"}


def test_what_metrics_share_is_computed_once():
    calls = []

    def decoder(z):
        calls.append(tf.executing_eagerly())
        return z @ tf.eye(3, 5)

    context = metrics.Context(np.ones((4, 3), np.float32), decoder=decoder)
    results, _ = metrics.measure(("dto", "column_cosine", "hadamard_gap"), context)
    traced = len(calls)
    metrics.measure(("od_score_jacobian",), context)
    assert len(calls) == traced and results["dto"].score == pytest.approx(0, abs=1e-6)


def test_another_name_asks_for_the_same_metric(registered):
    context = metrics.Context(np.ones((4, 2), np.float32), decoder=lambda z: z @ np.eye(2, 5, dtype=np.float32))
    results, _ = metrics.measure(("ima_contrast",), context)
    assert list(results) == ["hadamard_gap"] and metrics.find_name("ima_contrast") == "hadamard_gap"
    assert evaluation.Options(["ima_contrast"]).names == ("hadamard_gap",)
    assert "| `hadamard_gap` or `ima_contrast` |" in page.list_declarations("geometry")
    assert "ima_contrast" not in metrics.list_names()
    with pytest.raises(InputError, match="name: expected a name that no metric has; got mig, which vae_tf"):
        declare_toy(also=("mig",))
    with pytest.raises(InputError, match="name: expected a name that no metric has; got ima_contrast, which vae_tf"):
        metrics.register(needs=("codes",), meaning="a toy", name="ima_contrast")(lambda codes: None)


@pytest.mark.parametrize(("options", "message"), [
    ({"needs": ()}, "needs: expected the name of something to look at; got none"),
    ({"needs": ("pixels",)}, r"needs: expected names of codes, factors, .*; got 'pixels'"),
    ({"cost": "hours"}, "cost: expected names of cheap, seconds, minutes; got 'hours'"),
    ({"no_meaning_for": ("alive",)}, "no_meaning_for: expected names of dead, .*; got 'alive'"),
    ({"unchanged_by": ("rotation",)}, "unchanged_by: expected names of permutation, .*; got 'rotation'"),
    ({"needs": "codes"}, "needs: expected a tuple of names; got a text, 'codes'"),
    ({"also": "my_toy"}, "also: expected a tuple of names; got a text, 'my_toy'"),
    ({"active": "often"}, "active: expected one of .*, or None; got 'often'"),
    ({"name": "my metric"}, "name: expected letters, digits and underscores, .*; got 'my metric'"),
    ({"name": "all"}, "name: expected .*, neither default nor all; got 'all'"),
    ({"name": "mig"}, "name: expected a name that no metric has; got mig, which vae_tf.metrics.information has"),
])
def test_bad_declarations_name_themselves(registered, options, message):
    with pytest.raises(InputError, match=message):
        metrics.register(**{"needs": ("codes",), "meaning": "a toy", "name": "toy", **options})(lambda codes: None)


def test_a_metric_may_be_declared_with_lists(registered):
    metrics.register(needs=["codes"], meaning="a toy", name="toy", range=[0, 1])(
        lambda codes: metrics.Result("toy", 0.5, {}, "a toy"))
    assert evaluation.score(codes_and_factors(), ["toy"]).results["toy"].score == 0.5


def test_a_metric_that_returns_no_result_is_named(registered):
    metrics.register(needs=("codes",), meaning="a toy", name="toy")(lambda codes: 0.5)
    scored = evaluation.score(codes_and_factors(), ["toy"])
    assert scored.skipped["toy"] == "toy: expected a metric that returns a metrics.Result; got float"


def test_a_metric_that_fails_is_named_and_the_packages_own_shows_its_bug(registered):
    def fail(codes):
        return metrics.Result("toy", [][0], {}, "a toy")

    metrics.register(needs=("codes",), meaning="a toy", name="toy")(fail)
    scored = evaluation.score(codes_and_factors(), ["toy", "active_units"], jobs=1)
    assert scored.skipped == {"toy": "toy failed (IndexError: list index out of range)"}
    assert set(scored.results) == {"active_units"}
    fail.__module__ = "vae_tf.metrics.bug"
    metrics.register(needs=("codes",), meaning="a toy", name="bug")(fail)
    with pytest.raises(IndexError):
        evaluation.score(codes_and_factors(), ["bug"], jobs=1)


@pytest.mark.parametrize(("score", "parts", "said"), [
    (np.array(0.5), {"ragged": [[1.0], [2, np.float32(3)]], "none": np.array(np.nan)}, None),
    (tf.constant(0.5), {}, None), (np.bool_(True), {}, None), (None, {}, "score that is a number; got None"),
    (0.5, {0: {1: 0.1}, "mixed": np.array(["x", None], object), evaluation.BOUNDED: None}, None),
    ([[1], [1, 2]], {}, "score that is a number; got "),
    (np.array([0.5]), {}, r"score that is a number; got ndarray of shape \(1,\)"),
    ("0.5", {}, "score that is a number; got '0.5'"), (np.array(np.nan), {}, "score that is a number; got array.nan."),
    (0.5, None, "dict of parts .*; got None"), (0.5, {"part": tf.constant(1)}, "dict of parts .*; got {'part'"),
    (0.5, {"good": np.eye(9), "bad": 1j}, "dict of parts that are numbers, texts, arrays .*; got {'bad': 1j}"),
])
def test_what_a_metric_returns_is_looked_at_before_it_counts(registered, score, parts, said):
    metrics.register(needs=("codes",), meaning="a toy", name="toy", extremes=True)(
        lambda codes: metrics.Result("another", score, parts, "a toy"))
    scored = evaluation.score(codes_and_factors(), ["toy", "active_units"], jobs=1)
    told = json.loads(evaluation.as_json(scored))
    assert "active_units" in told["metrics"] and ("toy" in told["metrics"]) == (said is None)
    if said is None:
        assert told["metrics"]["toy"]["score"] == float(score) and scored.results["toy"].name == "toy"
    else:
        assert re.match(f"toy: expected a {said}", told["skipped"]["toy"])


def test_the_tables_of_the_documentation_are_up_to_date():
    file = ROOT / "docs" / "metrics.md"
    text = file.read_text()
    assert all(f"<!-- {title}: {page.COMMAND} -->" in text for title in page.TABLES)
    assert page.update_tables(text) == text, f"run `{page.COMMAND}`"


def test_stale_tables_are_replaced(tmp_path):
    title, table = "needs", page.list_needs()
    start, end = f"<!-- {title}: {page.COMMAND} -->", f"<!-- end of {title} -->"
    file = tmp_path / "page.md"
    file.write_text(f"Before.\n{start}\n| old |\n{end}\nAfter.\n")
    subprocess.run([sys.executable, "-m", "vae_tf.metrics", "--page=~/page.md"], check=True, cwd=ROOT,
                   env={**os.environ, "HOME": str(tmp_path)})
    assert file.read_text() == f"Before.\n{start}\n{table}\n{end}\nAfter.\n"


def test_a_page_without_tables_is_refused_and_kept(tmp_path):
    (tmp_path / "page.md").write_text("Nothing.\n")
    done = subprocess.run([sys.executable, "-m", "vae_tf.metrics", f"--page={tmp_path / 'page.md'}"], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 2 and "--page: expected a page with the marks of a table" in done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "page.md").read_text() == "Nothing.\n"


@pytest.mark.parametrize("name", [name for name, metric in metrics.METRICS.items() if "score_alone" in metric.options])
def test_a_score_without_its_parts_is_the_same_score(name):
    codes = codes_and_factors(120)
    whole, alone = (metrics.METRICS[name].measure(codes.make_context(score_alone=alone)) for alone in (False, True))
    assert whole.score == alone.score
    left_out = [part for part, value in alone.parts.items()
                if np.shape(value) != np.shape(whole.parts[part])
                or (value.dtype.kind == "f" and np.isnan(value).any() and not np.isnan(whole.parts[part]).any())]
    assert left_out         # or the option leaves out nothing
