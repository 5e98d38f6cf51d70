"""Replicas in two groups, each of which has a loop of XLA of its own."""

import keras
import numpy as np
import pytest
import rounding
import tensorflow as tf
from cases import build, dataset

from vae_tf import devices, replicas, train_step, training
from vae_tf.console import environment
from vae_tf.data import batches
from vae_tf.errors import InputError
from vae_tf.replicas.grouped import Grouped

CASES = {name: (name, "linear", (3,), "gaussian", {}) for name in ("vae", "ivae", "beta_vae")}
SEEDS = [0, 7, 5, 2, 3]
GPU = bool(tf.config.list_physical_devices("GPU"))


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    """Whatever the machine and the environment, there are two processors with threads of TensorFlow's own choice."""
    monkeypatch.setattr(environment, "count_processors", lambda: 2)
    monkeypatch.setattr(devices, "find_threads", lambda: ("0", "0"))


def train(models, seeds=SEEDS, steps=rounding.STEPS, optimizer=None, **options):
    options = {"batch_size": rounding.BATCH, "log_every": 5, "jit_compile": True, **options}
    histories = training.fit_replicas(models, dataset((3,)), optimizer or keras.optimizers.Adam(1e-3), seeds=seeds,
                                      steps=steps, **options)
    return [model.get_weights() for model in models], histories


def build_five(name="vae", **options):
    return [build(*CASES[name][:4], options, seed) for seed in SEEDS]


def without_speed(history):
    return [{name: value for name, value in row.items() if name != "examples_per_second"} for row in history]


def assert_close(history, other, tolerance):
    for row, its in zip(without_speed(history), without_speed(other), strict=True):
        assert row == pytest.approx(its, rel=tolerance, abs=tolerance)


@pytest.mark.skipif(GPU, reason="a GPU trains replicas in one stack")
def test_groups_are_for_what_xla_compiles_of_dense_networks_on_several_processors(monkeypatch):
    def kind(network="linear", shape=(3,), count=5, compiled=True, optimizer=None):
        models = [build("vae", network, shape, "gaussian", {}, seed) for seed in range(count)]
        program = replicas.stack(models, optimizer or keras.optimizers.Adam(), list(range(count)), compiled)
        return [len(group.models) for group in program.groups]

    class Own(keras.optimizers.SGD):
        """It has a setting that its configuration does not hold."""

    assert kind() == [2, 3] and kind(count=4) == [2, 2]
    assert kind(count=3) == [3] and kind(compiled=False) == [5] and kind("conv_locatello", (16, 16, 1)) == [5]
    assert kind(optimizer=Own()) == [5]
    monkeypatch.setattr(devices, "find_threads", lambda: ("1", "2"))
    assert kind() == [5]
    monkeypatch.setattr(devices, "find_threads", lambda: ("0", "2"))
    monkeypatch.setattr(environment, "count_processors", lambda: 1)
    assert kind() == [5]


@pytest.mark.parametrize(("name", "options"), [("vae", {}), ("ivae", {}),
                                               ("beta_vae", {"clip_gradients": 0.1, "warmup_steps": 20})])
def test_each_replica_is_the_single_run_with_its_seed(name, options):
    weights, histories = train(build_five(name), **options)
    alone, history = rounding.train(CASES[name], SEEDS[4], **options)
    assert rounding.apart(weights[4], alone) <= rounding.tolerance(CASES[name], SEEDS[4], alone, **options)
    assert_close(histories[4], history, 1e-4)
    assert rounding.apart(weights[1], weights[4]) > 0.1


def test_a_learning_rate_that_changes_does_so_in_both_groups():
    def optimizer():
        return keras.optimizers.SGD(keras.optimizers.schedules.PiecewiseConstantDecay([4], [1e-2, 0.0]))

    weights, _ = train(build_five(), optimizer=optimizer())
    stopped, _ = train(build_five(), optimizer=keras.optimizers.SGD(1e-2), steps=5)
    assert max(rounding.apart(*pair) for pair in zip(weights, stopped, strict=True)) == 0


def test_averages_of_weights_are_those_of_each_group():
    weights, _ = train(build_five(), optimizer=keras.optimizers.SGD(1e-2, use_ema=True))
    alone, _ = rounding.train(CASES["vae"], SEEDS[4], optimizer=keras.optimizers.SGD(1e-2, use_ema=True))
    last, _ = rounding.train(CASES["vae"], SEEDS[4], optimizer=keras.optimizers.SGD(1e-2))
    np.testing.assert_allclose(weights[4][0], alone[0], rtol=1e-4, atol=1e-5)
    assert rounding.apart(alone, last) > 1e-3


