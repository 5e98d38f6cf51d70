"""The public door: nonsense is one line that names the argument."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import EXAMPLES, build, dataset

from vae_tf import checks, data, distributions, evaluation, jacobians, models, networks, objectives, training
from vae_tf.data import batches
from vae_tf.errors import InputError

NAN, INF = float("nan"), float("inf")


def build_with(name="vae", shape=(3,), **options):
    return models.build(name, shape, **{"network": "mlp_synthetic", "latents": 2, "likelihood": "gaussian", **options})


def fit_with(model=None, rows=None, **options):
    model = model or build("vae", "mlp_synthetic", (3,), "gaussian", {})
    return training.fit(model, dataset((3,)) if rows is None else rows,
                        keras.optimizers.Adam(), **{"steps": 1, "batch_size": 4, **options})


def replicas_with(tmp_path, count=2, kinds=("vae", "vae"), **options):
    built = [build(name, "mlp_synthetic", (3,), "gaussian", {}) for name in kinds][:count]
    return training.fit_replicas(built, dataset((3,)), keras.optimizers.Adam(),
                                 **{"seeds": [0, 1], "steps": 1, "batch_size": 4, **options})


def codes(rows=50, **more):
    rng = np.random.default_rng(0)
    return evaluation.Codes(rng.standard_normal((rows, 2)), rng.integers(0, 3, (rows, 2)), **more)


def decomposed(**options):
    q = distributions.diagonal_normal(tf.zeros((2, 2)), tf.zeros((2, 2)))
    return objectives.kl_decomposition(q, distributions.standard_normal(2), tf.zeros((2, 2)), **options)


BUILD = [("model", {"name": "vea"}), ("name", {"name": None}), ("network", {"network": "mlp"}),
         ("latents", {"latents": 0}), ("latents", {"latents": 2.5}), ("latents", {"latents": True}),
         ("likelihood", {"likelihood": "x"}), ("likelihood_variance", {"likelihood_variance": NAN}),
         ("likelihood_variance", {"likelihood_variance": 0}), ("likelihood_variance", {"likelihood_variance": "1"}),
         ("beta", {"name": "beta_vae", "beta": NAN}), ("beta", {"name": "beta_vae", "beta": -1}),
         ("beta", {"name": "beta_vae", "beta": INF}), ("beta", {"beta": 2}), ("seed", {"seed": -1}),
         ("seed", {"seed": 0.5}), ("u_size", {"u_size": -1}), ("dtype", {"dtype": "float64"}),
         ("prior_mean", {"name": "ivae", "u_size": 2, "prior_mean": "x"}), ("prior_mean", {"prior_mean": "x"}),
         ("examples", {"name": "beta_tcvae"}), ("examples", {"name": "beta_tcvae", "examples": 0}),
         ("tc_estimator", {"name": "beta_tcvae", "examples": 5, "tc_estimator": "x"}), ("shape", {"shape": ()}),
         ("shape", {"shape": (3, 0)}), ("shape", {"shape": (2, 2)}), ("shape", {"shape": 3})]

@pytest.mark.parametrize("options", [
    {"latents": np.int64(2)}, {"shape": tuple(np.array([3]))}, {"seed": np.int64(3)},
    {"name": "factor_vae", "discriminator_units": np.int64(8)}, {"name": "ivae", "u_size": np.int16(2)}])
def test_whole_numbers_of_numpy_are_taken(options):
    assert build_with(**options).count_params()
    assert len(networks.build("mlp_synthetic", (3,), 2, np.array([2, 2])).encoder.outputs) == 2


def test_a_penalty_at_a_number_of_examples_of_numpy():
    model = build_with()
    model.penalise_jacobian("l1", examples=np.int64(4))
    model.compile("adam", seed=np.int64(3))
    assert np.isfinite(model.evaluate(np.zeros((8, 3), np.float32), verbose=0)).all()


FIT = [("steps", {"steps": -1}), ("steps", {"steps": 1.5}), ("batch_size", {"batch_size": 0}),
       ("log_every", {"log_every": -5}), ("log_every", {"log_every": 0}), ("checkpoint_every", {"checkpoint_every": 0}),
       ("watch_every", {"watch_every": 0}), ("warmup_steps", {"warmup_steps": -1}), ("seed", {"seed": -1}),
       ("seed", {"seed": 2**40}), ("seed", {"seed": None})]

SCORE = [("metrics", {"names": ["fid"]}), ("latents", {"latents": "bogus"}), ("examples", {"examples": 0}),
         ("examples", {"examples": -3}), ("examples", {"examples": 2.5}), ("seed", {"seed": -1}), ("jobs", {"jobs": 0}),
         ("seed", {"seed": 2**31 - 1}),
         ("passive_kl", {"passive_kl": NAN}), ("passive_kl", {"passive_kl": -1}),
         ("stddev", {"codes": {"stddev": np.ones((50, 3))}}), ("stddev", {"codes": {"stddev": -np.ones((50, 2))}}),
         ("prior_mean", {"codes": {"stddev": np.ones((50, 2)), "prior_mean": np.ones((50, 2))}})]


def scored(codes_with=None, **options):
    return evaluation.score(codes(**options.pop("codes", {})), **{"names": ["active_units"], **options})


OTHERS = [
    ("part", lambda _: dataset((3,)).split("random", "bogus")),
    ("part", lambda _: dataset((3,)).split("grid", "bogus")),
    ("split", lambda _: dataset((3,)).split("bogus", "train")),
    ("seed", lambda _: dataset((3,)).split("random", "train", -1)),
    ("indices", lambda _: dataset((3,)).take([EXAMPLES])),
    ("indices", lambda _: dataset((3,)).take([-1])),
    ("indices", lambda _: dataset((3,)).take([0.5])),
    ("dataset", lambda _: data.load("cifar")),
    ("seed", lambda _: data.load("synthetic_linear", seed=-1)),
    ("optimizer", lambda _: training.make_optimizer("x", 1e-3)),
    ("learning_rate", lambda _: training.make_optimizer("adam", NAN)),
    ("learning_rate", lambda _: training.make_optimizer("adam", 0)),
    ("precision", lambda _: training.make_optimizer("adam", 1e-3, "float8")),
    ("dataset", lambda _: fit_with(rows=dataset((4,)))),
    ("dataset", lambda _: fit_with(build("ivae", "mlp_synthetic", (3,), "gaussian", {}),
                                   dataclasses.replace(dataset((3,)), u_at=None, u_size=0))),
    ("dataset", lambda _: fit_with(rows=dataset((3,)).take(np.arange(0)))),
    ("seeds", lambda tmp: replicas_with(tmp, seeds=[0])),
    ("seeds", lambda tmp: replicas_with(tmp, count=0, seeds=[])),
    ("run_dirs", lambda tmp: replicas_with(tmp, run_dirs=[tmp / "a"])),
    ("run_dirs", lambda tmp: replicas_with(tmp, run_dirs=[tmp / "a", tmp / "b" / ".." / "a"])),
    ("models", lambda tmp: replicas_with(tmp, kinds=("vae", "full_covariance_vae"))),
    ("models", lambda tmp: replicas_with(tmp, kinds=("vae", "beta_vae"))),
    ("n", lambda _: batches.draw_indices(0, 4, 0, 0)),
    ("batch_size", lambda _: batches.draw_indices(5, 0, 0, 0)),
    ("likelihood", lambda _: distributions.Likelihood("x")),
    ("likelihood_variance", lambda _: distributions.Likelihood("gaussian", -1)),
    ("latents", lambda _: distributions.standard_normal(0)),
    ("log_variance", lambda _: distributions.diagonal_normal(tf.zeros((4, 2)), tf.zeros((4, 1)))),
    ("lower", lambda _: distributions.full_normal(tf.zeros((4, 2)), tf.zeros((4, 6)))),
    ("estimator", lambda _: decomposed(examples=5, estimator="x")),
    ("examples", lambda _: decomposed(examples=0)),
    ("chunk", lambda _: jacobians.gram(lambda z: z, tf.zeros((3, 2)), chunk=0)),
    ("mode", lambda _: jacobians.gram(lambda z: z, tf.zeros((3, 2)), mode="x")),
]

CALLS = [*((argument, "build", lambda _, given=given: build_with(**given)) for argument, given in BUILD),
         *((argument, "fit", lambda _, given=given: fit_with(**given)) for argument, given in FIT),
         *((argument, "score", lambda _, given=given: scored(**given)) for argument, given in SCORE),
         *((argument, "", call) for argument, call in OTHERS)]


@pytest.mark.parametrize(("argument", "call"), [(argument, call) for argument, _, call in CALLS],
                         ids=[f"{where}-{argument}-{i}" for i, (argument, where, _) in enumerate(CALLS)])
def test_nonsense_is_one_line_that_names_the_argument(argument, call, tmp_path):
    with pytest.raises(InputError) as caught:
        call(tmp_path)
    line = str(caught.value)
    assert "\n" not in line and line.startswith(f"{argument}:") and ("got " in line or argument == "fit")
    assert not list(tmp_path.iterdir())


def test_sense_passes_whatever_library_its_type_is_of():
    assert checks.check_whole("n", np.int64(3), 3, 3) == 3
    assert checks.check_number("x", np.float32(0.5), above=0) == 0.5 and checks.check_number("x", 0, low=0) == 0
    assert checks.check_choice("x", "a", {"a": 1}) == "a"


def test_a_path_that_the_file_system_cannot_name_is_one_line(monkeypatch):
    monkeypatch.setattr("os.fsencode", lambda text: text.encode("ascii"))       # as where LC_ALL=C alone counts
    assert checks.check_path("codes", "d.npz") == "d.npz"
    with pytest.raises(InputError, match=r"^codes: expected letters of the encoding .*; got 'dé.npz'; PYTHONUTF8=1"):
        checks.check_path("codes", "dé.npz")
