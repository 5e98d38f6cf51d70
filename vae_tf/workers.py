"""Worker processes, which end when the program does, and whose death costs no more than what killed them."""

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import joblib
import psutil
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from vae_tf import console, extensions, memory

SECONDS = 0.5               # time between two checks that the parent process is still there
PR_SET_PDEATHSIG = 1        # of Linux' prctl
# joblib's resource tracker removes what a process that was killed has left, and warns of it, unless Python is told not.
QUIET = "ignore:resource_tracker"
LATER = 5                   # by which a worker is nicer than the program, whose own work others wait for
SHARED = "100K"             # size from which an array is a file that the processes share, in /dev/shm or $TMPDIR


def run(function: Callable[..., Any], work: Sequence[tuple], jobs: int,
        meanwhile: Callable[[], None] = lambda: None) -> Iterator[tuple[int, Any]]:
    """Give (i, function(*work[i])) for each piece of work, in any order; None in place of what a process died of.

    When a process dies, as by the hand of a system without memory, all that is left is tried again. When one dies
    again, what was being computed then is tried piece by piece. No process outlives an exception here. Where the arrays
    cannot be written to files that the processes share, as on a full disk, each process gets copies.

    Args:
        function: what is called in the processes.
        work: the arguments of each call.
        jobs: the number of processes; 1 computes in this one.
        meanwhile: what this process does once the others are at work, before their first result is given.
    """
    left, died, shared, is_begun, started = dict(enumerate(work)), False, True, False, None
    while left or not is_begun:
        try:
            started = _start(function, left, jobs, shared)
            if not is_begun:
                meanwhile()
                is_begun = True
            for i, result in started:
                del left[i]
                yield i, result
        except TerminatedWorkerError:
            for i in list(left)[:2 * jobs] if died else ():
                yield i, _try_alone(function, i, left.pop(i), shared)
            died = True
        except BaseException as error:
            if jobs > 1:
                _kill(started)
            if not (shared and isinstance(error, pickle.PicklingError)):
                raise
            shared = False


@contextlib.contextmanager
def warm_up(function: Callable[[], Any], jobs: int) -> Iterator[None]:
    """Start the processes that `run` will use, and call a function in each, while the program does something else.

    What `run` is given waits for the function. Nothing becomes of what it returns or raises.

    Args:
        function: what is called, for what it imports.
        jobs: the number of processes; for 1 nothing is done.
    """
    if jobs == 1:
        yield
        return
    started = _start(int, dict.fromkeys(range(jobs), ()), jobs)     # which makes the processes
    for _ in range(jobs):
        get_reusable_executor(reuse=True).submit(function)
    try:
        yield
        for _ in started:
            pass
    except TerminatedWorkerError:       # `run` starts others
        pass
    except BaseException:
        _kill(started)
        raise


def end(jobs: int) -> None:
    """Let the processes of `run` end while the program does something else, rather than when it ends itself.

    Args:
        jobs: their number, as `run` was given.
    """
    if jobs > 1:
        get_reusable_executor(jobs, reuse=True).shutdown(wait=False)


def _kill(started: Any) -> None:
    """End the processes at once, and with them what `_start` has started, if it has."""
    get_reusable_executor(reuse=True).shutdown(wait=False, kill_workers=True)
    with warnings.catch_warnings(action="ignore"):      # joblib's, of work that was not done
        if started is not None:
            started.close()


def _start(function: Callable[..., Any], work: Mapping[int, tuple], jobs: int,
           shared: bool = True) -> Iterator[tuple[int, Any]]:
    """Start to compute pieces of work, two for each process at a time; gives (i, result) in any order."""
    # One piece at a time, so that few are suspected when a process dies. The processes take over which signals are
    # blocked: Ctrl-C reaches all processes of a terminal, and must not be theirs before `prepare`.
    if QUIET not in sys.warnoptions:
        sys.warnoptions.append(QUIET)       # processes that are started get this process' options
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs",
                               max_nbytes=SHARED if shared else None, initializer=prepare)
    with _block_interrupts() if jobs > 1 else contextlib.nullcontext():
        return parallel(joblib.delayed(_call)(function, i, arguments) for i, arguments in tuple(work.items()))


@contextlib.contextmanager
def _block_interrupts() -> Iterator[None]:
    """Keep Ctrl-C waiting while entered, in this process and in those that it starts; Windows cannot."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _call(function: Callable[..., Any], i: int, arguments: tuple) -> tuple[int, Any]:
    return i, function(*arguments)


def _try_alone(function: Callable[..., Any], i: int, arguments: tuple, shared: bool) -> Any:
    """Return the result of a piece of work in a process that does nothing else; None if it dies."""
    try:
        (_, result), = _start(function, {i: arguments}, 2, shared)
    except TerminatedWorkerError:
        return None
    return result


def prepare() -> None:
    """Prepare a worker before its first task: Ctrl-C is left to the parent, and the worker ends when the parent has.

    The parent goes first where processors are short: while workers compute, it does what only one process can.
    A parent that is killed cannot end its workers, and joblib's would go on with what they are at. Linux ends them at
    once; elsewhere, and if the parent was gone before Linux was asked, a thread sees that it is gone. Windows has no
    C library of that name.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(LATER)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    memory.keep_freed()
    if extensions.are_named():          # they import TensorFlow, whose native code would print
        console.import_tensorflow()
        extensions.load()


def _end_with(parent: int) -> None:
    wait_for_end(parent)
    os._exit(1)


def wait_for_end(parent: int) -> None:
    """Wait until the process that started this one has ended; Windows goes on naming one that is gone."""
    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(SECONDS)
