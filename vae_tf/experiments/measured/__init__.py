"""Experiments that train nothing: closed forms, and optima that are found without training a network.

Each is a function without arguments that a table names as `measure`. It returns what a result has as `metrics`:
`number` of what a table prints, by name, and `curve` of what a figure draws.
"""


def number(value):
    """A number as a result has it."""
    return {"score": float(value)}


def curve(x, y):
    """A curve as a result has it."""
    return {"x": [float(value) for value in x], "y": [float(value) for value in y]}
