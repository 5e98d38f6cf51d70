"""The scores of an evaluation as rows of text, in groups, for the terminal and for the page."""

import dataclasses
from typing import NamedTuple

import numpy as np

from vae_tf import metrics
from vae_tf.errors import make_printable
from vae_tf.evaluation import BOUNDED, Evaluation
from vae_tf.report.numbers import format_number

SAME = "same at every x"
SAME_MEANING = "J is the same at every x, as that of a linear decoder; other seeds may give another score"
SAME_RATIO = 1e-5       # share of a score by which float32 rounding of equal Jacobians may differ between rows
BOUND, REGIME = "The bound on log p(x)", "polarised regime"
GROUPS = {"supervised": "Codes against factors", "codes": "Codes and posterior alone",
          "geometry": "The decoder around posterior means", "theory": "Held against closed forms"}


class Row(NamedTuple):
    """A score as text: its name, the number, its spread, the chance level, what it means; "" for what it lacks."""

    name: str
    score: str
    spread: str = ""
    chance: str = ""
    meaning: str = ""

    @property
    def numbers(self) -> str:
        """The score with its spread and chance level."""
        chance = f"chance {self.chance}" if self.chance else ""
        return " ".join(part for part in (self.score, self.spread, chance) if part)


def list_groups(evaluation: Evaluation) -> dict[str, list[Row]]:
    """Return {heading: rows} of all scores, those of the polarised regime last."""
    groups: dict[str, list[Row]] = {}
    for name, result in evaluation.results.items():
        groups.setdefault(find_group(name), []).append(make_row(evaluation, name, result))
    order = (BOUND, *GROUPS.values())
    groups = {heading: groups[heading] for heading in order if heading in groups}
    regime = [make_row(evaluation, name, result) for name, result in evaluation.polarised.items()]
    return {**groups, **({REGIME: regime} if regime else {})}


def gather_skipped(evaluation: Evaluation) -> dict[str, list[str]]:
    """Return {reason: names} of the scores that were left out."""
    reasons: dict[str, list[str]] = {}
    for name, why in {**evaluation.skipped, **evaluation.absent}.items():
        reasons.setdefault(make_printable(why), []).append(name)
    return reasons


def make_row(evaluation: Evaluation, name: str, result: metrics.Result) -> Row:
    """Return a score as text; one that means nothing for the model says why instead."""
    result = dataclasses.replace(result, meaning=make_printable(result.meaning))
    if why := evaluation.explain_no_meaning(name):
        return Row(name, "-", meaning=f"no meaning: {why}")
    if "standard_error" in result.parts:
        return _make_mean(name, result)
    score = f"{result.score:.4g}" if _has_units(evaluation, name) else format_number(result.score)
    spread = "[{:.3g}, {:.3g}]".format(*evaluation.interval[name]) if name in evaluation.interval else ""
    chance = format_number(evaluation.chance_level[name]) if name in evaluation.chance_level else ""
    return Row(name, score, spread, chance, result.meaning + _describe_bounded(result))


def _describe_bounded(result: metrics.Result) -> str:
    """Return what to add to the meaning of a score that may exceed 1: its part that may not, which answers take."""
    bounded, chance = (np.asarray(result.parts.get(name, ())) for name in (BOUNDED, f"{BOUNDED}_chance_level"))
    if bounded.ndim or bounded.dtype.kind not in "biuf" or not np.isfinite(bounded):     # of somebody's own metric
        return ""
    by_chance = "" if chance.ndim else f" (chance {format_number(float(chance))})"
    return f"; {format_number(float(bounded))}{by_chance} if it is kept within 0 and 1"


def _make_mean(name: str, result: metrics.Result) -> Row:
    """Return a score that is a mean over examples, with its standard error."""
    digits = 2 if abs(result.score) >= 10 else 4
    per_example = np.asarray(result.parts.get("per_example", ()))
    per_example = per_example[np.isfinite(per_example)]     # of dependent columns, `hadamard_gap` is infinite
    score = format_number(result.score, digits)
    if len(per_example) > 1 and np.ptp(per_example) <= SAME_RATIO * np.max(np.abs(per_example)):
        return Row(name, score, SAME, meaning=f"{result.meaning}; {SAME_MEANING}")
    error = float(result.parts["standard_error"])
    return Row(name, score, f"± {format_number(error, digits)} over x" if np.isfinite(error) else "",
               meaning=result.meaning)


def find_group(name: str) -> str:
    """Return the heading under which a score stands, but for those of the polarised regime."""
    metric = metrics.METRICS.get(name)
    if metric is None:
        return BOUND
    group = metric.group if metric.group != "metrics" else "supervised" if metric.is_supervised else "codes"
    return GROUPS[group]


def _has_units(evaluation: Evaluation, name: str) -> bool:
    """Return whether a score is a number of nats, of latents or the like, rather than a share."""
    metric = metrics.METRICS.get(name)
    of_codes_alone = metric is not None and metric.group == "metrics" and not metric.is_supervised
    return of_codes_alone or name in evaluation.polarised
