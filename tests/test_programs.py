"""train.py and evaluate.py as processes: what reaches them from outside costs no work and no traceback."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from vae_tf import networks, runs

ROOT = pathlib.Path(__file__).parents[1]
SMALL = ("--model=vae", "--dataset=synthetic_linear", "--network=mlp_synthetic", "--batch_size=8")


def start(name, *argv, folder, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([sys.executable, ROOT / name, *argv], cwd=folder, start_new_session=True, **options)


def wait_for(condition, process, seconds=120):
    """Until it holds, or the process has ended."""
    until = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    assert condition(), process.communicate() if process.poll() is not None else "too late"


def losses(run):
    return [(row["step"], row["loss"]) for row in runs.read_history(run, 10**9)]


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_damaged_checkpoints_neither_shield_nor_displace_new_ones(tmp_path):
    argv = (*SMALL, "--steps=4000", "--checkpoint_every=100", "--name=run")
    done = start("train.py", *argv, folder=tmp_path).communicate()
    run = tmp_path / "runs" / "run"
    whole = arrays(run / "checkpoints" / "000004000.npz")
    assert sorted(runs.checkpoints(run)) == [3900, 4000], done
    for path in runs.checkpoints(run).values():
        path.write_bytes(path.read_bytes()[:100])
    for stray in ("5abc.npz", "000000020 (1).npz", "20.npz"):
        (run / "checkpoints" / stray).write_bytes(b"")
    again = start("train.py", *argv, folder=tmp_path)
    wait_for(lambda: any(100 < step < 3900 for step in runs.checkpoints(run)), again)
    again.kill()
    again.communicate()
    reached = max(step for step in runs.checkpoints(run) if step < 3900)
    last = start("train.py", *argv, folder=tmp_path, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    said = last.communicate()[1]
    assert last.returncode == 0 and "warning" not in said.replace(f"{reached:09d}", ""), said
    assert sorted(runs.checkpoints(run)) == [3900, 4000]
    for name, array in arrays(run / "checkpoints" / "000004000.npz").items():
        np.testing.assert_array_equal(array, whole[name])
    assert len(losses(run)) == 80


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_long_row_does_not_keep_a_run_from_stopping(tmp_path, number):
    argv = (*SMALL, "--steps=1000000", "--log_every=1000000", "--checkpoint_every=1000000", "--polarised_every=0")
    process = start("train.py", *argv, folder=tmp_path)
    run = tmp_path / "runs" / "vae_synthetic_linear"
    wait_for(lambda: (run / "tensorboard").exists(), process)
    # From its second call on it trains; the processor time shows that it does, whatever else the machine is at.
    used = psutil.Process(process.pid).cpu_times().user
    wait_for(lambda: psutil.Process(process.pid).cpu_times().user > used + 5, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    stopped, = runs.checkpoints(run)
    assert process.returncode == 0 and "Traceback" not in err
    assert f"the checkpoint is {pathlib.Path('runs', run.name, 'checkpoints')}/{stopped:09d}.npz" in out
    assert 0 < stopped < 1_000_000 and losses(run) == []
    assert int(arrays(runs.newest(run))["row steps"]) == stopped
