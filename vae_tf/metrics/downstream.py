"""Downstream accuracy: how well factors are predicted from all latents, from few labels and from many."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vae_tf import checks
from vae_tf.arguments import Bins, Seed
from vae_tf.errors import InputError
from vae_tf.kinds import decide
from vae_tf.metrics.importance import fit_boosted
from vae_tf.metrics.readout import fit_logistic
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows

SIZES = (10, 100, 1_000, 10_000)


@register(needs=("codes", "factors"), learns=True, cost="seconds", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "relabelling"),
          by_factor=True, meaning="accuracy of predicting factors from few labels by logistic regression")
def downstream_logistic(codes: np.ndarray, factors: np.ndarray, sizes: Sequence[int] = SIZES, bins: Bins = 20,
                        kinds: tuple[str, ...] | str | None = None, seed: Seed = 0,
                        score_alone: bool = False) -> Result:
    """Accuracy of logistic regression that predicts factors from all latents, learned from few labels.

    The test accuracy is averaged over factors (Locatello 2019, section 5.4), for each number of labels. The score is
    the average at the largest number of labels, in [0, 1]. It is 1 if every factor can be read off perfectly; chance
    is the share of the commonest class. The regularisation is sklearn's default, not chosen by cross-validation as in
    the paper, so the scale of the codes counts. A number of labels beyond the training rows is cut to the training
    rows. If all labels are of one class, that class is predicted. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K]; integers as classes, floats in `bins` equal-width bins.
        sizes: numbers of labels to learn from.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the labels drawn.
        score_alone: learn from the largest number of labels alone, which gives the score.

    Returns:
        Result; parts: labels [S], accuracy [S, K], mean_accuracy [S], efficiency (accuracy at 100 labels over that
        at 10,000, Locatello's statistical efficiency; NaN without both sizes), kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, sizes below 2, or no factor that varies.
    """
    return _measure("downstream_logistic", codes, factors, sizes, bins, kinds, seed, score_alone, fit_logistic)


@register(needs=("codes", "factors"), learns=True, cost="minutes", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "scale", "warping", "relabelling"),
          by_factor=True, meaning="accuracy of predicting factors from few labels by gradient boosted trees")
def downstream_gbt(codes: np.ndarray, factors: np.ndarray, sizes: Sequence[int] = SIZES, bins: Bins = 20,
                   kinds: tuple[str, ...] | str | None = None, seed: Seed = 0,
                   score_alone: bool = False) -> Result:
    """Accuracy of gradient boosted trees that predict factors from all latents, learned from few labels.

    This is `downstream_logistic` with sklearn's GradientBoostingClassifier at its defaults. It takes
    minutes at 10,000 labels, and the scale of codes does not matter.

    Args:
        codes: [N, d].
        factors: [N, K]; integers as classes, floats in `bins` equal-width bins.
        sizes: numbers of labels to learn from.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the labels drawn.
        score_alone: learn from the largest number of labels alone, which gives the score.

    Returns:
        Result; parts: labels [S], accuracy [S, K], mean_accuracy [S], efficiency (accuracy at 100 labels over that
        at 10,000, Locatello's statistical efficiency; NaN without both sizes), kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, sizes below 2, or no factor that varies.
    """
    return _measure("downstream_gbt", codes, factors, sizes, bins, kinds, seed, score_alone,
                    lambda z, v: fit_boosted(z, v, seed)[0])


def _measure(name: str, codes: np.ndarray, factors: np.ndarray, sizes: Sequence[int], bins: int,
             kinds: tuple[str, ...] | str | None, seed: int, score_alone: bool,
             fit: Callable[[np.ndarray, np.ndarray], Any]) -> Result:
    codes, factors = check_arrays(codes, factors)
    if not (isinstance(sizes, list | tuple) or np.ndim(sizes) == 1) or not len(sizes):
        raise InputError(f"sizes: expected numbers of labels, at least 2; got {checks.describe(sizes)}")
    sizes = [checks.check_whole("sizes", size, 2) for size in sizes]
    sizes = [max(sizes)] if score_alone else sizes
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying(name, v, train)
    accuracy = np.full((len(sizes), len(varies)), np.nan)
    for (s, size), k in ((s, k) for s in enumerate(sizes) for k in np.flatnonzero(varies)):
        rows = train[:size]
        constant = (v[rows, k] == v[rows[0], k]).all()
        predicted = v[rows[0], k] if constant else fit(codes[rows], v[rows, k]).predict(codes[test])
        accuracy[s, k] = np.mean(predicted == v[test, k])
    mean = np.nanmean(accuracy, axis=1)
    by_size = {size: of for size, of in zip(sizes, mean, strict=True) if size <= len(train)}
    efficiency = by_size[100] / by_size[10_000] if {100, 10_000} <= by_size.keys() else np.nan
    labels = np.minimum(sizes, len(train))
    by_number = dict(zip(labels, mean, strict=True))    # sizes coincide if there are fewer labels than asked for
    return Result(name, float(mean[np.argmax(sizes)]),
                  {"labels": labels, "accuracy": accuracy, "mean_accuracy": mean, "efficiency": np.array(efficiency),
                   "kinds": np.array(kinds)},
                  "accuracy at " + ", ".join(f"{n:,} labels {a:.3f}" for n, a in by_number.items()))
