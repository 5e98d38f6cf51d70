"""An evaluation that is stopped goes on where it was, and what is damaged in its file is passed over."""

import os
import pathlib
import tracemalloc

import numpy as np
import pytest
from scored_codes import codes_and_factors

from vae_tf import evaluation, metrics
from vae_tf.errors import InputError
from vae_tf.evaluation import kept

NAMES = ("mig", "irs", "total_correlation", "disentanglement_score")


class Stopped(KeyboardInterrupt):
    """Stands for a request to stop."""


def stop_after(count):
    def progress(done, total):
        if done == count:
            raise Stopped
    return progress


@pytest.fixture
def counted(monkeypatch):
    """Names of the metrics that were computed, once for each call."""
    calls = []

    def measure(metric, *arguments, real=metrics.Metric.measure):
        calls.append(metric.name)
        return real(metric, *arguments)

    monkeypatch.setattr(metrics.Metric, "measure", measure)
    return calls


def scores(path, codes=None, **options):
    codes = evaluation.Codes(*codes_and_factors()) if codes is None else codes
    return evaluation.score(codes, NAMES, keep=path, **options)


def test_what_was_computed_before_a_stop_is_not_computed_again(tmp_path, counted):
    path = tmp_path / ".scores"
    whole = scores(None)
    draws = len(counted)
    counted.clear()
    with pytest.raises(Stopped):
        scores(path, progress=stop_after(draws - 5))
    assert len(counted) >= draws - 5
    counted.clear()
    again = scores(path)
    assert 0 < len(counted) <= 5
    assert evaluation.as_json(again._replace(measured={})) == evaluation.as_json(whole._replace(measured={}))
    assert again.interval == whole.interval and again.chance_level == whole.chance_level
    for name, result in whole.results.items():
        assert again.results[name].parts.keys() == result.parts.keys()
        for part, value in result.parts.items():
            np.testing.assert_array_equal(again.results[name].parts[part], value)
    evaluation.forget(path)
    assert not path.exists()


def test_a_short_evaluation_leaves_what_an_interrupted_long_one_has_kept(tmp_path, counted):
    path = tmp_path / ".scores"
    with pytest.raises(Stopped):
        scores(path, progress=stop_after(20))
    kept_before = len(path.read_bytes().split(b"\n"))
    kept._used.clear()          # the next evaluation is in a process of its own
    scores(path, examples=100)
    evaluation.forget(path)
    assert len(path.read_bytes().split(b"\n")) + 1 == kept_before      # the first line was empty
    counted.clear()
    whole = scores(path)
    assert len(counted) < len(NAMES) * 22 - 15
    evaluation.forget(path)
    assert whole.results["mig"].score > 0.5 and not path.exists()


def test_metrics_from_outside_are_computed_again_because_their_code_may_have_changed(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(metrics.METRICS["irs"].function, "__module__", "mine")
    scores(tmp_path / ".scores")
    counted.clear()
    scores(tmp_path / ".scores")
    assert {*counted} == {"irs"}


@pytest.mark.parametrize("change", ["codes", "factors", "seed", "examples"])
def test_what_depends_on_something_else_is_computed_again(tmp_path, counted, change):
    scores(tmp_path / ".scores")
    draws, codes, options = len(counted), evaluation.Codes(*codes_and_factors()), {}
    counted.clear()
    if change in ("codes", "factors"):
        field = {"codes": "mean", "factors": "factors"}[change]
        other = getattr(codes, field).copy()
        other[0, 0] += 1
        codes = codes._replace(**{field: other})
    else:
        options = {change: 250}
    scores(tmp_path / ".scores", codes, **options)
    assert len(counted) == draws


@pytest.mark.parametrize("damage", [
    lambda content: content[:len(content) // 2], lambda content: content.replace(b"0.", b"9."),
    lambda content: b"\xff\x00" + content, lambda content: content.replace(b"\n", b""), lambda content: b"[" * 10_000])
def test_damaged_lines_are_passed_over(tmp_path, damage):
    path = tmp_path / ".scores"
    whole = scores(path)
    path.write_bytes(damage(path.read_bytes()))
    assert evaluation.as_json(scores(path)._replace(measured={})) == evaluation.as_json(whole._replace(measured={}))


def place(kind, path):
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(pathlib.Path("/dev/zero") if kind == "device" else path)


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "loop"])
def test_where_no_file_can_be_nothing_is_kept(tmp_path, kind):
    place(kind, tmp_path / ".scores")
    assert scores(tmp_path / ".scores").results["mig"].score > 0.5


def test_two_evaluations_do_not_share_a_file(tmp_path):
    first = kept.Kept(tmp_path / ".scores", "key")
    second = kept.Kept(tmp_path / ".scores", "key")
    outcome = kept.Outcome(InputError("no"), [], 0.0, 3)
    second.add("mig", "score", outcome)
    first.add("mcc", "score", outcome)
    second.close()
    evaluation.forget(tmp_path / ".scores")     # the second is complete, and the first goes on
    first.close()
    assert [*kept.Kept(tmp_path / ".scores", "key").found] == [("mcc", "score")]


def test_two_keys_of_one_evaluation_share_a_file(tmp_path):
    path, outcome = tmp_path / ".scores", kept.Outcome(InputError("no"), [], 0.0, 3)
    codes = kept.Kept(path, "codes")
    decoder = codes.share("decoder")
    codes.add("mig", "score", outcome)
    decoder.add("dto", "around", outcome)
    codes.add("mcc", "score", outcome)
    codes.close()
    again = kept.Kept(path, "codes")
    assert [*again.found] == [("mig", "score"), ("mcc", "score")]
    assert [*again.share("decoder").found] == [("dto", "around")] and [*again.share("other").found] == []
    again.close()
    evaluation.forget(path)
    assert not path.exists()


def test_a_file_takes_no_more_memory_than_it_has(tmp_path):
    tracemalloc.start()
    kept.Kept(tmp_path / "kept", "key").close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
