"""Figures of many models: each function takes arrays and returns a Matplotlib figure, in the colours of `use_theme`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf.report.figures import WIDTH, draw_matrix, make_figure
from vae_tf.report.theme import MARKS, SERIES, shorten
from vae_tf.typing import ArrayLike

LONGEST = 60            # characters of a label


def plot_scatter(points: Mapping[str, tuple[ArrayLike, ArrayLike]], x_label: str, y_label: str) -> Any:
    """Plot one score of each model against another, a colour and a mark for each group.

    Args:
        points: {label of a group: (x [M], y [M])}, a number for each of its models.
        x_label: the name of the score along x, with its unit.
        y_label: the same along y.
    """
    figure = make_figure(WIDTH * 0.8, 3.4 + 0.17 * len(points))
    axis = figure.add_subplot()
    for i, (label, (x, y)) in enumerate(points.items()):
        axis.scatter(np.asarray(x, float), np.asarray(y, float), s=38, color=SERIES[i % len(SERIES)],
                     marker=MARKS[i % len(MARKS)], label=shorten(label, LONGEST))
    axis.set(xlabel=x_label, ylabel=y_label)
    axis.grid(linewidth=0.6)
    axis.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=_count_columns(points))
    return figure


def plot_sweep(panels: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]]], x_label: str) -> Any:
    """Plot how scores change with a setting: a panel for each score, a line for each series.

    Args:
        panels: {score: {label of a series: (x [P], means [P], spreads [P])}}; a spread is NaN where one model alone
            was trained. The spreads are drawn as bars.
        x_label: the name of the setting.
    """
    labels = list(dict.fromkeys(label for series in panels.values() for label in series))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = make_figure(WIDTH, 0.4 + 2.0 * rows + 0.17 * len(labels))
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(panels):]:
        axis.set_axis_off()
    for axis, (score, series) in zip(axes.flat, panels.items(), strict=False):
        for label, (x, means, spreads) in series.items():
            i = labels.index(label)
            axis.errorbar(np.asarray(x, float), np.asarray(means, float), np.nan_to_num(np.asarray(spreads, float)),
                          color=SERIES[i % len(SERIES)], marker=MARKS[i % len(MARKS)], markersize=5, linewidth=1.4,
                          capsize=3, label=shorten(label, LONGEST))
        axis.set_title(score)
        axis.grid(axis="y", linewidth=0.6)
        at = np.unique(np.concatenate([np.asarray(x, float) for x, _, _ in series.values()]))
        if at.min() > 0 and at.max() >= 8 * at.min():
            axis.set_xscale("log")
            # As plain numbers: powers of ten take mathematical type, which names of models must not be taken for.
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter(lambda value, _: "")
        if len(at) <= 8:
            axis.set_xticks(at, [f"{value:g}" for value in at])
            axis.minorticks_off()
    figure.supxlabel(x_label, fontsize=9)
    handles = {label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(),
                                                                            strict=True)}
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=_count_columns(handles))
    return figure


def _count_columns(labels: Iterable[str]) -> int:
    """Return how many labels of a legend have room beside each other."""
    return 1 if max(map(len, labels), default=0) > 28 else 2


def plot_rank_correlations(correlations: ArrayLike, names: Sequence[str]) -> Any:
    """Plot the rank correlation of each pair of scores as a matrix.

    Args:
        correlations: [K, K], from -1 to 1; NaN where there is none.
        names: the names of the scores, K.
    """
    correlations = np.asarray(correlations, float)
    side = min(WIDTH - 1.0, 2.4 + 0.42 * len(names))
    figure = make_figure(side + 1.0, side)
    axis = figure.add_subplot()
    draw_matrix(figure, axis, correlations, "Spearman's rank correlation over models", low=-1)
    axis.set_xticks(range(len(names)), [str(name)[:24] for name in names], rotation=60, ha="right",
                    rotation_mode="anchor")
    axis.set_yticks(range(len(names)), [str(name)[:24] for name in names])
    return figure


def correlate_ranks(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> np.ndarray:
    """Return Spearman's rank correlation of each pair of scores over models, [K, K].

    A pair is correlated over the models that have both scores; it is NaN for fewer than three models, or if one of the
    scores is the same for all.

    Args:
        rows: the scores of each model by name, see `results_frame`.
        names: the names of K scores.
    """
    from scipy.stats import rankdata

    values = np.array([[np.nan if row.get(name) is None else row[name] for name in names] for row in rows], float)
    found = np.full((len(names), len(names)), np.nan)
    for i in range(len(names)):
        for j in range(len(names)):
            both = values[np.isfinite(values[:, [i, j]]).all(1)][:, [i, j]]
            if len(both) > 2 and (np.ptp(both, 0) > 0).all():
                found[i, j] = np.corrcoef(rankdata(both, axis=0).T)[0, 1]
    return found
