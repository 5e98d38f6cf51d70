import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import programs
import pytest
from absl import flags
from cases import NEEDS_MNIST

import evaluate
import train
from vae_tf import cli, configured, data, evaluation, export, models, networks, training
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]
QUICK = ("--steps=3", "--batch_size=4", "--log_every=1")


def parsed(define, *argv):
    values = flags.FlagValues()
    define(values)
    flags.DEFINE_string("flagfile", "", "", flag_values=values)
    cli.read_flags(values, ["program", *argv])
    return values


def run_train(*argv):
    train.main(parsed(cli.define_train_flags, *argv))


def run_evaluate(*argv):
    """In this process alone, unless --jobs says otherwise: each worker takes seconds to import TensorFlow."""
    evaluate.main(parsed(cli.define_evaluate_flags, "--jobs=1", *argv))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Images whose factors are a grid, images of a catalogue with a part held out, and vectors. To a model without u the
# catalogue's images are what dSprites' are.
@pytest.mark.parametrize(("model", "dataset"), [
    *((model, dataset) for model in models.MODELS for dataset in ("dsprites", "synthetic_linear")),
    *(pytest.param(model, "mnist", marks=NEEDS_MNIST) for model in ("vae", "ivae"))])
def test_every_model_trains_on_every_kind_of_data_and_is_evaluated(folder, model, dataset, capsys):
    smaller = ["--network=linear"] if dataset == "dsprites" else []
    if dataset != "synthetic_linear" and model != "vae":      # which has the default number
        smaller.append("--latents=3")
    run_train(f"--model={model}", f"--dataset={dataset}", *smaller, *QUICK)
    path = pathlib.Path("exported") / f"{model}_{dataset}" / "1"
    out = capsys.readouterr().out
    assert f"python evaluate.py --export={path}" in out and f"{path}: reconstruction" in out
    run_evaluate("--examples=200", "--metrics=active_units,mig,mcc", "--geometry_examples=4", "--theory=")
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


@pytest.mark.parametrize(("model", "dataset", "scored"), [
    ("vae", "linear_mixture", True),
    pytest.param("vae", "linear_mixture_digits", True, marks=NEEDS_MNIST),
    pytest.param("ivae", "translated_digit", True, marks=NEEDS_MNIST), ("vae", "synthetic_linear", False)])
def test_models_are_held_against_theory(folder, model, dataset, scored, capsys):
    run_train(f"--model={model}", f"--dataset={dataset}", *QUICK)
    run_evaluate("--examples=100", "--metrics=mcc", "--geometry=", "--geometry_examples=8")
    printed = capsys.readouterr().out
    result = json.loads((pathlib.Path("exported") / f"{model}_{dataset}" / "1" / "metrics.json").read_text())
    errors = {"model_inference_error", "true_inference_error", "matched_inference_error"}
    if scored:
        assert errors | {"posterior_covariance_gap", "deterministic_elbo_gap"} <= set(result["metrics"])
        assert result["metrics"]["matched_inference_error"]["score"] <= result["metrics"]["true_inference_error"][
            "score"]
    else:
        assert result["skipped"]["true_inference_error"] == "the true posterior of synthetic_linear is not known"
    linear = "linear" in dataset and "digits" not in dataset
    assert ("linear_optimum" in result["metrics"]) == ("measured (predicted)" in " ".join(printed.split())) == linear


def test_the_polarised_regime_is_watched_while_training_and_scored_after(folder, capsys):
    base = ("--model=beta_vae", "--beta=1e-3", "--dataset=synthetic_linear", "--steps=6", "--batch_size=64")
    run_train(*base, "--name=watched", "--polarised_every=2")
    assert "The KL is not within 3 % of its polarised form at the end" in capsys.readouterr().out
    run_train(*base, "--name=plain", "--polarised_every=0")
    assert "polarised" not in capsys.readouterr().out
    run_train("--model=ae", *base[2:], "--name=ae", "--polarised_every=2")
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
    for name in ("watched", "plain"):
        run_evaluate(f"--export=exported/{name}", "--examples=200", "--metrics=active_units", "--geometry=")
        assert "  polarised regime\n" in capsys.readouterr().out
        scored = json.loads(pathlib.Path(f"exported/{name}/1/metrics.json").read_text())
        assert ("polarised_fraction" in scored["polarised_regime"]) == (name == "watched")
        regime = [scored["polarised_regime"][f"{kind}_latents"]["score"] for kind in ("active", "mixed", "passive")]
        assert sum(regime) == 2 and (folder / f"exported/{name}/1/polarised.png").exists()
    run_evaluate("--export=exported/ae", "--examples=200", "--metrics=active_units", "--geometry=")
    assert not (folder / "exported/ae/1/polarised.png").exists()
    assert json.loads(pathlib.Path("exported/ae/1/metrics.json").read_text())["polarised_regime"] == {}
    with pytest.raises(InputError, match="active, and codes alone"):
        run_evaluate("--export=exported/ae", "--latents=active", "--metrics=active_units")


