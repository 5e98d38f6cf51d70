"""Runs that were stopped go on as if they had not been: signals, checkpoints, complete runs."""

import itertools
import os
import signal

import keras
import pytest
from cases import dataset
from trainings import assert_equal, fit, small, terms

from vae_tf import console, files, runs, training
from vae_tf.training import loop, rows
from vae_tf.training.validation import Validation


def test_a_resumed_run_is_the_uninterrupted_run(tmp_path):
    whole, weights = fit(small(name="ivae"), 20, tmp_path / "whole")
    fit(small(name="ivae"), 10, tmp_path / "parts")
    resumed, resumed_weights = fit(small(seed=9, name="ivae"), 20, tmp_path / "parts")  # its own weights are replaced
    assert_equal(weights, resumed_weights)
    assert terms(whole) == terms(resumed)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["checkpoints", "history.csv", "tensorboard"]


def signal_after(calls, monkeypatch, number=signal.SIGTERM):
    """Have this process asked to stop after so many calls of the graph."""
    add, made = rows.Row.add, itertools.count(1)

    def add_and_signal(self, *given):
        add(self, *given)
        if next(made) == calls:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(rows.Row, "add", add_and_signal)


@pytest.mark.parametrize("replicas", [False, True])
def test_where_a_run_is_stopped_changes_neither_weights_nor_rows(tmp_path, monkeypatch, replicas):
    def train(run_dir=None):
        if not replicas:
            return fit(small(), 40, run_dir, log_every=20, checkpoint_every=25)
        models = [small(seed) for seed in (0, 1)]
        histories = training.fit_replicas(
            models, dataset((3,)), keras.optimizers.Adam(1e-2), seeds=[0, 1], steps=40, batch_size=16, log_every=20,
            checkpoint_every=25, run_dirs=run_dir and [run_dir, tmp_path / "other"])
        return histories[0] + histories[1], models[0].get_weights() + models[1].get_weights()

    whole, weights = train()
    monkeypatch.setattr(loop, "CALL_SECONDS", 0)        # one step per call
    stops = ((7, 7, []), (6, 13, []), (12, 25, [20, 25]), (8, 33, [20, 25]))      # at 25 a row ends
    for calls, step, done in ((13, 13, []), *stops[2:3]) if replicas else stops:
        with monkeypatch.context() as patched:
            signal_after(calls, patched)
            history, _ = train(tmp_path / "run")
        assert [row["step"] for row in history] == done * (1 + replicas)
        assert max(runs.find_checkpoints(tmp_path / "run")) == step
        assert terms(runs.read_history(tmp_path / "run", 40)) == terms(whole)[:len(done)]
    again, resumed = train(tmp_path / "run")
    assert_equal(weights, resumed)
    assert terms(again) == terms(whole)


@pytest.mark.usefixtures("no_signal_is_ignored")
def test_a_stopped_run_may_end_at_the_step_where_it_was_stopped(tmp_path, monkeypatch):
    whole, weights = fit(small(), 7, log_every=5)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "CALL_SECONDS", 0)
        signal_after(7, patched)
        stopped, _ = fit(small(), 40, tmp_path)
    write = files.write_whole

    def kill_at_checkpoint(path, *given):       # when history.csv has the row, and the checkpoint has not
        if path.suffix == ".npz":
            raise KeyboardInterrupt
        write(path, *given)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", kill_at_checkpoint)
        with pytest.raises(KeyboardInterrupt):
            fit(small(), 7, tmp_path)
    assert [row["step"] for row in runs.read_history(tmp_path, 7)] == [5, 7]
    told = []
    ended, again = fit(small(seed=9), 7, tmp_path, callbacks=[keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: told.append(epoch), on_epoch_end=lambda epoch, logs: told.append(logs))])
    assert ([row["step"] for row in stopped], [row["step"] for row in ended]) == ([5], [5, 7])
    assert terms(ended) == terms(whole) and told == [1, ended[1]]
    assert fit(small(), 7, tmp_path)[0] == ended        # from the folder
    assert_equal(weights, again)


@pytest.mark.usefixtures("no_signal_is_ignored")
@pytest.mark.parametrize(("killed_at", "steps", "stopped_early"), [
    ("history.csv", 7, False), ("000000007.npz", 7, False), ("000000007.npz", 20, False), ("000000007.npz", 7, True)])
