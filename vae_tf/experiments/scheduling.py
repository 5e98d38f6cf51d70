"""Hand tasks to dask.distributed, on a local cluster or on one that exists already; see docs/experiments.md.

A worker does nothing but start a process per task and wait for it. So a task gets a main thread of its own, which
signals reach, and a worker that dies takes no training with it: its process notices, writes a checkpoint and ends, and
the scheduler hands the task to another worker, which goes on from there.
"""

import collections
import contextlib
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vae_tf import extras
from vae_tf.console import environment
from vae_tf.errors import InputError
from vae_tf.experiments import recipes

STOPPED = 3                     # see running
STARTED = "--- started ---"      # a line in a log; what is above it is of an earlier process
SECONDS_TO_STOP = 60
THREADS = ("OMP_NUM_THREADS", *environment.TENSORFLOW_THREADS)
# By this variable dask has its workers give freed memory back to the system at once. Training takes it again at every
# step, which made it take up to three times as long.
TRIMS = "MALLOC_TRIM_THRESHOLD_"
# What a worker does at its start: the terminal's Ctrl-C reaches it, too, and `stop` needs it to go on.
IGNORING = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"

Outcome = tuple[str, str]       # "done", "stopped" or "failed", and why
GONE = ("failed", "the scheduler has gone, or has dropped it")

_processes: dict[str, subprocess.Popen] = {}        # of this worker, by key


def import_distributed() -> Any:
    """Import and return the module dask.distributed; raises InputError where it is not installed."""
    return extras.import_extra("distributed", "experiments", "experiments")


@contextlib.contextmanager
def connect(scheduler: str | None, jobs: int) -> Iterator[tuple[Any, int, int]]:
    """Connect to a cluster; yield a client, the number of workers, and the largest number that share a machine.

    Args:
        scheduler: the address of a scheduler, or None for a cluster of processes on this machine.
        jobs: the number of workers of a local cluster.

    Raises:
        InputError: nothing answers at the address, or it has no workers.
    """
    module = import_distributed()
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)       # a worker's death is no error: another one goes on
    if not scheduler:
        # A worker that is silent for five minutes, after Ctrl-Z or while a laptop sleeps, would be given up for lost,
        # and its tasks would wait for ever. The end of a worker's process is seen without such a limit.
        config = extras.import_extra("dask.config", "experiments", "experiments")
        with config.set({"distributed.scheduler.worker-ttl": None}), \
             module.LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, memory_limit=0,
                                 dashboard_address="127.0.0.1:0",       # any port that is free: commands run together
                                 silence_logs=logging.CRITICAL, preload=[IGNORING]) as cluster, \
             module.Client(cluster) as connected:
            yield connected, jobs, jobs
        return
    try:
        connected = module.Client(scheduler, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"--scheduler: expected the address of a dask scheduler, such as tcp://host:8786; got "
                         f"{scheduler} ({error})") from None
    with connected:
        hosts = collections.Counter(address.rpartition(":")[0] for address in connected.nthreads())
        if not hosts:
            raise InputError(f"--scheduler: expected a scheduler that has workers; got {scheduler}, which has none; "
                             f"start some with: dask worker {scheduler} --nthreads=1")
        yield connected, sum(hosts.values()), max(hosts.values())


