"""A cluster of two workers of which one is killed, and then the command itself: nothing is lost, nothing done twice.

One of the runs has a network that an extension adds.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from vae_tf import extensions
from vae_tf.experiments import recipes, results, scheduling, tasks

# The first cell is done while the second is still training.
TABLE = """
title = "Two runs"
paper = "None"
where = "a test"
shows = "That no run is lost."
[metrics.dto]
label = "DtO"
better = "lower"
read = "metrics.dto.score"
[[cells]]
row = "short"
column = "VAE"
recipe = "rolinek2018/synthetic_linear_beta_vae"
flags = ["--beta=0.25", "--network=narrow", "--steps=100"]
[[cells]]
row = "long"
column = "VAE"
recipe = "rolinek2018/synthetic_linear_beta_vae"
flags = ["--beta=0.5", "--batch_size=4", "--steps=20000", "--log_every=500", "--checkpoint_every=500"]
"""
EXTENSION = """
from vae_tf import networks
networks.register("narrow", networks.Dense((8,), "tanh", (8,), "tanh"))
"""
SECONDS = 400       # until something must have happened, on a machine that is busy


def wait_for(what, *arguments):
    deadline = time.monotonic() + SECONDS
    while not (found := what(*arguments)):
        assert time.monotonic() < deadline, f"waited for {what.__name__}"
        time.sleep(0.1)
    return found


def start(folder, *arguments):
    with open(folder / "out.txt", "a") as out:
        return subprocess.Popen([sys.executable, "-m", "vae_tf.experiments", "two_runs.toml", *arguments], cwd=folder,
                                stdout=out, stderr=out, env=environment(folder))


def environment(folder):
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(recipes.CHECKOUT), str(folder)]),
            extensions.VARIABLE: "an_extension"}


def trainings(root, steps):
    """The processes below a command that are at the task of so many steps."""
    found = []
    for process in root.children(recursive=True):
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if "vae_tf.experiments.running" in line and f"--steps={steps}" in line[3]:
            found.append(process)
    return found


def newest_step(folder):
    steps = [int(path.stem) for path in folder.glob("runs/*-20000-seed0/checkpoints/*.npz")]
    return max(steps, default=0)


def state(path):
    return path.read_bytes(), path.stat().st_mtime_ns


def result_of(folder, steps):
    return list(folder.glob(f"results/rolinek2018/*-{steps}.json"))


def test_killing_a_worker_and_the_command_loses_no_run_and_repeats_none(tmp_path):
    (tmp_path / "two_runs.toml").write_text(TABLE)
    (tmp_path / "an_extension.py").write_text(EXTENSION)
    command = psutil.Process(start(tmp_path, "--jobs=2").pid)
    wait_for(newest_step, tmp_path)

    # A worker is killed: its training ends with it, and another worker goes on from the checkpoint.
    training, = trainings(command, 20000)
    worker = training.parent()
    assert scheduling.TRIMS in worker.environ()         # which slows training down
    assert scheduling.TRIMS not in training.environ()
    worker.send_signal(signal.SIGKILL)
    wait_for(lambda: [other for other in trainings(command, 20000) if other != training])
    wait_for(lambda: not training.is_running())
    at = newest_step(tmp_path)
    short, = wait_for(result_of, tmp_path, 100)
    before = state(short)
    wait_for(lambda: newest_step(tmp_path) > at)

    # The command is killed: all that it started ends with it.
    below = command.children(recursive=True)
    command.send_signal(signal.SIGKILL)
    command.wait()
    wait_for(lambda: not any(process.is_running() and process.status() != "zombie" for process in below))
    at = newest_step(tmp_path)
    assert 0 < at < 20000
    assert not result_of(tmp_path, 20000)

    # The same command, now on a cluster that is there already, goes on.
    with scheduling.import_distributed().LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0,
                                                      dashboard_address=None) as cluster:
        assert start(tmp_path, f"--scheduler={cluster.scheduler_address}").wait(SECONDS) == 0
    assert state(short) == before
    assert len(results.read_all(tmp_path / "results")) == 2
    said = (tmp_path / "out.txt").read_text()
    assert "Runs finished: 0; left: 2." in said
    assert "Runs finished: 1; left: 1." in said

    # Each run was trained once: every row of history is there once, and each model was exported once.
    folder, = tmp_path.glob("runs/*-20000-seed0")
    with open(folder / "history.csv") as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == list(range(500, 20001, 500))
    log = (folder / "log.txt").read_text()
    steps = [int(line.split("/")[0][5:].replace(",", "")) for line in log.splitlines() if line.startswith("step ")]
    assert steps == sorted(steps)       # no process began anew
    assert len(list(tmp_path.glob("exported/*/*/saved_model.pb"))) == 2


def test_two_commands_run_side_by_side(recwarn):
    """Each has its own ports: dask's default for its server is one for all, and it warns that this is taken."""
    with scheduling.connect(None, 1), scheduling.connect(None, 1) as (client, workers, sharing):
        assert (workers, sharing) == (1, 1)
        # A terminal's Ctrl-C reaches the workers, too, which must be there to stop their tasks.
        assert client.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    assert not [str(w.message) for w in recwarn if "Port" in str(w.message)]


