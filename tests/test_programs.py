"""train.py and evaluate.py as processes: what reaches them from outside costs no work and no traceback."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import programs
import psutil
import pytest

from vae_tf import models, networks, runs
from vae_tf.runs import checkpoints

ROOT = pathlib.Path(__file__).parents[1]
SMALL = ("--model=vae", "--dataset=synthetic_linear", "--network=mlp_synthetic", "--batch_size=8")


STARTED: list = []


@pytest.fixture(autouse=True)
def none_is_left_running():
    yield
    while STARTED:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(STARTED.pop().pid, signal.SIGKILL)


def start(name, *argv, folder, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    # A shell that runs the tests in the background ignores Ctrl-C on behalf of its children.
    options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    STARTED.append(subprocess.Popen([sys.executable, ROOT / name, *argv], cwd=folder, start_new_session=True,
                                    **options))
    return STARTED[-1]


def wait_for(condition, process, seconds=300):
    """Until it holds, or the process has ended."""
    until = time.monotonic() + seconds
    while not condition() and psutil.pid_exists(process.pid) and time.monotonic() < until:
        if psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    assert condition()


def losses(run):
    return [(row["step"], row["loss"]) for row in runs.read_history(run, 10**9)]


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_a_long_row_does_not_keep_a_run_from_stopping(tmp_path):
    argv = (*SMALL, "--steps=100000000", "--log_every=100000000", "--checkpoint_every=100000000",
            "--polarised_every=0", "--jit_compile=false")        # XLA would compile for seconds
    process, out, error = programs.start("train.py", *argv, folder=tmp_path)
    run = tmp_path / "runs" / "vae_synthetic_linear"
    wait_for(lambda: (run / "tensorboard").exists(), process)
    # Once it has used three seconds of a processor more, it is past the compilation, whatever else the machine is at.
    used = psutil.Process(process.pid).cpu_times().user
    wait_for(lambda: psutil.Process(process.pid).cpu_times().user > used + 3, process)
    process.terminate()
    process.join(60)      # a row takes hours
    stopped, = runs.find_checkpoints(run)
    assert programs.was_ended_by(process, signal.SIGTERM) and "Traceback" not in error.read_text()
    assert f"the checkpoint is {pathlib.Path('runs', run.name, 'checkpoints')}/{stopped:09d}.npz" in out.read_text()
    assert losses(run) == [] and int(arrays(runs.find_newest(run))["row steps"]) == stopped


def test_a_user_s_keras_settings_a_full_log_and_a_strategy_of_one_device_change_nothing(tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps(
        {"image_data_format": "channels_first", "floatx": "float64", "epsilon": 0.1, "backend": "jax"}))
    np.savez(tmp_path / "small.npz", images=np.random.default_rng(0).integers(0, 256, (20, 16, 16, 1), np.uint8))
    argv = ("--model=vae", "--dataset=small.npz", "--network=conv_locatello", "--latents=2", "--steps=2",
            "--batch_size=2", "--polarised_every=0")
    weights = models.build("vae", (16, 16, 1), network="conv_locatello", latents=2).count_params()
    with open("/dev/full", "w") as full:
        done = start("train.py", *argv, "--strategy=mirrored", "--name=mirrored", folder=tmp_path, stderr=full,
                     env={**os.environ, "KERAS_HOME": str(tmp_path), "HOME": str(tmp_path)})
        out = done.communicate()[0]
    assert done.returncode == 0 and f"{weights:,} weights" in out
    assert json.loads((tmp_path / "runs/mirrored/config.json").read_text())["keras"] == networks.KERAS
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        worker = f"127.0.0.1:{free.getsockname()[1]}"
    cluster = {"cluster": {"worker": [worker]}, "task": {"type": "worker", "index": 0}}
    alone = subprocess.run(["bash", "-c", '"$@" >&- 2>&-', "bash", sys.executable, ROOT / "train.py", *argv,
                            "--strategy=multi_worker", "--name=alone"], cwd=tmp_path,
                           env={**os.environ, "TF_CONFIG": json.dumps(cluster)})
    assert alone.returncode == 0
    one, other = (arrays(tmp_path / "runs" / name / "checkpoints/000000002.npz") for name in ("mirrored", "alone"))
    for name in one.keys() - {runs.RUN, checkpoints.HISTORY}:
        # Two steps of 1e-3: float32 rounding is far below, other numbers or another network far above.
        np.testing.assert_allclose(one[name], other[name], atol=1e-5)
        assert one[name].dtype != np.float64


@pytest.mark.parametrize("moment", ["import", "first step"])
def test_ctrl_c_before_the_first_step_is_no_traceback(tmp_path, moment):
    # XLA takes seconds to compile the first step. On a busy machine the signal may come after it even so: then again.
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = start("train.py", *SMALL, "--jit_compile=true", folder=folder)
        if moment == "import":
            wait_for(lambda pid=process.pid: psutil.Process(pid).memory_info().rss > 100e6, process)
        else:
            wait_for((folder / "runs").exists, process)
        process.send_signal(signal.SIGINT)
        err = process.communicate()[1]
        if process.returncode:
            break
    assert process.returncode == -signal.SIGINT
    assert err == {"import": "", "first step": "train.py: stopped by SIGINT\n"}[moment]
    assert not list(folder.rglob("*.npz"))


LOSES = """
class Loses:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
def main():
    Loses()
    time.sleep(60)
"""
TURNS = """
def main():
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        raise RuntimeError("MISMATCH of exception types")
"""


@pytest.mark.parametrize("main", [LOSES, TURNS])
def test_a_request_to_stop_that_other_code_loses_or_turns_into_an_error_is_still_one(main):
    program = (f"import signal, time\nfrom vae_tf import console\nconsole.start()\n{main}\n"
               "console.run('a program', main)\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "a program: stopped by SIGTERM\n")


def children(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_an_evaluation_that_is_stopped_takes_its_children_along(tmp_path, number):
    rng = np.random.default_rng(0)
    v = rng.integers(0, 20, (30_000, 3))
    np.savez(tmp_path / "codes.npz", codes=v @ rng.standard_normal((3, 10)) + rng.standard_normal((30_000, 10)),
             factors=v)
    process = start("evaluate.py", "--codes=codes.npz", "--metrics=dci", "--examples=20000", "--jobs=2",
                    folder=tmp_path, env={**os.environ, "JOBLIB_TEMP_FOLDER": str(tmp_path / "shared")})
    # Two workers that are at a metric which takes minutes.
    wait_for(lambda: sum(child.cpu_times().user > 2 for child in children(process)) >= 2, process)
    family = children(process)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    err = process.communicate()[1]
    assert process.returncode == -number
    assert not psutil.wait_procs(family, timeout=15)[1]
    assert not [path for path in (tmp_path / "shared").rglob("*") if path.is_file()]
    assert "Traceback" not in err and "resource_tracker" not in err and not list(tmp_path.glob("*.json"))
    if number != signal.SIGKILL:
        assert err.splitlines() == [f"evaluate.py: stopped by {signal.Signals(number).name}"]
