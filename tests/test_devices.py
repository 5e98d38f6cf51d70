import contextlib
import json

import keras
import numpy as np
import pytest
import rounding
import tensorflow as tf
from cases import NARROW, build, dataset

from vae_tf import data, devices, distributions, models, training
from vae_tf.data import batches
from vae_tf.errors import InputError

# The VAE changes devices below, and the beta-TCVAE is validated there.
CASES = [("full_covariance_vae", {}), ("beta_tcvae", {"tc_estimator": "stratified"}), ("factor_vae", NARROW),
         ("dip_vae_ii", {}), ("annealed_vae", {})]


@pytest.fixture(scope="module")
def mirrored():
    strategy = devices.choose_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2       # the logical CPU devices of conftest.py
    return strategy


def test_what_several_devices_would_do_differently_is_refused(mirrored):
    x, z = keras.Input((3,)), keras.Input((2,))
    h = keras.layers.BatchNormalization(name="mine")(keras.layers.Dense(4)(x))
    with mirrored.scope():
        model = build("vae", "linear", (3,), "gaussian", {})
        model.compile("sgd")
        normalised = models.VAE(keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)]),
                                keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))
        for method in (model.train_on_batch, model.test_on_batch):
            with pytest.raises(InputError, match=rf"^{method.__name__}: expected one device, .*; got 2; fit and"):
                method(np.ones((8, 3), np.float32))
        with pytest.raises(InputError, match=r"synchronized=True.*; got several devices, and a layer mine that"):
            training.fit(normalised, dataset((3,)), keras.optimizers.SGD(), steps=1, batch_size=8)


@pytest.mark.parametrize(("name", "more"), CASES, ids=[name for name, _ in CASES])
def test_two_devices_give_the_result_of_one(mirrored, name, more):
    case = (name, "linear", (3,), "gaussian", more)
    one, history = rounding.train(case, 0)
    with mirrored.scope():
        model = build(*case)
        two, shared = rounding.train(case, 0, model=model)
    assert rounding.apart(one, two) <= rounding.tolerance(case, 0, one)
    for name in history[-1].keys() - {"step", "examples_per_second"}:
        assert history[-1][name] == pytest.approx(shared[-1][name], rel=1e-5, abs=1e-5)


def test_devices_leave_out_a_step_together_if_the_gradient_of_one_is_not_finite(mirrored):
    """With float16 the loss is scaled, and a step whose gradients overflow is left out."""
    case = ("vae", "linear", (3,), "gaussian", {"dtype": "mixed_float16"})
    ds = dataset((3,))
    x = ds.images_at(np.arange(40)).copy()
    x[20] = 6e3     # of the second device alone
    for loop in ("training", "keras"):
        with mirrored.scope():
            model = build(*case)
            optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-9), initial_scale=2.0**15)
        if loop == "training":
            heavy = data.from_arrays("heavy", x)
            with contextlib.suppress(training.NonFiniteError):      # of the loss of that example
                training.fit(model, heavy, optimizer, steps=4, batch_size=40)
        else:
            with mirrored.scope():
                model.compile(optimizer)
            model.fit(x, batch_size=40, epochs=4, shuffle=False, verbose=0)
        assert all(np.isfinite(weights).all() for weights in model.get_weights()), loop


class WithoutKL(models.VAE):
    """A model whose objective leaves the head of the variances without a gradient."""

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        reconstruction = -self.likelihood(self.posterior(x, u, training).mean(), training).log_prob(x)
        return {"loss": reconstruction, "reconstruction": reconstruction}


@pytest.mark.parametrize("scaled", [False, True])
def test_variables_without_a_gradient_stay_as_on_one_device(mirrored, scaled):
    def make_model():
        built = build("vae", "linear", (3,), "gaussian", {})
        return WithoutKL(built.encoder, built.decoder, built.likelihood_layer)

    def train(strategy):
        with strategy.scope():
            model, optimizer = make_model(), keras.optimizers.SGD(1e-2)
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0) if scaled else optimizer
            training.fit(model, dataset((3,)), optimizer, steps=3, batch_size=8, clip_gradients=0 if scaled else 0.5)
            model.compile(optimizer)
            model.fit(dataset((3,)).images_at(np.arange(8)), batch_size=8, shuffle=False, verbose=0)
        return model.get_weights()

    one, two = train(devices.choose_strategy("one_device")), train(mirrored)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    # The head of the variances is untouched, to the last bit: nothing was computed with it.
    assert sum(np.array_equal(*pair) for pair in zip(make_model().get_weights(), two, strict=True)) == 2


