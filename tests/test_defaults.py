import pathlib
import runpy

import keras
import numpy as np
import pytest
import rounding
import tensorflow as tf
from absl import flags
from cases import NEEDS_MNIST, build, dataset
from commands import run_train

from vae_tf import cli, data, defaults, devices, models, networks, replicas, theory, training
from vae_tf.data import registry

TABLE = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "benchmarks" / "defaults.py"))
DENSE = ("vae", "mlp_synthetic", (3,), "gaussian", {})


def configured(dataset, *argv):
    values = flags.FlagValues()
    cli.define_train_flags(values)
    cli.read_flags(values, ["program", *argv])
    return cli.configure(values, dataset)


def said(dataset, *argv):
    return defaults.predict_collapse(configured(dataset, *argv), dataset)


def test_recommended_settings_are_of_existing_things():
    for suited in (*(entry.suited for entry in data.DATASETS.values()), registry.OTHER_IMAGES, registry.OTHER_VECTORS):
        assert suited["network"] in networks.NETWORKS and {"latents", "steps"} <= set(suited) <= set(registry.SETTINGS)


def test_collapse_of_a_linear_model_is_said_before_training():
    square = data.load("synthetic_linear").split("random", "train", 0)
    x = square.images_at(np.arange(len(square)))
    first, second = theory.critical_betas(np.cov(x.T), 2, noise_variance=0.5)      # .67 and .17, from all examples
    message = said(square, "--model=vae", "--likelihood_variance=0.5")
    assert message.startswith("all 2 latents will be passive") and "--likelihood_variance below 0.08" in message
    assert "--beta" not in message                                                  # a VAE has none
    message = said(square, "--model=beta_vae", "--likelihood_variance=0.5", f"--beta={(first + second) / 2}")
    assert message.startswith("1 of 2 latents will be active at beta 0.4")
    offered = float(message.split("--beta below ")[1].split(",")[0])
    assert offered == pytest.approx(second, rel=0.03)                               # 10,000 of the 40,000 examples
    assert "--beta=" not in said(square, "--model=full_covariance_vae", f"--beta={0.9 * second}",
                                 "--likelihood_variance=0.5") == ""
    message = said(square, "--model=vae", "--latents=3")
    assert message.startswith("2 of 3 latents will be active") and message.endswith("they vary in no more directions")


def test_train_says_it(tmp_path):
    with pytest.warns(UserWarning, match="^all 2 latents will be passive"):
        run_train("--model=vae", "--dataset=synthetic_linear", "--likelihood_variance=0.5", "--steps=1",
                  f"--run_root={tmp_path}", f"--export_root={tmp_path / 'exported'}")


def test_data_that_do_not_vary_get_no_advice_of_other_settings():
    still = data.from_arrays("still", np.ones((40, 3), np.float32))
    assert said(still, "--model=vae", "--network=mlp_synthetic", "--likelihood_variance=0.5") == (
        "posterior collapse is certain, because the data do not vary")


def test_other_networks_are_warned_of_where_ignoring_z_is_a_local_optimum():
    curved = data.load("synthetic_nonlinear").split("random", "train", 0)
    message = said(curved, "--model=beta_vae", "--likelihood_variance=0.5")
    assert message.startswith("posterior collapse is likely at beta 4 and --likelihood_variance 0.5")
    # Beta weighs the total correlation alone in beta_tcvae; of the prior that an iVAE learns nothing is known.
    assert "--likelihood_variance below 0.04" in said(curved, "--model=beta_tcvae", "--likelihood_variance=0.5")
    for argv in (["--model=ae"], ["--model=ivae"], ["--model=vae", "--likelihood_variance=0.01"],
                 ["--model=vae", "--likelihood=gaussian_learned"], ["--model=beta_vae", "--beta=0"]):
        assert said(curved, "--likelihood_variance=0.5", *argv) == ""


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 4])
def test_what_a_turned_linear_model_costs(angle):
    """excess / beta = 1/2 log(1 + k sin^2(2 t)) of docs/defaults.md, against the terms of the objective."""
    first, second, beta, variance = 1 / 3, 1 / 12, 4.0, 0.01
    C = np.diag([first, second])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def objective(D):
        reconstruction, kl = theory.linear_terms(C, D, *theory.linear_encoder(D, beta, variance), variance)
        return reconstruction + beta * kl

    D = np.diag(np.sqrt([first - beta * variance, second - beta * variance]))
    k = (first - second)**2 / (4 * first * second)
    assert (objective(D @ turn) - objective(D)) / beta == pytest.approx(np.log(1 + k * np.sin(2 * angle)**2) / 2,
                                                                       rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["synthetic_linear", "synthetic_nonlinear", "nonstationary_sources",
                                  "conformal_mixture", pytest.param("linear_mixture_digits", marks=NEEDS_MNIST)])
