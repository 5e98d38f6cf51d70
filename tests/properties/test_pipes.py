"""What is printed to a stream that is closed, full or that nobody reads costs neither a training nor an evaluation."""

import os
import runpy
import sys

import pytest
from outcomes import read_corpus
from programs import ROOT, processes

TRAIN = ("train.py", "--model=vae", "--dataset=synthetic_linear", "--network=linear", "--steps=3", "--batch_size=4")
EVALUATE = ("evaluate.py", "--examples=100", "--metrics=total_correlation", "--geometry=", "--theory=", "--jobs=1")


def run(argv, streams, folder):
    """The exit code of a program in a folder, with its descriptors 0, 1 and 2 as `streams` says."""
    process = processes.Process(target=_run, args=(argv, streams, folder))
    process.start()
    process.join(300)
    return process.exitcode


def _run(argv, streams, folder):
    os.chdir(folder)
    read, unread = os.pipe()
    os.close(read)              # nobody reads what is written to the pipe
    for descriptor, stream in zip((0, 1, 2), streams, strict=True):
        if stream == "closed":
            os.close(descriptor)
        else:
            os.dup2(unread if stream == "unread" else os.open(stream, os.O_RDWR | os.O_CREAT), descriptor)
    sys.argv, sys.path[0] = list(argv), str(ROOT)
    runpy.run_path(str(ROOT / argv[0]), run_name="__main__")


@pytest.mark.parametrize("case", read_corpus("pipes"), ids=lambda case: case["why"])
def test_streams_that_take_nothing_cost_nothing(tmp_path, case):
    streams = [case["stdin"], case["stdout"], case["stderr"]]
    assert run(TRAIN, streams, tmp_path) == 0
    version = tmp_path / "exported/vae_synthetic_linear/1"
    assert (version / "saved_model.pb").exists()
    assert (tmp_path / "runs/vae_synthetic_linear/history.csv").exists()
    assert run(EVALUATE, streams, tmp_path) == 0
    assert (version / "metrics.json").exists() and not (version / ".scores").exists()