def test_a_worker_that_is_silent_for_long_is_not_given_up():
    """After Ctrl-Z and fg, or when a laptop wakes, the command would have waited for its tasks for ever."""
    with scheduling.connect(None, 1) as (client, _, _):
        assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.worker_ttl) is None


@pytest.mark.parametrize(("end", "why"), [
    ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL, perhaps for lack of memory"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"), ("os._exit(1)", "exit code 1"),
    ("sys.exit('error: no data')", "no data")])
def test_a_task_that_fails_says_why_in_one_line(tmp_path, monkeypatch, end, why):
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nimport os, signal, sys\n{end}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    log = tmp_path / "log.txt"
    assert scheduling.perform("", "a task", str(log), "key", 1) == ("failed", f"{why} (all of it: {log})")


@pytest.fixture
def sleeping_tasks(tmp_path, monkeypatch):
    """Tasks of which each sleeps for half a second on its worker, in place of training."""
    def sleep(*_):
        time.sleep(0.5)
        return "done", ""
    monkeypatch.setattr(scheduling, "perform", sleep)
    return [tasks.Task(name=f"task{i}", places=tasks.Places(run_root=str(tmp_path))) for i in range(6)]


def test_no_task_waits_in_a_busy_worker(sleeping_tasks, tmp_path, monkeypatch):
    """It would stay there while other workers have nothing to do: the first task here ends when all others have."""
    def work(_, name, *__):
        deadline = time.monotonic() + SECONDS
        while name == "task0" and len(list(tmp_path.glob("*.ended"))) < 5:
            if time.monotonic() > deadline:
                return "failed", "a task has waited for this one"
            time.sleep(0.1)
        (tmp_path / f"{name}.ended").touch()
        return "done", ""
    monkeypatch.setattr(scheduling, "perform", work)
    module, held = scheduling.import_distributed(), []
    with module.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0",
                             ) as cluster, module.Client(cluster) as watching:
        outcomes = scheduling.run(sleeping_tasks, cluster.scheduler_address, 0,
                                  lambda *_: held.extend(len(keys) for keys in watching.processing().values()))
    assert len(outcomes) == 6 and set(outcomes.values()) == {("done", "")}
    assert max(held) == 1


def test_tasks_fail_in_one_line_when_the_scheduler_goes(sleeping_tasks, tmp_path):
    def start_dask(*arguments):
        return subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                                cwd=tmp_path, stderr=subprocess.DEVNULL)

    address = tmp_path / "scheduler.json"
    scheduler = start_dask("scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard", f"--scheduler-file={address}")
    wait_for(address.exists)
    worker = start_dask("worker", f"--scheduler-file={address}", "--nthreads=1", "--no-dashboard")
    try:
        where = json.loads(address.read_text())["address"]
        with scheduling.import_distributed().Client(where) as watching:
            watching.wait_for_workers(1, timeout=SECONDS)
        outcomes = scheduling.run(sleeping_tasks, where, 0, lambda found, *_: len(found) == 2 and scheduler.kill())
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert list(outcomes) == [task.label for task in sleeping_tasks]
    assert set(outcomes.values()) == {("done", ""), scheduling.GONE}