def test_no_model_is_predicted_to_collapse_by_default(name):
    loaded = data.load(name)
    for model in ("vae", "beta_vae", "full_covariance_vae", "beta_tcvae"):
        assert said(loaded, f"--model={model}") == ""
        # Were the network linear, all would be active too: beta s^2 is below every eigenvalue that matters.
        config = configured(loaded, f"--model={model}")
        level = models.find(model).weigh_kl(config.beta) * config.likelihood_variance
        assert defaults.estimate_eigenvalues(loaded, config.latents)[-1] > level


def test_sikka_s_second_source_dies_at_beta_4_and_it_is_said():
    mixture = data.load("linear_mixture")
    assert said(mixture, "--model=vae") == ""
    assert said(mixture, "--model=beta_vae").startswith("1 of 2 latents will be active at beta 4")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_own_vectors_of_any_scale_get_a_variance_that_suits_them(scale):
    rng = np.random.default_rng(0)
    x = (scale * rng.standard_normal((2_000, 3)) @ rng.standard_normal((3, 8))).astype(np.float32)
    mine = data.from_arrays("mine.npz", x)
    for model in ("vae", "beta_vae"):
        assert said(mine, f"--model={model}", "--network=linear", "--latents=3") == ""
    assert configured(mine, "--model=vae").likelihood_variance == pytest.approx(0.02 * x.var(0).mean(), rel=0.01)


def test_dense_networks_on_wide_data_get_smaller_steps():
    assert defaults.choose_learning_rate("mlp_mnist", (128, 128, 3)) == pytest.approx(1e-3 / 12, rel=0.01)
    assert defaults.choose_learning_rate("linear", (20_000,)) == pytest.approx(2e-4, rel=0.03)
    for network, shape in (("conv_locatello", (256, 256, 3)), ("mlp_dsprites", (64, 64, 1)), ("linear", (4_096,))):
        assert defaults.choose_learning_rate(network, shape) == 1e-3


def squares(size, channels, examples=64):
    """Images of a bright rectangle on a dark ground."""
    rng = np.random.default_rng(0)
    place, reach = rng.uniform(0.2, 0.8, (examples, 2)) * size, rng.uniform(0.1, 0.3, examples) * size
    rows, columns = (np.abs(np.arange(size) - place[:, [axis]]) < reach[:, np.newaxis] for axis in (0, 1))
    inside = rows[:, :, np.newaxis] & columns[:, np.newaxis]
    return np.where(inside[..., np.newaxis], rng.integers(130, 256, (examples, 1, 1, channels)),
                    rng.integers(0, 120, (examples, 1, 1, channels))).astype(np.uint8)


def test_large_images_stay_finite_by_default(tmp_path):
    np.savez(tmp_path / "mine.npz", images=squares(128, 3))
    _, _, _, history = TABLE["train_one"](f"--dataset={tmp_path / 'mine.npz'}", "--model=vae", "--batch_size=16",
                                          most_steps=20)
    assert history[-1]["step"] == 20 and np.isfinite(history[-1]["loss"])


