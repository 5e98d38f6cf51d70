"""Prepare the worker processes of an evaluation."""

import os
import signal
import threading
import time

from vae_tf import extensions

SECONDS = 0.5       # time between two checks that the parent process is still there


def prepare() -> None:
    """Prepare a worker before its first task: Ctrl-C is left to the parent, and the worker ends when the parent has.

    A parent that is killed cannot end its workers, and joblib's would go on with what they are at.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    extensions.load()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)