def make_environment(sharing: int) -> dict[str, str]:
    """Return the environment of a task's process, without what dask sets for its workers: one thread, and TRIMS.

    Args:
        sharing: the number of workers that share the processors of this machine.
    """
    paths = os.pathsep.join(filter(None, [str(recipes.CHECKOUT), os.environ.get("PYTHONPATH")]))
    threads = str(max(1, environment.count_processors() // sharing))
    own = {**os.environ, **dict.fromkeys(THREADS, threads), "PYTHONPATH": paths}
    own.pop(TRIMS, None)
    return own


def perform(task: str, name: str, log: str, key: str, sharing: int) -> Outcome:
    """On a worker: run a task in a process of its own, wait for it, and return its outcome.

    Args:
        task: a tasks.Task as JSON.
        name: the name of the task.
        log: the file that takes what the process prints.
        key: the key by which `stop` finds the process.
        sharing: the number of workers that share the processors of this machine.
    """
    own = make_environment(sharing)
    pathlib.Path(log).parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        file.write(f"{STARTED}\n".encode())
        file.flush()
        process = subprocess.Popen([sys.executable, "-m", "vae_tf.experiments.running", task, str(os.getpid())],
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=own,
                                   start_new_session=True)       # the terminal's Ctrl-C comes through `stop`
    _processes[key] = process
    code = process.wait()
    _processes.pop(key, None)
    if code == 0:
        return "done", ""
    if code == STOPPED or -code in (signal.SIGTERM, signal.SIGINT):
        return "stopped", ""
    if code < 0:        # the process could not say why it ends
        memory = ", perhaps for lack of memory" * (code == -signal.SIGKILL)
        return "failed", f"killed by {signal.Signals(-code).name}{memory} (all of it: {log})"
    lines = pathlib.Path(log).read_text(errors="replace").rpartition(STARTED)[2].strip().splitlines()
    return "failed", f"{lines[-1].removeprefix('error: ') if lines else f'exit code {code}'} (all of it: {log})"


def stop(command: str) -> None:
    """On a worker: tell the processes of a command to write their checkpoints and end, and wait for them."""
    mine = [process for key, process in list(_processes.items()) if key.startswith(command)]
    for process in mine:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + SECONDS_TO_STOP
    for process in mine:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))


def run(tasks: Sequence[Any], scheduler: str | None, jobs: int,
        show: Callable[[dict[str, Outcome], dict[str, str], int], None]) -> dict[str, Outcome]:
    """Have workers do all tasks, and wait for them.

    Args:
        tasks: the tasks, each a tasks.Task.
        scheduler, jobs: as for `connect`.
        show: a function that is called twice a second with the outcomes so far and the logs of all tasks, both by the
            label of the task, and with the number of workers.

    Returns:
        {label of a task: its outcome}.

    Raises:
        KeyboardInterrupt: the process was asked to stop. By then every task has stopped.
        InputError: see `connect`.
    """
    command = uuid.uuid4().hex
    with connect(scheduler, jobs) as (connected, workers, sharing):
        logs = {task.label: str(pathlib.Path(task.places.run_root, f"{task.name}-seed{task.seeds[0]}" if task.seeds
                                             else task.name, "log.txt")) for task in tasks}
        waiting = collections.deque(tasks)
        futures: dict[str, Any] = {}
        outcomes: dict[str, Outcome] = {}
        try:
            while len(outcomes) < len(tasks):
                # A task is submitted when there is a worker for it. Of those that wait in a busy worker, the scheduler
                # leaves some there while other workers have nothing to do, because it does not know how long they take.
                threads = count_threads(connected)
                if threads is None:
                    outcomes.update({task.label: GONE for task in waiting})
                    waiting.clear()
                while waiting and len(futures) - len(outcomes) < (threads or 0):
                    task = waiting.popleft()
                    key = f"{command} {task.label}"
                    futures[task.label] = connected.submit(perform, task.as_json(), task.name, logs[task.label], key,
                                                           sharing, key=key, pure=False)
                for label, future in futures.items():
                    if label not in outcomes and future.done():
                        outcomes[label] = read_outcome(future)
                show(outcomes, logs, workers)
                time.sleep(0.5)
        except BaseException:
            connected.cancel([future for label, future in futures.items() if label not in outcomes])
            with contextlib.suppress(Exception):       # a worker that is gone has stopped
                connected.run(stop, command)
            raise
    return outcomes


def count_threads(connected: Any) -> int | None:
    """Count the tasks that all workers of a client can do at a time; None if its scheduler has gone."""
    try:
        return sum(connected.nthreads().values()) if connected.status in ("running", "connecting") else None
    except OSError:
        return None


def read_outcome(future: Any) -> Outcome:
    """Return the outcome of a future that is done."""
    if future.status == "finished":
        return future.result()
    if future.status == "error":        # such as workers that died again and again
        return "failed", " ".join(str(future.exception()).split())
    return GONE
