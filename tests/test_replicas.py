import json
import types

import keras
import numpy as np
import pytest
import rounding
import tensorflow as tf
from cases import build, dataset

from vae_tf import data, distributions, networks, replicas, runs, training
from vae_tf.errors import InputError
from vae_tf.models import VAE, BetaTCVAE
from vae_tf.training import loop

DENSE = [(name, "mlp_synthetic" if name in ("vae", "ivae") else "linear", (3,), "gaussian", {}) for name in
         ("vae", "full_covariance_vae", "beta_tcvae", "ivae", "ae", "dip_vae_i", "annealed_vae")]


def train(models, seeds, shape=(3,), steps=rounding.STEPS, run_dirs=None, **options):
    histories = training.fit_replicas(models, dataset(shape), keras.optimizers.Adam(1e-3), seeds=seeds, steps=steps,
                                      batch_size=rounding.BATCH, run_dirs=run_dirs, **{"log_every": 5, **options})
    return [model.get_weights() for model in models], histories


def assert_same_history(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys() and a["step"] == b["step"]
        for name in a.keys() - {"step", "examples_per_second"}:
            assert a[name] == pytest.approx(b[name], rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize("case", DENSE, ids=[case[0] for case in DENSE])
def test_replica_i_is_the_single_run_with_its_seed(case):
    seeds = [0, 7, 5]
    weights, histories = train([build(*case, seed) for seed in seeds], seeds)
    alone, history = rounding.train(case, 5)
    assert rounding.apart(weights[2], alone) <= rounding.tolerance(case, 5, alone)
    assert_same_history(histories[2], history)
    assert rounding.apart(weights[0], weights[2]) > 0.1


@pytest.mark.parametrize("case", DENSE[:2], ids=[case[0] for case in DENSE[:2]])
def test_what_xla_compiles_is_the_single_run_with_its_seed(case):
    """XLA draws other noise from a seed than TensorFlow, and must not draw any."""
    alone, history = rounding.train(case, 5)
    compiled, (_, of_replica) = train([build(*case, seed) for seed in (0, 5)], [0, 5], jit_compile=True)
    assert rounding.apart(compiled[1], alone) <= rounding.tolerance(case, 5, alone)
    assert_same_history(of_replica, history)
    assert rounding.apart(rounding.train(case, 5, jit_compile=True)[0], alone) <= rounding.tolerance(case, 5, alone)


@pytest.mark.parametrize("case", [("vae", "conv_locatello", (16, 16, 1), "bernoulli", {}),
                                  ("vae", "linear", (6,), "gaussian_learned", {})], ids=["conv", "learned variance"])
def test_convolutions_and_scalar_weights_replicate_too(case):
    weights, _ = train([build(*case, seed) for seed in (3, 4)], [3, 4], case[2])
    alone, _ = rounding.train(case, 4)
    assert rounding.apart(weights[1], alone) <= rounding.tolerance(case, 4, alone)


def test_batch_statistics_are_each_replica_s_own():
    case = ("vae", "conv_faces", (16, 16, 1), "gaussian", {})
    models = [build(*case, seed) for seed in (0, 1)]
    # Not Adam: a bias before batch norm has no gradient but rounding, which Adam would scale up.
    sgd = keras.optimizers.SGD(1e-6)
    training.fit_replicas(models, dataset(case[2]), sgd, seeds=[0, 1], steps=3, batch_size=4)
    alone = build(*case, 1)
    training.fit(alone, dataset(case[2]), keras.optimizers.SGD(1e-6), seed=1, steps=3, batch_size=4)
    for variable, replica in zip(alone.non_trainable_variables, models[1].non_trainable_variables, strict=True):
        np.testing.assert_allclose(replica, variable, rtol=1e-4, atol=1e-5)
    statistics = [[variable.numpy() for variable in model.non_trainable_variables if "moving" in variable.path]
                  for model in (build(*case, 1), models[1], models[0])]
    initial, one, other = (np.concatenate(arrays) for arrays in statistics)
    assert np.abs(one - initial).min() > 0 and np.abs(one - other).max() > 1e-3


def test_constraints_which_replicas_would_drop_are_refused():
    models = [build(*DENSE[0], seed) for seed in (0, 1)]
    models[1].decoder.trainable_variables[0].constraint = keras.constraints.NonNeg()
    with pytest.raises(InputError, match=r"models: expected weights without constraints.* got some with a constraint"):
        train(models, [0, 1])


@pytest.mark.parametrize(("name", "options", "message"), [
    ("SGD", {"clipnorm": 1.0}, "none of Keras' clipnorm, .*; clip_gradients clips the gradient of each"),
    ("Adam", {"global_clipnorm": 2.0}, "none of Keras' global_clipnorm, .* got 2; clip_gradients"),
    *((name, {}, f"one that treats every weight alone, .* got a {name}; train") for name in ("Adafactor", "Lamb")),
    ("LossScaleOptimizer", {"inner_optimizer": keras.optimizers.SGD()}, "one that treats every weight alone"),
    *([("MultiOptimizer", {"optimizer_map": lambda variable: keras.optimizers.SGD()}, "one that treats every weight")]
      if hasattr(keras.optimizers, "MultiOptimizer") else [])])
def test_optimizers_that_would_mix_replicas_are_refused(name, options, message):
    optimizer = getattr(keras.optimizers, name)(**options)
    with pytest.raises(InputError, match=f"^optimizer: expected {message}"):
        replicas.Stacked([build(*DENSE[0], seed) for seed in (0, 1)], optimizer, [0, 1])


def test_weights_that_are_not_to_decay_are_refused_as_they_would():
    optimizer = keras.optimizers.AdamW()
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    with pytest.raises(InputError, match=r"^optimizer: expected one that excludes no weights from its decay"):
        replicas.Stacked([build(*DENSE[0], seed) for seed in (0, 1)], optimizer, [0, 1])


@pytest.mark.parametrize("own", [{"activation": "relu"}, {"activity_regularizer": "l2"}, {"kernel_regularizer": "l1"}])
def test_networks_that_differ_in_more_than_weights_are_refused(own):
    """Their variables are alike, and the first model's graph would train them all."""
    def make(**options):
        x, z = keras.Input((3,)), keras.Input((2,))
        twice = keras.layers.TimeDistributed(keras.layers.Dense(4, **{"activation": "tanh", **options}))
        h = keras.layers.Flatten()(twice(keras.layers.Reshape((3, 1))(x)))
        encoder = keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)])
        return VAE(encoder, keras.Model(z, keras.layers.Dense(3)(z)), distributions.Likelihood("gaussian"))

    train([make(), make()], [0, 1])
    with pytest.raises(InputError, match=r"in weights and beta alone; got model 2 of 2 with other .*layers"):
        train([make(), make(**own)], [0, 1])


