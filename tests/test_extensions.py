"""What code from outside of the package adds: a dataset, a model with an option and a second optimizer, a metric."""

import ast
import dataclasses
import functools
import importlib
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys

import cases
import keras
import numpy as np
import programs
import pytest
import rounding
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from vae_tf import (
    activity,
    data,
    evaluation,
    export,
    extensions,
    metrics,
    models,
    networks,
    replicas,
    training,
    verdicts,
)
from vae_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]
REGISTRIES = (models.MODELS, data.DATASETS, networks.NETWORKS, metrics.METRICS)


@pytest.fixture
def registries():
    """The registries, which are afterwards as they were."""
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, content in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(content)


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
    with pytest.raises(InputError, match="differ in weights and beta alone"):
        replicas.Stacked([adversarial(), adversarial(tc_weight=1.0)], keras.optimizers.Adam(), [0, 1])


def test_updates_that_share_an_optimizer_are_refused(extension):
    model, adam = adversarial(), keras.optimizers.Adam()
    model.updates = lambda optimizer: (models.Update("loss", model.encoder.trainable_variables, adam),
                                       models.Update("discriminator", model.discriminator.trainable_variables, adam))
    with pytest.raises(InputError, match="updates: expected an optimizer of its own"):
        replicas.Single(model, adam, 0)


def test_names_that_are_taken_are_refused(registries):
    with pytest.raises(InputError, match=r"model: 'vae' is taken by vae_tf.models.vae.VAE"):
        models.register("vae")(type("Other", (models.VAE,), {}))
    option = models.Option("tc_estimator", "mine", "Another option of that name.")
    with pytest.raises(InputError, match="model: the option 'tc_estimator' of other"):
        models.register("other")(type("Other", (models.VAE,), {"options": (option,)}))
    with pytest.raises(InputError, match=r"dataset: 'mnist' is taken by vae_tf.data.catalogue"):
        data.register("mnist", lambda data_dir, seed: None)
    with pytest.raises(InputError, match=r"suited: expected settings of network, .*; got 'stepps' for mine"):
        data.register("mine", lambda data_dir, seed: None, suited={"stepps": 1})
    data.register("mine", functools.partial(data.from_arrays, "mine"))
    data.register("mine", functools.partial(data.from_arrays, "mine"))       # of a module that is loaded again
    with pytest.raises(InputError, match=r"dataset: 'mine' is taken by vae_tf.data.*from_arrays"):
        data.register("mine", lambda data_dir, seed: None)
    with pytest.raises(InputError, match="network: 'linear' is taken"):
        networks.register("linear", networks.Dense())


class Folder(data.Dataset):
    def __init__(self, data_dir, seed):
        inner = cases.dataset((6,))
        super().__init__(**{field.name: getattr(inner, field.name) for field in dataclasses.fields(inner)
                            if field.init})


def test_a_dataset_has_the_name_under_which_it_is_registered(registries):
    data.register("mine", lambda data_dir, seed: cases.dataset((6,)), suited={"latents": 3})
    mine = data.load("mine")
    assert mine.name == "mine" and data.choose_settings(mine)["latents"] == 3
    data.register("folder", Folder)     # a subclass with an __init__ of its own
    part = data.load("folder").split("random", "train")
    assert part.name == "folder" and isinstance(part, Folder) and len(part) == 32
    data.register("none", lambda data_dir, seed: None)
    with pytest.raises(InputError, match=r"dataset: expected the loader of none to return .*; got None"):
        data.load("none")


@pytest.mark.parametrize(("register", "said"), [
    (lambda: data.register("mine", cases.dataset((6,))), "load: expected a function; got Dataset"),
    (lambda: models.register(models.VAE), "model: expected a name, as in @models.register.'mine'.; got <class"),
    (lambda: models.register("mine")(keras.Model), "model: expected a subclass of models.Autoencoder for mine; got"),
    (lambda: models.register("mine")(type("Mine", (models.VAE,), {"options": models.Option("a", 1, "")})),
     r"options: expected a tuple of models.Option for mine, such as \(models.Option\(...\),\); got an Option"),
    (lambda: networks.register("mine", networks.Dense), "network: expected a networks.Maker for mine, .*; got <class"),
])
def test_what_cannot_be_registered_is_refused_at_once(registries, register, said):
    with pytest.raises(InputError, match=said):
        register()
    assert not any("mine" in registry for registry in REGISTRIES)


def test_a_subclass_inherits_nothing_that_theory_knows_of_another_objective():
    assert models.VAE.linear_theory.optimum == "diagonal"
    assert type("Other", (models.VAE,), {}).linear_theory is None
    assert models.IVAE.weigh_kl(2.0) is None and models.BetaVAE.weigh_kl(None) == 4.0


def export_with_prior(tmp_path, prior):
    """A linear VAE with another prior: the model, and its export as it is loaded."""
    kind = models.register("other")(type("Other", (models.VAE,), {"prior": lambda self, u=None: prior}))
    dataset = cases.dataset((6,))
    model = models.build("other", dataset.shape, network="linear", latents=2)
    assert type(model) is kind
    card = {"model": "other", "u_size": 0, "steps": 1, "data": {"name": dataset.name, "shape": dataset.shape}}
    return model, dataset, export.load(export.save(tmp_path, model, dataset, card))


