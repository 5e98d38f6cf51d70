"""train.py: every model trains, goes on, is exported and scored; what cannot be trained is one line."""

import json
import os
import pathlib
import signal

import cases
import keras
import numpy as np
import pytest
from absl import flags
from commands import QUICK, parse, run_evaluate, run_train

from vae_tf import array_names, cli, configured, data, export, models, runs, training
from vae_tf.configuration import Configuration
from vae_tf.console import stops
from vae_tf.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Images whose factors are a grid; images of a catalogue with a part held out, which to a model without u are what
# dSprites' are; and vectors. Models that differ in the objective alone do as the VAE does on images.
@pytest.mark.parametrize(("model", "dataset"), [
    *((model, "dsprites" if model in cases.KINDS else "synthetic_linear") for model in models.MODELS),
    pytest.param("ivae", "mnist", marks=cases.NEEDS_MNIST)])
def test_every_model_trains_on_every_kind_of_data_and_is_evaluated(folder, model, dataset, capsys):
    smaller = [] if dataset == "synthetic_linear" else ["--network=linear"]
    if smaller and model != "vae":      # which has the default number
        smaller.append("--latents=3")
    run_train(f"--model={model}", f"--dataset={dataset}", *smaller, *QUICK)
    path = pathlib.Path("exported") / f"{model}_{dataset}" / "1"
    out = capsys.readouterr().out
    assert f"vae-tf evaluate --export={path}" in out and f"{path}: reconstruction" in out
    run_evaluate("--examples=200", "--metrics=active_units,mig,mcc", "--geometry=dto,hadamard_gap",
                 "--geometry_examples=4", "--theory=")
    printed = capsys.readouterr().out
    result = json.loads((path / "metrics.json").read_text())
    assert {"active_units", "mig", "mcc", "dto", "hadamard_gap"} <= set(result["metrics"])
    assert result["dataset"] == dataset
    assert ("elbo" in result["metrics"]) == (model != "ae")
    # Three steps leave some models dead: their scores are not printed.
    alive = result["verdict"]["state"] == "alive"
    assert ("chance" in printed, "no_meaning" not in result["metrics"]["mig"]) == (alive, alive)
    assert (path / "overview.png").exists() == (dataset != "synthetic_linear")
    run = pathlib.Path("runs") / f"{model}_{dataset}"
    assert sorted(p.name for p in run.iterdir()) == ["checkpoints", "config.json", "history.csv", "tensorboard"]
    assert json.loads((run / "config.json").read_text())["model"] == model


def scores(result):
    """All that is in metrics.json but for the seconds that each took."""
    return {name: {part: value for part, value in scored.items() if part != "measured"}
            for name, scored in result.items()}


def test_the_polarised_regime_is_watched_while_training_and_scored_after(folder, capsys):
    """Watching changes no number, so two runs of a seed have the same weights and the same scores."""
    base = ("--model=beta_vae", "--beta=1e-3", "--dataset=synthetic_linear", "--steps=6", "--batch_size=64")
    run_train(*base, "--name=watched", "--polarised_every=2")
    assert "The KL is not within 3 % of its polarised form at the end" in capsys.readouterr().out
    run_train(*base, "--name=plain", "--polarised_every=0")
    assert "polarised" not in capsys.readouterr().out
    run_train("--model=ae", *base[2:], "--name=ae")
    x = data.load("synthetic_linear").images_at(np.arange(5))
    watched, plain, ae = (export.load(f"exported/{name}") for name in ("watched", "plain", "ae"))
    np.testing.assert_array_equal(watched.encode(x)["stddev"], plain.encode(x)["stddev"])
    lines = [line.split(",") for line in (folder / "runs/watched/history.csv").read_text().splitlines()]
    assert [line[0] for line in lines] == ["step", "2", "4", "6"]
    assert {"kl", "kl_polarised", "delta_kl", "active_latents"} <= set(lines[0])
    assert all(line[lines[0].index("delta_kl")] for line in lines)
    assert not any("delta_kl" in (folder / f"runs/{name}/history.csv").read_text() for name in ("plain", "ae"))
    assert watched.card["history"]["polarised_fraction"]["parts"] == {"since": None, "measurements": 3}
    assert watched.card["recipe"]["active_threshold"] == 0.5
    assert plain.card["history"] == ae.card["history"] == {}
    scored_of = {}
    for name in ("watched", "plain"):
        run_evaluate(f"--export=exported/{name}", "--examples=200", "--metrics=active_units,mig,sap",
                     "--geometry_examples=4")
        assert "  polarised regime\n" in capsys.readouterr().out
        scored = json.loads(pathlib.Path(f"exported/{name}/1/metrics.json").read_text())
        scored_of[name] = scores(scored["metrics"])
        assert ("polarised_fraction" in scored["polarised_regime"]) == (name == "watched")
        regime = [scored["polarised_regime"][f"{kind}_latents"]["score"] for kind in ("active", "mixed", "passive")]
        assert sum(regime) == 2 and (folder / f"exported/{name}/1/polarised.png").exists()
    assert scored_of["watched"] == scored_of["plain"]       # equal weights give equal scores
    run_evaluate("--export=exported/ae", "--examples=200", "--metrics=active_units", "--geometry=", "--theory=")
    assert not (folder / "exported/ae/1/polarised.png").exists()
    assert json.loads(pathlib.Path("exported/ae/1/metrics.json").read_text())["polarised_regime"] == {}
    with pytest.raises(InputError, match="got active, and no stddev"):
        run_evaluate("--export=exported/ae", "--latents=active", "--metrics=active_units")


