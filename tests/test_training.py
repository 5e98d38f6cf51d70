import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, IDS, NEEDS_MNIST, build, dataset
from tensorboard.backend.event_processing import event_accumulator
from trainings import assert_equal, fit, small, terms

from vae_tf import data, distributions, models, runs, training
from vae_tf.errors import InputError
from vae_tf.replicas import Single
from vae_tf.training import loop, schedule


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_step_changes_every_weight_and_nothing_is_lost(case):
    """Without a graph, as to trace it takes longer than all else."""
    model, rows = build(*case), dataset(case[2])
    before, i = [w.copy() for w in model.get_weights()], np.arange(8)
    program = Single(model, keras.optimizers.Adam(1e-2), 0)
    x = tf.constant(rows.images_at(i))
    terms = program.train_step(program.draw_noise(tf.constant(0, tf.int64), x), models.scale_to_unit_range(x),
                               tf.constant(rows.u_at(i)) if model.u_size else None, 1.0)
    after = model.get_weights()
    assert all(np.isfinite(array).all() for array in (*after, *terms.values()))
    trained = {id(v) for v in model.trainable_variables}
    for variable, b, a in zip(model.weights, before, after, strict=True):
        # A unit that is off for the whole batch gets no gradient; a whole tensor of such units would be a broken link.
        assert id(variable) not in trained or not np.array_equal(a, b), variable.path


def test_training_lowers_the_loss():
    history, _ = fit(small(), 300)
    assert history[-1]["loss"] < history[0]["loss"] - 0.5
    assert [row["step"] for row in history] == list(range(5, 301, 5))


@pytest.mark.parametrize("jit_compile", [False, "updates", True])
def test_same_seed_same_numbers_other_seed_other_numbers(jit_compile):
    one, same, other = (fit(small(seed), 12, seed=seed, jit_compile=jit_compile and seed == 3) for seed in (3, 3, 4))
    assert terms(one[0]) == terms(same[0]) != terms(other[0])
    assert_equal(one[1], same[1])
    assert not np.array_equal(one[1][0], other[1][0])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_makes_no_difference_how_many_calls_share_the_steps(jit_compile):
    """XLA makes several steps at a time, of which a row, and so a call, may end after any."""
    whole, parts = (fit(small(), 60, jit_compile=jit_compile, log_every=every, checkpoint_every=60)
                    for every in (60, 7))
    assert_equal(whole[1], parts[1])
    lengths = np.diff([0, *(row["step"] for row in parts[0])])
    np.testing.assert_allclose(lengths @ [row["loss"] for row in parts[0]] / 60, whole[0][-1]["loss"], rtol=1e-6)


def test_updates_that_xla_compiles_are_the_same_updates():
    plain, compiled = (fit(small(), 12, jit_compile=jit_compile, clip_gradients=1.0)[1] for jit_compile in
                       (False, "updates"))
    for a, b in zip(plain, compiled, strict=True):      # products and sums that XLA fuses are rounded once
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_convolutions_repeat_too():
    one, same = (fit(build("ivae", "conv_locatello", (16, 16, 1), "bernoulli", {}), 6, shape=(16, 16, 1)) for _ in "ab")
    assert_equal(one[1], same[1])


def test_an_optimizer_of_another_model_is_refused():
    optimizer = keras.optimizers.Adam()
    optimizer.build(small().trainable_variables)
    with pytest.raises(InputError, match=r"^optimizer: expected one that has trained no other weights.* got Adam"):
        training.fit(small(), dataset((3,)), optimizer, steps=1, batch_size=16)


def test_noise_differs_from_step_to_step():
    model = small()
    x = tf.constant(dataset((3,)).images_at(np.arange(8)))
    program = Single(model, keras.optimizers.Adam(), 0)
    noises = [program.draw_noise(tf.constant(t, tf.int64), x) for t in (0, 1, 0)]
    a, b, again = (model.objective(x, noise=noise)["reconstruction"] for noise in noises)
    np.testing.assert_array_equal(a, again)
    assert not np.allclose(a, b)


