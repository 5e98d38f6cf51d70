"""Runs that are killed, that run out of disk, or whose data or numbers go bad."""

import multiprocessing
import resource
import signal
import time
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset

from vae_tf import data, runs, training
from vae_tf.data import batches
from vae_tf.errors import InputError
from vae_tf.training import schedule

CASE = ("ivae", "mlp_synthetic", (3,), "gaussian", {})
STEPS, EVERY, KILLS = 1200, 20, 3

# TensorFlow is imported once; each process is forked from there.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["vae_tf.training", "cases"])


def train_to_the_end(run, result):
    model = build(*CASE)
    training.fit(model, dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=STEPS, batch_size=8, run_dir=run,
                 log_every=EVERY, checkpoint_every=EVERY)
    np.savez(result, *model.get_weights())


def train_without_room(run, result, largest):
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))      # stands for a disk that is full
    error = None
    try:
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=60, batch_size=8, run_dir=run,
                     log_every=EVERY, checkpoint_every=EVERY)
    except OSError as caught:
        error = str(caught)
    result.send(error)


def newest(run):
    return max(runs.find_checkpoints(run), default=0)


def test_a_run_killed_three_times_ends_bit_for_bit_as_if_it_had_not(tmp_path):
    whole = processes.Process(target=train_to_the_end, args=(tmp_path / "whole", tmp_path / "whole.npz"))
    whole.start()
    run, rng, moments = tmp_path / "killed", np.random.default_rng(), []
    while len(moments) < KILLS:
        process = processes.Process(target=train_to_the_end, args=(run, tmp_path / "killed.npz"))
        process.start()
        # Some checkpoints further on, then at any moment: in a step, while writing, while renaming.
        reached = newest(run) + rng.integers(1, STEPS // (2 * KILLS))
        while newest(run) < reached and process.is_alive():
            time.sleep(1e-4)
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, f"not killed at {newest(run)}, after {moments}"
        moments.append(newest(run))
    last = processes.Process(target=train_to_the_end, args=(run, tmp_path / "killed.npz"))
    last.start()
    last.join()
    whole.join()
    assert moments[0] > 0 and moments[-1] < STEPS and (whole.exitcode, last.exitcode) == (0, 0), moments
    with np.load(tmp_path / "whole.npz") as expected, np.load(tmp_path / "killed.npz") as got:
        for name in expected.files:
            np.testing.assert_array_equal(expected[name], got[name])
    expected, got = (runs.read_history(path, STEPS) for path in (tmp_path / "whole", run))
    assert len(expected) == len(got) == STEPS // EVERY
    for one, other in zip(expected, got, strict=True):
        assert {**one, "examples_per_second": 0} == {**other, "examples_per_second": 0}


def test_a_full_disk_stops_the_run_and_leaves_what_was_good(tmp_path):
    training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=EVERY, batch_size=8,
                 run_dir=tmp_path / "run", log_every=EVERY, checkpoint_every=EVERY)
    good, = runs.find_checkpoints(tmp_path / "run").values()
    content = good.read_bytes()
    here, there = processes.Pipe()
    process = processes.Process(target=train_without_room, args=(tmp_path / "run", there, len(content) // 2))
    process.start()
    message = here.recv()
    process.join()
    assert "000000040.npz could not be written: File too large" in message
    assert list(runs.find_checkpoints(tmp_path / "run").values()) == [good] and good.read_bytes() == content
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]
    model = build(*CASE)                    # with room again it goes on
    training.fit(model, dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=60, batch_size=8,
                 run_dir=tmp_path / "run", log_every=EVERY, checkpoint_every=EVERY)
    whole = build(*CASE)
    training.fit(whole, dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=60, batch_size=8)
    for a, b in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_examples_that_cannot_be_read_are_said_with_the_step(tmp_path):
    rows = dataset(CASE[2])
    bad = batches.draw_indices(len(rows), 8, 0, 133).tobytes()

    def images_at(indices):
        if bad in indices.tobytes():
            raise OSError("rows are gone")
        return rows.images_at(indices)

    broken = data.dataset.Dataset("broken", len(rows), rows.shape, images_at, u_at=rows.u_at, u_size=rows.u_size)
    message = r"step 133: its examples could not be read \(OSError: rows are gone\); last good .*000000120.npz"
    with pytest.raises(training.DataError, match=message):
        training.fit(build(*CASE), broken, keras.optimizers.Adam(1e-3), steps=200, batch_size=8,
                     run_dir=tmp_path, log_every=EVERY, checkpoint_every=EVERY)
    assert newest(tmp_path) == 120


class Kink(keras.layers.Layer):
    """x + sqrt(|x w|), w = 0: a number with no finite slope."""

    def build(self, shape):
        self.w = self.add_weight(shape=(), initializer="zeros")

    def call(self, x):
        return x + tf.sqrt(tf.abs(x) * self.w)


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path):
    model = build("vae", "mlp_synthetic", (3,), "gaussian", {})
    inputs = keras.Input((3,))
    heads = model.encoder(inputs)
    model.encoder = keras.Model(inputs, [Kink()(heads[0]), heads[1]])
    x = tf.constant(dataset((3,)).images_at(np.arange(8)))
    assert np.isfinite(model.posterior(x).mean()).all()
    message = "step 1: weights of seed 0 that are not finite, functional/dense/kernel .*no checkpoint"
    with pytest.raises(training.NonFiniteError, match=message):
        training.fit(model, dataset((3,)), keras.optimizers.Adam(1e-3), steps=20, batch_size=8, run_dir=tmp_path,
                     checkpoint_every=1)
    with pytest.raises(training.NonFiniteError, match=r"step [12]: a loss that is not finite"):
        training.fit(model, dataset((3,)), keras.optimizers.Adam(1e-3), steps=20, batch_size=8, run_dir=tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


def test_keras_callbacks_are_called_row_by_row(tmp_path):
    rows: list = []
    model = build(*CASE)
    optimizer = keras.optimizers.Adam(1e-2)
    stopping = keras.callbacks.EarlyStopping("loss", patience=3, min_delta=10.0)
    history = training.fit(
        model, dataset(CASE[2]), optimizer, steps=1000, batch_size=8, log_every=10, run_dir=tmp_path / "run",
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: rows.append((epoch, dict(logs)))),
                   keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.0 if epoch >= 2 else rate),
                   keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
                   stopping])
    assert [epoch for epoch, _ in rows] == list(range(len(history)))
    assert stopping.params == {"epochs": 100, "steps": None, "verbose": 0}
    assert history[-1]["step"] == 40 == newest(tmp_path / "run")       # stopped early, and wrote a checkpoint
    assert rows[0][1] == history[0] and isinstance(history[0]["step"], int)
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == [f"{i}.weights.h5" for i in range(1, 5)]


