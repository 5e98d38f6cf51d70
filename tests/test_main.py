"""The command vae-tf: its first word names a program, which then speaks under the name that was typed."""

import pathlib
import subprocess
import sys

import programs
import pytest

import vae_tf
from vae_tf import __main__ as command
from vae_tf import console

REFUSED = f"vae-tf: error: expected one of {', '.join(command.COMMANDS)}"

# A process that calls the command, and says whether it has imported what is slow.
WITHOUT_IMPORTS = """import sys
from vae_tf.__main__ import main
sys.argv = ["/bin/vae-tf", *sys.argv[1:]]
try:
    main()
finally:
    assert not {"tensorflow", "keras", "numpy", "absl"} & set(sys.modules), sorted(sys.modules)
"""


@pytest.mark.parametrize(("argv", "code", "out", "error"), [
    ([], 0, command.write_help("vae-tf") + "\n", ""), (["--help"], 0, command.write_help("vae-tf") + "\n", ""),
    (["recipes", "--hlep"], 2, "", "vae-tf recipes: error: unrecognized arguments: --hlep\n"),
    (["--version"], 0, f"vae-tf {vae_tf.__version__}\n", ""),
    (["trian"], 2, "", f"{REFUSED}; got 'trian'; did you mean train?\n"),
    (["\x1b"], 2, "", f"{REFUSED}; got '\\x1b'\n")])
def test_what_is_no_program_is_answered_before_slow_imports(argv, code, out, error):
    done = subprocess.run([sys.executable, "-c", WITHOUT_IMPORTS, *argv], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, error)


def test_the_help_names_every_command():
    page = command.write_help("vae-tf").splitlines()
    for word, (_, text) in command.COMMANDS.items():
        assert f"  {word:<12} {text}" in page


@pytest.mark.parametrize(("running", "asked", "named"), [
    ("train.py", "evaluate", "python evaluate.py"), ("/clone/train.py", "evaluate", "python /clone/evaluate.py"),
    ("/clone/train.py", "data", "python -m vae_tf data"), ("vae-tf train", "evaluate", "vae-tf evaluate"),
    ("/my folder/evaluate.py", "train", "python '/my folder/train.py'"),
    ("python -m vae_tf train", "evaluate", "python -m vae_tf evaluate"), ("/home/me/mine.py", "train", "vae-tf train")])
def test_commands_are_named_as_the_one_that_runs(monkeypatch, running, asked, named):
    monkeypatch.setattr("sys.argv", [running])
    assert console.name_command(asked) == named
    assert console.name_program() == pathlib.Path(running).name


@pytest.mark.parametrize(("argv", "said"), [
    (("train", "--model=wae"), "vae-tf train: error: flag --model=wae: value should be one of"),
    (("evaluate",), "vae-tf evaluate: error: --export: expected a folder that holds an exported model, such as "
                    "exported/NAME; got exported, which does not exist; train one with vae-tf train\n"),
    (("data", "frob"), "vae-tf data: error: argument action: invalid choice: 'frob'"),
    (("experiments", "no_such"), "vae-tf experiments: error: "),
    (("metrics", "--page=no/such/page.md"), "vae-tf metrics: error: no/such/page.md: ")])
def test_errors_begin_with_the_command_that_was_typed(tmp_path, argv, said):
    code, out, error = programs.run("vae-tf", *argv, folder=tmp_path)
    assert code == 2 and not out
    assert error.startswith(said) and error.count("\n") == 1, error