def test_what_is_said_at_the_end_of_training():
    history = [{"step": step, "delta_kl": delta} for step, delta in [(500, 0.1), (1000, 0.02), (1500, 0.01)]]
    said = configured.describe_polarised(0.4, history)
    assert "stays within 3 % of its polarised form for the last 33.3% of training" in said
    assert "is below 0.4 prior variances" in said
    assert configured.describe_polarised(0.4, [{"step": 500}]) == ""


def test_codes_are_pruned_of_passive_latents(folder, capsys):
    rng = np.random.default_rng(0)
    v = rng.integers(0, 3, (300, 2))
    np.savez("codes.npz", codes=np.hstack([v - 1, 0 * v]), factors=v, stddev=np.full((300, 4), [0.1, 0.1, 1, 1]))
    for latents, kept in [("all", [0, 1, 2, 3]), ("active", [0, 1])]:
        run_evaluate("--codes=codes.npz", "--metrics=mig,active_units", f"--latents={latents}")
        scored = json.loads(pathlib.Path("codes.metrics.json").read_text())
        assert scored["latents"] == kept and len(scored["metrics"]["active_units"]["variance"]) == len(kept)
        assert scored["polarised_regime"]["passive_latents"]["latents"] == [2, 3]
        assert "2" in next(line for line in capsys.readouterr().out.splitlines() if "passive_latents" in line)
    run_evaluate("--codes=codes.npz", "--metrics=active_units", "--passive_kl=5")       # log 10 + 1.01 / 2 - 1/2
    scored = json.loads(pathlib.Path("codes.metrics.json").read_text())
    assert scored["passive_kl"] == 5 and scored["polarised_regime"]["passive_latents"]["score"] == 4


def scores(result):
    """All that is in metrics.json but for the seconds that each took."""
    return {name: {part: value for part, value in scored.items() if part != "measured"}
            for name, scored in result.items()}


def test_same_seed_same_export_other_seed_other(folder):
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        run_train("--model=vae", "--dataset=synthetic_linear", "--network=linear", f"--name={name}", f"--seed={seed}",
                  *QUICK)
    x = data.load("synthetic_linear").images_at(np.arange(5))
    a, b, c = (export.load(f"exported/{name}").encode(x)["mean"] for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)
    for name in "ab":
        run_evaluate(f"--export=exported/{name}", "--examples=500", "--metrics=mig,dci_fast", "--geometry_examples=4")
    one, two = (json.loads(pathlib.Path(f"exported/{name}/1/metrics.json").read_text())["metrics"] for name in "ab")
    assert scores(one) == scores(two)


def test_a_second_run_goes_on_is_refused_or_restarts(folder, capsys):
    base = ("--model=vae", "--dataset=synthetic_linear", "--batch_size=4", "--log_every=1")
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


def test_an_export_is_trained_further_and_scored_on_other_data(folder):
    rng = np.random.default_rng(0)
    for name, shape in (("one", (60, 4)), ("other", (50, 4)), ("wide", (50, 5))):
        np.savez(f"{name}.npz", data=rng.standard_normal(shape), factors=rng.integers(0, 3, (shape[0], 2)))
    base = ("--model=ivae", "--network=mlp_synthetic", "--latents=3", "--batch_size=4", "--log_every=1")
    run_train(*base, "--dataset=one.npz", "--steps=3", "--name=first")
    x, u = rng.standard_normal((5, 4)).astype(np.float32), rng.uniform(size=(5, 2)).astype(np.float32)
    first = export.load("exported/first")

    # What the flags leave open is as the export has it, and its weights are where training starts.
    values = parsed(cli.define_train_flags, "--init_from=exported/first", "--dataset=other.npz", "--beta=3")
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
        run_train("--model=ivae", "--dataset=one.npz", "--init_from=exported/first", "--name=wrong")
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


def test_of_steps_and_epochs_the_last_counts(tmp_path):
    (tmp_path / "a.flags").write_text("--epochs=2\n")
    dataset = data.load("synthetic_linear")
    for argv, steps in [(["--epochs=0.5"], 391), (["--steps=7", "--epochs=2"], 1562), (["--epochs=2", "-steps=7"], 7),
                        ([f"--flagfile={tmp_path / 'a.flags'}", "--steps=7"], 7), ([], 30_000)]:
        assert cli.configure(parsed(cli.define_train_flags, *argv), dataset).steps == steps


