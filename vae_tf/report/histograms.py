"""Draw the page of histograms of every latent's posterior and prior (bonheme's Figures 1 to 4)."""

import textwrap
from typing import Any, NamedTuple

import numpy as np

from vae_tf import activity
from vae_tf.evaluation import Codes
from vae_tf.metrics import polarised
from vae_tf.report.theme import COLOURS, as_png, use_theme

ROWS_PER_BLOCK = 15
DOTTED = {"color": "C1", "linestyle": ":"}


class _Latent(NamedTuple):
    """What is shown of latent j: its class, its mean KL, and samples [N] of what its histograms are of."""

    j: int
    kind: str
    kl: float
    means: np.ndarray
    variances: np.ndarray
    prior_variances: np.ndarray
    z: np.ndarray
    prior: np.ndarray


def draw_polarised(title: str, codes: Codes, passive_kl: float = activity.PASSIVE_KL, bins: int = 50) -> bytes:
    """Return the figure of `plot_polarised` as a PNG."""
    with use_theme():
        return as_png(plot_polarised(title, codes, passive_kl, bins))


def plot_polarised(title: str, codes: Codes, passive_kl: float = activity.PASSIVE_KL, bins: int = 50,
                   most: int | None = None) -> Any:
    """Plot what bonheme's Figures 1 to 4 show, for every latent, as a Matplotlib figure.

    A row shows a latent in three histograms: of mu_j; of the variances of posterior and prior; and of z_j, the prior's
    samples and mu_j together. Active latents come first, the one with most KL on top. More than 15 latents stand in
    blocks side by side.

    Args:
        title: title of the page; may be empty.
        codes: evaluation.Codes with stddev.
        passive_kl: nats, see activity.classify.
        bins: number of bins of each histogram.
        most: the number of latents that are shown at most; None for all.
    """
    from matplotlib.figure import Figure

    latents = _order_latents(codes, passive_kl)[:most]
    blocks = -(-len(latents) // ROWS_PER_BLOCK)
    rows = -(-len(latents) // blocks)
    top = 1.2 if blocks == 1 else 1.0       # inches, because a single block is too narrow for a legend of one line
    title_lines = textwrap.wrap(title, 80 * blocks, max_lines=2)
    title_height = 0.05 + 0.3 * bool(title_lines) + 0.2 * (len(title_lines) > 1)
    top += title_height - 0.35
    width, height = 7.2 * blocks, 0.62 * rows + 0.2 + top
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(rows, 4 * blocks, width_ratios=[0.55, 1, 1, 1] * blocks, hspace=0.9, wspace=0.2,
                               left=0.01, right=1 - 0.15 / width, bottom=0.25 / height, top=1 - top / height)
    for place, latent in enumerate(latents):
        row, left = place % rows, 4 * (place // rows)
        panels = [figure.add_subplot(grid[row, left + column]) for column in (1, 2, 3)]
        _draw_label(latent, figure, grid[row, left].get_position(figure))
        _draw(latent, panels, bins)
        if row == 0:
            for panel, heading in zip(panels, ("posterior mean", "variance", "samples"), strict=True):
                panel.set_title(heading, fontsize=9, loc="center")
    figure.suptitle("\n".join(title_lines), fontsize=11, y=1 - 0.12 / height, va="top")
    figure.legend(handles=_make_legend([latent.kind for latent in latents]), loc="upper center", ncols=3 * blocks,
                  fontsize=8, frameon=False, bbox_to_anchor=(0.5, 1 - title_height / height))
    return figure


def _order_latents(codes: Codes, passive_kl: float) -> list[_Latent]:
    """Return the latents in the order of the page."""
    means, stddevs, _, prior_stddevs = codes.get_distributions()
    classes = activity.classify(*codes.get_distributions(), passive_kl=passive_kl)
    kl = activity.kl_per_latent(*codes.get_distributions()).mean(0)
    z, prior = polarised.draw_samples(*codes.get_distributions())
    prior_variances = np.broadcast_to(np.square(prior_stddevs), means.shape)
    order = sorted(range(len(kl)), key=lambda j: (activity.CLASSES.index(classes[j]), -kl[j]))
    return [_Latent(j, classes[j], kl[j], means[:, j], stddevs[:, j] ** 2, prior_variances[:, j], z[:, j], prior[:, j])
            for j in order]


def _draw_label(latent: _Latent, figure: Any, box: Any) -> None:
    """Draw what stands left of a latent's histograms into a box of the figure."""
    right = box.x0 + 0.85 * box.width
    for y, text, style in ((0.72, f"z{latent.j}", {"fontsize": 10, "weight": "bold"}),
                           (0.1, f"{latent.kind}\nKL {latent.kl:.2g}", {"fontsize": 7})):
        figure.text(right, box.y0 + y * box.height, text, ha="right", va="center", color=COLOURS[latent.kind], **style)


def _draw(latent: _Latent, panels: list[Any], bins: int) -> None:
    """Draw a latent's three histograms."""
    filled = {"fill": True, "color": COLOURS[latent.kind], "alpha": 0.6}
    # Means are drawn on the scale of the samples, so that those of a passive latent look like a point.
    low, high = np.quantile(np.concatenate([latent.z, latent.prior, latent.means]), (0.0005, 0.9995))
    edges = np.linspace(low, high, bins + 1)
    # The tail of a learned prior's variance is cut: it may be so long that nothing else would be seen.
    widest = 1.1 * max(np.quantile(of, 0.97) for of in (latent.variances, latent.prior_variances))
    _draw_histograms(panels[0], edges, (latent.means, filled))
    _draw_histograms(panels[1], np.linspace(0, widest, bins + 1), (latent.variances, filled),
                     (latent.prior_variances, _line()))
    _draw_histograms(panels[2], edges, (latent.z, filled), (latent.prior, _line()), (latent.means, DOTTED))


def _line() -> dict[str, Any]:
    """Return the style of a prior, in the colour of the theme's text."""
    import matplotlib
    return {"color": matplotlib.rcParams["text.color"]}


def _make_legend(kinds: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [*(Patch(color=COLOURS[name], alpha=0.6, label=f"posterior, {name} latent") for name in activity.CLASSES
              if name in kinds),
            Line2D([], [], color=_line()["color"], label="prior"),
            Line2D([], [], color="C1", linestyle=":", label="posterior mean, among the samples")]


def _draw_histograms(axis: Any, edges: np.ndarray, *columns: tuple[np.ndarray, dict[str, Any]]) -> None:
    """Draw histograms (values, style) on one axis of x, each as high as its highest bin."""
    for values, style in columns:
        counts, _ = np.histogram(values, edges)
        axis.stairs(counts / max(counts.max(), 1), edges, **style)
    axis.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.08), yticks=[])
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=7, length=2, pad=1)
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)
