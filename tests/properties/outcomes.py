"""What each run of a program comes to, whatever it was given: it works, or it says in one line why not."""

import json
import pathlib

CORPUS = pathlib.Path(__file__).parents[1] / "corpus"


def read_corpus(name):
    """The cases of tests/corpus/NAME.jsonl, one per line; each was once a fault, or stands for a class of them."""
    return [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text().splitlines() if line.strip()]


def check_outcome(code, out, error, *, names=(), signals=()):
    """Raise AssertionError unless a program worked, refused its input in one line, or ended by a signal sent to it.

    code: its exit code, negative if a signal ended it. out, error: what it printed. names: words of which the line of
    a refusal must hold one, such as a flag's name. signals: numbers of the signals that were sent to it.
    """
    assert "Traceback (most recent call last)" not in out + error, error[-2_000:]
    assert code in (0, 2, *(-number for number in signals)), (code, error[-2_000:])
    if code == 2:
        lines = [line for line in error.splitlines()            # "step ..." is the progress of a training
                 if line.strip() and "warning: " not in line and not line.startswith("step ")]
        assert len(lines) == 1, error[-2_000:]
        assert not names or any(name in lines[0] for name in names), (names, lines[0])