def test_a_model_without_beta_leaves_out_that_of_a_flagfile(tmp_path):
    (tmp_path / "a.flags").write_text("--model=beta_vae\n--beta=0.5\n--latents=3\n")
    recipe = f"--flagfile={tmp_path / 'a.flags'}"
    for argv, beta in [((recipe, "--model=ae"), None), ((recipe, "--model", "vae"), None), ((recipe,), 0.5),
                       ((recipe, "--model=full_covariance_vae"), 0.5), ((recipe, "--model=ae", "--beta=2"), 2)]:
        values = parsed(cli.define_train_flags, *argv)
        assert (values.beta, values.latents) == (beta, 3)


def test_an_untrained_model_is_exported_and_scored_as_such(folder, capsys):
    asked = ("--model=vae", "--dataset=synthetic_linear", "--steps=0")
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
    run_evaluate(f"--export=exported/{name}", "--quick", "--metrics=mcc", "--jobs=1")
    said = capsys.readouterr().out
    assert "untrained on synthetic_linear" in said and "0 steps" not in said
    run_train(*asked[:2], "--steps=3", "--seed=1", f"--name={name}")            # goes on from the untrained model
    assert export.load(f"exported/{name}").card["steps"] == 3
    with pytest.raises(InputError, match="is at step 3 already; expected at least as many, got 0"):
        run_train(*asked, "--seed=1", f"--name={name}")


def test_the_optimizer_s_epsilon_joins_the_configuration_only_where_it_is_set():
    loaded = data.load("synthetic_linear")
    given, left = (cli.configure(parsed(cli.define_train_flags, *argv), loaded)
                   for argv in (["--optimizer_epsilon=1e-8"], []))
    assert given.as_json() == {**left.as_json(), "optimizer_epsilon": 1e-8}
    assert all(Configuration.from_json(each.as_json()) == each for each in (given, left))
    assert [training.make_optimizer("adam", 1e-3, epsilon=e).epsilon for e in (1e-8, None)] == [1e-8, 1e-7]
    with pytest.raises(InputError, match=r"optimizer_epsilon: sgd divides by nothing; .*: adam, adagrad, rmsprop"):
        training.make_optimizer("sgd", 1e-3, epsilon=0.1)


def npz(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return f"--dataset={folder / 'mine.npz'}"


X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)


