"""What is registered, from outside of the package as well: names, options, priors, datasets."""

import ast
import dataclasses
import functools
import pathlib

import cases
import keras
import numpy as np
import pytest
from tensorflow_probability import distributions as tfd

from vae_tf import activity, comparison, data, evaluation, export, models, networks, verdicts
from vae_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]


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
    assert not any("mine" in registry for registry in registries)


class Forgetful(models.VAE):
    options = (models.Option("weight", 1.0, "A weight."),)

    def __init__(self, encoder, decoder, likelihood, weight):
        super().__init__(encoder, decoder, likelihood)


@pytest.mark.parametrize(("kind", "said"), [
    (type("Unready", (models.VAE,), {"options": Forgetful.options}),
     "the __init__ of Unready to take encoder, decoder, likelihood, weight; got .* unexpected .* 'weight'"),
    (Forgetful, "Forgetful to keep the value of its option as an attribute of the name weight; got none")])
def test_a_model_that_does_not_take_or_keep_its_option_is_told_so(registries, kind, said):
    models.register("mine")(kind)
    with pytest.raises(InputError, match=f"^model: expected {said}$"):
        models.build("mine", (3,), network="linear", latents=2)


def test_a_subclass_inherits_nothing_that_theory_knows_of_another_objective():
    assert models.VAE.linear_theory.optimum == "diagonal"
    assert type("Other", (models.VAE,), {}).linear_theory is None
    assert models.IVAE.weigh_kl(2.0) is None and models.BetaVAE.weigh_kl(None) == 4.0
    assert not type("Other", (models.VAE,), {}).minimises_elbo
    assert [name for name, kind in models.MODELS.items() if kind.minimises_elbo] == [
        "vae", "beta_vae", "full_covariance_vae", "ivae", "dip_vae_i"]


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
    (models.Option("a", -1, "", kind=int), 2**31,
     "a: expected a whole number, -2,147,483,647 to 2,147,483,647; got 2147483648"),
    (models.Option("a", 3.0, "", kind=float, low=0.0), float("nan"),
     "a: expected a finite number, 0 or more, at most 3.4e+38; got nan"),
    (models.Option("a", True, "", kind=bool), 1, "a: expected a bool; got 1"),
])
def test_options_check_their_values(option, value, message):
    assert option.check(option.default) == option.default
    with pytest.raises(InputError) as error:
        option.check(value)
    assert str(error.value) == message


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


def test_verdicts_on_a_full_covariance_are_of_its_whole_kl(tmp_path):
    dataset = cases.dataset((6,))
    model = models.build("full_covariance_vae", dataset.shape, network="linear", latents=3)
    model.encoder.set_weights([np.random.default_rng(0).standard_normal(w.shape) for w in model.encoder.get_weights()])
    loaded = export.load(export.save(tmp_path, model, dataset, {
        "model": "full_covariance_vae", "u_size": 0, "steps": 1,
        "data": {"name": dataset.name, "shape": dataset.shape}}))
    x = dataset.images_at(np.arange(len(dataset)))
    exact = np.mean(model.posterior(x).kl_divergence(model.prior()))
    scored = evaluation.evaluate(loaded, dataset, ["active_units"])
    for verdict in (verdicts.judge_model(model, dataset), scored.verdict, comparison.judge(loaded.encode(x))[0]):
        assert verdict.nats == pytest.approx(exact, rel=1e-5) and verdict.dependence > 0.1