def test_replicas_that_are_killed_while_they_end_a_stopped_row_all_get_it(tmp_path, monkeypatch, killed_at, steps,
                                                                          stopped_early):
    def train(steps, run_dirs=None):
        return training.fit_replicas([small(seed) for seed in (0, 1)], dataset((3,)), keras.optimizers.Adam(1e-2),
                                     seeds=[0, 1], steps=steps, batch_size=16, log_every=5, run_dirs=run_dirs,
                                     validation=dataset((3,)))

    folders = [tmp_path / "run-seed0", tmp_path / "run-seed1"]
    if stopped_early:
        monkeypatch.setattr(Validation, "has_stopped", lambda self, replica: replica == 1)
    whole = train(7)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "CALL_SECONDS", 0)
        signal_after(7, patched)
        train(40, folders)
    write = files.write_whole

    def kill_in_the_second_run(path, *given):
        if folders[1] in path.parents and path.name == killed_at:
            raise KeyboardInterrupt
        write(path, *given)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", kill_in_the_second_run)
        with pytest.raises(KeyboardInterrupt):
            train(7, folders)
    ended = train(steps, folders)
    made = [5, 7] if steps == 7 else [5, 7, 10, 15, 20]
    assert [[row["step"] for row in history] for history in ended] == [made, [] if stopped_early else made]
    assert [terms(history[:2]) for history in ended] == [terms(history) for history in whole]
    assert [runs.read_history(folder, steps) for folder in folders] == ended
    assert train(steps, folders) == ended       # from the folders


def test_calls_of_the_graph_are_as_long_as_stops_allow(monkeypatch):
    counts = []
    add = rows.Row.add
    monkeypatch.setattr(rows.Row, "add", lambda self, steps, *given: (counts.append(steps), add(self, steps, *given)))
    fit(small(), 1000, log_every=1000, checkpoint_every=1000)
    assert sum(counts) == 1000 and counts[0] == 1 and max(counts) > 8
    assert all(after <= 8 * before for before, after in itertools.pairwise(counts))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_first_step_does_what_it_did_before(tmp_path, number):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    asking = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        training.fit(small(), dataset((3,)), keras.optimizers.Adam(), steps=40, batch_size=16, run_dir=tmp_path,
                     callbacks=[asking])
    assert signal.signal(number, before) is interrupt and not list(tmp_path.rglob("*.npz"))


def test_a_complete_run_is_not_trained_again(tmp_path):
    _, weights = fit(small(), 10, tmp_path)
    history, again = fit(small(seed=5), 10, tmp_path)
    assert_equal(weights, again)
    assert history[-1]["step"] == 10


def test_two_checkpoints_are_kept_and_a_damaged_one_is_passed_over(tmp_path, capsys):
    _, weights = fit(small(), 40, tmp_path / "run")
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["000000030.npz", "000000040.npz"]
    whole = kept[-1].read_bytes()
    for torn in (whole[:len(whole) // 2], whole[:100] + b"\xff" * 200 + whole[300:], b""):
        kept[-1].write_bytes(torn)
        model = small(seed=5)
        history, again = fit(model, 40, tmp_path / "run")
        assert "is damaged" in capsys.readouterr().err
        assert_equal(weights, again)
        assert history[-1]["step"] == 40


def test_damaged_checkpoints_neither_shield_nor_displace_new_ones(tmp_path, capsys):
    class KilledError(Exception):
        pass

    def kill(epoch, logs):
        if logs["step"] == 25:
            raise KilledError

    whole, weights = fit(small(), 40, tmp_path)
    for path in runs.find_checkpoints(tmp_path).values():
        path.write_bytes(path.read_bytes()[:100])
    for stray in ("5abc.npz", "000000020 (1).npz", "20.npz"):
        (tmp_path / "checkpoints" / stray).write_bytes(b"")
    with pytest.raises(KilledError):
        fit(small(), 40, tmp_path, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=kill)])
    assert "is damaged" in capsys.readouterr().err
    assert sorted(runs.find_checkpoints(tmp_path)) == [10, 20]
    history, again = fit(small(seed=9), 40, tmp_path)
    assert "warning" not in capsys.readouterr().err
    assert sorted(runs.find_checkpoints(tmp_path)) == [30, 40]
    assert_equal(weights, again)
    assert terms(history) == terms(whole)


@pytest.fixture
def no_signal_is_ignored():
    """A shell that runs the tests in the background, or nohup, ignores signals on their behalf."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in console.STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler or signal.SIG_DFL)


@pytest.mark.usefixtures("no_signal_is_ignored")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_writes_a_checkpoint_and_leaves(tmp_path, number, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(loop, "CALL_SECONDS", 0)
        signal_after(12, patched, number)
        history, _ = fit(small(), 40, tmp_path)
    assert history[-1]["step"] == 10 and max(runs.find_checkpoints(tmp_path)) == 12
    assert not any(signal.getsignal(each) == signal.SIG_IGN for each in console.STOPS)


@pytest.mark.usefixtures("no_signal_is_ignored")
def test_a_second_signal_has_its_former_effect_whatever_the_first_was():
    got = []
    for each in console.STOPS:
        signal.signal(each, lambda number, _: got.append(number))
    with console.StopRequest() as stop:
        stop.worth_saving = True
        signal.raise_signal(signal.SIGINT)
        assert stop.requested and not got
        signal.raise_signal(signal.SIGTERM)
        assert got == [signal.SIGTERM]


def test_a_signal_that_the_parent_ignored_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)       # as nohup does
    try:
        signal_after(1, monkeypatch, signal.SIGHUP)
        history, _ = fit(small(), 10)
        assert history[-1]["step"] == 10
    finally:
        signal.signal(signal.SIGHUP, before)
