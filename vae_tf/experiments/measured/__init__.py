"""Experiments that train nothing: closed forms, and optima that are found without training a network.

Each is a function without arguments that a table names as `measure`. It returns what a result has as `metrics`:
`number` of what a table prints, by name, and `curve` of what a figure draws.
"""

import hashlib
import importlib
import importlib.metadata
import inspect
import pathlib
import platform
import time

from vae_tf.experiments import results


def run(table):
    """Measure a table that trains nothing; returns a result, see `results`.

    Args:
        table: tables.Table with a `measure`.
    """
    module, name = table.measure.split(":")
    function = getattr(importlib.import_module(module), name)
    started = time.perf_counter()
    metrics = function()
    return {"experiment": table.name, "source": source(table), "numerics": results.NUMERICS,
            "versions": {"python": platform.python_version(), **{package: importlib.metadata.version(package)
                                                                 for package in ("vae_tf", "numpy", "scipy")}},
            "machine": platform.machine(), "seconds": {"training": 0, "scoring": time.perf_counter() - started},
            "metrics": metrics}


def source(table):
    """A digest of the file that measures a table: a result of another one is measured anew."""
    module = importlib.import_module(table.measure.split(":")[0])
    return hashlib.sha256(pathlib.Path(inspect.getfile(module)).read_bytes()).hexdigest()


def number(value):
    """A number as a result has it."""
    return {"score": float(value)}


def curve(x, y):
    """A curve as a result has it."""
    return {"x": [float(value) for value in x], "y": [float(value) for value in y]}
