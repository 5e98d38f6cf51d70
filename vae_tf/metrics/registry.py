"""The registry of metrics: `register` declares beside a function what the metric needs, whether it learns, its cost.

The table of scores, the choice of rows, intervals, chance levels, the flags' help, the documentation and the tests of
properties all follow from these declarations. A metric from outside the package is declared in the same way:

    from vae_tf import metrics

    @metrics.register(needs=("codes", "factors"), meaning="the share of factors that ...")
    def my_metric(codes, factors):
        return metrics.Result("my_metric", score, {"parts": arrays}, "0: ...; 1: ...")
"""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vae_tf import activity, arguments, checks
from vae_tf import kinds as factor_kinds
from vae_tf.errors import InputError
from vae_tf.metrics import missing
from vae_tf.metrics.context import NEEDS, OPTIONS, Context
from vae_tf.metrics.result import Result

# The flags of evaluate.py that ask for metrics, and what the metrics of each flag look at.
GROUPS = {"metrics": "codes, factors and the posterior", "geometry": "the decoder around posterior means",
          "theory": "the model, held against closed forms"}
MOST_CHOICES = 20        # names that an error lists
COSTS = ("cheap", "seconds", "minutes")     # time at 10,000 examples; for "geometry" and "theory", at 200
CHANGES = ("permutation", "sign", "scale", "warping", "relabelling")

# States of a model (verdicts.Verdict) for which a score means nothing.
ANY_MODEL: tuple[str, ...] = ()
NOT_IF_DEAD = ("dead",)
NOT_IF_COLLAPSED = ("dead", "nearly dead")
NOT_OF_ONE_LATENT = ("dead", "nearly dead", "one latent")


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric and its declaration; `register` describes the fields. Calling a Metric calls its function."""

    name: str
    function: Callable[..., Result]
    needs: tuple[str, ...]
    meaning: str
    learns: bool = False
    extremes: bool = False
    cost: str = "cheap"
    no_meaning_for: tuple[str, ...] = NOT_IF_COLLAPSED
    active: str | None = None
    range: tuple[float, float] | None = None
    unchanged_by: tuple[str, ...] | None = None
    nearly_unchanged_by: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    by_factor: bool = False

    def __call__(self, *args: Any, **options: Any) -> Result:
        return self.function(*args, **options)

    @property
    def group(self) -> str:
        """The flag of evaluate.py that asks for the metric: the last of GROUPS to which one of its needs belongs."""
        return max((NEEDS[need].group for need in self.needs), key=list(GROUPS).index)

    @property
    def is_own(self) -> bool:
        """Whether the metric is one of this package."""
        return self.function.__module__.startswith("vae_tf.")

    @property
    def options(self) -> tuple[str, ...]:
        """The OPTIONS that the metric's function takes."""
        return tuple(name for name in OPTIONS if name in inspect.signature(self.function).parameters)

    @property
    def is_supervised(self) -> bool:
        """Whether the metric looks at factors, so that shuffled codes give its chance level."""
        return bool({"factors", "sampler"} & {*self.needs})

    @property
    def takes_all_rows(self) -> bool:
        """Whether the metric gets half as many examples again, because it is tested on new rows, or has a sampler."""
        return self.learns or "sampler" in self.needs

    def list_needs(self) -> set[str]:
        """Return the names of all that the metric looks at, and of what these come from."""
        return {part for need in self.needs for part in (need, *NEEDS[need].after)}

    def explain_lack(self, context: Context) -> str | None:
        """Return why a need of the metric cannot be met, or None."""
        return context.explain_lack(self.needs)

    def list_lacks(self) -> set[str]:
        """Return all reasons that `explain_lack` may give, whatever the context."""
        nothing = Context(np.empty((0, 0)), independent=False)
        return {why for need in self.list_needs() if (why := NEEDS[need].lacking(nothing))}

    def measure(self, context: Context) -> Result:
        """Compute the metric of what a `Context` holds; its factors may have missing values, see `missing`.

        Raises:
            InputError: what it needs is not there, or its function cannot make a score of it. An error of a function
                from outside of this package becomes one; others of the package's own functions are bugs.
        """
        if why := self.explain_lack(context):
            raise InputError(why)
        lacking = missing.find_missing(context.factors) if self.is_supervised else None
        if lacking is not None:
            return missing.measure(self.name, self._measure, self.by_factor, context, lacking)
        return self._measure(context)

    def _measure(self, context: Context) -> Result:
        needed, options = [*map(context.value, self.needs)], context.options(self.options)
        try:
            with factor_kinds.name_factors(context.factor_names):
                result = self.function(*needed, **options)
        except Exception as error:
            if self.is_own or isinstance(error, InputError):
                raise
            raise InputError(f"{self.name} failed ({type(error).__name__}: {error})") from error
        if not isinstance(result, Result):
            raise InputError(f"{self.name}: expected a metric that returns a metrics.Result; "
                             f"got {type(result).__name__}")
        try:
            score = np.asarray(result.score)        # of a tensor, too
        except ValueError:      # rows of unequal length
            score = np.empty(0)
        if score.ndim or score.dtype.kind not in "biuf" or np.isnan(score):
            raise InputError(f"{self.name}: expected a score that is a number; got {checks.describe(result.score)}")
        wrong = ({name: part for name, part in result.parts.items() if not _is_plain({name: part})}
                 if isinstance(result.parts, dict) else result.parts)
        if wrong != {}:
            raise InputError(f"{self.name}: expected a dict of parts that are numbers, texts, arrays or lists of them; "
                             f"got {checks.describe(wrong)}")
        return dataclasses.replace(result, name=self.name, score=float(score))


