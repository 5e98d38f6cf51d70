"""What a configuration becomes: a model with the weights of another, and what is said of it."""

import dataclasses
import json
import os

import numpy as np
import pytest
from commands import parse, run_evaluate, run_train

from vae_tf import cli, configured, data, export
from vae_tf.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_export_is_trained_further_and_scored_on_other_data(folder):
    rng = np.random.default_rng(0)
    for name, shape in (("one", (60, 4)), ("other", (50, 4)), ("wide", (50, 5))):
        np.savez(f"{name}.npz", data=rng.standard_normal(shape), factors=rng.integers(0, 3, (shape[0], 2)))
    base = ("--model=ivae", "--network=mlp_synthetic", "--latents=3", "--batch_size=4", "--log_every=1")
    run_train(*base, "--dataset=one.npz", "--steps=3", "--name=first")
    x, u = rng.standard_normal((5, 4)).astype(np.float32), rng.uniform(size=(5, 2)).astype(np.float32)
    first = export.load("exported/first")

    # What the flags leave open is as the export has it, and its weights are where training starts.
    values = parse(cli.define_train_flags, "--init_from=exported/first", "--dataset=other.npz", "--beta=3")
    dataset = data.load("other.npz")
    config = cli.configure(values, dataset)
    assert config.network == "mlp_synthetic" and config.latents == 3
    model = configured.build_model(config, dataset)
    np.testing.assert_allclose(model.posterior(x, u).stddev(), first.encode(x, u)["stddev"], rtol=1e-5)
    np.testing.assert_allclose(model.prior(u).stddev(), first.encode(x, u)["prior_stddev"], rtol=1e-5)
    np.testing.assert_allclose(model(x, u), first.reconstruct(x, u)["mean"], rtol=1e-4, atol=1e-6)

    further = ("--init_from=exported/first", "--dataset=other.npz", "--name=second", *base)
    run_train(*further, "--steps=1", "--learning_rate=1e-6")
    second, anew = export.load("exported/second"), configured.build_model(
        dataclasses.replace(config, init_from=None), dataset)
    assert json.loads((folder / "runs/second/config.json").read_text())["init_from"] == "exported/first/1"
    assert second.card["recipe"]["init_from"] == "exported/first/1" and first.card["recipe"]["init_from"] is None
    mean = first.encode(x, u)["mean"]
    # Adam moves no weight by more than the learning rate in a step.
    np.testing.assert_allclose(second.encode(x, u)["mean"], mean, atol=1e-3)
    assert np.abs(anew.posterior(x, u).mean() - mean).max() > 1e-3

    run_train(*further, "--steps=2", "--learning_rate=1e-6", "--keep_versions=1")      # goes on, though a flag is new
    assert os.listdir("exported/second") == ["2"]
    run_train(*base, "--dataset=one.npz", "--steps=4", "--name=first")
    with pytest.raises(InputError, match="--init_from: exported/first/1 there, exported/first/2 now"):
        run_train(*further, "--steps=3", "--learning_rate=1e-6")

    for arguments, message in [
            (("--init_from=none",), "--init_from: expected a folder that holds an exported model.*does not exist"),
            (("--init_from=exported/first", "--model=vae", "--latents=5"),
             r"init_from: .*exported/first/2 differs \(--model: ivae there, vae now; --latents: 3 there, 5 now; "),
            (("--init_from=exported/first", "--dataset=wide.npz"),
             r"\(shape of an example: \(4,\) there, \(5,\) now\)")]:
        with pytest.raises(InputError, match=message):
            run_train("--model=ivae", "--dataset=one.npz", *arguments, "--name=wrong")
    (folder / "exported/first/2" / export.WEIGHTS).unlink()
    with pytest.raises(InputError, match=r"exported/first/2 has no assets.extra/model.weights.h5"):
        run_train("--model=ivae", "--dataset=one.npz", "--init_from=exported/first/2", "--name=wrong")
    with pytest.warns(UserWarning, match=r"exported/first/2/.* cannot be read .*; going back to the version before"):
        assert export.find_newest("exported/first").name == "1"
    assert not (folder / "runs/wrong").exists()

    scored = ("--examples=40", "--metrics=active_units,mig", "--geometry=")
    run_evaluate("--export=exported/second", "--dataset=one.npz", *scored)
    written = json.loads((folder / "exported/second/2/metrics.json").read_text())
    described = export.load("exported/second").card
    assert written["dataset"] == described["evaluated"]["dataset"] == "one.npz"
    assert described["evaluated"]["examples"] == 40 and described["data"]["name"] == "other.npz"
    assert described["metrics"] == {name: metric["score"] for name, metric in written["metrics"].items()
                                    if "no_meaning" not in metric}       # two steps leave a model nearly dead
    assert {"active_units", "elbo"} <= set(described["metrics"]) and "mig" in written["metrics"]
    with pytest.raises(InputError, match=r"the model takes examples of shape \(4,\) and u of size 2; got wide.npz"):
        run_evaluate("--export=exported/second", "--dataset=wide.npz", *scored)


def test_what_is_said_at_the_end_of_training():
    history = [{"step": step, "delta_kl": delta} for step, delta in [(500, 0.1), (1000, 0.02), (1500, 0.01)]]
    said = configured.describe_polarised(0.4, history)
    assert "stays within 3 % of its polarised form for the last 33.3% of training" in said
    assert "is below 0.4 prior variances" in said
    assert configured.describe_polarised(0.4, [{"step": 500}]) == ""