@pytest.mark.parametrize("lengths", [(7, 3, 0), (10, 10, 4), (100, 30, 7), (41, 50, 0)])
def test_rows_are_counted_as_they_end(lengths):
    log_every, checkpoint_every, watch_every = lengths
    run = schedule.Schedule(steps=41, batch_size=8, log_every=log_every, checkpoint_every=checkpoint_every,
                            watch=(lambda *_: {}) if watch_every else None, watch_every=watch_every or 1)
    ends = [0]
    while ends[-1] < 41:
        ends.append(run.find_row_end(ends[-1]))
    assert run.count_rows() == len(ends) - 1
    assert schedule.Schedule(steps=2**31 - 1, batch_size=8, log_every=1).count_rows() == 2**31 - 1     # and in no time


@pytest.mark.parametrize("compiled", [False, True])
def test_callbacks_leave_alone_what_the_caller_compiled(tmp_path, compiled):
    model, own = build(*CASE), keras.optimizers.SGD()
    if compiled:
        model.compile(optimizer=own)
    seen = []
    used = keras.optimizers.Adam(1e-2)
    training.fit(model, dataset(CASE[2]), used, steps=4, batch_size=8, log_every=2, callbacks=[
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: seen.append(model.optimizer))])
    assert seen == [used, used] and len(list(tmp_path.iterdir())) == 2
    assert model.compiled == compiled
    assert model.optimizer is own if compiled else not hasattr(model, "optimizer")


def test_a_learning_rate_that_a_callback_sets_holds():
    model = build(*CASE)
    before = model.get_weights()
    training.fit(model, dataset(CASE[2]), keras.optimizers.Adam(1e-2), steps=20, batch_size=8, log_every=10,
                 callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.0)])
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_checkpoint_that_lacks_an_array_is_one_line(tmp_path):
    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=3, **options)
    path = runs.find_newest(tmp_path)
    with np.load(path) as file:
        arrays = dict(file)
    del arrays["encoder/dense/kernel"]
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=r"^checkpoint: expected an array encoder/dense/kernel .*got none.*--restart"):
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=5, **options)


def test_a_run_goes_on_with_its_optimizer_and_its_learning_rate_alone(tmp_path):
    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=2, **options)
    with pytest.raises(InputError, match=r"^optimizer: expected that of the checkpoint, which .* got SGD, which has"):
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.SGD(1e-3), steps=3, **options)
    other = keras.optimizers.Adam(1e-4)
    with pytest.warns(UserWarning, match=r"^learning_rate: the run goes on with .*, 0.001, instead of 0.0001;"):
        training.fit(build(*CASE), dataset(CASE[2]), other, steps=3, **options)
    assert float(other.learning_rate) == pytest.approx(1e-3)
    with warnings.catch_warnings(action="error"):
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(1e-3), steps=4, **options)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_run_goes_on_with_a_frozen_network_a_schedule_or_scaled_losses(tmp_path, scaled):
    def make(rate):
        optimizer = keras.optimizers.Adam(rate)
        return keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer

    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), make(1e-3), steps=2, **options)
    frozen = build(*CASE)
    frozen.encoder.trainable = False
    with pytest.warns(UserWarning, match=r"^learning_rate: the run goes on with .*, 0.001, instead of 0.0001;"):
        training.fit(frozen, dataset(CASE[2]), make(1e-4), steps=3, **options)
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 10)
    if not scaled:      # there a rate has the name of another
        training.fit(frozen, dataset(CASE[2]), make(schedule), steps=4, **options)


@pytest.mark.parametrize("first", [keras.optimizers.Nadam, lambda: keras.optimizers.LossScaleOptimizer(
    keras.optimizers.Adam())], ids=["Nadam", "LossScaleOptimizer"])
def test_a_run_does_not_go_on_without_a_part_of_its_optimizer(tmp_path, first):
    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), first(), steps=2, **options)
    with pytest.raises(InputError, match=r"^optimizer: expected that of the checkpoint, which .* got Adam, which has"):
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=3, **options)


def test_runs_of_too_few_steps_are_refused(tmp_path):
    options = {"batch_size": 8, "run_dir": tmp_path}
    training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=3, **options)
    with pytest.raises(InputError, match="is at step 3 already; expected at least as many, got 2"):
        training.fit(build(*CASE), dataset(CASE[2]), keras.optimizers.Adam(), steps=2, **options)