def test_stops_at_a_loss_that_is_not_finite_and_keeps_what_was_good(tmp_path):
    run = tmp_path / "run"
    fit(small(), 10, run)
    before = {path: path.read_bytes() for path in run.rglob("*.npz")}
    message = r"step 1\d: a loss .*reconstruction.*last good checkpoint: .*000000010"
    with pytest.raises(training.NonFiniteError, match=message):
        huge = data.from_arrays("huge", np.full((40, 3), 1e30, np.float32))       # squares to infinity
        training.fit(small(), huge, keras.optimizers.Adam(1e-2), steps=40, batch_size=16, run_dir=run)
    assert {path: path.read_bytes() for path in run.rglob("*.npz")} == before


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("step", [7, 15, 16, 17, 20])
def test_training_ends_with_the_very_step_whose_loss_is_not_finite(jit_compile, step):
    """Of the steps that XLA makes together, those after it are left out."""
    rows = dataset((3,)).images_at(np.arange(40)).copy()
    rows[data.batches.draw_indices(40, 2, 0, step - 1)] = 1e30       # squares to infinity
    model = small()
    with pytest.raises(training.NonFiniteError, match=f"step {step}: a loss"):
        training.fit(model, data.from_arrays("huge", rows), keras.optimizers.SGD(1e-4), steps=40, batch_size=2,
                     jit_compile=jit_compile)


def test_history_survives_as_written(tmp_path):
    history, _ = fit(small(), 20, tmp_path)
    assert runs.read_history(tmp_path, 20) == history
    assert [row["step"] for row in runs.read_history(tmp_path, 12)] == [5, 10]
    logged = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    for name in ("loss", "kl"):
        assert [event.step for event in logged.Tensors(name)] == [5, 10, 15, 20]
        values = [tf.make_ndarray(event.tensor_proto) for event in logged.Tensors(name)]
        np.testing.assert_array_equal(values, np.float32([row[name] for row in history]))
        assert logged.SummaryMetadata(name).plugin_data.plugin_name == "scalars"


def watch(model, x, u):
    """Two numbers that depend on the weights, on the examples and on u."""
    posterior = model.posterior(x, u)
    return {"mean_of_mean": tf.reduce_mean(posterior.mean()), "examples": len(x) if u is None else len(x) + len(u)}


@pytest.mark.parametrize("name", ["vae", "ivae"])
def test_watching_changes_no_weight_and_is_resumed(tmp_path, name):
    plain, weights = fit(small(name=name), 20)
    seen, watched_weights = fit(small(name=name), 20, tmp_path / "whole", watch=watch, watch_every=4)
    assert_equal(weights, watched_weights)
    assert [row["step"] for row in seen] == [4, 5, 8, 10, 12, 15, 16, 20]
    assert [row["step"] for row in seen if "mean_of_mean" in row] == [4, 8, 12, 16, 20]
    assert {row["examples"] for row in seen if row["step"] % 4 == 0} == {40 if name == "vae" else 80}
    assert len({row["mean_of_mean"] for row in seen if row["step"] % 4 == 0}) == 5
    assert "mean_of_mean" not in plain[-1]
    if name == "vae":
        return          # the model with u is resumed for both
    fit(small(name=name), 10, tmp_path / "parts", watch=watch, watch_every=4)
    resumed, resumed_weights = fit(small(seed=9, name=name), 20, tmp_path / "parts", watch=watch, watch_every=4)
    assert_equal(weights, resumed_weights)
    assert terms(resumed) == terms(seen)
    assert runs.read_history(tmp_path / "parts", 20) == resumed


def test_watching_leaves_the_statistics_of_batch_norm_alone():
    case = next(case for case in CASES if case[1] == "conv_faces")
    one, other = (fit(build(*case), 2, shape=case[2], batch_size=4, watch_every=1, **more)[1]
                  for more in ({}, {"watch": watch}))
    assert_equal(one, other)


def test_beta_warms_up_over_its_steps():
    model = build("beta_vae", "mlp_synthetic", (3,), "gaussian", {"beta": 2.0})
    history, _ = fit(model, 4, warmup_steps=4, log_every=1)
    weights = [(row["loss"] - row["reconstruction"]) / row["kl"] for row in history]
    np.testing.assert_allclose(weights, [0.5, 1.0, 1.5, 2.0], rtol=1e-4)


