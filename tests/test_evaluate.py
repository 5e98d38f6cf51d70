"""evaluate.py: models against theory, codes without a model, and bad input."""

import json
import pathlib

import numpy as np
import pytest
from absl import flags
from cases import NEEDS_MNIST
from commands import QUICK, run_evaluate, run_program, run_train

from vae_tf import export, report
from vae_tf.errors import InputError
from vae_tf.programs import codes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("model", "dataset", "scored"), [
    ("vae", "linear_mixture", True),
    pytest.param("vae", "linear_mixture_digits", True, marks=NEEDS_MNIST),
    pytest.param("ivae", "translated_digit", True, marks=NEEDS_MNIST), ("vae", "synthetic_linear", False)])
def test_models_are_held_against_theory(folder, model, dataset, scored, capsys):
    run_train(f"--model={model}", f"--dataset={dataset}", *QUICK)
    run_evaluate("--examples=50", "--metrics=mcc", "--geometry=", "--geometry_examples=3")
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
    (["--export=exported", "--latents=passive"], r"--latents=passive.*all\|active"),
])
def test_bad_input_of_evaluate(folder, any_export, arguments, message):
    arguments = [argument.replace("exported", str(any_export)) for argument in arguments]
    with pytest.raises((InputError, flags.Error), match=message):
        run_evaluate(*arguments)


def test_what_is_usual_is_said_of_the_data_of_training_alone(any_export, monkeypatch):
    """The same name with another --data_seed is other data."""
    said = []
    monkeypatch.setattr(report, "write_page", lambda path, facts, *_: said.append(facts.own_data))
    for seed in (0, 1):
        run_evaluate(f"--export={any_export}", "--metrics=mig", "--examples=50", "--geometry=", "--theory=",
                     "--dataset=synthetic_linear", f"--data_seed={seed}")
    assert said == [True, False]


def test_what_cannot_be_drawn_does_not_cost_the_scores(any_export, monkeypatch):
    numbers = export.find_newest(any_export) / "metrics.json"
    numbers.unlink(missing_ok=True)
    monkeypatch.setattr(report, "draw_figures", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_evaluate(f"--export={any_export}", "--metrics=mig", "--examples=50", "--geometry=", "--theory=")
    assert [*json.loads(numbers.read_text())["metrics"]][-1] == "mig"


def test_codes_are_scored_against_the_factors_named(tmp_path, capsys):
    v = np.random.default_rng(0).integers(0, 3, (200, 2))
    np.savez(tmp_path / "codes.npz", codes=v[:, :1] + 0.1, factors=v, factor_names=["kept", "lost"])
    scores = {}
    for asked in ("kept,lost", "kept"):
        run_evaluate(f"--codes={tmp_path / 'codes.npz'}", f"--factors={asked}", "--metrics=mig")
        numbers = json.loads((tmp_path / "codes.metrics.json").read_text())
        assert numbers["factors"] == asked.split(",")
        scores[asked] = numbers["metrics"]["mig"]["score"]
        said = capsys.readouterr().out
        assert f"200 codes of 1 latent, against {asked.replace(',', ', ')} alone" in said
        assert said.index("First look: 1 of 1 latents varies") < said.index("MIG ") < said.index("Disentangled")
    assert scores["kept"] == pytest.approx(1, abs=1e-9) and scores["kept,lost"] < 0.6
    run_evaluate(f"--codes={tmp_path / 'codes.npz'}", "--metrics=mig", "--examples=100", "--quick")
    assert "150 codes of 1 latent, drawn at random from 200\n" in capsys.readouterr().out
    numbers = json.loads((tmp_path / "codes.metrics.json").read_text())
    assert numbers["quick"] and "samples_per_value" in numbers
    with pytest.raises(InputError, match=r"^factors: expected names of kept, lost; got 'colour'$"):
        run_evaluate(f"--codes={tmp_path / 'codes.npz'}", "--factors=colour")


def test_warnings_are_one_line(tmp_path):
    rng = np.random.default_rng(0)
    v = rng.integers(0, 3, (200, 2))
    np.savez(tmp_path / "codes.npz", codes=v + 0.1 * rng.standard_normal(v.shape), factors=v * [1, 0],
             factor_names=["kept", "lost"])
    done = run_program("evaluate.py", "--codes=codes.npz", "--metrics=mig", folder=tmp_path)
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("scoring: ")]      # of a slow machine
    assert said == ["evaluate.py: warning: mig leaves out constant factors: lost"]


def test_a_file_of_results_whose_name_is_too_long_is_refused_before_hours_of_work(tmp_path):
    codes.check_results(tmp_path, tmp_path / ("n" * 242 + ".metrics.json"))
    with pytest.raises(InputError, match=r"^results: expected names of files and folders of at most 255 bytes; got"):
        codes.check_results(tmp_path, tmp_path / ("n" * 243 + ".metrics.json"))
