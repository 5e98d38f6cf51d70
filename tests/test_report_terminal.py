"""What the terminal shows: of any width, in a pipe or not, with the time left."""

import io
import os
import re
import sys
import termios

import numpy as np
import pytest
from commands import parse

from vae_tf import cli, console, evaluation, metrics, report

N = 200


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (N, 3))
    codes = evaluation.Codes(factors + 0.1 * rng.standard_normal((N, 3)), factors, None, np.full((N, 3), 0.2))
    found = evaluation.score(codes, ("mig", "mcc", "active_units"), quick=True)
    return found._replace(skipped={"a": "it needs b", "c": "it needs b", "d": "it\x1b needs e"})


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [40, 60, 99, 100, 140, 200])
def test_everything_fits_the_width_and_is_there(scored, width):
    table = report.write_table(scored, width)
    assert all(len(line) <= width for line in table.splitlines())
    words = " ".join(table.split())
    for name, result in {**scored.results, **scored.polarised}.items():
        assert name in words and (width < 60 or " ".join(result.meaning.split()) in words or width >= 100)
    beside = any(re.match(r"  mig .*0: no factor", line) for line in table.splitlines())
    assert beside == (width >= 100)


def test_reasons_are_gathered_and_groups_have_headings(scored):
    lines = [line.strip() for line in report.write_table(scored).splitlines()]
    assert "- it needs b: a, c" in lines and r"- it\x1b needs e: d" in lines
    order = [lines.index(heading) for heading in ("Codes against factors", "Codes and posterior alone",
                                                  "polarised regime", "not scored")]
    assert order == sorted(order)


def test_the_summary_is_ten_lines_at_most(scored):
    card = {"model": "vae", "beta": 1.0, "latents": 3, "steps": 5, "likelihood": "bernoulli", "data": {"name": "mine"},
            "recipe": {"network": "conv_locatello", "seed": 0, "batch_size": 64}}
    answers = report.answer_all(report.Facts(scored, card, (), report.judge_convergence([], 5), quick=True))
    assert 7 <= len(report.write_summary(answers).splitlines()) <= 10
    assert all(len(line) <= 60 for line in report.write_summary(answers, 60).splitlines())


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"COLUMNS": "60"}])
def test_styles_are_for_terminals_and_never_colours(scored, monkeypatch, environment):
    for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    shown = {}
    for kind in (io.StringIO, Terminal):
        monkeypatch.setattr("sys.stdout", kind())
        report.show(lambda width: report.make_tables(scored, width))
        shown[kind] = sys.stdout.getvalue()
    assert "\x1b" not in shown[io.StringIO] and not re.search(r" $", shown[io.StringIO], re.MULTILINE)
    assert max(map(len, shown[io.StringIO].splitlines())) <= 140
    if "COLUMNS" in environment:        # of a terminal
        assert max(map(len, re.sub(r"\x1b\[[\d;]*m", "", shown[Terminal]).splitlines())) <= 60
    assert ("\x1b[1m" in shown[Terminal]) == ("TERM" not in environment)
    assert not re.search(r"\x1b\[[\d;]*(?:3|4|9|10)[0-8]", shown[Terminal])         # colours of text and background


@pytest.mark.parametrize(("given", "named"), [
    ((), ()), (("--verbose",), ()), (("--metrics=mig",), ("mig",)), (("--metrics=default",), ()),
    (("--geometry=", "--theory="), ()), (("--theory=linear_optimum",), ("linear_optimum",)),
    (("--theory=default",), ()), (("--geometry=dto,default",), ("dto",)),
    (("--geometry=all",), tuple(metrics.list_names("geometry"))),
    ((f"--metrics={','.join(metrics.list_default_names('metrics'))}",), ())])
def test_metrics_that_are_asked_for_by_name_are_printed(given, named):
    asked = cli.read_scoring_request(parse(cli.define_evaluate_flags, *given))
    assert (asked.verbose, asked.named) == ("--verbose" in given, named)


@pytest.mark.parametrize("group", ["metrics", "geometry", "theory"])
def test_words_stand_for_metrics_in_each_flag(group):
    for word, names in (("default", metrics.list_default_names(group)), ("all", metrics.list_names(group))):
        others = [f"--{other}=" for other in ("metrics", "geometry", "theory") if other != group]
        last = metrics.list_names(group)[-1]
        asked = cli.read_scoring_request(parse(cli.define_evaluate_flags, f"--{group}={word},{last}", *others))
        assert asked.options.names == tuple(dict.fromkeys([*names, last]))
        assert asked.geometry == (*names, last) * (group == "geometry")


def test_progress_says_the_time_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    for kind in (io.StringIO, Terminal):
        monkeypatch.setattr("sys.stderr", kind())
        clock[0] = 0
        show = report.Progress()
        for done in range(1, 11):
            clock[0] += 6
            show(done, 10)
        clock[0] += 20
        show(1, 4)          # the second part counts anew
        said = sys.stderr.getvalue()
        if kind is io.StringIO:
            assert said.splitlines() == ["scoring: 2 of 10, 0:48 left", "scoring: 4 of 10, 0:36 left",
                                         "scoring: 6 of 10, 0:24 left", "scoring: 8 of 10, 0:12 left",
                                         "scoring: 10 of 10, 0:00 left", "scoring: 1 of 4"]
        else:
            assert "\r  scoring: 3 of 10, 0:42 left\033[K" in said and said.endswith("\r  scoring: 1 of 4\033[K")


def test_the_time_left_of_codes_counts_from_before_the_decoder(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr", io.StringIO())
    show = report.Progress()
    for moment, done, total in [(0, 0, 40), (10, 2, 4), (20, 4, 4), (30, 10, 40), (45, 1, 40), (60, 2, 40)]:
        clock[0] = moment
        show(done, total)
    assert sys.stderr.getvalue().splitlines() == [
        "scoring: 2 of 4", "scoring: 4 of 4, 0:00 left", "scoring: 10 of 40, 1:30 left",
        "scoring: 1 of 40", "scoring: 2 of 40, 9:30 left"]     # of the next model, from its first piece on


@pytest.mark.parametrize(("columns", "shown"), [
    (0, "step 100/300  loss 81.09  reconstruction 62.97  kl 18.12  1,222 examples/s  compiled"),
    (80, "step 100/300  loss 81.09  reconstruction 62.97  kl 18.12  compiled"),
    (40, "step 100/300  loss 81.09  compiled"), (10, "step 100/")])
def test_a_line_of_progress_fits_into_the_terminal(monkeypatch, columns, shown):
    """A line that a terminal breaks would not be rewritten as a whole, and each step would leave some of it behind."""
    ours, theirs = os.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, columns))
        row = {"step": 100, "examples_per_second": 1_222.0, "loss": 81.09, "reconstruction": 62.97, "kl": 18.12}
        with open(theirs, "w", closefd=False) as terminal:
            monkeypatch.setattr("sys.stderr", terminal)
            console.Progress(300).show([row])
            assert os.read(ours, 1_000).decode() == f"\r{shown}\x1b[K"
            report.Progress()(3, 1_000)
        scoring = "  scoring: 3 of 1,000"
        assert os.read(ours, 1_000).decode() == f"\r{scoring[:columns - 1] if columns else scoring}\x1b[K"
    finally:
        os.close(ours)
        os.close(theirs)