def test_scores_compare_the_posterior_with_the_models_own_normal_prior(registries, tmp_path):
    prior = tfd.MultivariateNormalDiag([1.0, -2.0], [2.0, 0.5])
    model, dataset, loaded = export_with_prior(tmp_path, prior)
    scored = evaluation.evaluate(loaded, dataset, ["active_units"], seed=1)
    x = dataset.images_at(np.arange(len(dataset)))
    kl = tfd.kl_divergence(model.posterior(x), prior).numpy().mean()
    assert scored.verdict.kl.sum() == pytest.approx(kl, rel=1e-4) and not scored.verdict.given_u
    assert verdicts.judge_model(model, dataset).kl.sum() == pytest.approx(kl, rel=1e-4)
    variances = np.var(model.posterior(x).mean(), axis=0) / prior.variance()
    assert scored.results["active_units"].score == np.sum(variances > activity.VARYING_MEANS)


def test_a_prior_that_scores_cannot_use_is_one_line(registries, tmp_path):
    prior = tfd.MultivariateNormalTriL([0.0, 0.0], [[1.0, 0.0], [0.8, 0.6]])
    model, dataset, loaded = export_with_prior(tmp_path, prior)
    assert loaded.encode(dataset.images_at(np.arange(3)))["mean"].shape == (3, 2)       # it is served
    assert verdicts.judge_model(model, dataset).kl is None
    with pytest.raises(InputError) as error:
        evaluation.evaluate(loaded, dataset, ["active_units"])
    assert str(error.value) == ("model: scores compare the posterior with independent normal latents; the prior of "
                                "other is a MultivariateNormalTriL; evaluate.py --codes scores its codes alone")


@pytest.mark.parametrize(("option", "value", "message"), [
    (models.Option("a", "x", "", choices=("x", "y")), "z", "a: expected one of x, y; got 'z'"),
    (models.Option("a", 3, "", kind=int, low=1), 0, "a: expected a whole number, 1 to 2,147,483,647; got 0"),
    (models.Option("a", 3.0, "", kind=float, low=0.0), float("nan"),
     "a: expected a finite number, 0 or more, at most 3.4e+38; got nan"),
    (models.Option("a", True, "", kind=bool), 1, "a: expected a bool; got 1"),
])
def test_options_check_their_values(option, value, message):
    assert option.check(option.default) == option.default
    with pytest.raises(InputError) as error:
        option.check(value)
    assert str(error.value) == message


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
    assert "adversarial_vae. [ivae]" in " ".join(page.split()) and "faces3d, bars, or the path" in " ".join(
        page.split())
    assert "\nModel: adversarial_vae\n  --tc_weight " in page
    assert "latent_range" in run_program(tmp_path, "evaluate.py", "--help")

    run = ("--dataset=bars", "--model=adversarial_vae", "--tc_weight=3", "--batch_size=32", "--checkpoint_every=20")
    run_program(tmp_path, "train.py", *run, "--steps=20")
    printed = run_program(tmp_path, "train.py", *run, "--steps=40")        # goes on
    assert "adversarial_vae (mlp_mnist, 4 latents" in printed and "on bars (all 256 examples" in printed
    name = "adversarial_vae_bars"
    config = json.loads((tmp_path / "runs" / name / "config.json").read_text())
    assert config["tc_weight"] == 3.0 and config["network"] == "mlp_mnist" and config["steps"] == 40
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
    assert networks.NETWORKS["linear_pytorch"].linear and networks.NETWORKS["mlp_mnist_pytorch"].faster_compiled
    assert networks.NETWORKS["mlp_synthetic_pytorch"].narrow


ROOMS = {"models": models.MODELS, "networks": networks.NETWORKS, "data": data.DATASETS}


def named_in(path, names):
    """(line, string) of the strings in a file, other than docstrings, that are a name, or end in =NAME."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [(node.lineno, node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)
            and isinstance(node.value, str) and id(node) not in docstrings and node.value.rpartition("=")[2] in names]


@pytest.mark.parametrize("room", ROOMS)
def test_names_occur_only_where_things_are_defined(room):
    """The package knows its own models, networks and datasets as it knows those from outside."""
    package = ROOT / "vae_tf"
    home = [package / f"{room}.py", *(package / room).rglob("*.py")]
    # A dataset says the network that suits it, and an experiment the one that it takes; a schedule may be linear, too.
    if room == "networks":
        home += [package / "training" / "optimizers.py"]
        home += [*(package / "data").rglob("*.py"), *(package / "experiments" / "measured").rglob("*.py")]
    found = {str(path.relative_to(ROOT)): hits for path in sorted(package.rglob("*.py"))
             if path not in home and (hits := named_in(path, ROOMS[room]))}
    assert not found
    assert any(named_in(path, ROOMS[room]) for path in home if path.exists())
