"""Write the tables of docs/metrics.md from what metrics declare."""

import functools
import math
from collections.abc import Callable

from vae_tf import activity
from vae_tf.metrics.context import NEEDS
from vae_tf.metrics.registry import CHANGES, GROUPS, METRICS, Metric, list_names

COMMAND = "python -m vae_tf.metrics --page=docs/metrics.md"


def list_declarations(group: str) -> str:
    """Return the metrics that a flag asks for: what each says, needs and costs."""
    of_codes = group == "metrics"
    of_these = ["examples", "beside the score", "missing values"] if of_codes else []
    lines = [_write_row("metric", "what it says", "needs", *of_these, "cost")]
    lines.append("|---" * lines[0].count(" | ") + "|---|")
    for name in list_names(group):
        metric = METRICS[name]
        columns = ["15,000" if metric.takes_all_rows else "10,000", _describe_beside(metric),
                   _describe_missing(metric)] if of_codes else []
        names = " or ".join(f"`{each}`" for each in (name, *metric.also))
        lines.append(_write_row(names, metric.meaning, ", ".join(metric.needs), *columns, metric.cost))
    return "\n".join(lines)


def list_needs() -> str:
    """Return what metrics can look at."""
    return "\n".join(["| need | what a metric's function gets | flag |", "|---|---|---|",
                      *(_write_row(f"`{name}`", need.what, f"`--{need.group}`") for name, need in NEEDS.items())])


def list_active_rules() -> str:
    """Return the rules of `vae_tf.activity`, and the metrics that use them."""
    lines = ["| rule | latent j is active if | source | who uses it |", "|---|---|---|---|"]
    for name, rule in activity.RULES.items():
        users = [f"`{metric.name}`" for metric in METRICS.values() if metric.active == name]
        lines.append(_write_row(f"`{name}`", rule.condition, rule.source,
                                ", ".join([*filter(None, [rule.users]), *users])))
    return "\n".join(lines)


def list_invariances() -> str:
    """Return which changes leave a score as it is."""
    lines = [f"| metric | range | {' | '.join(CHANGES)} |", f"|---|---|{':-:|' * len(CHANGES)}"]
    for name in list_names("metrics"):
        metric = METRICS[name]
        if metric.range is None or metric.unchanged_by is None:
            continue
        low, high = metric.range
        upper = {math.inf: "∞)", math.log(20): "log 20]"}.get(high, f"{high}]")
        marks = {None: "-", "yes": "✓", "nearly": "≈", "no": ""}
        lines.append(f"| `{name}` | [{low}, {upper} | "
                     + " | ".join(marks[is_unchanged(metric, change)] for change in CHANGES) + " |")
    return "\n".join(lines)


def is_unchanged(metric: Metric, change: str) -> str | None:
    """Return whether a change leaves a score as it is: "yes", "nearly" or "no"; None where that is not declared.

    The means of a posterior cannot be warped alone, so that nothing is declared of warping a posterior.
    """
    if metric.unchanged_by is None or (change == "warping" and {"stddevs", "independent_stddevs"} & {*metric.needs}):
        return None
    return "yes" if change in metric.unchanged_by else "nearly" if change in metric.nearly_unchanged_by else "no"


def _describe_beside(metric: Metric) -> str:
    """Return what the table of scores shows beside a score."""
    interval = "no interval" if metric.extremes else "interval"
    return f"chance, {interval}" if metric.is_supervised else interval


def _describe_missing(metric: Metric) -> str:
    """Return which examples a metric uses where some lack the value of a factor."""
    if not metric.is_supervised:
        return "-"
    return "each factor's own examples" if metric.by_factor else "examples that lack none"


def _write_row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


TABLES: dict[str, Callable[[], str]] = {
    **{f"metrics of --{group}": functools.partial(list_declarations, group) for group in GROUPS},
    "needs": list_needs, "rules for active latents": list_active_rules, "invariances": list_invariances}


def write_mark(title: str, end: bool = False) -> str:
    """Return the mark at the start or the end of a table on a page."""
    return f"<!-- end of {title} -->" if end else f"<!-- {title}: {COMMAND} -->"


def list_tables(text: str) -> list[str]:
    """Return the titles of the tables whose marks a page has."""
    return [title for title in TABLES if write_mark(title, end=True) in text.partition(write_mark(title))[2]]


def update_tables(text: str) -> str:
    """Return the text of a page, its tables replaced by what follows from the declarations now."""
    for title in list_tables(text):
        start, end = write_mark(title), write_mark(title, end=True)
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{TABLES[title]()}\n{end}{rest.partition(end)[2]}"
    return text
