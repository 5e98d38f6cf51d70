"""The figures of docs/results.md, drawn as the tables describe them. The same results give the same bytes."""

import dataclasses
import math
import pathlib
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vae_tf import files, metrics
from vae_tf.errors import InputError
from vae_tf.experiments import recipes, tables
from vae_tf.experiments.summaries import Summary, describe_set_length, is_shortened

# Okabe and Ito's colours, which people of every kind of colour vision tell apart; markers tell series apart in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
STYLE: Any = {
    "svg.hashsalt": "vae_tf", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.edgecolor": "#555555", "axes.titlesize": 10,
    "legend.frameon": False, "figure.facecolor": "white", "savefig.facecolor": "white", "lines.linewidth": 1.6}
PANEL = 3.3, 2.6        # inches
ACROSS = 3              # panels in a row, at most; but four fit
PICTURES = ("histograms", "points")
PRINTED = "printed in the paper"

Points = dict[str, Any]             # of a cell: "x", "y", and perhaps "printed" and "name"; see series_of
Series = dict[str, list[Points]]    # by label
Looks = dict[str, dict[str, str]]   # by label, the "color" and the "marker"


def draw(summary: Summary, folder: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Draw each figure of a table of which something is measured; return (title, file) of each."""
    drawn = []
    for i, figure in enumerate(summary.table.figures):
        name = summary.table.name + (f"-{i + 1}" if len(summary.table.figures) > 1 else "")
        found = collect_pictures(summary, figure) if figure.kind in PICTURES else [
            (summary.table.metrics[y], series) for y in figure.y if (series := collect_series(summary, figure, y))]
        if found and (figure.kind != "scatter" or _count_points(found) > 1):
            alone = figure.kind not in PICTURES and len({_group(cell, figure.series)
                                                         for cell in summary.table.cells}) == 1
            title = figure.title or summary.table.title
            if alone or figure.kind in PICTURES:        # otherwise each series, or each group of bars, has its length
                title = ", ".join([title, *filter(None, [_describe_shortened(summary, summary.table.cells)])])
            drawn.append((title, folder / f"{name}.svg"))
            _save(figure, found, summary.table, alone, *drawn[-1])
    return drawn


def _count_points(panels: Sequence[tuple[tables.Metric, Series]]) -> int:
    """Return how many points the panel that has most of them shows."""
    return max(sum(len(point["x"]) for points in series.values() for point in points) for _, series in panels)


def _describe_shortened(summary: Summary, cells: Iterable[tables.Cell]) -> str:
    """Say for how long those of some cells were trained that were shortened; "" if none was."""
    trained = [cell for cell in cells if summary.find_share(cell) is not None]
    lengths = {describe_set_length(summary, cell) for cell in trained if is_shortened(summary, cell)}
    if not lengths:
        return ""
    alike = len(lengths) == 1 and all(is_shortened(summary, cell) for cell in trained)
    return lengths.pop() if alike else "some shortened"


def _save(figure: tables.Figure, panels: Sequence[tuple[tables.Metric, Series]], table: tables.Table, alone: bool,
          title: str, path: pathlib.Path) -> None:
    """Draw one figure, a panel for each (metric, series). A series that is alone in its table gets no legend."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    across = 2 if figure.kind == "bars" else 4 if len(panels) == 4 else ACROSS
    across = min(across, len(panels))
    down = math.ceil(len(panels) / across)
    labels = list(dict.fromkeys(label for _, series in panels for label in series))
    looks = {label: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
             for i, label in enumerate(labels)}
    with plt.rc_context(STYLE):
        wide = 1.6 if figure.kind == "bars" else 1
        size = max(PANEL[0] * across * wide, 4.6), PANEL[1] * down + 0.7 + 0.15 * len(labels)
        page, axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
        for axis, (metric, series) in zip(axes.flat, panels, strict=False):
            KINDS[figure.kind](axis, series, looks)
            axis.set_title(textwrap.fill(metric.label, 42), loc="left")
            # Setting a linear scale again would remove the ticks of bars, so only logarithmic scales are set.
            axis.set(**{name: "log" for name, log in (("xscale", figure.log_x), ("yscale", figure.log_y)) if log})
            if figure.kind != "bars":
                axis.set_xlabel(_name_axis(table, figure.x))
            if len(labels) == 1 and figure.kind == "lines":
                _draw_best(axis, next(iter(series.values())), metric.better)
        for axis in axes.flat[len(panels):]:
            axis.set_axis_off()
        if figure.kind == "lines" and figure.x not in table.metrics:        # all panels are over the same settings
            _share_x(list(axes.flat[:len(panels)]))
        page.suptitle(textwrap.fill(title, round(11 * size[0])), fontsize=11, weight="bold")
        _draw_legend(page, axes.flat, () if alone else labels, size[0], 5 if figure.kind == "points" else 1)
        # Without a date, and with ids that do not depend on chance, the file is the same each time.
        files.write_whole(path, lambda file: page.savefig(file, format="svg", dpi=120, metadata={"Date": None}))
        plt.close(page)


def _share_x(axes: Sequence[Any]) -> None:
    ends = [axis.get_xlim() for axis in axes]
    for axis in axes:
        axis.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))


