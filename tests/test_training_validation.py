"""Validation while training, early stopping, the best weights, and how all of it is resumed."""

import dataclasses
import math
import shutil

import keras
import numpy as np
import pytest
from cases import build, dataset
from trainings import assert_equal, terms

from vae_tf import data, distributions, models, runs, training
from vae_tf.errors import InputError
from vae_tf.training.validation import choose_size, count_since_best

WHOLE = dataset((3,))
TRAINED_ON, HELD_OUT = WHOLE.take(np.arange(24)), WHOLE.take(np.arange(24, 40))
STEPS, PATIENCE = 100, 3


def small(seed=0, name="vae"):
    return build(name, "mlp_synthetic", (3,), "gaussian", {}, seed)


def optimizer():
    return keras.optimizers.Adam(training.schedule_learning_rate("cosine", 1e-2, STEPS, warmup_steps=5))


def fit(model, run_dir=None, **more):
    given = {"steps": STEPS, "batch_size": 12, "log_every": 5, "checkpoint_every": 20, "validation": HELD_OUT,
             "validate_every": 5, "early_stopping": PATIENCE, **more}
    return training.fit(model, TRAINED_ON, optimizer(), run_dir=run_dir, **given)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped early, and was never interrupted: its model, history and folder."""
    model, folder = small(), tmp_path_factory.mktemp("stopped")
    return model, fit(model, folder), folder


@pytest.mark.parametrize(("examples", "batch_size", "size", "left_out"), [
    (5_000, 64, 64, 8), (101, 2, 2, 1), (4_999, 2, 2, 1), (100, 64, 50, 0), (7, 64, 7, 0), (1, 1, 1, 0),
    (5_000, 16, 16, 8)])
def test_batches_of_a_validation_leave_out_few_examples(examples, batch_size, size, left_out):
    assert choose_size(examples, batch_size) == size
    assert examples % size == left_out


def test_training_stops_after_so_many_validations_without_improvement(stopped):
    _, history, folder = stopped
    best = training.find_best(history)["step"]
    assert best >= 5 and history[-1]["step"] == best + 5 * PATIENCE < STEPS
    assert max(runs.find_checkpoints(folder)) == history[-1]["step"]
    assert training.has_ended(history, STEPS, PATIENCE) and not training.has_ended(history[:-1], STEPS, PATIENCE)


def test_validation_changes_no_step(stopped, tmp_path):
    _, history, folder = stopped
    end = history[-1]["step"]
    alone = training.fit(small(), TRAINED_ON, optimizer(), run_dir=tmp_path, steps=end, batch_size=12, log_every=5)
    assert terms(alone) == [{name: value for name, value in row.items() if "validation" not in name}
                               for row in terms(history)]
    with np.load(runs.find_newest(folder)) as validated, np.load(runs.find_newest(tmp_path)) as plain:
        names = [name for name in plain.files if not name.startswith("run")]
        assert_equal([validated[name] for name in names], [plain[name] for name in names])
        assert {f"best {name}" for name in names if name.startswith(("encoder", "decoder"))} < set(validated.files)


def test_a_run_killed_after_a_validation_ends_as_if_it_had_not_been(stopped, tmp_path):
    class Killed(Exception):
        pass

    def kill_at(step):
        def end(epoch, logs):
            if logs["step"] == step:
                raise Killed
        return keras.callbacks.LambdaCallback(on_epoch_end=end)

    model, history, _ = stopped
    for step in (25, history[-1]["step"]):
        with pytest.raises(Killed):
            fit(small(), tmp_path, callbacks=[kill_at(step)])
    assert max(runs.find_checkpoints(tmp_path)) % 20 == 0
    resumed = small(seed=9)
    assert terms(fit(resumed, tmp_path)) == terms(history)
    assert_equal(resumed.get_weights(), model.get_weights())


def test_a_run_that_was_stopped_early_stays_stopped(stopped, tmp_path):
    model, history, folder = stopped
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    again = small(seed=9)
    assert fit(again, tmp_path, steps=2 * STEPS) == history
    assert_equal(again.get_weights(), model.get_weights())
    (tmp_path / "history.csv").unlink()
    with pytest.raises(InputError, match=r"history.csv is missing: expected the row of the validation .*--restart"):
        fit(small(), tmp_path)
    text = (folder / "history.csv").read_text()
    (tmp_path / "history.csv").write_text(text[:-3])
    with pytest.raises(InputError, match=r"history.csv: .*restore the file, or --restart starts over"):
        fit(small(), tmp_path)


@pytest.mark.parametrize("name", ["vae", "ivae", "factor_vae"])
def test_the_terms_are_those_of_keras_loops_at_the_best_weights(stopped, name):
    model, history, _ = stopped
    if name != "vae":
        model = small(name=name)
        history = fit(model, steps=10, validate_every=5, early_stopping=0, restore_best=True)
    model.compile()
    evaluated = model.evaluate(HELD_OUT, batch_size=8, verbose=0, return_dict=True)    # two batches of at most 12
    best = training.find_best(history)
    assert {f"validation_{name}" for name in evaluated} == {name for name in best if name.startswith("validation_")}
    for term, value in evaluated.items():
        assert best[f"validation_{term}"] == pytest.approx(value, rel=1e-5, abs=1e-6), term


def test_each_replica_stops_as_it_would_alone(stopped, tmp_path):
    model, history, _ = stopped
    replicas, folders = [small(0), small(1)], [tmp_path / "0", tmp_path / "1"]
    first, second = training.fit_replicas(
        replicas, TRAINED_ON, optimizer(), seeds=[0, 1], run_dirs=folders, steps=STEPS, batch_size=12, log_every=5,
        checkpoint_every=20, validation=HELD_OUT, validate_every=5, early_stopping=PATIENCE)
    assert first[-1]["step"] != second[-1]["step"]
    for row, other in zip(terms(first), terms(history), strict=True):
        assert row == pytest.approx(other, rel=1e-4)
    for one, other in zip(replicas[0].get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    alone = small(9)
    assert fit(alone, folders[0]) == first
    assert_equal(alone.get_weights(), replicas[0].get_weights())


def test_a_replica_that_was_stopped_early_may_diverge(tmp_path):
    """It takes steps as long as another goes on, here at a rate that is too large for its beta."""
    def train(betas, run_dirs=None, steps=STEPS):
        made = [build("beta_vae", "linear", (3,), "gaussian", {"beta": beta}) for beta in betas]
        histories = training.fit_replicas(
            made, TRAINED_ON, keras.optimizers.SGD(keras.optimizers.schedules.PiecewiseConstantDecay([34], [0.1, 0.4])),
            seeds=[0] * len(made), run_dirs=run_dirs, steps=steps, batch_size=12, log_every=5, checkpoint_every=20,
            validation=HELD_OUT, validate_every=5, early_stopping=PATIENCE)
        return [history[-1]["step"] for history in histories], [model.get_weights() for model in made]

    (stopped, last), (wild, calm) = train([12.0, 1.0], [tmp_path / "12", tmp_path / "1"])
    assert (stopped, last) == (train([12.0])[0][0], train([1.0])[0][0]) and stopped < last
    with np.load(runs.find_newest(tmp_path / "12")) as checkpoint:
        assert not all(np.isfinite(checkpoint[name]).all() for name in checkpoint.files if name.startswith("decoder"))
    steps, resumed = train([12.0, 1.0], [tmp_path / "12", tmp_path / "1"])
    assert steps == [stopped, last]
    assert_equal([*wild, *calm], [*resumed[0], *resumed[1]])
    assert np.isfinite(np.concatenate([array.ravel() for array in wild])).all()


def test_a_run_that_is_stopped_without_any_best_weights_has_diverged(tmp_path):
    model = build("vae", "linear", (3,), "gaussian", {})
    with pytest.raises(training.NonFiniteError, match="step 1: weights of seed 0 that are not finite"):
        training.fit(model, TRAINED_ON, keras.optimizers.SGD(1e38), steps=9, batch_size=12, run_dir=tmp_path,
                     validation=HELD_OUT, validate_every=1, early_stopping=1)


def test_the_best_row_is_the_first_of_the_lowest_finite_losses():
    history = [{"step": step, **({} if loss is None else {"validation_loss": loss})}
               for step, loss in enumerate((3.0, None, 1.0, math.nan, 1.0, None, math.inf), 1)]
    assert training.find_best(history)["step"] == 3 and count_since_best(history) == 3
    assert training.has_ended(history, 100, 3) and not training.has_ended(history, 100, 4)
    assert training.has_ended(history, 7) and not training.has_ended(history, 8) and training.has_ended([], 0)
    lost = [{"step": 1, "validation_loss": math.nan}, {"step": 2, "validation_loss": math.nan}]
    assert training.find_best(lost) is None and training.has_ended(lost, 100, 2)


@pytest.mark.parametrize("options", [{"early_stopping": 2}, {"restore_best": True}])
def test_what_needs_validation_is_refused_without_it(options):
    with pytest.raises(InputError, match=f"^{next(iter(options))}: it needs validation"):
        training.fit(small(), TRAINED_ON, optimizer(), steps=1, batch_size=4, **options)


def test_schedules_are_those_of_their_formulas():
    def rates(name, warmup_steps=0):
        schedule = training.schedule_learning_rate(name, 0.1, 100, warmup_steps)
        return [float(schedule(step)) if callable(schedule) else schedule for step in (0, 10, 50, 100, 150)]

    cosine = [0.05 * (1 + math.cos(math.pi * share)) for share in (0, 0.1, 0.5, 1, 1)]
    warmed = [0.0, 0.1, *(0.05 * (1 + math.cos(math.pi * share)) for share in (40 / 90, 1, 1))]
    assert rates("constant") == [0.1] * 5
    assert rates("constant", 20) == pytest.approx([0, 0.05, 0.1, 0.1, 0.1])
    assert rates("cosine") == pytest.approx(cosine, abs=1e-8) and rates("cosine", 10) == pytest.approx(warmed, abs=1e-8)
    assert rates("linear") == pytest.approx([0.1, 0.09, 0.05, 0, 0])
    assert rates("exponential")[:4] == pytest.approx([0.1, 0.1 * 0.01**0.1, 0.01, 0.001])
    for wrong, message in [(("none", 0.1, 9), "learning_rate_schedule: expected one of constant, cosine"),
                           (("linear", 0.1, 9, 1), "warmup_steps: linear has no warm-up"),
                           (("cosine", 0.1, 9, 9), "warmup_steps: expected fewer than the 9 steps")]:
        with pytest.raises(InputError, match=message):
            training.schedule_learning_rate(*wrong)


def test_a_validation_drops_nothing_out():
    x, z = keras.Input((3,)), keras.Input((2,))
    h = keras.layers.Dropout(0.5)(keras.layers.Dense(32, "tanh")(x))
    model = models.VAE(keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)]),
                       keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))
    whole = dataset((3,))
    trained_on, held_out = whole.take(np.arange(24)), whole.take(np.arange(24, 40))
    history = training.fit(model, trained_on, keras.optimizers.SGD(0.0), steps=2, batch_size=8, log_every=1,
                           validation=held_out, validate_every=1)
    model.compile()
    expected = model.evaluate(held_out, batch_size=8, verbose=0)
    assert history[0]["validation_loss"] == history[1]["validation_loss"] == pytest.approx(
        model.evaluate(held_out, batch_size=8, verbose=0, return_dict=True)["loss"], rel=1e-5), expected


def test_data_in_float64_are_validated_as_they_are_trained_on():
    whole = data.from_arrays("mine", np.random.default_rng(0).standard_normal((40, 3)))
    history = training.fit(build("vae", "linear", (3,), "gaussian", {}), whole.take(np.arange(24)),
                           keras.optimizers.SGD(1e-3), steps=1, batch_size=8, log_every=1,
                           validation=whole.take(np.arange(24, 40)), validate_every=1)
    assert np.isfinite(history[0]["validation_loss"])


def test_a_loss_that_stays_the_same_is_no_improvement():
    whole = dataset((3,))
    history = training.fit(build("vae", "linear", (3,), "gaussian", {}), whole.take(np.arange(24)),
                           keras.optimizers.SGD(0.0), steps=20, batch_size=8, log_every=1,
                           validation=whole.take(np.arange(24, 40)), validate_every=1, early_stopping=2)
    assert [row["step"] for row in history] == [1, 2, 3] and training.find_best(history)["step"] == 1


def test_a_validation_is_of_5_000_examples_at_most():
    seen = []
    x = np.random.default_rng(0).standard_normal((5_100, 3)).astype(np.float32)
    held_out = data.from_arrays("many", x)
    watched = dataclasses.replace(held_out, images_at=lambda rows: (seen.append(rows), held_out.images_at(rows))[1])
    training.fit(build("vae", "linear", (3,), "gaussian", {}), held_out.take(np.arange(64)), keras.optimizers.SGD(0.0),
                 steps=1, batch_size=64, log_every=1, validation=watched, validate_every=1)
    used = np.concatenate(seen)
    assert len(used) == len(np.unique(used)) == 4_992       # of 5,000, in batches of 64
    # Data may be in the order of their factors: any hundred rows are about as often among the 5,000 as any others.
    assert all(len(used[(start <= used) & (used < start + 100)]) > 85 for start in range(0, 5_100, 100))
