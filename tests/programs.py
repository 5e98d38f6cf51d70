"""The programs and the command vae-tf, each in a process that is forked from one with TensorFlow imported."""

import multiprocessing
import os
import pathlib
import resource
import runpy
import signal
import sys

from vae_tf import __main__ as command

ROOT = pathlib.Path(__file__).parents[1]
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["vae_tf.cli", "vae_tf.configured", "vae_tf.report", "jinja2",
                                  "matplotlib.backends.backend_svg"])


def run(name, *argv, folder, **more):
    """(exit code, stdout, stderr) of `python NAME ARGV`, or of `vae-tf ARGV`, in a folder; `more` is as in `start`."""
    process, out, error = start(name, *argv, folder=folder, **more)
    process.join(300)
    said = out.read_text(), error.read_text()
    out.unlink()
    error.unlink()
    return process.exitcode, *said


def start(name, *argv, folder, largest=None, environment=None):
    """The process of `python NAME ARGV` in a folder, and the files that it prints into.

    It leads a group of processes. No file may become larger than `largest` bytes; `environment` has variables beside
    those of the caller.
    """
    out, error = folder / ".stdout", folder / ".stderr"
    process = processes.Process(target=_run, args=(name, argv, folder, largest, {**os.environ, **(environment or {})},
                                                   out, error))
    process.start()
    return process, out, error


def was_ended_by(process, number):
    """Whether a program ended by a signal.

    Before Python 3.13 a process that is forked has no exit handlers, by which a program ends by the signal itself. It
    then ends with the code that a shell gives such a program.
    """
    return process.exitcode in (-number, 128 + number)


def _run(name, argv, folder, largest, environment, out, error):
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell may have told the tests to ignore Ctrl-C
    os.chdir(folder)
    for descriptor, path in ((1, out), (2, error)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    if largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))      # stands for a disk that is full
    os.environ.clear()      # the server's has COLUMNS, which the readline that pytest imports sets for its children
    os.environ.update(environment)
    sys.path[1:1] = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.argv, sys.path[0] = [name, *argv], str(ROOT)
    if name == "vae-tf":
        command.main()
    else:
        here = pathlib.Path(name).is_file()      # beside documents, so that a program names the next one as they do
        runpy.run_path(name if here else str(ROOT / name), run_name="__main__")