def test_a_second_run_goes_on_is_refused_or_restarts(folder, capsys):
    base = ("--model=vae", "--dataset=synthetic_linear", "--network=linear", "--batch_size=4", "--log_every=1")
    run_train(*base, "--steps=2")
    run_train(*base, "--steps=5")                                      # goes on
    rows = (folder / "runs/vae_synthetic_linear/history.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "2", "3", "4", "5"]
    with pytest.raises(InputError, match="is at step 5 already; expected at least as many, got 2"):
        run_train(*base, "--steps=2")
    with pytest.raises(InputError, match=r"another configuration \(--learning_rate: 0.003 there, 0.5 now\).*--restart"):
        run_train(*base, "--steps=5", "--learning_rate=0.5")
    run_train(*base, "--steps=5", "--learning_rate=0.5", "--restart")
    assert sorted(p.name for p in (folder / "runs").iterdir()) == ["vae_synthetic_linear", "vae_synthetic_linear-2"]
    assert sorted(p.name for p in (folder / "exported/vae_synthetic_linear").iterdir()) == ["1", "2"]


def test_replicas_that_start_over_can_go_on_under_their_new_name(folder, capsys):
    base = ("--model=vae", "--dataset=synthetic_linear", "--network=linear", "--batch_size=4", "--replicas=2")
    (folder / "runs/a-seed1").mkdir(parents=True)       # which is taken, and so is the number 1 of all
    run_train(*base, "--steps=2", "--name=a", "--restart")
    assert sorted(p.name for p in (folder / "runs").iterdir()) == ["a-2-seed0", "a-2-seed1", "a-seed1"]
    run_train(*base, "--steps=3", "--name=a-2")
    assert max(runs.find_checkpoints(folder / "runs/a-2-seed1")) == 3


def test_a_finished_run_is_exported_without_its_history_and_as_asked(folder, capsys):
    images = np.random.default_rng(0).integers(2, 256, (40, 8, 8, 1), np.uint8)
    np.savez("images.npz", images=images)
    base = ("--model=vae", "--dataset=images.npz", "--network=linear", "--latents=2", "--steps=2", "--name=a b")
    run_train(*base)
    (folder / "runs/a b/history.csv").unlink()
    run_train(*base)
    said = capsys.readouterr().out
    assert "exported/a b/1 (was there already): its terms are not known" in said and "='exported/a b/1'\n" in said
    run_train(*base, "--accept_dark")
    assert not export.read_card("exported/a b/2")["refuses_dark_batches"]
    run_train(*base, "--accept_dark", "--keep_versions=1")
    assert [path.name for path in (folder / "exported/a b").iterdir()] == ["2"]
    run_train(*base)        # no longer with --accept_dark
    assert export.read_card("exported/a b/3")["refuses_dark_batches"]


def test_a_run_that_stops_early_exports_its_best_weights(folder, capsys, monkeypatch):
    base = ("--model=vae", "--dataset=synthetic_linear", "--batch_size=4", "--log_every=5", "--learning_rate=0.5",
            "--learning_rate_schedule=cosine", "--validate_every=5", "--early_stopping=2")
    seen, registered = [], []
    for module in (training, training.callbacks):
        monkeypatch.setattr(module, "CALLBACKS", registered)
    training.register_callback(lambda config, run_dir: keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append((config["model"], run_dir.name, logs["step"]))))
    run_train(*base, "--steps=200")
    history = runs.read_history(folder / "runs/vae_synthetic_linear", 200)
    best, last = training.find_best(history)["step"], history[-1]["step"]
    out = capsys.readouterr().out
    assert f"Training stopped early at step {last} of 200. Exported are the weights of step {best}" in out
    row, = (row for row in history if row["step"] == best)
    assert ("Over the last steps up to the exported weights, nats per training example:\n"
            f"  model      exported/vae_synthetic_linear/1: reconstruction {row['reconstruction']:.2f}, kl") in out
    path = folder / "exported/vae_synthetic_linear/1"
    assert seen == [("vae", "vae_synthetic_linear", row["step"]) for row in history]
    card = export.read_card(path)
    assert card["final_terms"]["step"] == card["steps"] == best
    assert card["recipe"]["early_stopping"] == 2 and card["recipe"]["steps"] == 200
    values = parse(cli.define_train_flags, *base, "--steps=200", f"--init_from={path}")
    dataset = data.load("synthetic_linear").split("random", "train")
    exported = configured.build_model(cli.configure(values, dataset), dataset)
    with np.load(runs.find_newest(folder / "runs/vae_synthetic_linear")) as kept:
        for name, variable in array_names.name_model_variables(exported).items():
            np.testing.assert_array_equal(variable.numpy(), kept[f"best {name}"])
    run_train(*base, "--steps=200")
    assert "was there already" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"^--steps: the learning rate .* over 200 steps, .* expected 200, got 201"):
        run_train(*base, "--steps=201")


