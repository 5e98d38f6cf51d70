"""What code from outside of the package adds: a dataset, a model with an option and a second optimizer, a metric."""

import importlib
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys

import keras
import numpy as np
import programs
import pytest
import rounding
import tensorflow as tf

from vae_tf import (
    data,
    extensions,
    models,
    networks,
    replicas,
    training,
)
from vae_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def extension(registries, monkeypatch):
    """examples/extension.py, imported anew."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.delitem(sys.modules, "extension", raising=False)
    return importlib.import_module("extension")


def adversarial(seed=0, **options):
    return models.build("adversarial_vae", (16, 16, 1), network="linear", latents=3, seed=seed, **options)


def train(model, steps, run_dir=None, seed=0, **options):
    return training.fit(model, data.load("bars"), keras.optimizers.Adam(1e-3), steps=steps, batch_size=16, seed=seed,
                        run_dir=run_dir, log_every=5, checkpoint_every=5, **options)


def test_each_optimizer_moves_its_own_network(extension):
    model = adversarial()
    before = {name: [v.numpy() for v in network.variables] for name, network in
              (("encoder", model.encoder), ("decoder", model.decoder), ("discriminator", model.discriminator))}
    program = replicas.Single(model, keras.optimizers.SGD(0.0), 0)       # which moves nothing
    names = set(program.collect_state()[0])
    assert {"encoder/dense/kernel", "discriminator/dense_1/bias", "optimizer/iteration",
            "optimizer_1/discriminator/dense/kernel/momentum"} <= names
    training.fit(model, data.load("bars"), keras.optimizers.SGD(0.0), steps=2, batch_size=16)
    moved = {name: any((a != b.numpy()).any() for a, b in zip(arrays, getattr(model, name).variables, strict=True))
             for name, arrays in before.items()}
    assert moved == {"encoder": False, "decoder": False, "discriminator": True}
    # Of latents that are independent D can learn no more than that it cannot tell: log 2 nats for each of its answers.
    model = adversarial(tc_weight=0.0)
    model.updates = lambda optimizer: tuple(
        update._replace(optimizer=keras.optimizers.SGD(rate)) for update, rate in
        zip(extension.AdversarialVAE.updates(model, optimizer), (0.0, 0.5), strict=True))
    history = train(model, 60)
    assert history[-1]["discriminator"] < history[0]["discriminator"] - 0.005
    assert history[-1]["discriminator"] == pytest.approx(2 * np.log(2), abs=0.01)


def test_a_model_of_two_networks_resumes_exactly(extension, tmp_path):
    whole, parts = adversarial(), adversarial()
    history = train(whole, 15, tmp_path / "whole")
    train(parts, 10, tmp_path / "parts")
    again = adversarial(seed=9)
    resumed = train(again, 15, tmp_path / "parts")
    assert rounding.apart(whole.get_weights(), again.get_weights()) == 0
    for row, other in zip(history, resumed, strict=True):
        assert {**row, "examples_per_second": 0} == {**other, "examples_per_second": 0}
    assert {"total_correlation", "discriminator", "kl", "reconstruction", "loss"} < set(history[0])


def test_replicas_of_a_model_of_two_networks_are_its_single_runs(extension):
    seeds = [0, 4]
    together = [adversarial(seed) for seed in seeds]
    training.fit_replicas(together, data.load("bars"), keras.optimizers.Adam(1e-3), seeds=seeds, steps=10,
                          batch_size=16)
    alone = adversarial(4)
    train(alone, 10, seed=4)
    # Adam moves a weight by 1e-3 a step at most; a sum in another order shows in the last places.
    assert rounding.apart(together[1].get_weights(), alone.get_weights()) < 1e-4
    assert rounding.apart(together[0].get_weights(), alone.get_weights()) > 0.1
    with pytest.raises(InputError, match="alone; got model 2 of 2 with other tc_weight than model 1"):
        replicas.Stacked([adversarial(), adversarial(tc_weight=1.0)], keras.optimizers.Adam(), [0, 1])


def test_updates_that_share_an_optimizer_are_refused(extension):
    model, adam = adversarial(), keras.optimizers.Adam()
    model.updates = lambda optimizer: (models.Update("loss", model.encoder.trainable_variables, adam),
                                       models.Update("discriminator", model.discriminator.trainable_variables, adam))
    with pytest.raises(InputError, match="updates: expected an optimizer of its own"):
        replicas.Single(model, adam, 0)


@pytest.mark.parametrize(("content", "said"), [
    (None, "No module named 'mine'"), ("raise RuntimeError('torn')", "RuntimeError: torn"), ("1 +", "SyntaxError"),
    ("from vae_tf import models\nmodels.register('vae')(type('V', (models.VAE,), {}))", "'vae' is taken by")])
def test_an_extension_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch, registries, content, said):
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setenv(extensions.VARIABLE, "json, mine")
    with pytest.raises(InputError, match=f"VAE_TF_EXTENSIONS: mine cannot be imported .*{said}"):
        extensions.load()


def test_an_extension_in_the_current_folder_wants_pythonpath(tmp_path, monkeypatch, registries):
    (tmp_path / "lies_here.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setenv(extensions.VARIABLE, "lies_here")
    with pytest.raises(InputError, match=r"No module named 'lies_here'\); PYTHONPATH=\. has Python look"):
        extensions.load()


def test_an_installed_package_names_its_extension_as_an_entry_point(tmp_path, monkeypatch, registries):
    (tmp_path / "installed_extension.py").write_text(
        "from vae_tf import data, networks\nnetworks.register('tiny', networks.Dense((3,), 'tanh', (3,), 'tanh'))\n")
    info = tmp_path / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vae_tf.extensions]\ntiny = installed_extension\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(extensions.VARIABLE, raising=False)
    extensions.load.cache_clear()
    assert "tiny" in extensions.load() and "tiny" in networks.NETWORKS
    encoder, _ = networks.build("tiny", (2,), 1, (1,))
    assert [np.shape(weight) for weight in encoder.get_weights()] == [(2, 3), (3,), (3, 1), (1,)]
    extensions.load.cache_clear()


def run_program(folder, *argv, fork=True):
    """What a program prints that has the example as its extension."""
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), extensions.VARIABLE: "mine"}
    if fork:
        code, out, error = programs.run(*argv, folder=folder, environment=environment)
    else:
        done = subprocess.run([sys.executable, ROOT / argv[0], *argv[1:]], cwd=folder, env=os.environ | environment,
                              capture_output=True, text=True, timeout=600)
        code, out, error = done.returncode, done.stdout, done.stderr
    assert code == 0, error
    return out


def test_what_an_extension_adds_is_trained_exported_and_scored_from_the_command_line(tmp_path):
    """A module outside of the package, through the real programs."""
    shutil.copy(ROOT / "examples" / "extension.py", tmp_path / "mine.py")
    page = run_program(tmp_path, "train.py", "--help")
    words = " ".join(page.split())
    assert "adversarial_vae. [ivae]" in words and "faces3d, bars, or tfds:NAME, or the path" in words
    assert "\nModel: adversarial_vae\n  --tc_weight " in page
    assert "latent_range" in run_program(tmp_path, "evaluate.py", "--help")

    run = ("--dataset=bars", "--network=profiles", "--model=adversarial_vae", "--tc_weight=3", "--batch_size=32",
           "--checkpoint_every=20")
    run_program(tmp_path, "train.py", *run, "--steps=20")
    printed = run_program(tmp_path, "train.py", *run, "--steps=40")        # goes on
    assert "adversarial_vae (profiles, 4 latents" in printed and "on bars (all 256 examples" in printed
    name = "adversarial_vae_bars"
    config = json.loads((tmp_path / "runs" / name / "config.json").read_text())
    assert config["tc_weight"] == 3.0 and config["network"] == "profiles" and config["steps"] == 40
    columns = (tmp_path / "runs" / name / "history.csv").read_text().splitlines()[0].split(",")
    assert {"discriminator", "total_correlation"} <= set(columns)

    path = tmp_path / "exported" / name / "2"
    table = run_program(tmp_path, "evaluate.py", "--quick", "--examples=100", "--jobs=2", "--geometry=dto", "--theory=",
                        "--metrics=active_units,mig,latent_range", fork=False)      # it starts workers of its own
    assert "latent_range" in table and "the codes are all the same" in table
    scores = json.loads((path / "metrics.json").read_text())["metrics"]
    assert scores["latent_range"]["score"] > 0 and len(scores["latent_range"]["per_latent"]) == 4
    assert (path / "overview.png").stat().st_size > 10_000
    # The SavedModel does not need the extension; that none needs the package, test_export_signatures shows.
    assert "mine" not in sys.modules and "adversarial_vae" not in models.MODELS
    served = tf.saved_model.load(str(path))
    assert served.signatures["encode"](x=tf.zeros((2, 16, 16, 1), tf.uint8) + 200)["mean"].shape == (2, 4)
    # Without the variable nothing is added.
    code, _, error = programs.run("train.py", "--dataset=bars", folder=tmp_path)
    assert code == 2 and "dataset: expected one of" in error


@pytest.mark.parametrize("case", [("ivae", "mixed_bfloat16"), ("full_covariance_vae", "float32"), ("ae", "float32")])
def test_a_network_of_an_extension_makes_any_model(extension, case, tmp_path):
    model, dtype = case
    built = models.build(model, (16, 16, 1), network="profiles", latents=3, u_size=2, likelihood="bernoulli", seed=1,
                         dtype=dtype)
    ds = data.load("bars")
    training.fit(built, ds, keras.optimizers.Adam(1e-3), steps=2, batch_size=8, seed=0)
    built.save(tmp_path / "model.keras")
    x = ds.images_at(np.arange(4))
    given = [x, ds.u_at(np.arange(4))] if built.u_size else x
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(given, verbose=0), built.predict(given, verbose=0))


def test_dsprites_of_half_size_is_an_extension(registries):
    runpy.run_path(str(ROOT / "benchmarks" / "half_dsprites.py"))
    half, whole = data.load("half_dsprites"), data.load("dsprites")
    assert len(half) == 3 * 6 * 40 * 16 * 16 and half.shape == (32, 32, 1) and half.complete_grid
    indices = np.array([0, 1, 17, 100_000, len(half) - 1])
    factors = half.factors_at(indices)
    large = whole.images_at(np.ravel_multi_index((factors * [1, 1, 1, 2, 2]).T, (3, 6, 40, 32, 32))).astype(int)
    expected = sum(large[:, i::2, j::2] for i in (0, 1) for j in (0, 1)) // 4
    np.testing.assert_array_equal(half.images_at(indices), expected)
    assert 0 < expected.max() <= 255 and "mlp_half_dsprites" in networks.NETWORKS


def test_networks_with_the_initial_weights_of_pytorch_are_an_extension(registries):
    runpy.run_path(str(ROOT / "benchmarks" / "pytorch_weights.py"))
    kept = networks.build("mlp_dsprites", (16, 16, 1), 10, (10, 10), seed=1)
    pair, again, other = (networks.build("mlp_dsprites_pytorch", (16, 16, 1), 10, (10, 10), seed=seed)
                          for seed in (1, 1, 2))
    for net, same, differs, before in zip(pair, again, other, kept, strict=True):
        assert [w.shape for w in net.weights] == [w.shape for w in before.weights]
        for weights, equal, unequal in zip(net.weights, same.weights, differs.weights, strict=True):
            np.testing.assert_array_equal(weights, equal)
            assert np.any(weights != unequal)
        for layer in net.layers:
            if layer.weights:
                bound = layer.kernel.shape[0] ** -0.5           # torch.nn.Linear.reset_parameters
                assert 0.99 * bound < np.abs(layer.kernel).max() <= bound
                for drawn in map(np.ravel, (layer.kernel, layer.bias)):      # uniform: within 5 standard errors
                    assert abs(np.mean(drawn)) < 5 * bound / np.sqrt(3 * len(drawn))
                    assert abs(np.mean(drawn ** 2) * 3 / bound ** 2 - 1) < 5 * np.sqrt(4 / 5 / len(drawn))
                assert np.all(np.array(layer.kernel)[0] != layer.bias)
    assert networks.NETWORKS["linear_pytorch"].linear and networks.NETWORKS["mlp_mnist_pytorch"].wide
    assert networks.NETWORKS["mlp_synthetic_pytorch"].narrow


