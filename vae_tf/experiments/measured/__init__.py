"""Experiments that train nothing: closed forms, and optima that are found without training a network.

Each experiment is a function without arguments, which a table names as `measure`. It returns the `metrics` of a result,
by name: a `number` for what a table prints, and a `curve` for what a figure draws.
"""

from collections.abc import Iterable

import numpy as np


def number(value: float | np.floating) -> dict[str, float]:
    """Write a number as a result holds it."""
    return {"score": float(value)}


def curve(x: Iterable[float | np.floating], y: Iterable[float | np.floating]) -> dict[str, list[float]]:
    """Write a curve as a result holds it."""
    return {"x": [float(value) for value in x], "y": [float(value) for value in y]}
