"""The standard streams of a program, which may be closed, broken or full."""

import atexit
import contextlib
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from vae_tf.console import environment
from vae_tf.console.commands import fail
from vae_tf.console.stops import end_by_signal
from vae_tf.errors import InputError

# Keras and tf-keras import these modules where they are installed, for purposes that no program of ours has: wrappers,
# galleries, data frames and the turning of images.
WITHOUT = ("sklearn", "matplotlib", "pandas", "scipy.ndimage")
RARELY = 20_000, 20, 20     # of gc.set_threshold; by itself Python looks for garbage after 700 or 2,000 new objects


class _Stream(io.FileIO):
    """A file descriptor that drops what it cannot write: a closed pipe or a full disk must not cost a run.

    What is written while a line is being rewritten, such as an error amid a training, begins a line of its own.
    """

    rewritten = False       # whether the cursor is at the end of a line that the next text may rewrite

    def write(self, text: Any) -> int:
        written = bytes(text)
        starts_new = self.rewritten and not written.startswith((b"\r", b"\n"))
        self.rewritten = written.startswith(b"\r") and not written.endswith((b"\n", b"\r\033[K"))
        try:
            if starts_new:
                super().write(b"\n")
            return super().write(written) or len(written)
        except OSError:
            return len(written)


def start() -> None:
    """Prepare the process of a program; it is called before the program's slow imports.

    What is printed to a closed, broken or full stream is dropped. The program goes on and ends with 0, where one that
    only prints would end with 141: what it is run for are its files, and those are written. Until `run` is entered,
    Ctrl-C ends the process at once: there is nothing to tidy up yet, and a KeyboardInterrupt amid imports is pages of
    traceback.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:     # the descriptor is closed; the next file that is opened must not take it
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = _Stream(descriptor, "w", closefd=False)
        given = getattr(sys, name)      # a closed stream is None
        by_line = name == "stderr" or raw.isatty() or getattr(given, "write_through", False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding=getattr(given, "encoding", None),
                                  errors="backslashreplace", line_buffering=by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    try:
        environment.settle()
    except InputError as error:
        fail(error)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    atexit.register(end_by_signal)     # the function that is registered first runs last


def import_tensorflow(narrow: bool = False, in_parts: bool = False, distributions: bool = True) -> None:
    """Import TensorFlow and TensorFlow Probability without a word of native code, unless the environment asks for it.

    TensorFlow's native code writes to file descriptor 2 while it is imported, before any setting can stop it.
    TF_CPP_MIN_LOG_LEVEL below 3 lets everything through. Keras is imported without the modules in WITHOUT, which would
    cost a third of the time. Advice to trace fewer functions is for who writes them, and is not printed either.
    Afterwards Python looks for garbage less often. Products of float32 are computed in float32: by itself TensorFlow
    rounds their factors to 11 bits on GPUs (TF32).

    Args:
        narrow: whether nothing but narrow networks will be trained or scored, see `environment.choose_kernels`.
        in_parts: whether batches will be computed in parts, see `environment.choose_threads`.
        distributions: whether TensorFlow Probability is imported, too; otherwise `vae_tf.probability` imports it when
            it is first used.
    """
    silent = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3"
    environment.choose_kernels(narrow)
    if in_parts:
        environment.choose_threads()
    with _silence_native_output() if silent else contextlib.nullcontext(), import_without(*WITHOUT):
        import tensorflow as tf
        if distributions:
            import tensorflow_probability  # noqa: F401
    gc.set_threshold(*RARELY)
    atexit.register(gc.freeze)      # Python would look through everything once more before it ends
    tf.get_logger().addFilter(_is_for_users)
    tf.config.experimental.enable_tensor_float_32_execution(False)


@contextlib.contextmanager
def import_without(*modules: str) -> Iterator[None]:
    """Have imports of modules that were not imported yet fail while entered.

    The garbage collector, which would find nothing, leaves alone what is imported then: it costs a fifth of the time.
    """
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))       # type: ignore[arg-type]
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        gc.enable()


def _is_for_users(record: logging.LogRecord) -> bool:
    """Return whether a message of TensorFlow's is more than advice to trace fewer functions."""
    return "triggered tf.function retracing" not in record.getMessage()


@contextlib.contextmanager
def _silence_native_output() -> Iterator[None]:
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