def make_parts():
    encoder, decoder = networks.build("linear", (3,), 2, (2, 2))
    return {"encoder": encoder, "decoder": decoder, "likelihood": distributions.Likelihood("gaussian")}


class Weighted(VAE):
    """A VAE with an argument that is no declared option, and with a seed of its own."""

    def __init__(self, encoder, decoder, likelihood, strength, seed=0):
        super().__init__(encoder, decoder, likelihood)
        self.strength, self.seed = strength, seed


@pytest.mark.parametrize("make", [
    lambda value, **seed: Weighted(strength=value, **seed, **make_parts()),
    lambda value, **seed: Weighted(strength=[keras.layers.Dense(2), np.full(2, value)], **seed, **make_parts()),
    lambda value, seed: Weighted(strength=[np.array([value, np.nan]), keras.initializers.GlorotUniform(seed)],
                                 **make_parts()),
    lambda value, seed: Weighted(strength=[keras.regularizers.L2(value), np.random.default_rng(seed)], **make_parts()),
    lambda value, seed: BetaTCVAE(examples=value, beta=seed, **make_parts())])
def test_models_that_differ_in_an_argument_are_refused(make):
    """Beta, networks, layers and how weights begin are no such argument."""
    replicas.Stacked([make(5, seed=0), make(5, seed=1)], keras.optimizers.Adam(), [0, 1])
    with pytest.raises(InputError, match=r"alone; got model 2 of 2 with other (strength|examples) than"):
        replicas.Stacked([make(5, seed=0), make(6, seed=0)], keras.optimizers.Adam(), [0, 1])


