"""Whatever the functions that make, train, export and score models are given: they work, or say in one line why not."""

import functools

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from codes import noisy
from hypothesis import strategies as st
from outcomes import read_corpus
from test_api import call_with_hostile, check_call

from vae_tf import data, distributions, evaluation, export, jacobians, models, networks, objectives, replicas, training
from vae_tf.errors import InputError

DRAWS = hypothesis.settings().max_examples
CARD = {"model": "vae", "u_size": 0}


@functools.cache
def made():
    """What calls take, by name: a small model and its parts, data, and distributions."""
    model = models.build("vae", (3,), network="linear", latents=2, likelihood="gaussian")
    posterior = model.posterior(tf.ones((4, 3)))
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    rows = data.from_arrays("rows", np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32))
    return {"model": model, "encoder": model.encoder, "decoder": model.decoder, "dataset": rows,
            "likelihood": model.likelihood_layer, "posterior": posterior, "prior": model.prior(), "z": tf.ones((4, 2)),
            "codes": evaluation.Codes(*noisy(40)), "network": network}


def with_parts(**more):
    return {**{name: made()[name] for name in ("encoder", "decoder", "likelihood")}, **more}


def pair(**more):
    return {**{name: made()[name] for name in ("posterior", "prior")}, **more}


def training_of(**more):
    return {"dataset": made()["dataset"], "optimizer": keras.optimizers.Adam(), "steps": 0, "batch_size": 4, **more}


ROWS = np.ones((4, 2), np.float32)
# Calls with usual arguments: those that make and look at distributions and networks, and those that do more with them.
CALLS = {
    distributions.point: lambda: {"mean": ROWS},
    distributions.diagonal_normal: lambda: {"mean": ROWS, "log_variance": ROWS},
    distributions.full_normal: lambda: {"mean": ROWS, "lower": np.ones((4, 3), np.float32)},
    distributions.standard_normal: lambda: {"latents": 2},
    distributions.draw_noise: lambda: {"seed": (0, 1), "examples": 4, "latents": 2},
    distributions.reparameterise: lambda: {"posterior": made()["posterior"], "noise": ROWS},
    distributions.Likelihood: lambda: {"kind": "gaussian", "variance": 0.5},
    objectives.reconstruction: lambda: {"likelihood": made()["model"].likelihood(ROWS), "x": tf.ones((4, 3))},
    objectives.kl: pair,
    objectives.kl_per_latent: pair,
    objectives.polarised_kl: lambda: pair(threshold=0.5),
    objectives.kl_decomposition: lambda: pair(z=made()["z"], examples=9, estimator="weighted"),
    objectives.weighted_sampling: lambda: {"batch_size": 4, "examples": 9},
    objectives.stratified_sampling: lambda: {"batch_size": 4, "examples": 9},
    objectives.mean_over_batch: lambda: {"values": ROWS[:, 0]},
    objectives.covariance: lambda: {"mean": ROWS, "variance": ROWS},
    objectives.distance_to_identity: lambda: {"matrix": np.eye(2)},
    objectives.permute_columns: lambda: {"z": ROWS, "noise": ROWS},
    objectives.discriminator_loss: lambda: {"discriminator": made()["network"], "z": ROWS, "permuted": ROWS},
    models.AE: lambda: with_parts(encoder=keras.Model(made()["encoder"].inputs, made()["encoder"].outputs[:1])),
    models.VAE: with_parts,
    models.BetaVAE: lambda: with_parts(beta=2.0),
    models.BetaTCVAE: lambda: with_parts(examples=9, beta=2.0, tc_estimator="weighted"),
    models.FactorVAE: lambda: with_parts(discriminator=made()["network"], gamma=2.0),
    models.DIPVAEI: lambda: with_parts(lambda_od=2.0, lambda_d=2.0),
    models.AnnealedVAE: lambda: with_parts(capacity=2.0, capacity_weight=2.0),
    models.IVAE: lambda: with_parts(encoder=models.build("ivae", (3,), network="linear", latents=2, u_size=2).encoder,
                                    prior_network=networks.build_prior_network(2, 2, 0), beta=2.0),
    replicas.Single: lambda: {"model": made()["model"], "optimizer": keras.optimizers.Adam(), "seed": 0},
    replicas.Stacked: lambda: {"models": [made()["model"]] * 2, "optimizer": keras.optimizers.Adam(), "seeds": [0, 1]},
    replicas.stack: lambda: {"models": [made()["model"]] * 4, "optimizer": keras.optimizers.Adam(),
                             "seeds": [0, 1, 2, 3], "compiled": True},
}
LONGER = {
    networks.build: lambda: {"name": "linear", "shape": (3,), "latents": 2, "heads": (2, 2), "u_size": 0, "seed": 0,
                             "dtype": "float32"},
    models.build: lambda: {"name": "beta_vae", "shape": (3,), "network": "linear", "latents": 2, "u_size": 0, "seed": 0,
                           "likelihood": "gaussian", "likelihood_variance": 0.5, "beta": 2.0, "examples": 9,
                           "dtype": "float32"},
    jacobians.jacobian: lambda: {"f": made()["model"].likelihood, "z": ROWS, "output": "mean", "mode": "forward"},
    jacobians.gram: lambda: {"f": made()["model"].likelihood, "z": ROWS, "output": "mean", "mode": "forward",
                             "chunk": 2},
    training.fit: lambda: training_of(model=made()["model"], seed=0, run_dir=None, config=None, callbacks=(),
                                      warmup_steps=0, clip_gradients=0, jit_compile=False, log_every=1,
                                      checkpoint_every=1, watch=None, watch_every=1),
    training.fit_replicas: lambda: training_of(models=[made()["model"]] * 2, seeds=[0, 1], run_dirs=None, configs=None),
    training.make_optimizer: lambda: {"name": "adam", "learning_rate": 0.1, "precision": "float32", "epsilon": 1e-7},
    evaluation.score: lambda: {"codes": made()["codes"], "names": ["active_units"], "progress": None, "keep": None,
                               "examples": 40, "seed": 0, "jobs": 1, "quick": True, "latents": "all", "factors": None,
                               "samples_per_value": None, "passive_kl": 0.1},
    export.load: lambda: {"root": "none", "trust": False},
}
TENSORS = (tf.ones((4, 2), tf.int32), tf.ones((4, 2), tf.float64), tf.constant(1.0), tf.constant("a"),
           keras.Input((2,)), tf.ones((0, 2)), "a\0b", "\udcff", "a" * 300, lambda z: None, lambda z: z[0], [None],
           ["a"], [1, "a"])


