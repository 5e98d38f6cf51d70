"""TensorFlow imported without what its native code prints."""

import contextlib
import os
import sys


@contextlib.contextmanager
def _without_native_logs():
    """TensorFlow's native code logs to file descriptor 2 while it is imported, before any setting can stop it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] != "3":      # the user asked for logs
        yield
        return
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
