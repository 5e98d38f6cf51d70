"""The interval of a score: how far the score would vary over other examples."""

from collections.abc import Sequence

import numpy as np
import scipy

from vae_tf import metrics

RESAMPLES, SLOW_RESAMPLES = 20, 5
FEWEST_FOR_INTERVAL = 40        # least number of rows: a half of fewer rows is too small to be split again

# A draw of the examples that a metric is computed on: "score", "shuffled", or the number of a half-sample.
Draw = str | int


def estimate_interval(score: float, halves: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Compute a bootstrap interval from scores of half-samples: score -+ t sd(halves).

    t is Student's, with as many degrees of freedom as there are halves, less one.

    A half-sample is half of the rows, drawn without replacement. Given the data, the variance of a mean over m of N
    rows is (1/m - 1/N) times that of one row: at m = N/2 exactly 1/N, so half-samples spread as the score at N does
    (Efron's delete-half jackknife; Politis, Romano 1994). Rows drawn with replacement would not do here:
    copies of one row in the training and the test part let a metric cheat, and histograms take repeated rows for
    information. Only the spread of the half-samples counts and not their mean, whose bias is that of N/2 rows.

    The interval is of what the metric gives on average for N rows, its bias at N included, and not of its limit for
    ever more rows. Where the bias exceeds the spread, as that of mutual information from histograms does by far, it
    never covers the limit.
    """
    reach = scipy.stats.t.ppf((1 + level) / 2, len(halves) - 1) * np.std(halves, ddof=1)
    return score - reach, score + reach


def list_draws(metric: metrics.Metric, rows: int, quick: bool) -> list[Draw]:
    """List what a metric is computed on: all rows, shuffled codes if it looks at factors, half-samples 0, 1, ..."""
    usual, slow = (SLOW_RESAMPLES, 0) if quick else (RESAMPLES, SLOW_RESAMPLES)
    resamples = usual if metric.cost == "cheap" else slow
    return ["score", *(["shuffled"] if metric.is_supervised else []),
            *(range(resamples) if rows >= FEWEST_FOR_INTERVAL and not metric.extremes else [])]