def test_an_untrained_model_is_exported_and_scored_as_such(folder, capsys):
    asked = ("--model=vae", "--dataset=synthetic_linear", "--network=linear", "--steps=0")
    run_train(*asked, "--replicas=2")
    said = capsys.readouterr().out
    assert "vae_synthetic_linear-seed1 is untrained: its weights are random." in said and "history" not in said
    loaded, name = data.load("synthetic_linear"), "vae_synthetic_linear-seed1"
    config = Configuration.from_json(json.loads(pathlib.Path(f"runs/{name}/config.json").read_text()))
    fresh = configured.build_model(config, loaded)
    exported = export.load(f"exported/{name}")
    assert exported.card["steps"] == config.steps == 0
    x = loaded.images_at(np.arange(5))
    np.testing.assert_allclose(exported.encode(x)["mean"], fresh.posterior(x).mean(), atol=1e-6)
    run_evaluate(f"--export=exported/{name}", "--quick", "--metrics=mcc", "--geometry=", "--theory=")
    said = capsys.readouterr().out
    assert "untrained on synthetic_linear" in said and "0 steps" not in said
    run_train(*asked[:3], "--steps=3", "--seed=1", f"--name={name}")            # goes on from the untrained model
    assert export.load(f"exported/{name}").card["steps"] == 3
    with pytest.raises(InputError, match="is at step 3 already; expected at least as many, got 0"):
        run_train(*asked, "--seed=1", f"--name={name}")


@pytest.mark.parametrize(("steps", "exported"), [(1, True), (40, False)])
def test_a_signal_ends_the_program_after_the_last_step_too(folder, monkeypatch, steps, exported):
    """A damaged checkpoint at the end of a run does not say that it has come to its end."""
    monkeypatch.setattr(stops, "_stopped_by", [])       # else pytest would end by the signal
    asking = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    for module in (training, training.callbacks):
        monkeypatch.setattr(module, "CALLBACKS", [lambda config, run_dir: asking])
    torn = folder / "runs/a/checkpoints/000000040.npz"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"torn")
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        run_train("--model=vae", "--dataset=synthetic_linear", "--network=linear", "--log_every=1", "--name=a",
                  f"--steps={steps}")
    assert runs.find_newest(folder / "runs/a").stem == "000000001"
    assert (folder / "exported/a").exists() == exported


def npz(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return f"--dataset={folder / 'mine.npz'}"


X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)


@pytest.mark.parametrize(("arguments", "arrays", "message"), [
    (["--model=wae"], None, r"--model=wae.*ae\|vae\|"),
    (["--network=mlp"], None, r"--network=mlp.*linear\|"),
    (["--dataset=cifar"], None, "expected one of dsprites, .*got 'cifar'"),
    (["--latents=0"], None, "--latents=0.*integer in the range"),
    (["--latents=many"], None, "--latents=many"),
    (["--model=beta_vae", "--beta=-1"], None, "--beta=-1"),
    (["--model=beta_vae", "--beta=nan"], None, "--beta=nan"),
    (["--model=vae", "--beta=2"], None, "beta: vae has none; got 2.0; models with beta"),
    (["--learning_rate=0"], None, "--learning_rate=0"),
    (["--active_threshold=0"], None, "--active_threshold=0"),
    (["--polarised_every=-1"], None, "--polarised_every=-1"),
    (["--batch_size=0"], None, "--batch_size=0"),
    (["--likelihood_variance=0"], None, "--likelihood_variance=0"),
    (["--colour=red"], None, "colour"),
    (["--network=conv_locatello", "--dataset=synthetic_linear"], None, "needs images .*got shape"),
    (["--likelihood=bernoulli", "--dataset=synthetic_linear"], None, "bernoulli needs images.*gaussian"),
    (["--model=beta_tcvae", "--tc_estimator=stratified", "--batch_size=1"], None, "--batch_size: .*2 to"),
    (["--name=a/b"], None, "--name: .*got 'a/b'"),
    (["--export_root={file}"], None, "--export_root: expected a folder that can be written"),
    (["--run_root={file}/deep"], None, "--run_root: expected a folder that can be written"),
    ([], {"labels": X}, "expected one array `images`"),
    ([], {"images": np.full((3, 8, 8, 1), np.nan)}, "expected finite images"),
    ([], {"data": X, "factors": X[:5]}, "expected 20 rows of factors"),
    (["--model=ivae"], {"data": X}, "ivae needs data with u or factors"),
])
def test_bad_input_is_one_line_and_leaves_nothing(folder, arguments, arrays, message):
    (folder / "file").write_text("")
    arguments = [a.format(file=folder / "file") for a in arguments]
    if arrays:
        arguments.append(npz(folder, **arrays))
    before = sorted(folder.rglob("*"))
    with pytest.raises((InputError, flags.Error), match=message):
        run_train(*arguments, "--steps=2")
    assert sorted(folder.rglob("*")) == before