def test_float16_trains_under_a_scaled_loss():
    model = build("vae", "mlp_synthetic", (3,), "gaussian", {"dtype": "mixed_float16"})
    adam = training.make_optimizer("adam", 1e-2, "mixed_float16")
    history = training.fit(model, dataset((3,)), adam, steps=100, batch_size=16, log_every=10)
    assert isinstance(adam, keras.optimizers.LossScaleOptimizer) and float(adam.dynamic_scale) > 1
    assert history[-1]["loss"] < history[0]["loss"] - 0.2
    assert {w.dtype for w in model.get_weights()} == {np.dtype("float32")}


@pytest.mark.parametrize("in_folder", [False, True])
def test_gradients_that_overflow_at_every_step_end_a_training(tmp_path, in_folder):
    """The loss stays finite, because each step is left out, and nothing would ever be learned."""
    overflow = tf.custom_gradient(lambda loss: (loss, lambda gradient: gradient * np.inf))

    class Overflowing(models.VAE):
        def objective(self, x, u=None, *, noise, beta=None, training=False):
            terms = super().objective(x, u, noise=noise, beta=beta, training=training)
            return {**terms, "loss": overflow(terms["loss"])}

    built = build("vae", "mlp_synthetic", (3,), "gaussian", {"dtype": "mixed_float16"})
    model = Overflowing(built.encoder, built.decoder, built.likelihood_layer)
    adam = training.make_optimizer("adam", 1e-2, "mixed_float16")
    with pytest.raises(training.NonFiniteError, match="step 50: gradients of seed 0 that were not finite, step after"):
        training.fit(model, dataset((3,)), adam, steps=100, batch_size=16, checkpoint_every=50,
                     run_dir=tmp_path if in_folder else None)


def test_weights_that_are_not_finite_are_found_without_a_folder():
    with pytest.raises(training.NonFiniteError, match="step 1: weights of seed 0 that are not finite"):
        training.fit(build("vae", "linear", (3,), "gaussian", {}), dataset((3,)), keras.optimizers.SGD(3.3e38),
                     steps=1, batch_size=12)


@NEEDS_MNIST
def test_bfloat16_reaches_the_elbo_of_float32_on_mnist():
    train_part, test_part = (data.load("mnist").split("grid", part) for part in ("train", "test"))
    x = models.scale_to_unit_range(tf.constant(test_part.images_at(np.arange(2_000))))
    seeds, elbos = range(2), {}
    for dtype in ("float32", "mixed_bfloat16"):
        replicas = [models.build("vae", train_part.shape, network="mlp_mnist", latents=6, seed=seed, dtype=dtype)
                    for seed in seeds]
        training.fit_replicas(replicas, train_part, keras.optimizers.Adam(1e-3), seeds=list(seeds), steps=120,
                              batch_size=64)
        noise = distributions.draw_noise((0, 0), len(x), 6)
        elbos[dtype] = np.array([-np.mean(model.objective(x, noise=noise)["loss"]) for model in replicas])
    # A seed has the same weights, batches and noise in both. From seed to seed the ELBO differs by some 3.5 nats, a
    # seed's two by 0.2 (six seeds on one processor): the mean of two by 0.14, if the precision makes no difference.
    assert abs(elbos["float32"].mean() - elbos["mixed_bfloat16"].mean()) < 1, elbos
    assert elbos["float32"].mean() > -200           # 784 log 2 = 543 nats below 0 before training


def test_a_callback_that_sets_what_the_graph_does_not_see_is_told_so():
    """Changes stay, and the error names beta before options, and the penalty last."""
    model = small(name="dip_vae_i")
    loops = loop.Loop(Single(model, keras.optimizers.Adam(), 0), dataset((3,)), tf.distribute.get_strategy(), [None],
                      schedule.Schedule(steps=20, batch_size=8))
    for change, message in (
            (lambda: model.penalise_jacobian("l1", 2.0), "jacobian_penalty: expected None as .*; got Penalty.*one"),
            (lambda: setattr(model, "lambda_od", 3), "lambda_od: expected 10.0 as .*; got 3, .* takes another one"),
            (lambda: setattr(model, "beta", 2), "beta: expected 1.0 as .*; got 2, .*, and warmup_steps raises beta")):
        setting = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs, change=change: change())
        with pytest.raises(InputError, match=f"^{message}$"):
            loops.run([setting])