def _is_plain(part: Any) -> bool:
    """Return whether JSON can hold a part of a Result, once its arrays are lists."""
    if isinstance(part, dict):
        return all(isinstance(key, str | int) and _is_plain(each) for key, each in part.items())
    if isinstance(part, list | tuple):
        return all(map(_is_plain, part))
    if isinstance(part, np.ndarray | np.generic):
        return part.dtype.kind in "biufU" or (part.dtype == object and _is_plain(part.tolist()))
    return part is None or isinstance(part, str | int | float)


METRICS: dict[str, Metric] = {}


def register(*, needs: tuple[str, ...], meaning: str, name: str | None = None, learns: bool = False,
             extremes: bool = False, cost: str = "cheap", no_meaning_for: tuple[str, ...] = NOT_IF_COLLAPSED,
             active: str | None = None, range: tuple[float, float] | None = None,
             unchanged_by: tuple[str, ...] | None = None, nearly_unchanged_by: tuple[str, ...] = (),
             also: tuple[str, ...] = (), by_factor: bool = False,
             ) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declare a metric: a decorator of its function, whose calls it has checked by `vae_tf.arguments`.

    The function is called with the values of its needs, in their order. Keyword arguments of these names are filled in
    too, if the function has them: kinds (of the factors), prior_means and prior_stddevs (of a learned prior),
    samples_per_value, score_alone and seed.

    Args:
        needs: names of context.NEEDS. The values are its positional arguments; they decide which flag asks for it.
        meaning: what the score says, in a line of the documentation; `Result.meaning` says it of one score.
        name: the metric's name in flags, tables and files; the function's name by default.
        learns: it learns from some rows and is tested on others, so it gets half as many rows again.
        extremes: its score rests on the most extreme rows. What the extremes of other rows would be, no resampling of
            these rows tells, so it has no interval.
        cost: a name of COSTS. "seconds" leaves it fewer resamples; "minutes" leaves it out of the default, too.
        no_meaning_for: the states of a model in which the score means nothing.
        active: the rule of `vae_tf.activity` by which it calls latents active, if it does.
        range: the least and the largest score.
        unchanged_by: those of CHANGES, to the codes or the factors, that leave the score as it is; None says nothing.
        nearly_unchanged_by: those that leave it but for ties, a solver's tolerance or Monte Carlo noise.
        also: other names under which people know the metric. They ask for it, and the score has its own name.
        by_factor: its score is the mean of what it gives for each factor alone. Where a factor lacks values, it is then
            measured of the examples that have them, factor by factor; any other metric, of those that have all.

    Raises:
        InputError: a name that is taken or cannot be a flag's value, or arguments other than these. Calls of the
            function raise it for arguments that their annotations do not allow, and for a score that is NaN.
    """
    for argument, given, known in (("needs", needs, NEEDS), ("cost", (cost,), COSTS),
                                   ("no_meaning_for", no_meaning_for, NOT_OF_ONE_LATENT),
                                   ("unchanged_by", unchanged_by or (), CHANGES),
                                   ("nearly_unchanged_by", nearly_unchanged_by, CHANGES)):
        _refuse_text(argument, given)
        for each in given:
            if each not in known:
                raise InputError(f"{argument}: expected names of {', '.join(known)}; got {each!r}")
    _refuse_text("also", also)
    if active is not None and active not in activity.RULES:
        raise InputError(f"active: expected one of {', '.join(activity.RULES)}, or None; got {active!r}")
    if not needs:
        raise InputError("needs: expected the name of something to look at; got none")

    def declare(function: Callable[..., Result]) -> Callable[..., Result]:
        function = arguments.check(function)
        metric = Metric(name or function.__name__, function, needs, meaning, learns, extremes, cost, no_meaning_for,
                        active, range, unchanged_by, nearly_unchanged_by, also, by_factor)
        _add(metric)
        return function

    return declare


def _refuse_text(argument: str, given: Any) -> None:
    """Raise InputError for a text in the place of several, whose letters would be taken for names."""
    if isinstance(given, str):
        raise InputError(f"{argument}: expected a tuple of names; got a text, {given!r}")


def _add(metric: Metric) -> None:
    for name in (metric.name, *metric.also):
        if not name.isidentifier() or name in ("default", "all"):
            raise InputError(f"name: expected letters, digits and underscores, neither default nor all; got {name!r}")
        there = METRICS.get(find_name(name))
        if there and _find_place(there.function) != _find_place(metric.function):   # a reloaded module registers again
            raise InputError(f"name: expected a name that no metric has; got {name}, which "
                             f"{there.function.__module__} has declared")
    METRICS[metric.name] = metric


def _find_place(function: Callable) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def find_name(name: str) -> str:
    """Return the name in METRICS of the metric that has this name or is also known by it; any other name as it is."""
    if name in METRICS:
        return name
    return next((metric.name for metric in METRICS.values() if name in metric.also), name)


def list_names(group: str | None = None) -> tuple[str, ...]:
    """Return the names of all metrics, or of those that a flag of evaluate.py asks for."""
    return tuple(name for name, metric in METRICS.items() if group in (None, metric.group))


def list_default_names(group: str = "metrics") -> tuple[str, ...]:
    """Return the names of a group's metrics that do not take minutes."""
    return tuple(name for name in list_names(group) if METRICS[name].cost != "minutes")


