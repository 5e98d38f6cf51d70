"""What people look at: the table of scores, the picture of a model."""

import sys
import textwrap

import numpy as np

from vae_tf import files, metrics, models, verdicts
from vae_tf.errors import InputError, printable
from vae_tf.metrics import information, polarised

SPREADS = """\
± is the standard error of a mean over x, and [low, high] a 95 % interval from half-samples of x, for the score of \
this many x, its bias included: more x may score outside it. Both are of this one trained model: how far apart models \
of other seeds are, only other seeds tell (--compare)."""
SAME = "same at every x"
SAME_MEANING = "as a linear decoder's J is: there is no spread over x, and nothing is known of other seeds"
SAME_RATIO = 1e-5       # of the score: float32 rounds the same J differently from row to row by less


def table(evaluation, width=140):
    """The scores as text: first what the model is worth; then name, score with its spread, noise floor and meaning."""
    lines = []
    if evaluation.verdict is not None:
        lines += textwrap.wrap(verdicts.words(evaluation.verdict), width, initial_indent="  ", subsequent_indent="  ")
    lines += textwrap.wrap(SPREADS, width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([*lines, *_lines(evaluation, evaluation.results, evaluation.skipped, width), "  polarised regime",
                      *_lines(evaluation, evaluation.polarised, evaluation.absent, width)])


def number(value, digits=3):
    """A number with `digits` decimals, or with two significant digits where those would hide it."""
    return f"{value:.2g}" if 0 < abs(value) < 10.0 ** (1 - digits) else f"{value:.{digits}f}"


def _lines(evaluation, results, skipped, width):
    lines = []
    for name, result in results.items():
        score, meaning = _score(evaluation, name, result)
        if why := evaluation.why_no_meaning(name):
            score, meaning = "-", f"no meaning: {why}"
        head = f"  {name:<24} {score:<41}"
        lines += textwrap.wrap(meaning, width, initial_indent=head, subsequent_indent=" " * len(head))
    return lines + [f"  {name:<24} {'-':<41}not scored: {why}" for name, why in skipped.items()]


def _score(evaluation, name, result):
    """A score with its spread and noise floor, and its meaning."""
    if "standard_error" in result.parts:
        digits = 2 if abs(result.score) >= 10 else 4
        per_example = result.parts.get("per_example", ())
        if len(per_example) > 1 and np.ptp(per_example) <= SAME_RATIO * np.max(np.abs(per_example)):
            return f"{number(result.score, digits)} {SAME}", f"{result.meaning}; {SAME_MEANING}"
        return (f"{number(result.score, digits)} ± {number(result.parts['standard_error'], digits)} over x",
                result.meaning)
    metric = metrics.METRICS.get(name)
    plain = name in evaluation.polarised or (metric is not None and metric.group == "metrics"
                                             and not metric.is_supervised)
    score = f"{result.score:.4g}" if plain else number(result.score)
    if name in evaluation.interval:
        score += " [{:.3g}, {:.3g}]".format(*evaluation.interval[name])
    if name in evaluation.noise_floor:
        score += f" chance {number(evaluation.noise_floor[name])}"
    return score, result.meaning


def progress(done, total):
    """Show how far the metrics are, on a terminal's last line."""
    if sys.stderr.isatty():
        print(f"\r  scoring: {done} of {total}", end="\r\033[K" if done == total else "", file=sys.stderr, flush=True)


def picture(path, model, dataset, evaluation, columns=9, reach=2.0):
    """Draw an image model to a PNG: data, reconstructions, and one row per latent as it moves.

    A row moves its latent from -reach to reach prior standard deviations, all else as encoded from the first
    example. The latent that says most about x comes first, and a row names the factor that its latent knows best, if
    it knows more of it than chance would. Of images with other than 1 or 3 channels the first 1 or 3 are shown.
    """
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    indices = evaluation.indices[:columns]
    x, u = dataset.images_at(indices), model.u_at(dataset, indices)
    codes = model.encode(x, u=u)
    labels, order = _row_labels(evaluation, dataset)
    stddev = codes.get("prior_stddev", np.ones_like(codes["mean"]))[0]
    if not models.declared(model.card).has_prior:      # no prior: move as far as the codes themselves do
        stddev = evaluation.codes.std(0)
    rows = [("data", x / np.float32(255)), ("reconstruction", model.reconstruct(x, u=u)["mean"])]
    for j in order:
        z = np.repeat(codes["mean"][:1], columns, 0)
        z[:, j] = np.linspace(-reach, reach, columns) * stddev[j]
        rows.append((labels[j], model.decode(z)["mean"]))

    channels = dataset.shape[-1]
    shown = 1 if channels < 3 else 3
    figure, axes = plt.subplots(len(rows), columns, figsize=(columns * 0.8 + 1.8, len(rows) * 0.8 + 0.5), squeeze=False,
                                gridspec_kw={"wspace": 0.04, "hspace": 0.04})
    for row, (label, images) in zip(axes, rows, strict=True):
        for axis in row:
            axis.set_axis_off()
        for axis, image in zip(row, images, strict=False):
            axis.imshow(image[..., :shown], cmap="gray" if shown == 1 else None, vmin=0, vmax=1)
        row[0].text(-0.15, 0.5, label, transform=row[0].transAxes, ha="right", va="center", fontsize=8,
                    parse_math=False)
    title = f"{title_of(model.card)}: each latent from {-reach:g} to {reach:g} prior standard deviations"
    if shown != channels:
        title += f"; channels 1 to {shown} of {channels}" if shown > 1 else f"; channel 1 of {channels}"
    figure.suptitle(title, fontsize=9, y=0.91, parse_math=False)
    files.write_whole(path, lambda file: figure.savefig(file, format="png", dpi=110, bbox_inches="tight"))
    plt.close(figure)


def title_of(card):
    """What a model is called in a picture; its path may be anything."""
    return printable(f"{card['model']} on {card['data']['name']}, {card['latents']} latents, {card['steps']:,} steps")


def _row_labels(evaluation, dataset):
    """What stands beside each latent's row, and the order of rows: the latent that says most about x first."""
    verdict, codes = evaluation.verdict, evaluation.posterior
    if verdict is not None and verdict.kl is not None:
        size, said = verdict.kl, "KL"
    else:
        size, said = evaluation.codes.var(0), "Var(mean)"
    labels = [f"z{j}  {said} {value:.2g}" for j, value in enumerate(size)]
    try:
        known = [None] * len(size) if codes.factors is None else information.best_known_factors(codes.mean,
                                                                                                codes.factors)
    except InputError:          # factors that cannot be put in classes
        known = [None] * len(size)
    for j, best in enumerate(known):
        if best is not None:
            labels[j] += f"\n{printable(dataset.factors[best[0]].name)} {best[1]:.0%}"
    return labels, np.argsort(-size)


COLOURS = {"active": "#2f6fb0", "mixed": "#d98218", "passive": "#7a7a7a"}
ROWS_PER_BLOCK = 15


def polarised_page(path, title, codes, passive_kl=metrics.PASSIVE_KL, bins=50):
    """Draw what bonheme's Figures 1 to 4 show, for every latent, to a PNG.

    A row is a latent: histograms of mu_j, of the posterior's and the prior's variance, and of z_j, the prior's samples
    and mu_j together. Active latents come first, the one with most KL on top; more than 15 stand in blocks side by
    side.

    Args:
        path: of the PNG.
        title: of the page.
        codes: evaluation.Codes with stddev.
        passive_kl: nats, see metrics.classify.
        bins: of each histogram.
    """
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    means, stddevs, _, prior_stddevs = codes.distributions()
    classes = metrics.classify(*codes.distributions(), passive_kl=passive_kl)
    kl = polarised.kl_per_latent(*codes.distributions()).mean(0)
    z, prior = polarised.draw_samples(*codes.distributions())
    prior_variances = np.broadcast_to(np.square(prior_stddevs), means.shape)
    order = sorted(range(len(kl)), key=lambda j: (polarised.CLASSES.index(classes[j]), -kl[j]))
    blocks = -(-len(order) // ROWS_PER_BLOCK)
    rows = -(-len(order) // blocks)

    top = 1.2 if blocks == 1 else 1.0       # inches: a single block is too narrow for a legend of one line
    width, height = 7.2 * blocks, 0.62 * rows + 0.2 + top
    figure = plt.figure(figsize=(width, height))
    grid = figure.add_gridspec(rows, 4 * blocks, width_ratios=[0.55, 1, 1, 1] * blocks, hspace=0.9, wspace=0.2,
                               left=0.01, right=1 - 0.15 / width, bottom=0.25 / height, top=1 - top / height)
    for place, j in enumerate(order):
        row, left, colour = place % rows, 4 * (place // rows), COLOURS[classes[j]]
        label, *panels = (figure.add_subplot(grid[row, left + column]) for column in range(4))
        label.set_axis_off()
        label.text(0.85, 0.72, f"z{j}", ha="right", va="center", fontsize=10, weight="bold", color=colour)
        label.text(0.85, 0.1, f"{classes[j]}\nKL {kl[j]:.2g}", ha="right", va="center", fontsize=7, color=colour)
        filled = {"histtype": "stepfilled", "color": colour, "alpha": 0.6}
        line = {"histtype": "step", "color": "black"}
        dotted = {"histtype": "step", "color": "crimson", "linestyle": ":"}
        # Means on the scale of the samples: those of a passive latent are to be seen as the points that they are.
        low, high = np.quantile(np.concatenate([z[:, j], prior[:, j], means[:, j]]), (0.0005, 0.9995))
        edges, variances = np.linspace(low, high, bins + 1), stddevs[:, j] ** 2
        # A learned prior's variance may have a tail so long that nothing else would be seen.
        widest = 1.1 * max(np.quantile(of, 0.97) for of in (variances, prior_variances[:, j]))
        _histograms(panels[0], edges, (means[:, j], filled))
        _histograms(panels[1], np.linspace(0, widest, bins + 1), (variances, filled), (prior_variances[:, j], line))
        _histograms(panels[2], edges, (z[:, j], filled), (prior[:, j], line), (means[:, j], dotted))
        if row == 0:
            for panel, heading in zip(panels, ("posterior mean", "variance", "samples"), strict=True):
                panel.set_title(heading, fontsize=9)
    figure.suptitle(textwrap.shorten(title, 80 * blocks), fontsize=11, y=1 - 0.12 / height, va="top")
    patches = [Patch(color=COLOURS[name], alpha=0.6, label=f"posterior, {name} latent") for name in polarised.CLASSES
               if name in classes]
    lines = [plt.Line2D([], [], color="black", label="prior"),
             plt.Line2D([], [], color="crimson", linestyle=":", label="posterior mean, among the samples")]
    figure.legend(handles=[*patches, *lines], loc="upper center", ncols=3 * blocks, fontsize=8, frameon=False,
                  bbox_to_anchor=(0.5, 1 - 0.35 / height))
    files.write_whole(path, lambda file: figure.savefig(file, format="png", dpi=100))
    plt.close(figure)


def _histograms(axis, edges, *columns):
    """Histograms (values, style) on one axis of x, each as high as its highest bin."""
    for values, style in columns:
        counts, _ = np.histogram(values, edges)
        axis.hist(edges[:-1], edges, weights=counts / max(counts.max(), 1), **style)
    axis.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.08), yticks=[])
    axis.locator_params(axis="x", nbins=4)
    axis.tick_params(axis="x", labelsize=7, length=2, pad=1)
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)