def test_regularizers_are_a_term_of_each_replica_s_loss():
    case = DENSE[0]
    models = [build(*case, seed) for seed in (0, 1)]
    alone = build(*case, 1)
    for model in (*models, alone):
        model.decoder.trainable_variables[0].regularizer = keras.regularizers.L2(3.0)
        model.encoder.layers[1].activity_regularizer = keras.regularizers.L1(0.1)
    weights, histories = train(models, [0, 1])
    single, history = rounding.train(case, 1, model=alone)
    assert rounding.apart(weights[1], single) <= rounding.tolerance(case, 1, single)
    assert_same_history(histories[1], history)
    plain, _ = rounding.train(case, 1)
    kernel = [variable.path for variable in alone.variables].index(alone.decoder.trainable_variables[0].path)
    assert np.linalg.norm(single[kernel]) < np.linalg.norm(plain[kernel])


def test_values_of_beta_train_as_one():
    case = ("beta_vae", "mlp_synthetic", (3,), "gaussian", {})
    models = [build(*case[:4], {"beta": beta}) for beta in (0.0, 1.0, 8.0)]
    weights, histories = train(models, [0, 0, 0], warmup_steps=20)
    for row, beta in zip([history[-1] for history in histories], (0.0, 1.0, 8.0), strict=True):
        weight = (row["loss"] - row["reconstruction"]) / row["kl"]
        assert 0.25 * beta - 1e-5 <= weight <= 0.5 * beta + 1e-5      # steps 6 to 10 of 20
    case = (*case[:4], {"beta": 8.0})
    alone, _ = rounding.train(case, 0, warmup_steps=20)
    assert rounding.apart(weights[2], alone) <= rounding.tolerance(case, 0, alone, warmup_steps=20)


def test_replicas_resume_bit_for_bit_and_a_run_is_like_any_other(tmp_path):
    case, seeds = DENSE[0], [0, 1]
    folders = [[tmp_path / name / str(seed) for seed in seeds] for name in ("whole", "parts")]
    options = {"checkpoint_every": 5, "steps": 20}
    whole, histories = train([build(*case, seed) for seed in seeds], seeds, run_dirs=folders[0], **options)
    train([build(*case, seed) for seed in seeds], seeds, run_dirs=folders[1], **{**options, "steps": 10})
    (folders[1][0] / "checkpoints" / "000000010.npz").write_bytes(b"torn")      # both go back to step 5
    resumed, again = train([build(*case, 9) for _ in seeds], seeds, run_dirs=folders[1], **options)
    for a, b in zip(whole, resumed, strict=True):
        assert rounding.apart(a, b) == 0
    for one, other in zip(histories, again, strict=True):
        assert_same_history(one, other)

    alone, history = rounding.train(case, 1, steps=30, run_dir=folders[1][1])      # goes on by itself
    uninterrupted, _ = rounding.train(case, 1, steps=30)
    assert history[-1]["step"] == 30 and rounding.apart(alone, uninterrupted) <= 3 * rounding.tolerance(
        case, 1, rounding.train(case, 1)[0])


def test_runs_at_different_steps_are_refused(tmp_path):
    seeds, folders = [0, 1], [tmp_path / "a", tmp_path / "b"]
    rounding.train(DENSE[0], 0, run_dir=folders[0])
    with pytest.raises(InputError, match="common step; got a: 10, b: none; train those that have none in a command"):
        train([build(*DENSE[0], seed) for seed in seeds], seeds, run_dirs=folders)
    rounding.train(DENSE[0], 1, steps=20, run_dir=folders[1])
    (folders[1] / "checkpoints" / "000000010.npz").unlink(missing_ok=True)
    with pytest.raises(InputError, match="common step; got a: 10, b: 20, c: none; --restart starts over in"):
        train([build(*DENSE[0], seed) for seed in (0, 1, 2)], [0, 1, 2], run_dirs=[*folders, tmp_path / "c"])


def test_replicas_killed_between_their_first_checkpoints_start_over(tmp_path):
    seeds, folders = [0, 1], [tmp_path / "a", tmp_path / "b"]
    whole, _ = train([build(*DENSE[0], seed) for seed in seeds], seeds, run_dirs=folders)
    for path in runs.find_checkpoints(folders[1]).values():
        path.unlink()
    assert runs.restore(folders)[0] == 0 and not runs.find_checkpoints(folders[0])      # or a second kill leaves two
    again, _ = train([build(*DENSE[0], seed) for seed in seeds], seeds, run_dirs=folders)
    assert all(rounding.apart(one, other) == 0 for one, other in zip(whole, again, strict=True))
    for path in runs.find_checkpoints(folders[1]).values():
        path.unlink()
    with pytest.raises(InputError, match="common step; got a: 10, b: none, c: none"):     # of other runs than then
        train([build(*DENSE[0], seed) for seed in (0, 1, 2)], [0, 1, 2], run_dirs=[*folders, tmp_path / "c"])