def test_batch_statistics_are_those_of_the_whole_batch(mirrored):
    case = ("ivae", "conv_faces", (16, 16, 1), "gaussian", {})

    def train(model):
        training.fit(model, dataset(case[2]), keras.optimizers.SGD(1e-6), steps=2, batch_size=4)
        return model.get_weights()

    one = train(build(*case))
    with mirrored.scope():
        two = train(build(*case))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_devices_share_noise_and_rows(mirrored):
    whole = distributions.draw_noise((3, 4), 6, 2)
    shares = mirrored.run(lambda: distributions.draw_noise((3, 4), 3, 2))
    np.testing.assert_array_equal(np.concatenate(mirrored.experimental_local_results(shares)), whole)
    seen = [[(int(step), x.numpy()) for step, x in batches.make_batches(dataset((3,)), 6, [1], 2, 4, shares=shares)]
            for shares in ((0, 1, 1), (0, 2, 2), (0, 1, 2), (1, 1, 2))]
    assert [step for step, _ in seen[1]] == [2, 2, 3, 3]
    both, first, second = ([x for _, x in rows] for rows in seen[1:])
    np.testing.assert_array_equal(np.concatenate(both), np.concatenate([x for _, x in seen[0]]))
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(both[::2]))
    np.testing.assert_array_equal(np.concatenate(second), np.concatenate(both[1::2]))


def test_a_run_may_change_devices(mirrored, tmp_path):
    case = ("vae", "mlp_synthetic", (3,), "gaussian", {})
    one, _ = rounding.train(case, 0)
    rounding.train(case, 0, steps=5, run_dir=tmp_path)
    with mirrored.scope():
        two, history = rounding.train(case, 0, model=build(*case, 9), run_dir=tmp_path)
    assert rounding.apart(one, two) <= rounding.tolerance(case, 0, one) and history[-1]["step"] == 10


def test_validation_does_not_depend_on_the_number_of_devices(mirrored):
    case = ("beta_tcvae", "mlp_synthetic", (3,), "gaussian", {})
    validated = {"validation": dataset((3,), seed=1), "validate_every": 5, "restore_best": True}
    one, history = rounding.train(case, 0, **validated)
    with mirrored.scope():
        two, shared = rounding.train(case, 0, model=build(*case), **validated)
    assert rounding.apart(one, two) <= rounding.tolerance(case, 0, one)
    assert "validation_total_correlation" in shared[-1]
    for name in history[-1].keys() - {"step", "examples_per_second"}:
        assert history[-1][name] == pytest.approx(shared[-1][name], rel=1e-5, abs=1e-5)


def test_a_strategy_of_one_device_is_no_different():
    case = ("full_covariance_vae", "mlp_synthetic", (3,), "gaussian", {})
    alone, _ = rounding.train(case, 0)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        model = build(*case)
    within, _ = rounding.train(case, 0, model=model)        # outside of the scope: the model knows where it was built
    assert rounding.apart(alone, within) <= rounding.tolerance(case, 0, alone)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope(), pytest.raises(InputError, match="strategy: replicas train"):
        training.fit_replicas([model], dataset((3,)), keras.optimizers.Adam(), seeds=[0], steps=1, batch_size=4)


@pytest.mark.parametrize("scaled", [False, True])
def test_an_optimizer_made_under_the_strategy_is_itself_used(mirrored, scaled):
    """Its configuration tells neither its moments nor which weights do not decay."""
    case, trained = ("vae", "linear", (3,), "gaussian", {}), []
    for scope in (contextlib.nullcontext(), mirrored.scope()):
        with scope:
            model, optimizer = build(*case), keras.optimizers.AdamW(lambda: 1e-2, weight_decay=2.0)
            optimizer.exclude_from_weight_decay(var_names=["kernel"])
            if scaled:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0)
            for _ in range(2):
                rounding.train(case, 0, steps=4, model=model, optimizer=optimizer)
        assert keras.ops.convert_to_numpy(optimizer.iterations) == 8
        trained.append(model.get_weights())
    assert rounding.apart(*trained) < 1e-5      # of eight steps of 1e-2


class Halved(keras.optimizers.SGD):
    def __init__(self, rate):
        super().__init__(rate / 2)


def test_an_optimizer_that_cannot_be_made_again_is_refused(mirrored):
    case, excluding = ("vae", "linear", (3,), "gaussian", {}), keras.optimizers.AdamW()
    excluding.exclude_from_weight_decay(var_names=["bias"])
    with mirrored.scope():
        model = build(*case)
    for optimizer in (excluding, Halved(1e-3), keras.optimizers.Adam(lambda: 1e-3)):
        with pytest.raises(InputError, match=r"^optimizer: expected one that is made under .* from elsewhere"):
            rounding.train(case, 0, model=model, optimizer=optimizer)