@pytest.mark.parametrize(("name", "model"), [("synthetic_linear", "vae"), ("synthetic_linear", "beta_vae")])
def test_defaults_train_models_that_are_alive(name, model):
    assert "| 2 of 2 |" in TABLE["write_line"](f"--dataset={name}", f"--model={model}", most_steps=1_000)


def test_clipping_is_that_of_the_global_norm():
    model = build(*DENSE)
    program = replicas.Single(model, keras.optimizers.SGD(1.0), 0)
    rng = np.random.default_rng(0)
    gradients = [rng.standard_normal(variable.shape).astype(np.float32) for variable in program.updates[0].variables]
    norm = np.sqrt(sum((gradient.astype(float)**2).sum() for gradient in gradients))
    for limit in (norm / 7, 2 * norm):
        for clipped, gradient in zip(program.clip(gradients, limit), gradients, strict=True):
            np.testing.assert_allclose(clipped, gradient * min(1, limit / norm), rtol=1e-5)
    # One step of gradient descent is then no longer than its rate times the limit, and in the same direction.
    steps = {}
    for limit in (0, 0.25):
        model = build(*DENSE)
        before = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
        training.fit(model, dataset((3,)), keras.optimizers.SGD(0.5), steps=1, batch_size=16, clip_gradients=limit)
        after = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
        steps[limit] = (after - before) / 0.5
    assert np.linalg.norm(steps[0]) > 0.5
    # A weight of size 1 is rounded to 6e-8 of itself, some 1e-5 of the step.
    np.testing.assert_allclose(steps[0.25], steps[0] * 0.25 / np.linalg.norm(steps[0]), rtol=1e-3, atol=2e-6)


def test_each_replica_is_clipped_as_if_alone():
    seeds = [0, 3]
    stacked = [build(*DENSE, seed) for seed in seeds]
    training.fit_replicas(stacked, dataset((3,)), keras.optimizers.SGD(0.05), seeds=seeds, steps=rounding.STEPS,
                          batch_size=rounding.BATCH, clip_gradients=0.5)
    alone, free = (rounding.train(DENSE, 3, optimizer=keras.optimizers.SGD(0.05), clip_gradients=limit)[0]
                   for limit in (0.5, 0))
    tolerance = rounding.tolerance(DENSE, 3, alone, optimizer=keras.optimizers.SGD(0.05), clip_gradients=0.5)
    assert rounding.apart(stacked[1].get_weights(), alone) <= tolerance < 1e-3 < rounding.apart(free, alone)


def test_devices_clip_the_gradient_of_the_whole_batch():
    one, _ = rounding.train(DENSE, 0, optimizer=keras.optimizers.SGD(0.05), clip_gradients=0.5)
    with devices.choose_strategy("mirrored").scope():
        two, _ = rounding.train(DENSE, 0, model=build(*DENSE), optimizer=keras.optimizers.SGD(0.05), clip_gradients=0.5)
    tolerance = rounding.tolerance(DENSE, 0, one, optimizer=keras.optimizers.SGD(0.05), clip_gradients=0.5)
    assert rounding.apart(one, two) <= tolerance


def test_a_scaled_loss_is_clipped_in_units_of_the_loss():
    case = (*DENSE[:4], {"dtype": "mixed_float16"})
    weights = []
    for scaled in (True, False):
        sgd = keras.optimizers.SGD(0.05)
        optimizer = keras.optimizers.LossScaleOptimizer(sgd, initial_scale=1024.0) if scaled else sgd
        model = build(*case)
        training.fit(model, dataset((3,)), optimizer, steps=3, batch_size=16, clip_gradients=0.5)
        weights.append(model.get_weights())
    # Three steps of 0.05 times 0.5 at most; float16 keeps three digits of a gradient.
    assert rounding.apart(*weights) < 2e-3
    assert tf.reduce_all([np.isfinite(w).all() for w in weights[0]])
