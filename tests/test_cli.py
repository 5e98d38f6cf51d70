"""Flags: how they are read, what --help says, and how programs end."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import programs
import pytest
from absl import flags
from commands import ROOT, parse

from vae_tf import cli, data, export, models, networks, training
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError

WITHOUT_TENSORFLOW = """import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert not {"tensorflow", "keras"} & {*sys.modules}
"""


def test_a_tilde_in_a_path_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    values = flags.FlagValues()
    cli.define_evaluate_flags(values)
    values(["", "--codes=~/a.npz", "--compare=~/b*,c", "--data_dir=~nosuch/d"])
    assert (values.codes, values.compare, values.data_dir) == ("/home/me/a.npz", ["/home/me/b*", "c"], "~nosuch/d")
    assert (values.export, values.dataset) == ("exported", None)
    assert {"--codes=/home/me/a.npz", "--compare=/home/me/b*,c"} <= {*values.flags_into_string().splitlines()}


def test_of_steps_and_epochs_the_last_counts(tmp_path):
    (tmp_path / "a.flags").write_text("--epochs=2\n")
    dataset = data.load("synthetic_linear")
    for argv, steps in [(["--epochs=0.5"], 391), (["--steps=7", "--epochs=2"], 1562), (["--epochs=2", "-steps=7"], 7),
                        ([f"--flagfile={tmp_path / 'a.flags'}", "--steps=7"], 7), ([], 30_000)]:
        assert cli.configure(parse(cli.define_train_flags, *argv), dataset).steps == steps


def test_a_model_without_beta_leaves_out_that_of_a_flagfile(tmp_path):
    (tmp_path / "a.flags").write_text("--model=beta_vae\n--beta=0.5\n--latents=3\n")
    recipe = f"--flagfile={tmp_path / 'a.flags'}"
    (tmp_path / "mine.flags").write_text(f"{recipe}\n--model=vae\n")
    (tmp_path / "model.flags").write_text("--model=vae\n")
    mine = f"--flagfile={tmp_path / 'mine.flags'}"
    beside = f"--flagfile={tmp_path / 'model.flags'}"
    for argv, beta in [((recipe, "--model=ae"), None), ((recipe, "--model", "vae"), None), ((recipe,), 0.5),
                       ((recipe, beside), None), ((mine,), None), ((mine, "--model=beta_vae"), 0.5),
                       ((mine, "--beta=2"), 2), ((recipe, "--model=full_covariance_vae"), 0.5),
                       ((recipe, "--model=ae", "--beta=2"), 2)]:
        values = parse(cli.define_train_flags, *argv)
        assert (values.beta, values.latents) == (beta, 3)
    for lines in (f"{recipe}\n--beta=2\n--model=vae\n", f"{recipe}\n--model=vae\n--beta=2\n"):     # of one file
        (tmp_path / "mine.flags").write_text(lines)
        assert parse(cli.define_train_flags, mine).beta == 2        # which the VAE refuses


def test_the_optimizer_s_epsilon_joins_the_configuration_only_where_it_is_set():
    loaded = data.load("synthetic_linear")
    given, left = (cli.configure(parse(cli.define_train_flags, *argv), loaded)
                   for argv in (["--optimizer_epsilon=1e-8"], []))
    assert given.as_json() == {**left.as_json(), "optimizer_epsilon": 1e-8}
    assert all(Configuration.from_json(each.as_json()) == each for each in (given, left))
    assert [training.make_optimizer("adam", 1e-3, epsilon=e).epsilon for e in (1e-8, None)] == [1e-8, 1e-7]
    with pytest.raises(InputError, match=r"optimizer_epsilon: sgd divides by nothing; .*: adam, adagrad, rmsprop"):
        training.make_optimizer("sgd", 1e-3, epsilon=0.1)


def test_validations_and_warm_ups_fit_into_the_steps():
    loaded = data.load("circles")
    base = ("--dataset=circles", "--split=random", "--steps=9")
    config = cli.configure(parse(cli.define_train_flags, *base, "--validate_every=9"), loaded)
    assert config.as_json()["validate_every"] == 9 and "early_stopping" not in config.as_json()
    for flag in ("--validate_every=10", "--learning_rate_warmup_steps=9"):
        with pytest.raises(InputError, match=f"^{flag.split('=')[0]}: expected .* the 9 steps of training"):
            cli.configure(parse(cli.define_train_flags, *base, flag), loaded)


def test_programs_end_with_one_line_and_a_code(tmp_path):
    for argv in (["train.py", "--dataset=none.npz"], ["evaluate.py"]):
        code, out, error = programs.run(*argv, folder=tmp_path)
        assert code == 2 and not out
        line, = error.strip().splitlines()
        assert re.match(r"(train|evaluate)\.py: error: ", line)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("flag", "said"), [
    ("--restart=maybe", "flag --restart=maybe: expected true or false"),
    ("--restart=", "flag --restart=: expected true or false"),
    ("--norestart=true", "--norestart=true does not take an argument")])
def test_what_a_flag_that_is_true_or_false_expects_is_said(tmp_path, flag, said):
    code, _, error = programs.run("train.py", "--model=vae", flag, folder=tmp_path)
    assert code == 2 and error.strip() == f"train.py: error: {said}"


@pytest.mark.parametrize("what", ["bytes(2**62)", "np.zeros(2**50)"])
def test_a_program_for_which_there_is_no_memory_ends_with_one_line(what):
    code = ("import numpy as np; from vae_tf import cli; from vae_tf.cli import program; "
            f"program.run(lambda _: lambda: {what}, cli.define_evaluate_flags, '')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    line, = done.stderr.strip().splitlines()
    assert done.returncode == 2 and re.search("error: memory: expected enough for this command; (Una|there)", line)


def run_without_tensorflow(*argv, folder):
    """(exit code, stdout, stderr) of a program in a process of its own, which fails if it imports TensorFlow."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TENSORFLOW, str(ROOT / argv[0]), *argv[1:]], cwd=folder,
                          capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("argv", [
    ("train.py", "--help"), ("train.py", "--model=wae"), ("train.py", "--colour=red"), ("train.py", "vae"),
    ("train.py", "--model=ae", "--sweep_beta=1,2"), ("train.py", "--gamma=1"), ("evaluate.py", "--help"),
    ("evaluate.py", "--metrics=magic"), ("evaluate.py", "--codes=a.npz", "--export=b"),
    ("evaluate.py", "--export=b"), ("evaluate.py", "--compare=b*"), ("evaluate.py", "--dataset=b.npz"),
    ("train.py", "--init_from=b"), ("train.py", "--dataset=b")], ids=" ".join)
