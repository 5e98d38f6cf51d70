"""Decide what kind a factor is: as the owner of the data says, or else by the values of the factor."""

import contextlib
import contextvars
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from vae_tf.errors import InputError, join_names

KINDS = ("categorical", "ordinal", "cyclic", "continuous")
NAMES = contextvars.ContextVar[Sequence[str] | None]("NAMES", default=None)


@contextlib.contextmanager
def name_factors(names: Sequence[str] | None) -> Iterator[None]:
    """While entered, have messages call the columns of factors [N, K] by these K names; None leaves their numbers.

    Metrics are functions of arrays and do not get the names.
    """
    token = NAMES.set(names)
    try:
        yield
    finally:
        NAMES.reset(token)


def tell_factor(k: int) -> str:
    """Return what messages call a column of factors: its name, or its number, from 0."""
    names = NAMES.get()
    return str(k if names is None or k >= len(names) else names[k])


def tell_factors(chosen: np.ndarray) -> str:
    """Return what messages call the chosen columns of factors, bool [K]: their names, or a list of their numbers."""
    names, numbers = NAMES.get(), np.flatnonzero(chosen).tolist()
    return str(numbers) if names is None or len(names) != len(chosen) else join_names([names[k] for k in numbers])


def decide(factors: np.ndarray, kinds: Sequence[str] | str | None = None) -> tuple[str, ...]:
    """Decide the kind of each factor: a tuple of K names from KINDS.

    A "continuous" factor is regressed or put into bins. The values of the other kinds are classes; they differ in what
    order the classes have, which only `disentanglement_score` looks at. A factor without a named kind is
    "categorical" if its values are classes (see `find_discrete`), else "continuous".

    Args:
        factors: [N, K]; NaN stands for a value that is missing, and tells nothing of the kind.
        kinds: K names, or one name for all factors; None to decide by the values.

    Raises:
        InputError: no such kind, or another number of them than of factors.
    """
    if kinds is None:
        return tuple("categorical" if one else "continuous" for one in find_discrete(factors))
    if isinstance(kinds, str):
        kinds = (kinds,) * factors.shape[1]
    named = tuple(map(str, kinds)) if isinstance(kinds, list | tuple) or np.ndim(kinds) == 1 else (str(kinds),)
    if len(named) != factors.shape[1] or not set(named) <= set(KINDS):
        got = ", ".join(named) or "none"
        raise InputError(f"kinds: expected one of {', '.join(KINDS)} for each of {factors.shape[1]} factors; "
                         f"got {got if len(got) < 100 and got.isprintable() else type(kinds).__name__}")
    return named


def find_discrete(factors: np.ndarray) -> np.ndarray:
    """Return whether each factor [N, K] has classes as values, bool [K]; warn of floats that are taken for classes.

    Integers are classes. Floats are classes if all are whole numbers and they recur: labels are often stored that way.
    """
    if not np.issubdtype(factors.dtype, np.floating):
        return np.ones(factors.shape[1], bool)
    given = [column[~np.isnan(column)] for column in factors.T]
    classes = np.array([(column == np.rint(column)).all() and recurs(column) for column in given])
    unclear = classes & np.array([(column != column[:1]).any() for column in given])
    if unclear.any():
        warnings.warn(f"these factors are whole numbers that recur, stored as floats: {tell_factors(unclear)}. They "
                      "are taken for classes. If they are continuous, say so: kinds=, or factor_kinds in a file",
                      stacklevel=4)
    return classes


def recurs(column: np.ndarray) -> bool:
    """Return whether a value of a column [N] occurs twice on average, so that its class can be learned."""
    return len(np.unique(column)) <= max(len(column) / 2, 2)
