"""Compute metrics on draws of the codes, in worker processes; what was computed before is taken from a file."""

import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from vae_tf import console, metrics, threads, workers
from vae_tf.errors import InputError
from vae_tf.evaluation.codes import Codes
from vae_tf.evaluation.intervals import Draw, list_draws
from vae_tf.evaluation.kept import Kept, Outcome
from vae_tf.evaluation.options import Options

AT_ONCE = 0.005         # seconds between two results that were both there before
Progress = Callable[[int, int], None]
KILLED = Outcome(InputError("its worker process was killed, and again when it was tried once more; memory may be "
                            "short: take fewer --examples or --jobs"), [], 0.0, 0)


def compute(names: Sequence[str], codes: Codes, asked: Options, kept: Kept, progress: Progress | None,
            meanwhile: Callable[[], None]) -> dict[str, dict[Draw, Outcome]]:
    """Compute each metric on each of its draws, in parallel, the slow ones first.

    What `kept` has is not computed again. A metric of which a worker process dies twice has an InputError for a result.
    `meanwhile` is called once, see `workers.run`.
    """
    declared = [metrics.METRICS[name] for name in names]
    draws = {metric.name: list_draws(metric, _count_rows(metric, codes, asked), asked.quick) for metric in declared}
    # All metrics of one draw, then those of the next, so that different metrics are computed side by side: processes
    # with the same metric would compete for the same resource, such as the memory's bandwidth.
    work = [(metric, draw) for metric in declared for draw in draws[metric.name]]
    work.sort(key=lambda task: (-metrics.COSTS.index(task[0].cost), draws[task[0].name].index(task[1])))
    outcomes: dict[str, dict[Draw, Outcome]] = {name: {} for name in names}
    left: dict[tuple, list[metrics.Metric]] = {}
    for metric, draw in work:
        if found := kept.find(metric.name, draw):
            outcomes[metric.name][draw] = found
        else:       # metrics of the posterior share its densities, and are computed together
            left.setdefault((draw, metric.name if "stddevs" not in metric.list_needs() else ""), []).append(metric)
    pieces = [(tuple(together), draw, codes, asked) for (draw, _), together in left.items()]
    if progress:        # the time left is reckoned from here, where the processes begin
        progress(sum(map(len, outcomes.values())), len(work))
    latest = time.monotonic()

    def go_on() -> None:
        nonlocal latest
        meanwhile()
        latest = time.monotonic()

    for i, found in workers.run(_measure_together, pieces, asked.jobs, go_on):
        was_there, latest = time.monotonic() - latest < AT_ONCE, time.monotonic()
        together, draw, *_ = pieces[i]
        for metric, outcome in zip(together, found or [KILLED] * len(together), strict=True):
            if found:
                kept.add(metric.name, draw, outcome)
            outcomes[metric.name][draw] = outcome
        done = sum(map(len, outcomes.values()))
        # What was done meanwhile comes all at once: the first of it alone would tell too long a time left.
        if progress and not (was_there and asked.jobs > 1 and done < len(work)):
            progress(done, len(work))
    return outcomes


def import_libraries() -> None:
    """Import in a worker process what metrics import when they are first computed; scikit-learn without pandas."""
    with console.import_without("pandas"):
        import sklearn.ensemble
        import sklearn.linear_model
        import sklearn.metrics
        import sklearn.neighbors  # noqa: F401


def _measure_together(together: Sequence[metrics.Metric], draw: Draw, codes: Codes, asked: Options) -> list[Outcome]:
    return [measure(metric, draw, codes, asked) for metric in together]


def _count_rows(metric: metrics.Metric, codes: Codes, asked: Options) -> int:
    """Return the number of rows that a metric looks at."""
    return len(codes.mean) if metric.takes_all_rows else min(len(codes.mean), asked.examples)


def measure(metric: metrics.Metric, draw: Draw, codes: Codes, asked: Options) -> Outcome:
    """Compute one metric on one draw of the codes."""
    import sklearn  # before its threads, and those of SciPy, are limited

    started = time.perf_counter()
    n = _count_rows(metric, codes, asked)
    codes = codes.take_rows(slice(n))
    rng = np.random.default_rng([asked.seed, 0 if isinstance(draw, str) else 1 + draw])
    if draw == "shuffled":
        codes = codes.take_rows(rng.permutation(n))._replace(factors=codes.factors)
    elif draw != "score":
        codes = codes.take_rows(np.sort(rng.permutation(n)[:n // 2]))
    result: metrics.Result | InputError
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # The worker processes use all processors; more threads would only wait. Metrics check their arrays, so that
            # scikit-learn need not look for NaN, which for small regressions takes a quarter of the time.
            with threads.limit_to_one(), sklearn.config_context(assume_finite=True):
                result = metric.measure(codes.make_context(asked.seed, asked.samples_per_value,
                                                             score_alone=draw != "score"))
        except InputError as error:
            result = error
    return Outcome(result, [str(w.message) for w in caught], time.perf_counter() - started, n)