def call(function, data, usual):
    given = usual()
    if data.draw(st.booleans()):
        given[data.draw(st.sampled_from(sorted(given)))] = data.draw(st.sampled_from(TENSORS))
        return check_call(function, given, words=WORDS)
    return call_with_hostile(function, data, given, words=WORDS)


# Errors may name what an argument holds: "precision" for a dtype, "metrics" for names, "exported" for a root.
WORDS = ("precision", "metrics", "exported", "model", "network", "likelihood", "dataset", "optimizer", "run")


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
@hypothesis.settings(max_examples=DRAWS)
@hypothesis.given(data=st.data())
def test_models_and_their_parts(function, data):
    call(function, data, CALLS[function])


@pytest.mark.parametrize("function", LONGER, ids=lambda function: function.__name__)
@hypothesis.settings(max_examples=DRAWS // 2)
@hypothesis.given(data=st.data())
def test_what_is_done_with_models(function, data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.getbasetemp())
        call(function, data, LONGER[function])


@pytest.mark.parametrize("function", CALLS | LONGER, ids=lambda function: function.__name__)
def test_usual_arguments_are_taken(function, tmp_path, monkeypatch):
    """Otherwise the properties above would hold because everything is refused."""
    monkeypatch.chdir(tmp_path)
    if function is export.load:
        export.save("none", made()["model"], made()["dataset"], CARD)
    function(**(CALLS | LONGER)[function]())


@pytest.mark.parametrize(("function", "wrong"), [
    *((function, {"f": f}) for function in (jacobians.jacobian, jacobians.gram) for f in (TENSORS[9], TENSORS[10])),
    (jacobians.jacobian, {"z": -np.eye(3)}), (jacobians.gram, {"z": np.eye(3, dtype=np.float32)}),
    *((objectives.discriminator_loss, {"discriminator": f}) for f in (TENSORS[9], TENSORS[10])),
    (networks.build, {"heads": []}), (objectives.discriminator_loss, {"z": -np.eye(3), "permuted": -np.eye(3)}),
    (training.fit, {"jit_compile": np.ones((0, 3))}), (evaluation.score, {"progress": lambda done: None}),
    (distributions.reparameterise, {"noise": tf.ones((0, 2))})],
    ids=lambda value: value.__name__ if callable(value) else next(iter(value)))
def test_functions_that_return_no_rows_and_noise_of_another_batch_are_refused(function, wrong):
    check_call(function, {**(CALLS | LONGER)[function](), **wrong}, names=tuple(wrong))


def test_a_learning_rate_may_be_a_whole_number_and_callbacks_an_array(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert training.make_optimizer("adam", 1).learning_rate == 1
    assert training.fit(**{**LONGER[training.fit](), "callbacks": np.ones((0, 3))}) == []       # for 0 steps


REFUSED = [{"folder": "a\0b"}, {"folder": None}, {"model": None}, {"dataset": [1.0]}, {"card": None}, {"card": {}},
           {"card": {**CARD, "beta": np.ones(3)}}, {"card": {**CARD, "u_size": "2"}}, {"card": {**CARD, 1: object()}},
           {"keep": -1}, {"keep": 1.5}, {"keep": "all"}, {"accept_dark": "yes"},
           {"dataset": data.from_arrays("wide", np.ones((3, 4), np.float32))}]


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: next(iter(wrong)))
def test_a_refused_export_leaves_nothing(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    given = {"folder": "exported/m", "model": made()["model"], "dataset": made()["dataset"], "card": CARD, **wrong}
    with pytest.raises(InputError, match=f"^{next(iter(wrong))}: ") as caught:
        export.save(**given)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", read_corpus("models"), ids=lambda case: case["why"])
def test_calls_that_once_went_wrong(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = next(each for each in CALLS | LONGER if each.__name__ == case["function"])
    check_call(function, {**(CALLS | LONGER)[function](), **case["arguments"]}, case["names"])
