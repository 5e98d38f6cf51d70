"""Figures: each function takes arrays and returns a Matplotlib figure, in the colours that `use_theme` sets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import activity
from vae_tf.report.theme import COLOURS, HATCHES, INK, MAP, PAPER, shorten
from vae_tf.typing import ArrayLike

MOST_CELLS = 200        # of a matrix whose cells say their numbers
MOST_NAMES = 40         # latents that are named along an axis
MOST_ENTRIES = 30       # of a vector that are drawn
LONGEST = 24            # characters of a name
WIDTH = 7.2             # inches
VALIDATION = "validation_"      # how the names of terms begin that are of the validation part


def plot_curves(steps: ArrayLike, terms: Mapping[str, ArrayLike]) -> Any:
    """Plot the terms of the objective over training, a panel each; validation_X joins the panel of X as a dashed curve.

    Args:
        steps: [R], the step at which each row of a history ends.
        terms: {name: values [R]}, in nats or other units of their own; NaN where a row has no value.
    """
    steps = np.asarray(steps)
    panels = [name for name in terms if name.removeprefix(VALIDATION) not in {*terms} - {name}]
    rows = -(-len(panels) // 2)
    figure = make_figure(WIDTH, 0.3 + 1.7 * rows)
    for place, name in enumerate(panels, 1):
        axis = figure.add_subplot(rows, min(2, len(panels)), place)
        drawn = [np.asarray(terms[each], float) for each in (name, VALIDATION + name) if each in terms]
        for values, label, style in zip(drawn, ("training", "validation"), ("-", "--"), strict=False):
            known = np.isfinite(values)
            axis.plot(steps[known], values[known], linewidth=1.4, linestyle=style, label=label,
                      marker="" if known.sum() > 1 else "o")        # a single point has no line
        if len(drawn) > 1:
            axis.legend()
        axis.set(title=name, xlabel="step" if place > len(panels) - 2 else "")
        late = np.concatenate([values[len(steps) // 20:] for values in drawn])
        late = late[np.isfinite(late)]          # the first steps would hide all others
        if len(late) and np.ptp(late) > 0:
            axis.set_ylim(late.min() - 0.08 * np.ptp(late), late.max() + 0.08 * np.ptp(late))
        axis.grid(axis="y", linewidth=0.6)
    return figure


def plot_kl(kl: ArrayLike, kinds: Sequence[str], latents: Sequence[int] | None = None,
            threshold: float = activity.INFORMATIVE_KL) -> Any:
    """Plot the KL of each latent as a bar, the largest first.

    Args:
        kl: [d], nats, mean over examples.
        kinds: the class of each latent, one of activity.CLASSES.
        latents: the indices of the latents, d; None for 0, 1, ...
        threshold: nats, from which a latent carries information; drawn as a line.
    """
    from matplotlib.patches import Patch
    kl = np.asarray(kl, float)
    order = np.argsort(-kl, kind="stable")
    figure = make_figure(WIDTH, 2.6)
    axis = figure.add_subplot()
    bars = axis.bar(range(len(kl)), kl[order], width=0.72, color=[COLOURS[kinds[j]] for j in order])
    for bar, j in zip(bars, order, strict=True):        # colour is not the only sign of a class
        bar.set_hatch(HATCHES[kinds[j]])
        bar.set_edgecolor(PAPER)
    axis.axhline(threshold, color=COLOURS["passive"], linewidth=1, linestyle="--")
    axis.set(ylabel="KL, nats per example", xlabel="latent, the largest KL first", xlim=(-0.7, max(len(kl), 6) - 0.3))
    axis.set_xticks(*_name_latents(order if latents is None else np.asarray(latents)[order]))
    axis.legend(handles=[Patch(facecolor=COLOURS[kind], hatch=hatch, edgecolor=PAPER, label=kind)
                         for kind, hatch in HATCHES.items() if kind in kinds], loc="upper right")
    return figure


def plot_information(shares: ArrayLike, names: Sequence[str], latents: Sequence[int] | None = None) -> Any:
    """Plot how much each latent knows of each factor, as a matrix of latents x factors.

    Args:
        shares: [d, K], mutual information as a share of the factor's entropy, from 0 to 1.
        names: the names of the factors, K.
        latents: the indices of the latents, d; None for 0, 1, ...
    """
    shares = np.asarray(shares, float)
    shown = [shorten(str(name), LONGEST) for name in names]
    longest = max(map(len, shown))
    below = 0.06 * longest if longest > 11 or len(names) > 6 else 0     # inches of names that are turned
    figure = make_figure(min(WIDTH, 2.2 + 0.8 * len(names)), max(2.2, 1.0 + 0.3 * len(shares)) + below)
    axis = figure.add_subplot()
    draw_matrix(figure, axis, shares, "share of its entropy")
    axis.set_yticks(*_name_latents(np.arange(len(shares)) if latents is None else np.asarray(latents)))
    if longest > 11:        # beyond the width of a cell
        axis.set_xticks(range(len(names)), shown, rotation=60, ha="right", rotation_mode="anchor")
    else:
        axis.set_xticks(range(len(names)), shown, rotation=0 if len(names) < 7 else 60)
    axis.set(xlabel="factor", ylabel="latent")
    return figure


def plot_cosines(cosines: ArrayLike, order: ArrayLike | None = None) -> Any:
    """Plot the Gram matrix of the decoder's Jacobian with columns of length 1: the size of the cosine of each pair.

    Args:
        cosines: [d, d], from 0 to 1, see `orthogonality.compute_cosines`.
        order: the order of rows and columns; None leaves it.
    """
    cosines = np.asarray(cosines, float)
    order = np.arange(len(cosines)) if order is None else np.asarray(order)
    side = min(WIDTH - 1.2, 2.2 + 0.32 * len(order))
    figure = make_figure(side + 0.9, side)
    axis = figure.add_subplot()
    draw_matrix(figure, axis, cosines[np.ix_(order, order)], "|cosine| of two columns")
    axis.set_xticks(*_name_latents(order, MOST_NAMES // 2))     # beside each other, and so fewer
    axis.set_yticks(*_name_latents(order))
    axis.set(xlabel="column of latent", ylabel="column of latent")
    return figure


def plot_against_chance(measured: float, chance: ArrayLike, label: str, chance_label: str) -> Any:
    """Plot a measured number as a line beside a histogram of what chance gives.

    Args:
        measured: the number.
        chance: [R], the same number by chance.
        label: what is measured, with its unit: the axis.
        chance_label: what chance is here.
    """
    chance = np.asarray(chance, float)
    figure = make_figure(WIDTH, 2.1)
    axis = figure.add_subplot()
    axis.hist(chance, bins=20, color=COLOURS["passive"], alpha=0.7, label=chance_label)
    axis.axvline(measured, color=COLOURS["active"], linewidth=2.5, label=f"this model: {measured:.3g}")
    low, high = min(0.0, measured, chance.min()), max(measured, chance.max())
    axis.set(xlabel=label, yticks=[], xlim=(low - 0.02 * (high - low), high + 0.05 * (high - low) or 1))
    axis.spines["left"].set_visible(False)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2)
    return figure


def plot_variance_norms(variances: ArrayLike, squared_norms: ArrayLike, kinds: Sequence[str]) -> Any:
    """Plot posterior variances against squared lengths of the decoder's columns; theory has them fall with slope -1.

    Args:
        variances: [N, d], of q(z_j|x).
        squared_norms: [N, d], squared lengths of the columns of J at the same examples.
        kinds: the class of each latent, one of activity.CLASSES.
    """
    from matplotlib.ticker import AutoLocator, LogLocator
    variances, squared_norms = np.asarray(variances, float), np.asarray(squared_norms, float)
    figure = make_figure(WIDTH * 0.75, 3.2)
    axis = figure.add_subplot()
    for kind, marker in (("active", "o"), ("mixed", "s"), ("passive", "x")):
        columns = [j for j, each in enumerate(kinds) if each == kind]
        if columns:
            axis.scatter(squared_norms[:, columns], variances[:, columns], s=14, marker=marker, color=COLOURS[kind],
                         alpha=0.6, label=f"{kind} latents")
    shown = [j for j, each in enumerate(kinds) if each == "active"] or list(range(len(kinds)))
    x, y = squared_norms[:, shown], variances[:, shown]
    both = (x > 0) & (y > 0)
    if both.any():
        ends = np.array([x[both].min(), x[both].max()])
        axis.plot(ends, np.exp(np.log(x[both] * y[both]).mean()) / ends, color=COLOURS["mixed"], linestyle="--",
                  label="theory: variance x squared length is constant")
    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):       # as plain numbers: powers of ten take mathematical type
        decades = np.ptp(np.log10(side.get_view_interval()))
        if decades < 2:         # in which there may be fewer than two powers of ten
            side.set_major_locator(LogLocator(subs=(1, 2, 5)) if decades > 0.7 else AutoLocator())
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter(lambda value, _: "")
    axis.set(xlabel="squared length of the decoder's column", ylabel="posterior variance")
    axis.legend(loc="best")
    return figure


def plot_reconstructed_vectors(x: ArrayLike, reconstructed: ArrayLike) -> Any:
    """Plot each entry of vectors [N, n] against its reconstruction [N, n]; on the line they agree."""
    x, reconstructed = np.asarray(x, float), np.asarray(reconstructed, float)
    figure = make_figure(WIDTH * 0.5, 3.2)
    axis = figure.add_subplot()
    axis.scatter(x, reconstructed, s=8, alpha=0.35, color=COLOURS["active"], label="entries of x")
    ends = min(x.min(), reconstructed.min()), max(x.max(), reconstructed.max())
    axis.plot(ends, ends, color=COLOURS["mixed"], linewidth=1, label="perfect")
    axis.set(xlabel="data", ylabel="reconstruction")
    axis.legend(loc="upper left")
    return figure


def plot_responses(values: ArrayLike, outputs: ArrayLike, labels: Sequence[str]) -> Any:
    """Plot how the entries of a decoded vector move with each latent, a panel per latent.

    Of more than 30 entries, each panel has those that its latent moves most.

    Args:
        values: [T], places of a latent, in prior standard deviations.
        outputs: [L, T, n], the decoded vectors of each latent at its places.
        labels: the titles of the panels, L.
    """
    outputs = np.asarray(outputs, float)
    entries = outputs.shape[-1]
    columns = min(4, len(labels))
    rows = -(-len(labels) // columns)
    figure = make_figure(WIDTH, 0.4 + 1.7 * rows)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat[len(labels):]:
        axis.set_axis_off()
    for axis, moved, label in zip(axes.flat, outputs, labels, strict=False):
        most = np.sort(np.argsort(-np.ptp(moved, 0), kind="stable")[:MOST_ENTRIES])
        axis.plot(np.asarray(values), moved[:, most], linewidth=1.2, color=COLOURS["active"], alpha=0.8)
        axis.set_title("\n".join(shorten(line, 76 // columns) for line in label.split("\n")), fontsize=8)
        axis.grid(linewidth=0.5)
    figure.supxlabel("place of the latent, standard deviations", fontsize=9)
    figure.supylabel("entries of x" if entries <= MOST_ENTRIES else
                     f"the {MOST_ENTRIES} of {entries:,} entries of x that each latent moves most", fontsize=9)
    return figure


def make_figure(width: float, height: float) -> Any:
    """Make an empty figure of this many inches."""
    from matplotlib.figure import Figure  # without pyplot, which keeps every figure
    return Figure(figsize=(width, height), layout="constrained")


def draw_matrix(figure: Any, axis: Any, matrix: np.ndarray, label: str, low: float = 0) -> None:
    """Draw a matrix of numbers from `low` to 1, with the numbers in its cells if there is room."""
    image = axis.imshow(matrix, cmap=MAP, vmin=low, vmax=1, aspect="auto")
    bar = figure.colorbar(image, ax=axis, shrink=0.9)
    bar.set_label(label)
    bar.outline.set_visible(False)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.tick_params(length=0)
    if matrix.size <= MOST_CELLS:
        for (i, j), value in np.ndenumerate(matrix):
            known = np.isfinite(value)          # a cell without a number has the colour of the page
            axis.text(j, i, f"{value:.2f}" if known else "-", ha="center", va="center", fontsize=7,
                      color=INK if not known else "black" if value > low + 0.55 * (1 - low) else "#fefefe")


def _name_latents(order: np.ndarray, most: int = MOST_NAMES) -> tuple[list[int], list[str]]:
    """Return the places and the names of latents along an axis; of more than `most`, some alone."""
    every = -(-len(order) // most)
    return list(range(0, len(order), every)), [f"z{order[j]}" for j in range(0, len(order), every)]