def test_help_and_refused_flags_are_answered_without_tensorflow_in_the_same_words(tmp_path, argv):
    answer = run_without_tensorflow(*argv, folder=tmp_path)
    assert answer == programs.run(*argv, folder=tmp_path)       # whose registries are imported
    code, out, error = answer
    assert code == 0 and not error if "--help" in argv else code == 2 and not out and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_codes_are_scored_without_tensorflow(tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (300, 2))
    np.savez(tmp_path / "codes.npz", codes=factors + rng.normal(0, 0.1, factors.shape), factors=factors)
    code, out, error = run_without_tensorflow("evaluate.py", "--codes=codes.npz", "--quick", "--jobs=1", "--verbose",
                                              folder=tmp_path)
    assert code == 0, error
    assert "mig_sup" in out and (tmp_path / "codes.metrics.json").exists()


def test_a_model_is_introduced_by_its_card_before_tensorflow_is_imported():
    path = ROOT / "exported" / "rolinek2018-mnist-vae"
    program = ("import sys\nfrom absl import flags\nfrom vae_tf import cli\nfrom vae_tf.programs import introduction\n"
               "values = flags.FlagValues()\ncli.define_evaluate_flags(values)\nvalues(sys.argv)\n"
               "found = introduction.find_models(cli.read_scoring_request(values))\n"
               "assert 'tensorflow' not in sys.modules\nprint(found.export)")
    done = subprocess.run([sys.executable, "-c", program, f"--export={path}"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    terms = json.loads((path / "1" / export.CARD).read_text())["final_terms"]
    first, second, last = done.stdout.splitlines()
    assert first == f"{path}/1: vae (mlp_mnist, 6 latents, 35,000 steps on mnist)" and last == f"{path}/1"
    assert second == ("Over the last steps up to step 35,000, nats per training example: "
                      f"reconstruction {terms['reconstruction']:.2f}, kl {terms['kl']:.2f}")


def test_help_lists_every_flag_under_its_heading(tmp_path):
    code, page, error = programs.run("train.py", "--help", folder=tmp_path)
    assert code == 0 and not error
    groups = cli.define_train_flags(flags.FlagValues())
    own = {name for name, kind in models.MODELS.items() if kind.options}
    headed = [heading.removeprefix("Model: ").split(", ") for heading in groups if heading.startswith("Model: ")]
    assert {name for names in headed for name in names} == own and ["dip_vae_i", "dip_vae_ii"] in headed
    assert [heading for heading in groups if not heading.startswith("Model: ")] == ["Model", "Data", "Training",
                                                                                    "Output"]
    at = 0
    for heading, names in groups.items():
        at = page.index(f"\n{heading}\n", at)
        for name in names:
            at = page.index(f"  --{name} ", at)
    assert all(choice in page for choice in (*models.MODELS, *networks.NETWORKS, *data.DATASETS))


def test_help_fits_into_the_terminal(tmp_path):
    for columns in (70, 200):
        _, page, _ = programs.run("train.py", "--help", folder=tmp_path, environment={"COLUMNS": str(columns)})
        lines = page[page.index("\nModel\n"):].splitlines()
        assert min(columns, 110) - 10 < max(map(len, lines)) <= min(columns, 110)


def test_a_trained_program_from_start_to_finish(tmp_path):
    code, out, error = programs.run("train.py", "--model=vae", "--dataset=synthetic_nonlinear", "--steps=20",
                                    folder=tmp_path)
    assert code == 0, error
    assert "step 20/20" in error and "Traceback" not in error
    command = out.strip().splitlines()[-1].split()
    assert command[0] == "python" and (tmp_path / command[1]).samefile(ROOT / "evaluate.py")
    code, out, error = programs.run("vae-tf", "evaluate", *command[2:], "--examples=200", "--jobs=1", folder=tmp_path)
    assert code == 0, error
    assert "Disentangled  " in out