@pytest.mark.parametrize("options", [
    {"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 0.5}, {"gradient_accumulation_steps": 2},
    {"use_ema": True, "ema_overwrite_frequency": 3}], ids=lambda options: list(options)[-1])
def test_settings_of_an_optimizer_that_devices_would_not_keep_are_refused(mirrored, options):
    name, case = list(options)[-1], ("vae", "linear", (3,), "gaussian", {})
    instead = "clip_gradients of training.fit" if "clip" in name else "train on one device"
    with mirrored.scope():
        model, optimizer = build(*case), keras.optimizers.SGD(1e-3, **options)
        with pytest.raises(InputError, match=f"^optimizer: expected none of Keras' {name} where .*; {instead}"):
            rounding.train(case, 0, model=model, optimizer=optimizer)


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="Keras has no MultiOptimizer")
@pytest.mark.parametrize("make", [lambda part: keras.optimizers.OptimizerMap(keras.optimizers.SGD(1e-3), {".*": part}),
                                  lambda part: lambda variable: part])
def test_settings_of_an_optimizer_s_parts_are_refused_too(mirrored, make):
    with mirrored.scope():
        case = ("vae", "linear", (3,), "gaussian", {})
        optimizer = keras.optimizers.MultiOptimizer(make(keras.optimizers.SGD(1e-3, clipnorm=1.0)))
        with pytest.raises(InputError, match=r"^optimizer: expected none of Keras' clipnorm where several devices"):
            rounding.train(case, 0, model=build(*case), optimizer=optimizer)


def test_a_batch_that_cannot_be_shared_out_is_refused(mirrored):
    with mirrored.scope(), pytest.raises(InputError, match=r"batch_size: 2 devices .* multiple of 2, got 7"):
        training.fit(build("vae", "mlp_synthetic", (3,), "gaussian", {}), dataset((3,)), keras.optimizers.Adam(),
                     steps=1, batch_size=7)


@pytest.mark.parametrize(("argument", "sizes", "use"), [
    ("x", (8, 9), lambda model, x: model.fit(x, batch_size=4, verbose=0)),
    ("x", (8, 7), lambda model, x: model.evaluate(x, verbose=0)),
    ("x", (8, 9), lambda model, x: model.evaluate(data.from_arrays("x", x), batch_size=4, verbose=0)),
    ("x", (4, 5), lambda model, x: model.fit(dataset((3,)), batch_size=len(x), verbose=0)),
    ("x", (8, 9), lambda model, x: model.fit(tf.data.Dataset.from_tensors(x), verbose=0)),
    ("validation_data", (8, 9), lambda model, x: model.fit(x[:8], validation_data=x, verbose=0)),
    ("validation_split", (16, 12), lambda model, x: model.fit(x, validation_split=0.25, verbose=0))])
def test_keras_loops_refuse_a_batch_that_devices_cannot_share_evenly(mirrored, argument, sizes, use):
    """The examples of a batch would have other weights, on the device that has fewer of them."""
    with mirrored.scope():
        model = build("ae", "linear", (3,), "gaussian", {})
        model.compile("sgd")
    x = dataset((3,)).images_at(np.arange(max(sizes)))
    even, odd = (x[:size] for size in sizes)
    use(model, even)
    with pytest.raises(InputError, match=f"^{argument}: 2 devices share each batch evenly; expected .* got one of "):
        use(model, odd)


def test_xla_is_refused_in_keras_loops_on_several_devices(mirrored, tmp_path):
    model = build("vae", "linear", (3,), "gaussian", {})
    model.compile("sgd", jit_compile=True)
    model.save(tmp_path / "compiled.keras")
    with mirrored.scope():
        assert not keras.saving.load_model(tmp_path / "compiled.keras").jit_compile
        model = build("vae", "linear", (3,), "gaussian", {})
        with pytest.raises(InputError, match=r"^jit_compile: expected False where several devices share a batch, .*"):
            model.compile("sgd", jit_compile=True)


@pytest.mark.parametrize("asked", [True, "updates"])
def test_xla_is_refused_under_a_strategy_which_it_would_not_compile(asked):
    with tf.distribute.OneDeviceStrategy("CPU:0").scope(), pytest.raises(
            InputError, match=r"^jit_compile: .* expected False under a OneDeviceStrategy; got"):
        training.fit(build("vae", "mlp_synthetic", (3,), "gaussian", {}), dataset((3,)), keras.optimizers.Adam(),
                     steps=1, batch_size=8, jit_compile=asked)


