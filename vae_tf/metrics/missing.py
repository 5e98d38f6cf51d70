"""Measure metrics of factors where some examples lack the value of a factor, which is NaN.

A metric that declares `by_factor` is the mean of the scores of single factors, so each factor is scored by the examples
that have its value. All other metrics look at several factors at once, and use the examples that have all values.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vae_tf import kinds as factor_kinds
from vae_tf.errors import InputError
from vae_tf.metrics.context import Context
from vae_tf.metrics.result import Result
from vae_tf.metrics.splitting import FEWEST_ROWS

Measure = Callable[[Context], Result]
FILLED = {"f": np.nan, "i": -1}         # what parts hold for a factor that has no score, by the kind of their numbers


def find_missing(factors: np.ndarray | None) -> np.ndarray | None:
    """Return which values of factors [N, K] are missing, bool [N, K]; None if no value is, or there are no factors."""
    if factors is None or np.ndim(factors) != 2 or np.asarray(factors).dtype.kind != "f":
        return None
    missing = np.isnan(factors)
    return missing if missing.any() else None


def measure(name: str, function: Measure, by_factor: bool, context: Context, missing: np.ndarray) -> Result:
    """Compute a metric from the examples that have the values it needs.

    Args:
        name: the name of the metric, for errors.
        function: computes the metric of a Context in which no value is missing.
        by_factor: whether the score is the mean of the scores of single factors.
        context: its factors have missing values.
        missing: which ones, see `find_missing`.

    Returns:
        Result whose meaning says how many examples were used; parts: also `used`, their number, by factor [K] if the
        metric is by factor. By factor, the last axis of every other part is that of the factors, a part that is a
        single number is the mean of theirs, and what is no array for all of them is a list.

    Raises:
        InputError: too few examples have the values.
    """
    kinds = factor_kinds.decide(context.factors, context.kinds)         # type: ignore[arg-type]
    context = dataclasses.replace(context, kinds=kinds)
    if by_factor:
        with factor_kinds.name_factors(context.factor_names):
            return _measure_by_factor(name, function, context, missing)
    complete = np.flatnonzero(~missing.any(1))
    if not len(complete):
        raise InputError(f"factors: {name} expects examples that have a value of every factor; got {len(missing):,} "
                         "that lack one; name fewer factors")
    result = function(context.take(complete))
    return dataclasses.replace(
        result, parts={**result.parts, "used": np.array(len(complete))},
        meaning=f"{result.meaning} (of the {len(complete):,} of {len(missing):,} examples that lack no factor)")


def _measure_by_factor(name: str, function: Measure, context: Context, missing: np.ndarray) -> Result:
    used = (~missing).sum(0)
    why = few = InputError(f"factors: {name} expects at least {FEWEST_ROWS} examples that have a value of a factor; "
                           "got fewer")
    found: list[Result | None] = []
    for k in range(len(used)):
        try:
            if used[k] < FEWEST_ROWS:
                raise few
            found.append(function(context.take(np.flatnonzero(~missing[:, k]), [k])))
        except InputError as error:
            why = error
            found.append(None)
            warnings.warn(f"{name} leaves out factor {factor_kinds.tell_factor(k)}, of which {used[k]:,} of "
                          f"{len(missing):,} examples have a value: {error}", stacklevel=4)
    scored = [result for result in found if result is not None]
    if not scored:
        raise why
    meanings = {result.meaning for result in scored}
    counts = [count for count, result in zip(used, found, strict=True) if result is not None]
    parts = {part: _join([None if result is None else np.asarray(result.parts[part]) for result in found])
             for part in scored[0].parts}
    return Result(scored[0].name, float(np.mean([result.score for result in scored])), {**parts, "used": used},
                  f"{meanings.pop() if len(meanings) == 1 else scored[0].name} (each factor of its own {min(counts):,} "
                  f"to {max(counts):,} of {len(missing):,} examples)")


def _join(parts: Sequence[np.ndarray | None]) -> Any:
    """Return one array of the parts of all factors; None stands for a factor that has no score.

    Texts, and parts whose shapes differ between factors, become a list with an entry for each factor.
    """
    scored = [part for part in parts if part is not None]
    like = scored[0]
    if like.ndim == 0 and like.dtype.kind in "fiub":
        return np.array(np.nan if np.isnan(scored).all() else np.nanmean(scored))
    if like.ndim == 0 or any(part.shape != like.shape for part in scored):
        return [None if part is None else part.tolist() for part in parts]
    filled = [np.full_like(like, FILLED.get(like.dtype.kind, "")) if part is None else part for part in parts]
    return np.concatenate(filled, -1) if like.shape[-1] == 1 else np.stack(filled, -1)