def _draw_best(axis: Any, points: Iterable[Points], better: str) -> None:
    """Draw a dotted line where a curve is best, unless that is at one of its ends."""
    for point in points if better != "neither" else ():
        curves = map(_leave_out_gaps, point["x"], point["y"]) if isinstance(point["y"][0], list) else ()
        for x, y in curves:
            if y and 0 < (at := y.index(max(y) if better == "higher" else min(y))) < len(y) - 1:
                axis.axvline(x[at], color="#555555", linestyle=":", linewidth=1.2)
                high = better == "lower"            # the label stands where the curve is not
                axis.annotate(f"{x[at]:.3g}", (x[at], int(high)), (3, -2 if high else 2), textcoords="offset points",
                              xycoords=("data", "axes fraction"), va="top" if high else "bottom", fontsize=8,
                              color="#555555")


def _draw_legend(page: Any, axes: Iterable[Any], labels: Iterable[str], width: float, scale: float) -> None:
    """Draw the legend of `labels` and of printed numbers below all panels, which are `width` inches wide.

    Its marks are `scale` times as large as those in the panels.
    """
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    shown = [label for label in (*labels, PRINTED) if label in handles]
    if shown:
        fits = max(1, int(13 * width / (max(map(len, shown)) + 7)))
        page.legend([handles[label] for label in shown], shown, loc="outside lower center",
                    ncols=min(fits, len(shown)), fontsize=8, markerscale=scale)


def _name_axis(table: tables.Table, name: str) -> str:
    return table.metrics[name].label if name in table.metrics else name


def collect_series(summary: Summary, figure: tables.Figure, y: str) -> Series:
    """Return {label: points} for one panel, with one point for each cell.

    A label says for how long its models were trained if that was shortened; in a bar chart the names below the bars do.
    A point is a dict. Its x and y are lists of the same length, with an entry for each seed: a number, or a curve. In a
    bar chart x is the position of the bars and `name` the label below them. printed is (x, y, spread) as far as the
    paper prints them, else None. limits are the least and the largest y that there can be.
    """
    cells = [cell for cell in summary.table.cells if summary.get_number(cell, y).values]
    numbers = figure.kind in ("scatter", "bars") or figure.x not in summary.table.metrics
    for cell in cells if numbers else ():
        _check_values(summary, figure, cell, y, "a number", lambda value: isinstance(value, int | float))
    other, limits = "column" if figure.series == "row" else "row", _find_limits(summary.table.metrics[y])
    names = list(dict.fromkeys(_group(cell, other) for cell in cells))
    series: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        name, label = _group(cell, other), _group(cell, figure.series)
        shortened = _describe_shortened(summary, [each for each in cells if name == _group(each, other)]
                                        if figure.kind == "bars" else
                                        [each for each in cells if label == _group(each, figure.series)])
        if figure.kind != "bars" and figure.x in summary.table.metrics:
            xs, ys = summary.list_pairs(cell, figure.x, y)
        else:
            ys = list(summary.get_number(cell, y).values)
            xs = [names.index(name) if figure.kind == "bars" else _read_flag(cell, figure.x)] * len(ys)
        if xs:
            printed = (cell.printed.get(figure.x, (xs[0], None))[0], *cell.printed[y]) if y in cell.printed else None
            if figure.kind == "scatter" and figure.x not in cell.printed:
                printed = None
            below = "\n".join(filter(None, [name, shortened]))
            label += f" ({shortened})" if shortened and figure.kind != "bars" else ""
            series.setdefault(label, []).append({"x": xs, "y": ys, "printed": printed, "name": below, "limits": limits})
    return series


def _find_limits(metric: tables.Metric) -> tuple[float, float]:
    """Return the least and the largest number that a metric can be."""
    section, name, *part = f"{metric.read}...".split(".")[:3]
    known = metrics.METRICS.get(name) if section == "metrics" and part == ["score"] else None
    return known.range if known and known.range else (-math.inf, math.inf)


def collect_pictures(summary: Summary, figure: tables.Figure) -> list[tuple[tables.Metric, Series]]:
    """Return a panel for each cell and y, of the first seed.

    A panel is (metric, {label: points}), with points as `collect_series` returns them. If there are several cells, each
    metric has its cell as its label.
    """
    found = [(cell, summary.table.metrics[y], summary.get_number(cell, y).values)
             for cell in summary.table.cells for y in figure.y]
    for cell, metric, _ in found:
        _check_values(summary, figure, cell, metric.name, "{label: {x, y}}", lambda value: isinstance(value, dict))
    cells = len({id(cell) for cell, _, values in found if values})
    return [(metric if cells == 1 else dataclasses.replace(metric, label=_group(cell, figure.series)),
             {label: [{"x": [points["x"]], "y": [points["y"]]}] for label, points in values[0].items()})
            for cell, metric, values in found if values]


