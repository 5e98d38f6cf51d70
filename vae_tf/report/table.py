"""Write the scores as text."""

import sys
import textwrap

import numpy as np

from vae_tf import metrics, verdicts
from vae_tf.evaluation import Evaluation

SPREADS = """\
± is the standard error of a mean over x, and [low, high] a 95 % interval from half-samples of x, for the score of \
this many x, its bias included: more x may score outside it. Both are of this one trained model: how far apart models \
of other seeds are, only other seeds tell (--compare)."""
SAME = "same at every x"
SAME_MEANING = "as a linear decoder's J is: there is no spread over x, and nothing is known of other seeds"
SAME_RATIO = 1e-5       # share of a score by which float32 rounding of equal Jacobians may differ between rows


def write_table(evaluation: Evaluation, width: int = 140) -> str:
    """Write the scores as text: first what the model is worth, then a line for each score with its meaning."""
    lines = []
    if evaluation.verdict is not None:
        lines += textwrap.wrap(verdicts.describe(evaluation.verdict), width, initial_indent="  ",
                               subsequent_indent="  ")
    lines += textwrap.wrap(SPREADS, width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([*lines, *_write_lines(evaluation, evaluation.results, evaluation.skipped, width),
                      "  polarised regime",
                      *_write_lines(evaluation, evaluation.polarised, evaluation.absent, width)])


def format_number(value: float, digits: int = 3) -> str:
    """Write a number with `digits` decimals, or with two significant digits where those would hide it."""
    return f"{value:.2g}" if 0 < abs(value) < 10.0 ** (1 - digits) else f"{value:.{digits}f}"


def _write_lines(evaluation: Evaluation, results: dict[str, metrics.Result], skipped: dict[str, str], width: int,
                 ) -> list[str]:
    lines = []
    for name, result in results.items():
        score, meaning = _score(evaluation, name, result)
        if why := evaluation.explain_no_meaning(name):
            score, meaning = "-", f"no meaning: {why}"
        head = f"  {name:<24} {score:<41}"
        lines += textwrap.wrap(meaning, width, initial_indent=head, subsequent_indent=" " * len(head))
    return lines + [f"  {name:<24} {'-':<41}not scored: {why}" for name, why in skipped.items()]


def _score(evaluation: Evaluation, name: str, result: metrics.Result) -> tuple[str, str]:
    """Return a score with its spread and chance level, and its meaning."""
    if "standard_error" in result.parts:
        digits = 2 if abs(result.score) >= 10 else 4
        per_example = result.parts.get("per_example", ())
        if len(per_example) > 1 and np.ptp(per_example) <= SAME_RATIO * np.max(np.abs(per_example)):
            return f"{format_number(result.score, digits)} {SAME}", f"{result.meaning}; {SAME_MEANING}"
        error = format_number(result.parts["standard_error"], digits)
        return f"{format_number(result.score, digits)} ± {error} over x", result.meaning
    score = f"{result.score:.4g}" if _has_units(evaluation, name) else format_number(result.score)
    if name in evaluation.interval:
        score += " [{:.3g}, {:.3g}]".format(*evaluation.interval[name])
    if name in evaluation.chance_level:
        score += f" chance {format_number(evaluation.chance_level[name])}"
    return score, result.meaning


def _has_units(evaluation: Evaluation, name: str) -> bool:
    """Return whether a score is a number of nats, of latents or the like, rather than a share."""
    metric = metrics.METRICS.get(name)
    of_codes_alone = metric is not None and metric.group == "metrics" and not metric.is_supervised
    return of_codes_alone or name in evaluation.polarised


def show_progress(done: int, total: int) -> None:
    """Show how far the metrics are, on a terminal's last line."""
    if sys.stderr.isatty():
        print(f"\r  scoring: {done} of {total}", end="\r\033[K" if done == total else "", file=sys.stderr, flush=True)