def test_a_replica_that_diverges_is_named(tmp_path):
    models = [build("beta_vae", "mlp_synthetic", (3,), "gaussian", {"beta": beta}) for beta in (1.0, 1e38)]
    with pytest.raises(training.NonFiniteError, match=r"step 1: .*\(seed 7, beta 1e\+38: loss (inf|nan)"):
        train(models, [6, 7], run_dirs=[tmp_path / "a", tmp_path / "b"])
    assert not list(tmp_path.rglob("*.npz"))


def test_watch_sees_each_replica_as_it_would_alone(tmp_path):
    def watch(model, x, u):
        return {"spread": tf.math.reduce_std(model.posterior(x, u).mean()), "examples": len(x)}

    case, seeds = DENSE[3], [2, 3]
    _, histories = train([build(*case, seed) for seed in seeds], seeds, watch=watch, watch_every=5)
    _, alone = rounding.train(case, 3, watch=watch, watch_every=5)
    assert_same_history(histories[1], alone)
    assert "spread" in alone[0] and alone[0]["examples"] == histories[1][0]["examples"] > 0


def test_a_replica_s_folder_reads_like_a_run_of_its_own(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    train([build(*DENSE[0], seed) for seed in (0, 1)], [0, 1], run_dirs=folders)
    rounding.train(DENSE[0], 1, run_dir=tmp_path / "alone")
    step, (b, alone), histories = runs.restore([folders[1], tmp_path / "alone"])
    assert step == 10 and {k: v.shape for k, v in b.items()} == {k: v.shape for k, v in alone.items()}
    assert_same_history(*histories)
    assert json.dumps(histories[0])


def test_each_replica_is_watched_on_the_first_examples_of_its_own_first_epoch(monkeypatch):
    monkeypatch.setattr(loop, "WATCHED_EXAMPLES", 7)
    whole, seeds = dataset((3,)), [2, 3]
    histories = training.fit_replicas(
        [build("vae", "linear", (3,), "gaussian", {}, seed) for seed in seeds], whole, keras.optimizers.SGD(0.0),
        seeds=seeds, steps=1, batch_size=8, log_every=1, watch_every=1,
        watch=lambda model, x, u: {"watched": tf.reduce_sum(x)})
    for seed, (row,) in zip(seeds, histories, strict=True):
        x = whole.images_at(data.batches.draw_permutation(len(whole), seed, 0)[:7])
        assert row["watched"] == pytest.approx(x.sum(), rel=1e-5)


def test_a_norm_that_overflows_stops_a_replica_as_it_stops_a_single_model():
    gradients, two = [tf.constant([[3e20, 1.0], [3.0, 4.0]])], types.SimpleNamespace(models=[None, None])
    stacked, single = (kind.clip(two, gradients, 1.0)[0].numpy() for kind in (replicas.Stacked, replicas.Single))
    np.testing.assert_allclose(stacked, [[np.nan, np.nan], [0.6, 0.8]], rtol=1e-6)
    assert np.isnan(single[0]).all()


def test_clipping_passes_over_variables_without_a_gradient():
    class WithoutKL(VAE):
        def objective(self, x, u=None, *, noise, beta=None, training=False):
            mean = self.posterior(x, u, training).mean()
            return {"loss": -self.likelihood(mean, training).log_prob(x)}

    def make_model(seed):
        built = build("vae", "linear", (3,), "gaussian", {}, seed)
        return WithoutKL(built.encoder, built.decoder, built.likelihood_layer)

    given = {"steps": 3, "batch_size": 8, "clip_gradients": 0.5}
    two = [make_model(seed) for seed in (0, 1)]
    training.fit_replicas(two, dataset((3,)), keras.optimizers.SGD(1e-2), seeds=[0, 1], **given)
    alone = make_model(1)
    training.fit(alone, dataset((3,)), keras.optimizers.SGD(1e-2), seed=1, **given)
    for a, b in zip(two[1].get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
