"""Recipes are found from any folder, and files of one's own are read as absl reads them."""

import hypothesis
import programs
import pytest
from absl import flags
from hypothesis import strategies

from vae_tf import flagfiles
from vae_tf.errors import InputError

RECIPE = "rolinek2018/synthetic_linear_beta_vae"
LINES = strategies.sampled_from((
    "--beta=1", "  --latents=3  ", "--seed 4", "-steps=5", "", "  ", "# --beta=2", "// --beta=3", "words", "--",
    *(f"--flagfile={name}" for name in "abc"), "-flagfile=b", "--flagfile="))


def expand(typed):
    return [argument for argument, _ in flagfiles.expand(typed)]


@hypothesis.settings(max_examples=10 * hypothesis.settings().max_examples,
                     suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(strategies.lists(strategies.lists(LINES, max_size=4), min_size=3, max_size=3),
                  strategies.lists(LINES.map(str.strip), min_size=1, max_size=4))
def test_files_of_ones_own_are_read_as_absl_reads_them(tmp_path, monkeypatch, files, typed):
    monkeypatch.chdir(tmp_path)
    for name, lines in zip("abc", files, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    assert expand(typed) == flags.FlagValues().read_flags_from_files(typed)


def test_a_recipe_is_the_same_from_any_folder_and_by_any_name(tmp_path, monkeypatch):
    (tmp_path / "flags").mkdir()
    (tmp_path / "flags/base.flags").write_text("--beta=77\n")
    (tmp_path / "mine.flags").write_text(f"--flagfile=flags/{RECIPE}.flags\n--beta=2\n")
    (tmp_path / "named.flags").write_text(f"--recipe={RECIPE}\n", "utf-8-sig")         # as Windows saves it
    monkeypatch.chdir(tmp_path)
    whole = flagfiles.read(flagfiles.RECIPES / f"{RECIPE}.flags")
    assert {"--beta=1e-4", "--epochs=600", "--batch_size=64"} <= {*whole} and "--beta=77" not in whole
    for typed in ([f"--recipe={RECIPE}"], ["--recipe", RECIPE], [f"-recipe={RECIPE}.flags"],
                  [f"--flagfile=flags/{RECIPE}.flags"], [f"--flagfile={flagfiles.RECIPES}/{RECIPE}.flags"],
                  ["--flagfile=named.flags"], ["--recipe=rolinek2018/synthetic_linear"]):
        assert expand([*typed, "--seed=3"]) == [*whole, "--seed=3"]
    assert expand(["--flagfile=mine.flags"]) == [*whole, "--beta=2"]
    assert expand(["--flagfile=flags/base.flags"]) == ["--beta=77"], "the user's own file comes first"
    (tmp_path / "flags" / "mine").mkdir()
    (tmp_path / "flags" / "mine" / "own.flags").write_text(f"--flagfile=flags/{RECIPE}.flags\n--beta=3\n")
    assert expand(["--recipe=mine/own"]) == [*whole, "--beta=3"]
    assert expand(["--", f"--recipe={RECIPE}"]) == ["--", f"--recipe={RECIPE}"]


@pytest.mark.parametrize(("typed", "said"), [
    ("--recipe=synthetic_linear_vae", "recipe: expected the name of a recipe, or .*; got 'synthetic_linear_vae'; close "
                                      "to it: rolinek2018/synthetic_linear_.*vae-tf recipes lists all recipes"),
    ("--recipe=rolinek2018/mnist", "close to it: rolinek2018/mnist_ae, .*vae-tf recipes lists all"),
    ("--recipe=", "got ''; vae-tf recipes"), ("--recipe=../../etc/passwd", "got '../../etc/passwd'"),
    ("--recipe=../outside", "got '../outside'"), ("--recipe=" + "a" * 300, "got 'aaa"),
    ("--recipe", "--recipe: expected a value after it"), ("--flagfile=none", "--flagfile: expected a file .*'none'"),
    ("--flagfile=flags/none.flags", "--flagfile: expected a file .*'flags/none.flags'"),
    ("--flagfile=.", "--flagfile: expected a file"), ("--flagfile=" + "a" * 5_000, "--flagfile: expected a file"),
    ("--flagfile=flags/\0", "--flagfile: expected a file"), ("--flagfile=bytes", "--flagfile: expected a file"),
    ("--flagfile=/dev/zero", "--flagfile: expected a file of at most"),
    ("--flagfile=twice0", "--flagfile: expected at most 1,000 files")])
def test_what_cannot_be_read_is_one_line(tmp_path, monkeypatch, typed, said):
    monkeypatch.setattr("sys.argv", ["vae-tf train"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "twice40").touch()
    (tmp_path / "flags").mkdir()
    (tmp_path / "outside.flags").touch()
    for number in range(40):        # each names the next one twice, which would make 2^40 files
        (tmp_path / f"twice{number}").write_text(f"--flagfile=twice{number + 1}\n" * 2)
    with pytest.raises(InputError, match=f"^(?s:.*){said}") as raised:
        expand([typed])
    assert "\n" not in str(raised.value)


def test_the_list_says_what_every_recipe_is_and_costs(tmp_path):
    code, out, error = programs.run("vae-tf", "recipes", folder=tmp_path)
    assert code == 0 and not error
    for name in flagfiles.list_recipes():
        title, cost = flagfiles.describe_recipe(name)
        assert title and cost and f"\n{name}: {title}\n    {cost[:50]}" in f"\n{out}"
        assert (flagfiles.RECIPES / f"{name}.flags").is_file()
    assert {*flagfiles.list_recipes()} >= {RECIPE, "bhowal2024/evaluate"} and "common/" not in out
    assert flagfiles.describe_recipe(RECIPE)[1] == "26 minutes of one CPU core for 10 seeds with --replicas=10"


def test_both_programs_take_recipes(tmp_path):
    code, out, error = programs.run("vae-tf", "train", "--recipe=rolinek2018/synthetic_linear", "--steps=2",
                                    "--name=mine", folder=tmp_path)
    assert code == 0, error
    assert out.startswith("beta_vae (linear, 2 latents") and (tmp_path / "exported/mine/1/saved_model.pb").exists()
    assert out.endswith("\n  vae-tf evaluate --export=exported/mine/1\n"), "the next command, as this one was typed"
    code, out, error = programs.run("vae-tf", "evaluate", "--recipe=bhowal2024/evaluate", "--metrics=mig",
                                    folder=tmp_path)
    assert code == 2 and error.startswith("vae-tf evaluate: error: factors: "), error
