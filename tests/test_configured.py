"""What a configuration becomes: a model with the weights of another, and what is said of it."""

import contextlib
import dataclasses
import json
import os
import shutil
import warnings

import numpy as np
import pytest
from commands import parse, run_evaluate, run_train

from vae_tf import cli, configured, data, devices, export, models, runs, training
from vae_tf.cli import training_request
from vae_tf.configuration import Settings
from vae_tf.configured import fitting
from vae_tf.errors import InputError

BASE = ("--model=ivae", "--network=mlp_synthetic", "--latents=3", "--batch_size=4", "--log_every=1")
WIDE = ("--network=mlp_dsprites",)
FURTHER = ("--init_from=exported/first", "--dataset=other.npz", "--name=second", "--learning_rate=1e-6", *BASE)
x, u = (make(size=(5, n)).astype(np.float32) for make, n in
        ((np.random.default_rng(1).standard_normal, 4), (np.random.default_rng(2).uniform, 2)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with data, a model that was trained on one.npz, and one that was trained further on other.npz."""
    folder, rng = tmp_path_factory.mktemp("trained"), np.random.default_rng(0)
    with contextlib.chdir(folder):
        for name, shape in (("one", (60, 4)), ("other", (50, 4)), ("wide", (50, 5))):
            np.savez(f"{name}.npz", data=rng.standard_normal(shape), factors=rng.integers(0, 3, (shape[0], 2)))
        run_train(*BASE, "--dataset=one.npz", "--steps=3", "--name=first")
        run_train(*FURTHER, "--steps=1")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(shutil.copytree(trained, tmp_path / "copy"))
    return tmp_path / "copy"


def configure(*argv, dataset="other.npz"):
    values, loaded = parse(cli.define_train_flags, f"--dataset={dataset}", *argv), data.load(dataset)
    return cli.configure(values, loaded), loaded


def test_what_the_flags_leave_open_and_the_weights_are_those_of_the_export(folder):
    config, dataset = configure("--init_from=exported/first", "--beta=3")
    assert config.network == "mlp_synthetic" and config.latents == 3
    first, model = export.load("exported/first"), configured.build_model(config, dataset)
    np.testing.assert_allclose(model.posterior(x, u).stddev(), first.encode(x, u)["stddev"], rtol=1e-5)
    np.testing.assert_allclose(model.prior(u).stddev(), first.encode(x, u)["prior_stddev"], rtol=1e-5)
    np.testing.assert_allclose(model(x, u), first.reconstruct(x, u)["mean"], rtol=1e-4, atol=1e-6)


def test_an_export_is_trained_further(folder, trained):
    first, second = (export.load(f"exported/{name}") for name in ("first", "second"))
    config, dataset = configure("--init_from=exported/first")
    anew = configured.build_model(dataclasses.replace(config, init_from=None), dataset)
    assert json.loads((folder / "runs/second/config.json").read_text())["init_from"] == "exported/first/1"
    assert second.card["recipe"]["init_from"] == "exported/first/1" and first.card["recipe"]["init_from"] is None
    mean = first.encode(x, u)["mean"]
    # Adam moves no weight by more than the learning rate in a step.
    np.testing.assert_allclose(second.encode(x, u)["mean"], mean, atol=1e-3)
    assert np.abs(anew.posterior(x, u).mean() - mean).max() > 1e-3

    of_first, of_second = export.list_trainings(first.card), export.list_trainings(second.card)
    assert of_second[1:] == of_first and of_second[0]["dataset"] == str(trained / "other.npz")
    unknown = {name: entry for name, entry in second.card.items() if name != "trained_before"}
    assert [each["dataset"] for each in export.list_trainings(unknown)] == [of_second[0]["dataset"], ""]

    # A run of before configurations knew the first weights goes on, and knows them from then on.
    path = folder / "runs/second/config.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({name: entry for name, entry in before.items() if name != "init_from_weights"}))
    run_train(*FURTHER, "--steps=2", "--keep_versions=1")      # goes on, though a flag is new
    assert os.listdir("exported/second") == ["2"]
    assert json.loads(path.read_text()) == {**before, "steps": 2}
    assert first.card["weights_sha256"].startswith(before["init_from_weights"])

    os.rename("exported/first/1", "exported/first/2")
    with pytest.raises(InputError, match="--init_from: exported/first/1 there, exported/first/2 now"):
        run_train(*FURTHER, "--steps=3")
    shutil.copytree("exported/second/2", "exported/first/1")
    with pytest.raises(InputError, match="--init_from: exported/first/1 holds other weights than those that the run"):
        run_train(*FURTHER[1:], "--init_from=exported/first/1", "--steps=3")


def test_a_run_does_not_go_on_with_other_numerics(folder, monkeypatch):
    monkeypatch.setattr(training_request, "NUMERICS", 2)
    with pytest.raises(InputError, match=r"runs/first holds a run of .* \(numerics 1 there, 2 now\); give this one a"):
        run_train(*BASE, "--dataset=one.npz", "--steps=4", "--name=first")


def test_a_run_takes_neither_another_schedule_nor_another_length_of_one_that_falls(tmp_path):
    constant, _ = configure("--steps=3", dataset="circles")
    falling = dataclasses.replace(constant, learning_rate_schedule="cosine")
    for was, message in ((constant, r"another configuration \(--learning_rate_schedule: not set there, cosine now\);"),
                         (falling, "--steps: the learning rate of the run in .* falls over 3 steps")):
        runs.write_config(tmp_path / "run", was.as_json())
        runs.write_history(tmp_path / "run", [{"step": 1, "loss": 2.0}])
        with pytest.raises(InputError, match=message):
            configured.choose_run_folder(dataclasses.replace(falling, steps=9), Settings(run_root=str(tmp_path)), "run")


def test_a_default_name_is_one_that_an_export_can_have():
    config, _ = configure(dataset="circles")
    for dataset, suited in (("tfds:shapes3d[label_shape,value_scale]", "tfds:shapes3d-label_shape-value_scale"),
                            ("a/データ\u3000セット.npz", "データ-セット")):
        config = dataclasses.replace(config, dataset=dataset)
        assert configured.choose_name({"": config}, Settings()) == f"{config.model}_{suited}"


def test_validation_on_examples_that_the_first_weights_saw_is_a_warning(folder):
    for seed, context in ((0, warnings.catch_warnings(action="error")), (1, pytest.warns(UserWarning, match=(
            r"\d of the 6 examples for validation are among those that exported/first/1 was trained on")))):
        config, whole = configure("--init_from=exported/first", "--validate_every=1", "--split=random",
                                  f"--data_seed={seed}", dataset="one.npz")
        with context:
            assert len(configured.take_validation_part(config, whole)) == 6


def test_what_cannot_be_trained_further_is_one_line(folder):
    for arguments, message in [
            (("--init_from=none",), "--init_from: expected a folder that holds an exported model.*does not exist"),
            (("--init_from=exported/first", "--model=vae", "--latents=5"),
             r"init_from: .*exported/first/1 differs \(--model: ivae there, vae now; --latents: 3 there, 5 now; "),
            (("--init_from=exported/first", "--likelihood=gaussian_learned", "--likelihood_variance=5"),
             "--likelihood_variance: it has an effect only .* gaussian_learned and without --init_from"),
            (("--init_from=exported/first", "--dataset=wide.npz"),
             r"\(shape of an example: \(4,\) there, \(5,\) now\)")]:
        with pytest.raises(InputError, match=message):
            run_train("--model=ivae", "--dataset=one.npz", *arguments, "--name=wrong")
    shutil.copytree("exported/first/1", "exported/first/2")
    (folder / "exported/first/2" / export.WEIGHTS).unlink()
    with pytest.raises(InputError, match=r"exported/first/2 has no assets.extra/model.weights.h5"):
        run_train("--model=ivae", "--dataset=one.npz", "--init_from=exported/first/2", "--name=wrong")
    with pytest.warns(UserWarning, match=r"exported/first/2/.* cannot be read .*; going back to the version before"):
        assert export.find_newest("exported/first").name == "1"
    assert not (folder / "runs/wrong").exists()


def test_an_export_is_scored_on_other_data(folder):
    scored = ("--examples=40", "--metrics=active_units,mig", "--geometry=")
    run_evaluate("--export=exported/second", "--dataset=one.npz", "--split=grid", *scored)
    written = json.loads((folder / "exported/second/1/metrics.json").read_text())
    described = export.load("exported/second").card
    assert written["dataset"] == described["evaluated"]["dataset"] == "one.npz"
    assert written["trained_on"] == 48          # by the model that this one was made from
    assert described["evaluated"]["examples"] == 40 and described["data"]["name"] == "other.npz"
    assert described["metrics"] == {name: metric["score"] for name, metric in written["metrics"].items()
                                    if "no_meaning" not in metric}       # two steps leave a model nearly dead
    assert {"active_units", "elbo"} <= set(described["metrics"]) and "mig" in written["metrics"]
    with pytest.raises(InputError, match=r"the model takes examples of shape \(4,\) and u of size 2; got wide.npz"):
        run_evaluate("--export=exported/second", "--dataset=wide.npz", *scored)


def test_a_callback_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    def track(config, run_dir):
        raise ConnectionError(f"no server for {config['model']}")

    monkeypatch.setattr(training, "CALLBACKS", [track])
    values = parse(cli.define_train_flags, "--dataset=circles", "--model=vae")
    config = cli.configure(values, data.load("circles"))
    with pytest.raises(InputError, match=r"^the callback track of an .* made \(ConnectionError: no server for vae\)$"):
        configured.fit([config], [None], data.load("circles"), [tmp_path / "run"], cli.read_settings(values),
                       devices.choose_strategy("one_device"))
    assert not list(tmp_path.iterdir())


def test_what_is_said_at_the_end_of_training():
    history = [{"step": step, "delta_kl": delta} for step, delta in [(500, 0.1), (1000, 0.02), (1500, 0.01)]]
    said = configured.describe_polarised(0.4, history)
    assert "stays within 3 % of its polarised form for the last 33.3% of training" in said
    assert "is below 0.4 prior variances" in said
    assert configured.describe_polarised(0.4, [{"step": 500}]) == ""
    validated = [{"step": step, "validation_loss": loss} for step, loss in [(500, 4.0), (1000, 3.0), (1500, 3.5)]]
    for flags, said in [
            (("--early_stopping=1",), "Training stopped early at step 1,500 of 2,000. Exported are the weights of step "
             "1,000, where validation_loss was lowest, 3.00."),
            (("--steps=1000",), "Exported are the weights of step 1,000, where validation_loss was lowest, 3.00."),
            (("--steps=1500",), "Exported are the last weights; at step 1,000 validation_loss was lowest, 3.00 "
             "(--export_weights=best exports those)."),
            ((), "Exported are the last weights; at step 1,000"),        # nothing stops it early
            (("--steps=1500", "--export_weights=best"), "Exported are the weights of step 1,000, where validation")]:
        values = parse(cli.define_train_flags, "--split=random", "--validate_every=500", "--steps=2000", *flags)
        config, settings = cli.configure(values, data.load("circles")), cli.read_settings(values)
        assert configured.describe_best(config, settings, validated).strip().startswith(said)
        assert configured.describe_best(config, settings, history) == ""


@pytest.mark.parametrize(("dataset", "flags", "compiled"), [
    ("other.npz", ("--steps=100",), False), ("other.npz", ("--jit_compile=true",), True), ("dsprites", WIDE, False),
    ("dsprites", (*WIDE, "--optimizer=adagrad"), "updates"), ("dsprites", (*WIDE, "--jit_compile=true"), True),
    ("dsprites", (*WIDE, "--precision=mixed_bfloat16"), False),
    ("dsprites", (*WIDE, "--precision=mixed_bfloat16", "--optimizer=adagrad"), "updates"),
    ("dsprites", (*WIDE, "--jacobian_penalty=orthogonality", "--jacobian_weight=1"), False),
    ("dsprites", (*WIDE, "--optimizer=sgd", "--jacobian_penalty=orthogonality", "--jacobian_weight=1"), "updates"),
    ("dsprites", (*WIDE, "--jit_compile=false"), False)])
def test_xla_compiles_updates_of_wide_dense_networks(folder, dataset, flags, compiled):
    assert fitting.choose_compiled(*configure(*flags, dataset=dataset)) == compiled


@pytest.mark.parametrize(("count", "flags", "compiled"), [
    (10, (), True), (9, (), False), (1, ("--steps=10000",), True), (1, ("--steps=9999",), False),
    (10, ("--jit_compile=false",), False), (2, ("--jit_compile=true",), True), (10, ("--network=linear",), True),
    (10, ("--network=mlp_mixture",), True), (10, ("--precision=mixed_bfloat16",), False),
    (10, ("--jacobian_penalty=l1", "--jacobian_weight=1"), False)])
def test_xla_compiles_dense_networks_that_make_many_steps_on_vectors(folder, count, flags, compiled):
    config, loaded = configure("--network=mlp_synthetic", "--steps=1000", *flags, dataset="circles")
    assert fitting.choose_compiled(config, loaded, count) == compiled


@pytest.mark.parametrize(("network", "dataset", "compiled"), [
    ("mlp_synthetic", "dsprites", False), ("conv_locatello", "dsprites", False),
    ("linear", "linear_mixture_digits", False), ("mlp_mixture", "linear_mixture_digits", True)])
def test_xla_compiles_what_it_makes_faster_on_a_cpu(folder, network, dataset, compiled):
    config, loaded = configure(f"--network={network}", "--steps=20000", dataset=dataset)
    assert fitting.choose_compiled(config, loaded) == compiled


def test_xla_compiles_no_model_of_an_extension_on_vectors_unless_asked(folder, monkeypatch):
    config, loaded = configure("--network=mlp_synthetic", "--steps=20000", dataset="circles")
    monkeypatch.setitem(models.MODELS, "mine", type("Mine", (models.IVAE,), {}))
    mine = dataclasses.replace(config, model="mine")
    assert fitting.choose_compiled(config, loaded) and not fitting.choose_compiled(mine, loaded)
    assert fitting.choose_compiled(dataclasses.replace(mine, jit_compile="true"), loaded)


def test_of_an_extension_s_model_on_images_xla_compiles_the_updates_alone(folder, monkeypatch):
    config, loaded = configure(*WIDE, "--optimizer=rmsprop", dataset="dsprites")
    monkeypatch.setitem(models.MODELS, "mine", type("Mine", (models.IVAE,), {}))
    assert fitting.choose_compiled(dataclasses.replace(config, model="mine"), loaded) == "updates"
    monkeypatch.setattr(fitting.tf.config, "list_physical_devices", lambda kind: [kind])
    assert fitting.choose_compiled(dataclasses.replace(config, model="mine"), loaded) is False


@pytest.mark.parametrize(("network", "count", "compiled"), [
    ("mlp_synthetic", 1, True), ("mlp_synthetic", 2, True), ("linear", 1, False), ("mlp_mixture", 1, False)])
def test_xla_compiles_narrow_networks_on_gpus(folder, monkeypatch, network, count, compiled):
    config, loaded = configure(f"--network={network}", dataset="circles")
    monkeypatch.setattr(fitting.tf.config, "list_physical_devices", lambda kind: [kind])
    assert fitting.choose_compiled(config, loaded, count) == compiled