@pytest.mark.parametrize(("arguments", "arrays", "message"), [
    (["--model=wae"], None, "--model=wae.*ae|vae|"),
    (["--network=mlp"], None, "--network=mlp.*linear|"),
    (["--dataset=cifar"], None, "expected one of dsprites, synthetic_linear, .*got 'cifar'"),
    (["--latents=0"], None, "--latents=0.*positive"),
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


@pytest.fixture(scope="module")
def any_export(tmp_path_factory):
    root = tmp_path_factory.mktemp("any")
    run_train("--model=vae", "--dataset=synthetic_linear", "--network=linear", *QUICK, f"--run_root={root / 'runs'}",
              f"--export_root={root / 'exported'}")
    return root / "exported"


@pytest.mark.parametrize(("arguments", "message"), [
    (["--export=none"], "--export: expected a folder that holds an exported model.*does not exist"),
    (["--export=."], "--export: .*holds none"),
    (["--export=exported", "--metrics=mig,fid"], "expected names of .*got 'fid'"),
    (["--export=exported", "--geometry=dto,angle"], "geometry: expected names of .*got 'angle'"),
    (["--export=exported", "--theory=dto"], "theory: expected names of .*got 'dto'"),
    (["--export=exported", "--dataset=dsprites"], r"the model takes examples of shape \(3,\)"),
    (["--export=exported", "--examples=1"], "--examples=1"),
    (["--export=exported", "--latents=passive"], "--latents=passive.*all|active"),
])
def test_bad_input_of_evaluate(folder, any_export, arguments, message):
    arguments = [argument.replace("exported", str(any_export)) for argument in arguments]
    with pytest.raises((InputError, flags.Error), match=message):
        run_evaluate(*arguments)


def program(name, *argv, folder):
    return subprocess.run([sys.executable, ROOT / name, *argv], cwd=folder, capture_output=True, text=True, timeout=300)


def test_programs_end_with_one_line_and_a_code(tmp_path):
    # Two that import all there is to import, which says nothing; the others are forked from a process that has.
    started = [program("train.py", "--dataset=none.npz", folder=tmp_path), program("evaluate.py", folder=tmp_path)]
    forked = [programs.run("train.py", word, folder=tmp_path) for word in ("--model=wae", "--colour=red", "vae")]
    for code, out, error in [*((done.returncode, done.stdout, done.stderr) for done in started), *forked]:
        assert code == 2 and not out
        line, = error.strip().splitlines()
        assert re.match(r"(train|evaluate)\.py: error: ", line)
    assert not list(tmp_path.iterdir())


def test_help_lists_every_flag_under_its_heading(tmp_path):
    done = program("train.py", "--help", folder=tmp_path)
    assert done.returncode == 0 and not done.stderr
    groups = cli.define_train_flags(flags.FlagValues())
    own = [f"Model: {name}" for name, kind in models.MODELS.items() if kind.options]
    assert list(groups) == ["Model", *own, "Data", "Training", "Output"] and len(own) > 1
    at = 0
    for heading, names in groups.items():
        at = done.stdout.index(f"\n{heading}\n", at)
        for name in names:
            at = done.stdout.index(f"  --{name} ", at)
    assert all(choice in done.stdout for choice in (*models.MODELS, *networks.NETWORKS, *data.DATASETS))


def test_a_trained_program_from_start_to_finish(tmp_path):
    done = program("train.py", "--model=vae", "--dataset=synthetic_nonlinear", "--steps=20", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 20/20" in done.stderr and "Traceback" not in done.stderr
    command = done.stdout.strip().splitlines()[-1].split()
    assert command[:2] == ["python", "evaluate.py"]
    done = program(*command[1:], "--examples=200", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mcc" in done.stdout


EVALUATIONS = sorted((ROOT / "flags").rglob("evaluate*.flags"))
SHARED = [ROOT / "flags/base.flags", *sorted((ROOT / "flags").glob("*/common/*.flags"))]
RECIPES = sorted({*(ROOT / "flags").rglob("*.flags")} - {*EVALUATIONS, *SHARED})


def test_there_are_recipes():
    assert len(RECIPES) > 5


TO_DOWNLOAD = {"shapes3d.npz": (64, 64, 3), "mpi3d.npz": (64, 64, 3), "faces3d.npz": (64, 64, 1)}
NEED_TFDS = ("mnist", "fashion_mnist", "linear_mixture_digits", "translated_digit")


@pytest.mark.parametrize("recipe", RECIPES, ids=[str(path.relative_to(ROOT / "flags")) for path in RECIPES])
def test_recipes_parse_build_and_say_where_they_come_from(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)          # recipes name each other from the repository's root
    values = parsed(cli.define_train_flags, f"--flagfile={recipe}", "--seed=1")
    assert values.seed == 1          # overrides come after
    text = recipe.read_text()
    for word in ("Paper:", "Command:", "Cost:", "Expected:"):
        assert f"# {word}" in text, word
    assert f"--flagfile={recipe.relative_to(ROOT)}" in text
    if values.dataset in TO_DOWNLOAD or (values.dataset in NEED_TFDS and "TFDS_DATA_DIR" not in os.environ):
        shape = TO_DOWNLOAD.get(values.dataset, (28, 28, 1))
        dataset = data.dataset.from_arrays(values.dataset, np.zeros((100, *shape), np.uint8),
                                           np.zeros((100, 1), int), [data.Factor("class", 10, "categorical")])
    else:
        dataset = data.load(values.dataset)
    config = cli.configure(values, dataset)
    assert config.likelihood != "gaussian" or values.likelihood_variance, "a paper's variance is no default of ours"
    assert configured.build_model(config, dataset).count_params()


@pytest.mark.parametrize("recipe", EVALUATIONS, ids=[str(path.relative_to(ROOT / "flags")) for path in EVALUATIONS])
def test_recipes_of_evaluations_parse_and_name_factors_that_are_there(recipe):
    values = parsed(cli.define_evaluate_flags, f"--flagfile={recipe}", "--seed=1")
    assert cli.read_options(values).seed == 1
    evaluation.check_factors(values.factors, data.load("dsprites").factor_names)
    for word in ("Paper:", "Command:", "Cost:", "Expected:"):
        assert f"# {word}" in recipe.read_text(), word
    named = [text for train in recipe.parent.glob("dsprites_*.flags") if (text := train.read_text())]
    assert named and all(f"--flagfile={recipe.relative_to(ROOT)}" in text for text in named)


def test_codes_are_scored_against_the_factors_named(tmp_path, capsys):
    v = np.random.default_rng(0).integers(0, 3, (200, 2))
    np.savez(tmp_path / "codes.npz", codes=v[:, :1] + 0.1, factors=v, factor_names=["kept", "lost"])
    scores = {}
    for asked in ("kept,lost", "kept"):
        run_evaluate(f"--codes={tmp_path / 'codes.npz'}", f"--factors={asked}", "--metrics=mig")
        numbers = json.loads((tmp_path / "codes.metrics.json").read_text())
        assert numbers["factors"] == asked.split(",")
        scores[asked] = numbers["metrics"]["mig"]["score"]
        assert f"200 codes of 1 latents, against {asked.replace(',', ', ')} alone" in capsys.readouterr().out
    assert scores["kept"] == pytest.approx(1, abs=1e-9) and scores["kept,lost"] < 0.6
    with pytest.raises(InputError, match=r"^factors: expected names of kept, lost; got 'colour'$"):
        run_evaluate(f"--codes={tmp_path / 'codes.npz'}", "--factors=colour")


def test_warnings_are_one_line(tmp_path):
    rng = np.random.default_rng(0)
    v = rng.integers(0, 3, (200, 2))
    np.savez(tmp_path / "codes.npz", codes=v + 0.1 * rng.standard_normal(v.shape), factors=v * [1, 0])
    done = program("evaluate.py", "--codes=codes.npz", "--metrics=mig", folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == ["evaluate.py: warning: mig leaves out the constant factors [1]"]


def test_replicas_are_runs_of_their_own(folder, capsys):
    flags = ("--model=beta_vae", "--dataset=synthetic_linear", "--network=mlp_synthetic", *QUICK)
    run_train("--name=r", "--replicas=2", "--sweep_beta=1,4", *flags)
    names = ["r-beta1-seed0", "r-beta1-seed1", "r-beta4-seed0", "r-beta4-seed1"]
    assert sorted(path.name for path in pathlib.Path("runs").iterdir()) == names
    out = capsys.readouterr().out
    assert all(f"exported/{name}/1: reconstruction" in out for name in names)
    run_train("--name=alone", "--beta=4", "--seed=1", *flags)
    config, same = (json.loads(pathlib.Path("runs", name, "config.json").read_text()) for name in (names[3], "alone"))
    assert config == same
    x = data.load("synthetic_linear").images_at(np.arange(5))
    one, other, alone = (export.load(f"exported/{name}").encode(x)["mean"] for name in (names[0], names[3], "alone"))
    # Three steps of 1e-3: float32 rounding is far below, another seed or beta far above.
    np.testing.assert_allclose(other, alone, atol=1e-5)
    assert np.abs(one - alone).max() > 0.01
    run_train(f"--name={names[3]}", "--beta=4", "--seed=1", *flags)         # is complete, and there already
    assert os.listdir(pathlib.Path("exported", names[3])) == ["1"]


@pytest.mark.parametrize(("argv", "message"), [
    (["--model=vae", "--sweep_beta=1,4"], "--sweep_beta: vae has no beta; models with beta: beta_vae"),
    (["--model=beta_vae", "--sweep_beta=1,x"], "--sweep_beta: expected different finite numbers, .* got 1,x"),
    (["--model=beta_vae", "--sweep_beta=1,1.0"], "--sweep_beta: expected different"),
    (["--model=beta_vae", "--sweep_beta=-1"], "--sweep_beta: expected different"),
    (["--model=vae", "--replicas=2", "--precision=mixed_float16"], "--precision: replicas cannot share one loss scale"),
    (["--model=vae", "--replicas=2", "--strategy=mirrored"], "--strategy: replicas train on one device; got 2 devices"),
    (["--model=vae", "--strategy=multi_worker"], "--strategy: multi_worker needs the environment variable TF_CONFIG"),
    (["--model=vae", "--strategy=mirrored", "--batch_size=5"], "--batch_size: 2 devices .* multiple of 2, got 5"),
])
def test_what_cannot_be_trained_together_is_refused(folder, argv, message):
    with pytest.raises(InputError, match=message):
        run_train("--dataset=synthetic_linear", "--steps=3", *argv)
    assert not list(folder.iterdir())


def test_a_mirrored_run_exports_like_any_other(folder):
    for strategy in ("one_device", "mirrored"):
        run_train("--model=ivae", "--dataset=synthetic_linear", f"--strategy={strategy}", f"--name={strategy}", *QUICK)
    x, u = data.load("synthetic_linear").images_at(np.arange(5)), data.load("synthetic_linear").u_at(np.arange(5))
    one, two = (export.load(f"exported/{name}").encode(x, u)["mean"] for name in ("one_device", "mirrored"))
    np.testing.assert_allclose(one, two, atol=1e-5)