def check_names(given: Iterable[str], group: str | None = None) -> None:
    """Raise InputError for names that no metric has, or none of this group."""
    known = list_names(group)
    for name in given:
        if find_name(name) not in known:
            near = difflib.get_close_matches(str(name)[:50], known, MOST_CHOICES, 0)
            choices = ", ".join(known if len(known) <= MOST_CHOICES else [*near, "and more (vae-tf metrics lists all)"])
            raise InputError(f"{group or 'metrics'}: expected names of {choices}; got {name!r}")


def measure(given: Iterable[str], context: Context, progress: Callable[[int, int], None] | None = None,
            finished: Callable[[str, Result], None] = lambda name, result: None,
            ) -> tuple[dict[str, Result], dict[str, str]]:
    """Compute metrics of what a `Context` holds.

    Args:
        given: names of METRICS, or other names of the same metrics.
        context: what there is; what metrics share is computed in it once.
        progress: called with (done, total) now and then, in examples looked at.
        finished: called with each name and its Result as soon as it is there.

    Returns:
        Results by name, and by name why a metric could not be computed.

    Raises:
        InputError: a name that no metric has.
    """
    given = tuple(map(find_name, given))
    check_names(given)
    needed = {need for name in given if not METRICS[name].explain_lack(context) for each in METRICS[name].needs
              for need in (each, *NEEDS[each].after) if NEEDS[need].is_long} - {*context.computed}

    def report(done: int) -> None:
        if progress is not None:
            progress(len(needed & {*context.computed}) * len(context.codes) + done, len(needed) * len(context.codes))

    context.report = report
    results, skipped = {}, {}
    for name in given:
        try:
            results[name] = METRICS[name].measure(context)
            finished(name, results[name])
        except InputError as error:
            skipped[name] = str(error)
    return results, skipped