def test_one_device_is_not_mirrored(monkeypatch):
    """Under a strategy of one device, --jit_compile=true would compile nothing."""
    monkeypatch.setattr(devices, "_name_logical", lambda kind: ["CPU:0"])
    assert devices._make_mirrored.__wrapped__() is devices.choose_strategy("one_device")


def test_activity_regularizers_are_refused_where_devices_share_a_batch(mirrored):
    with mirrored.scope():
        model = build("vae", "mlp_synthetic", (3,), "gaussian", {})
        model.encoder.layers[1].activity_regularizer = keras.regularizers.L2(0.1)
        with pytest.raises(InputError, match=r"strategy: expected one device, .* activity_regularizer or call"):
            rounding.train(("vae", "mlp_synthetic", (3,), "gaussian", {}), 0, model=model)


def test_a_process_has_one_strategy_of_a_kind(mirrored):
    assert devices.choose_strategy("mirrored") is mirrored      # collectives of two would meet


def test_what_is_not_there_is_said(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("TPU_NAME", raising=False)
    for name, message in (("multi_worker", "multi_worker needs the environment variable TF_CONFIG"),
                          ("tpu", "no TPU was found"), ("two", "expected one of auto, .*; got 'two'")):
        with pytest.raises(InputError, match=f"strategy: {message}"):
            devices.choose_strategy(name)
    assert devices.choose_strategy("one_device").num_replicas_in_sync == 1
    assert devices.choose_strategy("auto").num_replicas_in_sync == 1


CLUSTER = {"worker": ["host1:2222", "host2:2222"]}
TASK = {"type": "worker", "index": 0}


@pytest.mark.parametrize(("given", "message"), [
    ("two machines", "expected a JSON object .* TF_CONFIG; got two machines"),
    ("[1]", r"expected a JSON object .* TF_CONFIG; got \[1\]"), ("[" * 100_000, "expected a JSON object"),
    ({"cluster": [1], "task": TASK}, "cluster: expected an object with lists of addresses"),
    ({"cluster": {"ps": ["a:1"]}, "task": TASK}, "cluster: expected an object .* of worker and of at most one chief"),
    ({"cluster": {**CLUSTER, "chief": ["a:1", "b:1"]}, "task": TASK}, "cluster: expected .* at most one chief"),
    ({"cluster": {"chief": 7}, "task": TASK}, "chief: expected a list of addresses; got 7"),
    ({"cluster": {"worker": []}, "task": TASK}, "worker: expected a list of addresses"),
    ({"cluster": {"worker": ["host1"]}, "task": TASK}, "worker: expected addresses such as host1:2222, .*; got"),
    ({"cluster": {"worker": ["host1:99999"]}, "task": TASK}, "worker: expected .* a port from 1 to 65535; got"),
    ({"cluster": {"worker": ["host1:0"]}, "task": TASK}, "a port from 1 to 65535"),
    ({"cluster": {"worker": [":2222"]}, "task": TASK}, "worker: expected addresses"),
    ({"cluster": {"worker": [None]}, "task": TASK}, "worker: expected addresses"),
    ({"cluster": CLUSTER}, "task: expected .*; got null"),
    ({"cluster": CLUSTER, "task": 3}, "task: expected"),
    ({"cluster": CLUSTER, "task": {"type": "worker"}}, "task: expected"),
    ({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}}, 'task: expected .* one of worker, .*got .*chief'),
    ({"cluster": CLUSTER, "task": {"type": ["worker"], "index": 0}}, "task: expected"),
    *[({"cluster": CLUSTER, "task": {"type": "worker", "index": index}}, "task: expected")
      for index in (2, -1, "one", None, True, 0.5, "9" * 5_000)],
])
def test_a_cluster_that_is_none_is_refused_before_tensorflow_starts_it(monkeypatch, given, message):
    monkeypatch.setenv("TF_CONFIG", given if isinstance(given, str) else json.dumps(given))
    for name in ("auto", "multi_worker"):
        with pytest.raises(InputError, match=f"^strategy: .*{message}") as error:
            devices.choose_strategy(name)
        assert "\n" not in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize("given", ["{}", '{"task": {}}', '{"cluster": {}}', ""])
def test_a_config_without_a_cluster_is_none(monkeypatch, given):
    monkeypatch.setenv("TF_CONFIG", given)
    assert devices.choose_strategy("auto") is devices.choose_strategy("one_device")
    with pytest.raises(InputError, match="multi_worker needs the environment variable TF_CONFIG"):
        devices.choose_strategy("multi_worker")
