"""Whatever stands after a flag: it is taken, or refused in one line that names the flag."""

import functools
import os
import time

import hypothesis
import pytest
from absl import flags
from hypothesis import strategies
from outcomes import check_outcome, read_corpus
from programs import run

from vae_tf import cli, console, data
from vae_tf.errors import InputError

DEFINED = {"train.py": cli.define_train_flags, "evaluate.py": cli.define_evaluate_flags}
NAMES = [(program, name) for program, define in DEFINED.items()
         for names in define(flags.FlagValues()).values() for name in names]
NUMBERS = strategies.one_of(
    strategies.integers().map(str), strategies.integers(0, 10**40).map(str), strategies.floats().map(str),
    strategies.sampled_from(("1e300", "-1e300", "1e-320", "0x10", "1_000", "٣", "1e", "--", "9" * 5_000, "10" * 200)))
VALUES = strategies.one_of(
    NUMBERS, strategies.text(max_size=20), strategies.lists(NUMBERS, max_size=5).map(",".join),
    strategies.sampled_from(("", " ", ",", "/", "..", "/dev/null", "\n", "\0", "\udcff", "a" * 100_000, "nan", "true",
                             "vae", "dsprites", "mlp_synthetic", "mig", "all", "gaussian", "*", "[", "$HOME", "%s{0}")))
loaded = functools.cache(data.load)


def parse(program, argv):
    """(exit code, error) of a program's flags, read as far as its data and models are concerned."""
    values = flags.FlagValues()
    DEFINED[program](values)
    flags.DEFINE_string("flagfile", "", "", flag_values=values)
    try:
        cli.read_flags(values, [program, *argv])
        if program == "train.py":
            cli.configure_all(values, loaded("circles"))
            cli.read_settings(values)
        else:
            cli.read_scoring_request(values)
    except (flags.Error, InputError, OSError) as error:     # as in cli.run
        return 2, console.describe_error(program, error)
    return 0, ""


@hypothesis.settings(max_examples=12 * hypothesis.settings().max_examples)
@hypothesis.given(strategies.sampled_from(NAMES), VALUES)
@hypothesis.example(("train.py", "split"), "hold_out:" + " " * 100_000)
def test_any_value_of_any_flag_is_taken_or_refused_by_name(named, value):
    program, name = named
    others = [] if name in ("dataset", "replicas", "sweep_beta") else ["--dataset=circles"] * (program == "train.py")
    started = time.process_time()
    code, error = parse(program, [*others, f"--{name}={value}"])
    assert time.process_time() - started < 20
    check_outcome(code, "", error, names=(name,) if name != "codes" else ())
    assert len(error) < 2_000


@hypothesis.settings(max_examples=10 * hypothesis.settings().max_examples)
@hypothesis.given(strategies.sampled_from(("train.py", "evaluate.py")), strategies.data())
def test_any_flags_together_are_taken_or_refused(program, drawn):
    names = [name for other, name in NAMES if other == program]
    argv = [f"--{drawn.draw(strategies.sampled_from(names))}={drawn.draw(VALUES)}"
            for _ in range(drawn.draw(strategies.integers(0, 6)))]
    code, error = parse(program, argv)
    check_outcome(code, "", error)


@hypothesis.settings(max_examples=5 * hypothesis.settings().max_examples)
@hypothesis.given(strategies.binary(max_size=200), strategies.booleans())
def test_any_bytes_in_a_flagfile_are_taken_or_refused(tmp_path_factory, content, with_flag):
    path = tmp_path_factory.getbasetemp() / "any.flags"
    path.write_bytes(b"--latents=3\n" * with_flag + content)
    code, error = parse("train.py", [f"--flagfile={path}"])
    check_outcome(code, "", error)
    assert len(error) < 2_000


def spell(argument, folder):
    """An argument of the corpus, with the flagfiles that its name asks for made in a folder."""
    (folder / "BINARY").write_bytes(bytes(range(256)))
    (folder / "LOOP").write_text("--flagfile=LOOP\n")
    (folder / "FOLDER").mkdir(exist_ok=True)
    return argument


@pytest.mark.parametrize("case", read_corpus("flags"), ids=lambda case: " ".join(case["argv"])[:40])
def test_the_corpus_is_refused_by_name(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    code, error = parse(case["program"], [spell(argument, tmp_path) for argument in case["argv"]])
    assert code == 2
    check_outcome(code, "", error, names=case["names"])


@pytest.mark.parametrize("argv", [
    ("train.py", "--latents=100000000", "--dataset=circles"),
    ("train.py", "--batch_size=1000000000", "--dataset=circles"),
    ("train.py", "--replicas=10000", "--memory_limit=1", "--dataset=circles"),
    ("train.py", "--name=" + os.fsdecode(b"\xff"), "--dataset=circles"), ("evaluate.py", "--codes=a", "--export=b"),
])
def test_programs_refuse_before_they_do_anything(tmp_path, argv):
    name, *given = argv
    code, out, error = run(name, *given, folder=tmp_path)
    assert code == 2 and not out
    flag = given[0].partition("=")[0]
    check_outcome(code, out, error, names=["export"] if flag == "--codes" else [flag])
    assert not list(tmp_path.iterdir())
