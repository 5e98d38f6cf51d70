"""Worker processes that are killed cost what they were at alone, and none outlives the program."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from vae_tf import workers

ROOT = pathlib.Path(__file__).parents[1]
PARENT = """
import os, sys, time
from vae_tf import workers

def wait(path):
    open(f"{path}/{os.getpid()}", "w").close()
    time.sleep(600)

if __name__ == "__main__":
    list(workers.run(wait, [(sys.argv[1],)] * 2, 2))
"""


def die_at_first(folder, i):
    """Kills its process when it is called for the first time with 3, and always with 7."""
    first = pathlib.Path(folder, str(i))
    if i == 7 or (i == 3 and not first.exists()):
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * i


def test_what_a_process_died_of_is_tried_again_and_then_given_up(tmp_path):
    found = dict(workers.run(die_at_first, [(tmp_path, i) for i in range(12)], 2))
    assert found == {i: None if i == 7 else 10 * i for i in range(12)}


def test_processes_get_copies_of_arrays_where_no_files_can_be_shared(monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", os.devnull)        # in which there is room for nothing
    array = np.ones(2**18)
    assert dict(workers.run(np.sum, [(array,), (array, 0)], 2)) == {0: 2**18, 1: 2**18}


def test_one_job_computes_in_this_process():
    assert dict(workers.run(os.getpid, [(), ()], 1)) == {0: os.getpid(), 1: os.getpid()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_this_process_does_something_else_before_the_first_result(jobs):
    said = []
    for i, _ in workers.run(os.getpid, [()] * 3, jobs, meanwhile=lambda: said.append("meanwhile")):
        said.append(i)
    assert said[0] == "meanwhile" and sorted(said[1:]) == [0, 1, 2]
    assert list(workers.run(os.getpid, [], jobs, meanwhile=lambda: said.append("without work"))) == []
    assert said[4:] == ["without work"]


def test_processes_compute_while_this_one_does_something_else(tmp_path):
    def wait_for_them():
        until = time.monotonic() + 60
        while not (tmp_path / "computed").exists() and time.monotonic() < until:
            time.sleep(0.01)
    found = workers.run(pathlib.Path.touch, [(tmp_path / "computed",)], 2, meanwhile=wait_for_them)
    assert list(found) == [(0, None)] and (tmp_path / "computed").exists()


def test_an_error_meanwhile_ends_the_processes(recwarn):
    def fail():
        family.update(list_workers())
        raise KeyError
    family = {}
    with pytest.raises(KeyError):
        list(workers.run(wait_long, [()] * 2, 2, meanwhile=fail))
    psutil.wait_procs(family.values(), timeout=20)
    assert len(family) == 2 and not {*family} & {*list_workers()} and not recwarn.list


@pytest.mark.skipif(not hasattr(os, "nice"), reason="has no priorities")
def test_the_program_goes_first():
    assert dict(workers.run(os.nice, [(0,)], 2))[0] == min(19, os.nice(0) + workers.LATER)


def sleep_a_moment(*_):
    time.sleep(0.2)
    return os.getpid()


def list_workers():
    """Return the worker processes of this one by pid."""
    children = psutil.Process().children()
    return {each.pid: each for each in children if is_running(each) and "popen_loky" in " ".join(each.cmdline())}


def test_processes_that_were_warmed_up_do_the_work():
    with workers.warm_up(sleep_a_moment, 2):
        family = list_workers()
    assert {*dict(workers.run(sleep_a_moment, [(i,) for i in range(4)], 2)).values()} <= {*family}


def test_processes_that_are_told_to_end_do_so_and_others_take_their_place():
    first = {pid for _, pid in workers.run(os.getpid, [()] * 8, 2)}
    workers.end(2)
    psutil.wait_procs([psutil.Process(pid) for pid in first if psutil.pid_exists(pid)], timeout=60)
    assert not any(map(psutil.pid_exists, first))
    assert first.isdisjoint(pid for _, pid in workers.run(os.getpid, [()] * 8, 2))
    workers.end(1)      # there are none


def test_an_error_while_processes_warm_up_ends_them(recwarn):
    with pytest.raises(KeyError), workers.warm_up(wait_long, 2):
        family = list_workers()
        raise KeyError
    psutil.wait_procs(family.values(), timeout=20)
    assert len(family) == 2 and not {*family} & {*list_workers()} and not recwarn.list


def wait_long():
    time.sleep(600)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to end workers")
def test_the_workers_of_a_killed_program_end_at_once(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "started").mkdir()
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py", tmp_path / "started"],
                              env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"})
    until = time.monotonic() + 120
    while len(names := os.listdir(tmp_path / "started")) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    family = [psutil.Process(int(name)) for name in names]
    parent.kill()
    parent.wait()
    until = time.monotonic() + 0.4                      # the thread that looks after a parent looks every half second
    while any(map(is_running, family)) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(family) == 2 and not any(map(is_running, family))


def is_running(process):
    """Return whether a process runs; one that has ended, and that nobody has asked about yet, does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
