"""The page of a comparison: one HTML file that holds everything it shows, and opens without a network."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import comparison, files
from vae_tf.errors import make_printable
from vae_tf.report.compared import figures, tables
from vae_tf.report.compared.groups import (
    Groups,
    find_varying_setting,
    list_first_scores,
    list_scores,
    list_series,
)
from vae_tf.report.compared.traversed import Pictured
from vae_tf.report.numbers import format_number
from vae_tf.report.page import Figure, render
from vae_tf.report.theme import draw_svg

FILES = ("comparison.html", "comparison.csv", "comparison.md", "comparison.tex", "models.csv")
MOST_CORRELATED, MOST_PANELS = 12, 6
FEWEST_RANKED = 5       # models that have both scores: fewer are often ranked alike by chance
MOST_ANSWERS = 6        # that are shown before others are folded away
AXES = (("dto", "column_cosine", "kl"), ("disentanglement_score", "mig", "mcc", "elbo", "reconstruction"))


def write_comparison(folder: pathlib.Path, groups: Groups, measured: Mapping[str, comparison.Measured], how: str,
                     pictured: Sequence[Pictured] = (), remarks: Sequence[str] = (), dataset: str = "") -> None:
    """Write a comparison as one page and as tables, each file whole or not at all.

    Args:
        folder: the folder for FILES; it is made where there is none.
        groups: the groups.
        measured: {name: Measured}, see `comparison.measure`.
        how: how the decoders were held against each other, in a sentence.
        pictured: one model of each group.
        remarks: sentences about what limits the comparison.
        dataset: the data that the models were scored on, where these are not what they were trained on.
    """
    scores = list_scores(groups)
    texts = (make_comparison_page(groups, measured, how, pictured, remarks, dataset), tables.write_csv(groups.means),
             tables.write_markdown(groups, scores), tables.write_latex(groups, scores), tables.write_csv(groups.rows))
    for name, text in zip(FILES, texts, strict=True):
        files.write_bytes(folder / name, text.encode("utf-8", "backslashreplace"))


def make_comparison_page(groups: Groups, measured: Mapping[str, comparison.Measured], how: str,
                         pictured: Sequence[Pictured] = (), remarks: Sequence[str] = (), dataset: str = "") -> str:
    """Return the text of the page that `write_comparison` writes."""
    first, scores, members = list_first_scores(groups), list_scores(groups), groups.members
    said = sorted(comparison.list_answers(members, dict(measured)), key=lambda each: "cannot be told" in each)
    answers = [make_printable(each).split("? ", 1) for each in said]
    named = [dataset] if dataset else [row.get("dataset") or "data of one's own" for row in groups.rows]
    datasets = dict.fromkeys(make_printable(pathlib.PurePath(name).name) for name in named)
    return render("comparison.html", title=f"{_count(len(groups.rows), 'model')} in {_count(len(members), 'group')} on "
                  f"{', '.join(datasets)}", how=how, answers=answers[:MOST_ANSWERS], more=answers[MOST_ANSWERS:],
                  remarks=[*map(make_printable, remarks), *_list_remarks(groups, measured)],
                  labels=groups.labels, counts=tables.list_counts(groups),
                  spread=tables.explain_spread(groups), over=groups.spread, first=tables.make_cells(groups, first),
                  scores=tables.make_cells(groups, scores), scatter=_prepare_scatter(groups, scores),
                  drawn=[*_draw_sweep(groups, first), *_draw_correlations(groups, first)],
                  pictured=pictured, unpictured=len(members) - len(pictured), names=first,
                  models=[_describe_model(row, first) for row in groups.rows])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _list_remarks(groups: Groups, measured: Mapping[str, comparison.Measured]) -> list[str]:
    """List what limits a comparison."""
    found = [f"Left out of the answers: {make_printable(line)}"
             for line in comparison.list_left_out(groups.members, dict(measured))]
    found += groups.list_limits()
    alone = sum(row["models"] == 1 for row in groups.means)
    if alone:
        found.append(f"{_count(alone, 'group')} {'has' if alone == 1 else 'have'} one model alone, so no spread: train "
                     "more seeds, with --replicas.")
    return found


def _prepare_scatter(groups: Groups, scores: Sequence[str]) -> dict[str, Any] | None:
    """Return the scores that the axes of the scatter can show, the first pair drawn, and all points as JSON."""
    known = [name for name in scores if sum(row.get(name) is not None for row in groups.rows) > 1]
    if len(known) < 2:
        return None
    x = next((name for name in AXES[0] if name in known), known[0])
    y = next((name for name in AXES[1] if name in known and name != x), next(name for name in known if name != x))
    labels = dict(zip(groups.members, groups.labels, strict=True))
    points = {label: [(row[x], row[y]) for row in groups.rows if row["group"] == given
                      and row.get(x) is not None and row.get(y) is not None] for given, label in labels.items()}
    rows = [{"group": list(labels).index(row["group"]), "name": make_printable(row["export"]),
             "values": [row.get(name) for name in known]} for row in groups.rows]
    svg = draw_svg("scatter", figures.plot_scatter, {label: tuple(np.reshape(each, (-1, 2)).T)
                                                     for label, each in points.items()}, x, y)
    return {"names": known, "x": x, "y": y, "svg": svg,
            "json": json.dumps({"groups": list(labels.values()), "names": known, "rows": rows})}


def _draw_sweep(groups: Groups, scores: Sequence[str]) -> list[Figure]:
    """Draw scores over the setting that varies between groups, if one does."""
    setting = find_varying_setting(groups)
    if setting is None:
        return []
    series = list_series(groups, setting)
    panels: dict[str, Any] = {}
    for name in scores:
        lines = {label: [(row[setting], row[f"{name}_mean"], np.nan if row[f"{name}_spread"] is None
                          else row[f"{name}_spread"]) for row in rows if row.get(f"{name}_mean") is not None]
                 for label, rows in series.items()}
        shown = {label: tuple(np.array(line, float).T) for label, line in lines.items() if line}
        if shown and len(panels) < MOST_PANELS:
            panels[name] = shown
    if not panels:
        return []
    return [Figure("sweep", f"What {setting} changes", f"A point is the mean of a group, and a bar its standard "
                  f"deviation {groups.spread}.", f"{', '.join(panels)} over {setting}, a line each for "
                  f"{', '.join(series)}; the table above has the numbers.",
                  draw_svg("sweep", figures.plot_sweep, panels, setting))]


def _draw_correlations(groups: Groups, scores: Sequence[str]) -> list[Figure]:
    """Draw how alike scores rank the models, where there are enough models to tell."""
    has = np.array([[row.get(name) is not None for name in scores] for row in groups.rows], int)
    counts = has.T @ has        # of the models that have both scores of a pair
    correlations = np.where(counts >= FEWEST_RANKED, figures.correlate_ranks(groups.rows, list(scores)), np.nan)
    kept = [i for i in range(len(scores)) if np.isfinite(correlations[i, i])][:MOST_CORRELATED]
    pairs = [(i, j) for i in kept for j in kept if j < i and np.isfinite(correlations[i, j])]
    if not pairs:
        return []
    strongest = sorted(pairs, key=lambda pair: -abs(correlations[pair]))[:8]
    said = ", ".join(f"{scores[i]} and {scores[j]} {correlations[i, j]:.2f}" for i, j in strongest)
    least, most = (of(counts[pair] for pair in pairs) for of in (min, max))
    return [Figure("ranks", "Which scores rank the models alike", "Spearman's rank correlation over the models of all "
                  f"groups that have both scores, {most if least == most else f'{least} to {most}'} models: 1 if two "
                  "scores put them in the same order, -1 in the opposite one. It mixes differences between groups with "
                  f"those between seeds. Pairs of scores that fewer than {FEWEST_RANKED} models have are left out.",
                  f"A matrix of {len(kept)} scores. The strongest: {said}.",
                  draw_svg("ranks", figures.plot_rank_correlations, correlations[np.ix_(kept, kept)],
                           [scores[i] for i in kept]))]


def _describe_model(row: Mapping[str, Any], scores: Sequence[str]) -> dict[str, Any]:
    """Return what the table of models says of one: its name, its group, its seed, and scores with their intervals."""
    cells = []
    for name in scores:
        value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
        interval = f" [{low:.3g}, {high:.3g}]" if low is not None and high is not None else ""
        error = row.get(f"{name}_standard_error")
        error = f" ± {format_number(error)}" if error is not None else ""
        cells.append("" if value is None else f"{format_number(value)}{interval or error}")
    return {"name": make_printable(row["export"]), "group": make_printable(row["group"]), "seed": row.get("seed"),
            "cells": cells}