def test_replicas_are_runs_of_their_own(folder, capsys):
    flags = ("--model=beta_vae", "--dataset=synthetic_linear", "--network=linear", *QUICK)
    run_train("--name=r", "--replicas=2", "--sweep_beta=1,4", *flags)
    names = ["r-beta1-seed0", "r-beta1-seed1", "r-beta4-seed0", "r-beta4-seed1"]
    assert sorted(path.name for path in pathlib.Path("runs").iterdir()) == names
    out = capsys.readouterr().out
    assert all(f"exported/{name}/1: reconstruction" in out for name in names)
    run_train("--name=alone", "--beta=4", "--seed=1", *flags)
    config, same = (json.loads(pathlib.Path("runs", name, "config.json").read_text()) for name in (names[3], "alone"))
    assert config == same
    x = data.load("synthetic_linear").images_at(np.arange(5))
    one, other, alone = (export.load(f"exported/{name}").encode(x)["mean"] for name in (names[2], names[3], "alone"))
    # Three steps of 1e-3: float32 rounding is far below, another seed far above.
    np.testing.assert_allclose(other, alone, atol=1e-5)
    assert np.abs(one - alone).max() > 0.01
    run_train(f"--name={names[3]}", "--beta=4", "--seed=1", *flags)         # is complete, and there already
    assert os.listdir(pathlib.Path("exported", names[3])) == ["1"]


@pytest.mark.parametrize(("argv", "message"), [
    (["--model=vae", "--sweep_beta=1,4"], "--sweep_beta: vae has no beta; models with beta: beta_vae"),
    (["--model=beta_vae", "--sweep_beta=1,x"], "--sweep_beta: expected different finite numbers, .* got 1,x"),
    (["--model=beta_vae", "--sweep_beta=1,1.0"], "--sweep_beta: expected different"),
    (["--model=beta_vae", "--sweep_beta=-1"], "--sweep_beta: expected different"),
    (["--model=beta_vae", "--sweep_beta="], "--sweep_beta: expected different .* got none"),
    (["--model=vae", "--replicas=3", "--seed=1999999"], "--replicas: .* at most 2,000,000 .* got 2,000,001"),
    (["--model=vae", "--replicas=2", "--precision=mixed_float16"], "--precision: replicas cannot share one loss scale"),
    (["--model=vae", "--replicas=2", "--strategy=mirrored"], "--strategy: replicas train on one device; got 2 devices"),
    (["--model=vae", "--strategy=multi_worker"], "--strategy: multi_worker needs the environment variable TF_CONFIG"),
    (["--model=vae", "--strategy=mirrored", "--jit_compile=true"],
     "--jit_compile: .* got 2 devices under --strategy=mirrored; expected auto or false"),
    (["--model=vae", "--strategy=mirrored", "--batch_size=5"], "--batch_size: 2 devices .* multiple of 2, got 5"),
])
def test_what_cannot_be_trained_together_is_refused(folder, argv, message):
    with pytest.raises(InputError, match=message):
        run_train("--dataset=synthetic_linear", "--steps=3", *argv)
    assert not list(folder.iterdir())


def test_a_mirrored_run_exports_like_any_other(folder):
    for strategy in ("one_device", "mirrored"):
        run_train("--model=ivae", "--dataset=synthetic_linear", "--network=linear", f"--strategy={strategy}",
                  f"--name={strategy}", *QUICK)
    x, u = data.load("synthetic_linear").images_at(np.arange(5)), data.load("synthetic_linear").u_at(np.arange(5))
    one, two = (export.load(f"exported/{name}").encode(x, u)["mean"] for name in ("one_device", "mirrored"))
    np.testing.assert_allclose(one, two, atol=1e-5)