def test_a_run_resumes_bit_for_bit_and_a_replica_goes_on_alone(tmp_path, make_optimizer=keras.optimizers.Nadam):
    folders = [[tmp_path / name / str(seed) for seed in SEEDS] for name in ("whole", "parts")]
    whole, histories = train(build_five(), steps=20, run_dirs=folders[0], checkpoint_every=5,
                             optimizer=make_optimizer())
    train(build_five(), run_dirs=folders[1], checkpoint_every=5, optimizer=make_optimizer())
    models = [build(*CASES["vae"], 9) for _ in SEEDS]
    resumed, again = train(models, steps=20, run_dirs=folders[1], checkpoint_every=5, optimizer=make_optimizer())
    assert max(rounding.apart(*pair) for pair in zip(whole, resumed, strict=True)) == 0
    assert list(map(without_speed, again)) == list(map(without_speed, histories))
    one = build(*CASES["vae"], 9)
    history = training.fit(one, dataset((3,)), make_optimizer(), seed=SEEDS[4], run_dir=folders[1][4], steps=25,
                           batch_size=rounding.BATCH, log_every=5, jit_compile=True)
    assert history[-1]["step"] == 25 and rounding.apart(one.get_weights(), resumed[4]) > 0


def test_what_is_seen_and_validated_is_each_replica_s_own():
    options = {"watch": lambda model, x, u: {"spread": tf.math.reduce_std(model.posterior(x, u).mean())},
               "watch_every": 5, "validation": dataset((3,), seed=1), "validate_every": 5}
    _, histories = train(build_five("ivae"), **options)
    _, alone = rounding.train(CASES["ivae"], SEEDS[3], **options)
    assert {"spread", "validation_loss"} <= alone[0].keys()
    assert_close(histories[3], alone, 1e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_are_those_of_one_stack(compiled):
    """Also where groups train without XLA, in one graph."""
    done = []
    for groups in (1, 2):
        program = Grouped(build_five(), [training.make_optimizer("adam", 1e-3) for _ in range(groups)], SEEDS)
        iterator = iter(batches.make_batches(dataset((3,)), 4, SEEDS, 0, 9))
        steps, names = train_step.make_train_steps(program, iterator.element_spec, clip_gradients=0.1,
                                                   jit_compile=compiled)
        made, _, totals = steps(iterator, tf.constant(9, tf.int64), {name: tf.zeros(5) for name in names})
        assert int(made) == 9
        done.append((totals, program.collect_state()))
    (totals, states), (other_totals, other_states) = done
    for name, total in totals.items():
        np.testing.assert_allclose(total, other_totals[name], rtol=1e-4, atol=1e-4, err_msg=name)
    for state, other in zip(states, other_states, strict=True):
        assert state.keys() == other.keys()
        for name, array in state.items():
            np.testing.assert_allclose(array, other[name], rtol=1e-3, atol=1e-5, err_msg=name)


def make_ten_steps(betas, counting=True):
    """Return (steps done, loss of each replica at the last) of ten steps in one call, at a rate that a beta exceeds."""
    models = [build(*CASES["beta_vae"][:4], {"beta": beta}) for beta in betas]
    program = Grouped(models, [keras.optimizers.SGD(1e-3), keras.optimizers.SGD(1e-3)], [1, 2, 3, 4])
    iterator = iter(batches.make_batches(dataset((3,)), rounding.BATCH, [1, 2, 3, 4], 0, 10))
    steps, names = train_step.make_train_steps(program, iterator.element_spec, jit_compile=True)
    done, terms, _ = steps(iterator, tf.constant(10, tf.int64), {name: tf.zeros(4) for name in names}, counting)
    return int(done), np.isfinite(terms["loss"]).tolist()


def test_steps_end_where_the_first_replica_diverges_though_the_other_group_goes_on():
    later, finite = make_ten_steps([1.0, 1e5, 1.0, 1.0])
    assert 1 < later < 10 and finite == [True, False, True, True]
    first, finite = make_ten_steps([1.0, 1e5, 1.0, 1e38])
    assert first < later and finite == [True, True, True, False]
    but_last = [True, True, True, False]        # as where early stopping has ended the last
    assert make_ten_steps([1.0, 1e5, 1.0, 1e38], but_last) == (later, [True, False, True, True])


def test_a_replica_that_diverges_is_named():
    models = [build(*CASES["beta_vae"][:4], {"beta": beta}) for beta in (1.0, 1.0, 1.0, 1e38)]
    with pytest.raises(training.NonFiniteError, match=r"^step \d: .*\(seed 4, beta 1e\+38: loss [^;]*\); no check"):
        train(models, [1, 2, 3, 4])


def test_models_of_different_groups_must_be_of_one_kind():
    models = [*build_five()[:4], build("vae", "linear", (3,), "gaussian", {"likelihood_variance": 0.25}, 9)]
    with pytest.raises(InputError, match="got model 5 of 5 with other likelihood variance"):
        train(models)
