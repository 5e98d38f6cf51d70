"""What people look at: the table of scores, the picture of a model."""

import sys
import textwrap

import numpy as np

from vae_tf import metrics


def table(evaluation, width=140):
    """The scores as text: name, score with its standard error or 95 % interval, noise floor, and what it means."""
    lines = []
    for name, result in evaluation.results.items():
        if "standard_error" in result.parts:
            digits = 2 if abs(result.score) >= 10 else 4
            score = f"{result.score:.{digits}f} ± {result.parts['standard_error']:.{digits}f}"
        else:
            score = f"{result.score:.4g}" if name in metrics.UNSUPERVISED else f"{result.score:.3f}"
            if name in evaluation.interval:
                score += " [{:.3g}, {:.3g}]".format(*evaluation.interval[name])
            if name in evaluation.noise_floor:
                score += f" chance {evaluation.noise_floor[name]:.3f}"
        head = f"  {name:<24} {score:<41}"
        lines += textwrap.wrap(result.meaning, width, initial_indent=head, subsequent_indent=" " * len(head))
    lines += [f"  {name:<24} {'-':<41}not scored: {why}" for name, why in evaluation.skipped.items()]
    return "\n".join(lines)


def progress(done, total):
    """Show how far the metrics are, on a terminal's last line."""
    if sys.stderr.isatty():
        print(f"\r  scoring: {done} of {total}", end="\r\033[K" if done == total else "", file=sys.stderr, flush=True)


def picture(path, model, dataset, evaluation, columns=9, reach=2.0):
    """Draw an image model to a PNG: data, reconstructions, and one row per latent as it moves.

    A row moves its latent from -reach to reach prior standard deviations, all else as encoded from the first
    example. Rows are sorted by the variance of the posterior mean, the most active latent first.
    """
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    indices = evaluation.indices[:columns]
    x, u = dataset.images_at(indices), dataset.u_at(indices) if model.card["u_size"] else None
    codes = model.encode(x, u=u)
    variance = evaluation.codes.var(0)
    order = np.argsort(-variance)
    stddev = codes.get("prior_stddev", np.ones_like(codes["mean"]))[0]
    if model.card["model"] == "ae":      # no prior: move as far as the codes themselves do
        stddev = np.sqrt(variance)
    rows = [("data", x / np.float32(255)), ("reconstruction", model.reconstruct(x, u=u)["mean"])]
    for j in order:
        z = np.repeat(codes["mean"][:1], columns, 0)
        z[:, j] = np.linspace(-reach, reach, columns) * stddev[j]
        rows.append((f"z{j}  Var(mean) {variance[j]:.2g}", model.decode(z)["mean"]))

    figure, axes = plt.subplots(len(rows), columns, figsize=(columns * 0.8 + 1.8, len(rows) * 0.8 + 0.5), squeeze=False,
                                gridspec_kw={"wspace": 0.04, "hspace": 0.04})
    for row, (label, images) in zip(axes, rows, strict=True):
        for axis in row:
            axis.set_axis_off()
        for axis, image in zip(row, images, strict=False):
            axis.imshow(image, cmap="gray" if image.shape[-1] == 1 else None, vmin=0, vmax=1)
        row[0].text(-0.15, 0.5, label, transform=row[0].transAxes, ha="right", va="center", fontsize=8)
    name = "/".join(model.path.parts[-2:])
    title = f"{name}: each latent from {-reach:g} to {reach:g} prior standard deviations"
    figure.suptitle(title, fontsize=9, y=0.91)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
