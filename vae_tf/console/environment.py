"""Settle what the environment of a program's process says to its libraries, before they are imported."""

import os
import platform
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, MutableMapping

from vae_tf.errors import InputError

MOST_THREADS = 1_024

# Variables with numbers of threads, and the least that each may be; 0 leaves the number to TensorFlow.
THREADS = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OMP_THREAD_LIMIT": 1,
           "TF_NUM_INTRAOP_THREADS": 0, "TF_NUM_INTEROP_THREADS": 0}

# The variables for the threads of one TensorFlow operation, and for how many operations run at once.
TENSORFLOW_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
PROCESSORS = 2          # where one thread for each operation pays, see choose_threads

# Variables whose values TensorFlow reads as truth values, and prefixes of the words that XLA's variables may hold:
# TensorFlow aborts the process where it cannot read them.
TRUTHS = ("TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE", "TF_CUDNN_USE_FRONTEND",
          "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH")
XLA = {"XLA_FLAGS": "--xla_", "TF_XLA_FLAGS": "--tf_xla_"}
# A program that aborts where TensorFlow cannot read these variables, in words that name its file.
READ_XLA = "import tensorflow as tf; tf.function(lambda: tf.constant(0.0), jit_compile=True)()"
XLA_READER = "parse_flags_from_env"

# What the program depends on, whatever the user's files say: Keras reads no keras.json, nor a debugging limit, and
# Matplotlib draws to files.
SET = {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": os.devnull, "MPLBACKEND": "agg"}
# What the environment may say otherwise. By itself TensorFlow takes all memory of a GPU, and none is left for others.
DEFAULTS = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
UNSET = ("KERAS_MAX_EPOCHS", "KERAS_MAX_STEPS_PER_EPOCH", "KERAS_NNX_ENABLED")


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set what the program depends on; worker processes inherit it.

    Raises:
        InputError: a variable asks for a number of threads that is none, or that no machine could start; a variable
            has a value at which TensorFlow would abort; or Python runs without docstrings.
    """
    if sys.flags.optimize > 1:
        raise InputError("PYTHONOPTIMIZE: expected 0 or 1, or python -O; got 2, or python -OO, which removes the "
                         "docstrings that TensorFlow Probability reads while it is imported")
    environment.update(SET)
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)
    for name in UNSET:
        environment.pop(name, None)
    _let_warnings_be_warnings(environment)
    for name, least in THREADS.items():
        given = environment.get(name, "")
        # OpenMP takes a number for each level of nesting: 4,2.
        if given and not all(_is_whole(part, least) for part in given.split(",")):
            raise InputError(f"{name}: expected a whole number from {least} to {MOST_THREADS:,} in this environment "
                             f"variable; got {given!r}")
    for name in TRUTHS:
        if environment.get(name, "").lower() not in ("", "0", "1", "false", "true"):
            raise InputError(f"{name}: expected 0 or 1 in this environment variable; got {environment[name]!r}")
    for name, prefix in XLA.items():
        unknown = [word for word in environment.get(name, "").split() if not word.startswith(prefix)]
        if unknown and not os.path.isfile(environment[name]):       # XLA reads its flags from a file, too
            raise InputError(f"{name}: expected flags {prefix}... in this environment variable; got {unknown[0]!r}")
    _check_xla(environment)


def choose_kernels(narrow: bool, environment: MutableMapping[str, str] = os.environ) -> None:
    """Have TensorFlow multiply and convolve with oneDNN, unless networks are narrow or the environment has a say.

    By itself TensorFlow takes the kernels of oneDNN only on processors with AVX-512's VNNI or later instructions.
    Convolutions train faster with them on older processors, too (docs/performance.md). Narrow networks do not, because
    each call of such a kernel takes longer. TensorFlow reads the variable once, while it is imported.
    """
    if not narrow and platform.machine().lower() in ("x86_64", "amd64"):
        environment.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def choose_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have TensorFlow run as many operations at once as there are processors, each with one thread.

    With two processors this makes training on parts of batches faster, see `vae_tf.splitting`. With more it has not
    been measured, and nothing is set. Nor is anything set if the environment has one of the two variables already.
    """
    count = count_processors()
    if count == PROCESSORS and not any(environment.get(name) for name in TENSORFLOW_THREADS):
        environment.update(zip(TENSORFLOW_THREADS, ("1", str(count)), strict=True))


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_xla(environment: Mapping[str, str]) -> None:
    """Raise InputError if TensorFlow would abort at the variables of XLA.

    Each TensorFlow knows other flags, so a child process finds out, which takes as long as TensorFlow's import. Nothing
    is done where neither variable is set.
    """
    given = {name: environment[name] for name in XLA if environment.get(name)}
    if not given:
        return
    tried = subprocess.run([sys.executable, "-c", READ_XLA], env={**environment, "CUDA_VISIBLE_DEVICES": "-1"},
                           capture_output=True, text=True, errors="replace")
    aborted = re.search(rf"{XLA_READER}\S* (.*)", tried.stderr)
    if tried.returncode and aborted:
        raise InputError(f"{', '.join(given)}: expected flags that this TensorFlow knows and can read in this "
                         f"environment variable; got {' '.join(given.values())} ({aborted[1]})")


def _let_warnings_be_warnings(environment: MutableMapping[str, str]) -> None:
    """Take back `python -W error` and PYTHONWARNINGS=error: the libraries warn while they are imported."""
    warnings.filters[:] = [each for each in warnings.filters if each[0] != "error"]     # type: ignore[index]
    sys.warnoptions[:] = [each for each in sys.warnoptions if not each.startswith("e")]
    kept = [each for each in environment.get("PYTHONWARNINGS", "").split(",") if not each.strip().startswith("e")]
    if "PYTHONWARNINGS" in environment:
        environment["PYTHONWARNINGS"] = ",".join(kept)


def _is_whole(text: str, least: int) -> bool:
    text = text.strip()
    return text.isascii() and text.isdigit() and len(text) <= 4 and least <= int(text) <= MOST_THREADS