def _check_values(summary: Summary, figure: tables.Figure, cell: tables.Cell, y: str, wanted: str,
                  fits: Callable[[Any], bool]) -> None:
    """Raise InputError if a metric reads something that a kind of figure cannot draw."""
    for value in summary.get_number(cell, y).values:
        if not fits(value):
            raise InputError(f"{summary.table.name}: metrics.{y}.read: figures of kind {figure.kind!r} draw {wanted} "
                             f"for each seed; got a {type(value).__name__} for {cell.row}, {cell.column}")


def _group(cell: tables.Cell, by: str) -> str:
    return f"{cell.row}, {cell.column}" if by == "cell" else getattr(cell, by)


def _read_flag(cell: tables.Cell, name: str) -> Any:
    """Return the value of a flag in the recipe of a cell."""
    return recipes.read(cell.recipe, cell.flags).flags[name]


def _draw_scatter(axis: Any, series: Series, looks: Looks) -> None:
    """Draw a point for each run, and a large hollow one where the paper prints both numbers."""
    for label, points in series.items():
        look = looks[label]
        axis.scatter([x for point in points for x in point["x"]], [y for point in points for y in point["y"]], s=22,
                     alpha=0.75, linewidths=0, label=label, **look)
        for point in points:
            _draw_printed(axis, point["printed"], look)


def _draw_lines(axis: Any, series: Series, looks: Looks) -> None:
    """Draw curves as they are; or the mean of each cell over seeds, with its standard deviation as a band."""
    for label, points in series.items():
        look = looks[label]
        if isinstance(points[0]["y"][0], list):
            for point in points:
                for x, y in map(_leave_out_gaps, point["x"], point["y"]):
                    few = len(x) < 25
                    axis.plot(x, y, color=look["color"], marker=look["marker"] if few else "", ms=4, label=label)
            continue
        points = sorted(points, key=lambda point: point["x"][0])
        x, mean = [point["x"][0] for point in points], [statistics.fmean(point["y"]) for point in points]
        spread = [statistics.stdev(point["y"]) if len(point["y"]) > 1 else 0 for point in points]
        axis.plot(x, mean, ms=4, label=label, **look)
        low, high = points[0]["limits"]
        axis.fill_between(x, [max(low, m - s) for m, s in zip(mean, spread, strict=True)],
                          [min(high, m + s) for m, s in zip(mean, spread, strict=True)], color=look["color"],
                          alpha=0.18, lw=0)
        for point in points:
            _draw_printed(axis, point["printed"], look)


def _leave_out_gaps(x: Sequence[float | None], y: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Return a curve without the points that lack a number, as rows of history between two validations do."""
    whole = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    return [a for a, _ in whole], [b for _, b in whole]


def _draw_bars(axis: Any, series: Series, looks: Looks) -> None:
    """Draw a bar for each cell with its standard deviation over seeds, and beside it the printed number."""
    width = 0.8 / len(looks)
    names = {point["x"][0]: point["name"] for points in series.values() for point in points}
    for i, label in enumerate(looks):
        for point in series.get(label, []):
            x, y = point["x"][0] + (i - (len(looks) - 1) / 2) * width, point["y"]
            axis.bar(x, statistics.fmean(y), 0.9 * width, color=looks[label]["color"], alpha=0.85, label=label,
                     yerr=statistics.stdev(y) if len(y) > 1 else None, error_kw={"lw": 1, "ecolor": "#333333"})
            if point["printed"]:
                _draw_printed(axis, (x, *point["printed"][1:]), {"color": "black", "marker": "_"})
    axis.set_xticks(list(names), names.values(), fontsize=8, rotation=15 if len(names) > 4 else 0)
    axis.grid(axis="x", visible=False)


def _draw_histograms(axis: Any, series: Series, looks: Looks) -> None:
    """Draw outlines of histograms: y are the counts, x the edges of the bins."""
    for label, points in series.items():
        for point in points:
            for edges, counts in zip(point["x"], point["y"], strict=True):
                axis.stairs(counts, edges, color=looks[label]["color"], fill=True, alpha=0.3)
                axis.stairs(counts, edges, color=looks[label]["color"], label=label, lw=1.2)
    axis.set_yticks([])


def _draw_points(axis: Any, series: Series, looks: Looks) -> None:
    """Draw points in a plane; later series cover earlier ones."""
    for label, points in series.items():
        for point in points:
            for x, y in zip(point["x"], point["y"], strict=True):
                # As pixels: thousands of points would make a file of a megabyte.
                axis.plot(x, y, ".", color=looks[label]["color"], ms=2, label=label, rasterized=True)
    axis.set_aspect("equal")


def _draw_printed(axis: Any, printed: tuple[float, float, float | None] | None, look: dict[str, str]) -> None:
    """Draw the paper's number as a hollow mark with its spread."""
    if printed:
        x, y, spread = printed
        axis.errorbar([x], [y], yerr=spread, fmt=look["marker"], ms=9, mfc="none", mec=look["color"], mew=1.3,
                      ecolor=look["color"], elinewidth=0.9, capsize=2.5, alpha=0.9, label=PRINTED)


KINDS = {"scatter": _draw_scatter, "lines": _draw_lines, "bars": _draw_bars, "histograms": _draw_histograms,
         "points": _draw_points}


