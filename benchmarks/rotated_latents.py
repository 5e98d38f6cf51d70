"""Rotate the latents of trained models: which scores fall, and does the distance to orthogonality (DtO) follow?

    python benchmarks/rotated_latents.py [--dataset=conformal_mixture] [--models=beta_vae,full_covariance_vae]
                                         [--seeds=5] [--most_steps=N] [--angles=0,5,10,20,30,45,random]
    python benchmarks/rotated_latents.py --exports='exported/one-seed*/1,exported/another-seed*/1' [--figure=one.svg]

A rotation Q makes z' = Q z of the latents and Dec'(z') = Dec(Q^T z') of the decoder. The model is then the same for
every x: the same reconstructions, the same ELBO (p(z) = N(0, I) does not change), and another posterior covariance,
Q Sigma Q^T. Only the columns of the decoder's Jacobian differ, J' = J Q^T. So what a rotation does to a score is due to
the columns' directions alone.

The script prints a line of a Markdown table for each model and angle, mean ± standard deviation over the seeds. Each
pattern of --exports stands for one model with several seeds. --figure draws scores and DtO over the angle, a panel for
each model. With more than two latents, Q turns a random plane. The angle `random`
stands for a rotation that is drawn for each seed, evenly from all rotations. The line `most orthogonal` is of the
rotation at which the Hadamard gap is least, of 90 angles in the plane (two latents only): it shows whether orthogonal
columns restore the scores. All other flags are those of train.py, such as --jacobian_penalty=orthogonality or
--likelihood_variance=0.001.
"""

import argparse
import glob
import pathlib
import sys

import numpy as np
import scipy.linalg
import scipy.stats

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import defaults
import tensorflow as tf

from vae_tf import data, export, extensions, jacobians, metrics, models
from vae_tf.data import held_out
from vae_tf.experiments import figures

EXAMPLES = 3_000        # for scores of codes
AROUND = 200            # for scores of the decoder
SCORES = ("mig", "mig_posterior", "sap", "mcc", "disentanglement_score", "modularity")
COLUMNS = (*SCORES, "dto", "hadamard_gap")
DRAWN = (("disentanglement_score", "Disent.", "#0072B2", "o"), ("mcc", "MCC", "#009E73", "s"),
         ("dto", "DtO", "#D55E00", "D"))


def make_rotation(angle, latents, seed=0):
    """Return the rotation [d, d] by an angle, in degrees, in a plane: that of z_1 and z_2, or a random one."""
    first, second = np.linalg.qr(np.random.default_rng(seed).standard_normal((latents, 2))).Q.T
    plane = np.outer(second, first) - np.outer(first, second)
    return scipy.linalg.expm(np.radians(angle) * plane)


def list_rotations(angle, latents, count):
    """Return a rotation [d, d] for each of `count` models: by one angle, in degrees, or `random` ones."""
    if angle == "random":
        return [scipy.stats.special_ortho_group.rvs(latents, random_state=i) for i in range(count)]
    return [make_rotation(float(angle), latents)] * count


def rotate(means, covariances, grams, Q):
    """Return the posterior means Q mu [N, d], covariances Q Sigma Q^T [N, d, d] and J'^T J' = Q J^T J Q^T [N, d, d]."""
    return means @ Q.T, Q @ covariances @ Q.T, Q @ grams @ Q.T


def describe_trained(model, dataset):
    """Return means [N, d], covariances [N, d, d] and J^T J [n, d, d] of a model, and factors [N, K]."""
    indices = np.random.default_rng(0).permutation(len(dataset))[:EXAMPLES]
    x = models.scale_to_unit_range(tf.constant(dataset.images_at(indices)))
    posterior = model.posterior(x, tf.constant(dataset.u_at(indices)) if model.u_size else None)
    means = posterior.mean()
    covariances = posterior.covariance() if model.has_prior else tf.zeros((*means.shape, means.shape[-1]))
    grams = jacobians.gram(model.decoder, means[:AROUND])
    return np.float64(means), np.float64(covariances), np.float64(grams), dataset.factors_at(indices)


def describe_exported(path):
    """Return what `describe_trained` does, of an exported model on the test part of its own data."""
    model = export.load(path)
    recipe = model.card["recipe"]
    dataset = held_out.take_test_part(data.load(recipe["dataset"], seed=recipe["data_seed"]), recipe).dataset
    indices = np.random.default_rng(0).permutation(len(dataset))[:EXAMPLES]
    context = metrics.Context.from_model(model, dataset, indices)
    triangular = context.stddevs if np.ndim(context.stddevs) == 3 else (
        np.zeros_like(context.codes) if context.stddevs is None else context.stddevs)[..., np.newaxis] * np.eye(
            context.codes.shape[1])
    grams = metrics.Context(context.codes[:AROUND], decoder=model.decoder).value("gram")
    return (np.float64(context.codes), triangular @ triangular.transpose(0, 2, 1), np.float64(grams),
            dataset.factors_at(indices)), dataset


def score(means, covariances, grams, factors, kinds):
    """Return {name: score} of codes and of columns; the part `bounded` of the disentanglement score."""
    stddevs = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    context = metrics.Context(means, factors, kinds, stddevs=stddevs if stddevs.any() else None)
    results, _ = metrics.measure(SCORES, context)
    found = {name: result.score for name, result in results.items()}
    found["disentanglement_score"] = float(results["disentanglement_score"].parts["bounded"])
    return {**found, "dto": metrics.dto(grams).score, "hadamard_gap": metrics.hadamard_gap(grams).score}


def find_most_orthogonal(grams):
    """Return the rotation [2, 2], of 90 in a quarter turn, after which the Hadamard gap is least."""
    rotations = [make_rotation(angle, 2) for angle in range(90)]
    return min(rotations, key=lambda Q: metrics.hadamard_gap(Q @ grams @ Q.T).score)


def report(label, described, kinds, angles):
    """Print the lines of models that differ in their seed; return {rotation: {score: (mean, standard deviation)}}.

    Args:
        label: the name of the models.
        described: what `describe_trained` returns of each.
        kinds: the kind of each factor.
        angles: in degrees, as text, or `random`.
    """
    latents = described[0][0].shape[1]
    rows = {angle if angle == "random" else f"{angle}°": list_rotations(angle, latents, len(described))
            for angle in angles}
    if latents == 2:
        rows["most orthogonal"] = [find_most_orthogonal(grams) for _, _, grams, _ in described]
    found = {}
    for row, rotations in rows.items():
        scores = [score(*rotate(*arrays, Q), factors, kinds)
                  for (*arrays, factors), Q in zip(described, rotations, strict=True)]
        values = {name: [each[name] for each in scores] for name in COLUMNS if name in scores[0]}
        found[row] = {name: (np.mean(of), np.std(of, ddof=min(1, len(of) - 1))) for name, of in values.items()}
        cells = ["{:.3f} ± {:.3f}".format(*found[row][name]) if name in found[row] else "-" for name in COLUMNS]
        print(f"| {label} | {row} | " + " | ".join(cells) + " |", flush=True)
    return found


def draw(path, found):
    """Draw Disent., MCC and DtO over the angle, a panel for each model of {label: what `report` returns}."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(figures.STYLE):
        _, panels = plt.subplots(1, len(found), figsize=(3.3 * len(found), 2.8), sharey=True, squeeze=False)
        for panel, (label, rows) in zip(panels[0], found.items(), strict=True):
            angles = [row for row in rows if row.endswith("°")]
            for name, shown, colour, marker in DRAWN:
                means, spreads = np.transpose([rows[row][name] for row in angles])
                degrees = [float(row.rstrip("°")) for row in angles]
                panel.plot(degrees, means, color=colour, marker=marker, markersize=4, label=shown)
                panel.fill_between(degrees, means - spreads, means + spreads, color=colour, alpha=0.15, linewidth=0)
            panel.set(title=label, xlabel="rotation of the latents, degrees", xticks=range(0, 46, 15))
        panels[0, 0].set_ylim(0)
        panels[0, -1].legend(loc="lower right")
        plt.savefig(path, bbox_inches="tight", metadata={"Date": None})


def report_exports(patterns, angles):
    """Print the lines of exports, each pattern a model with several seeds; return {label: what `report` returns}."""
    found = {}
    for pattern in patterns:
        paths = sorted(glob.glob(pattern))
        if not paths:
            sys.exit(f"--exports: no folder is called {pattern}")
        described, datasets = zip(*map(describe_exported, paths), strict=True)
        label = f"{datasets[0].name}, {len(paths)} seeds"
        found[label] = report(label, described, tuple(factor.kind for factor in datasets[0].factors), angles)
    return found


def report_trained(given, flags, angles):
    """Train models, print their lines, and return {label: what `report` returns}."""
    found = {}
    for model in given.models.split(","):
        replicas = [f"--replicas={given.seeds}"] if given.seeds > 1 else []
        _, built, dataset, _ = defaults.train_all(f"--dataset={given.dataset}", f"--model={model}", *replicas, *flags,
                                                  most_steps=given.most_steps)
        found[model] = report(f"`{model}`", [describe_trained(each, dataset) for each in built],
                              tuple(factor.kind for factor in dataset.factors), angles)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="conformal_mixture")
    parser.add_argument("--models", default="beta_vae,full_covariance_vae")
    parser.add_argument("--exports", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most_steps", type=int)
    parser.add_argument("--angles", default="0,5,10,20,30,45,random")
    parser.add_argument("--figure")
    given, flags = parser.parse_known_args()            # all other flags are train.py's
    extensions.load()       # which may have the data of --exports
    angles = given.angles.split(",")
    columns = ("model", "rotation", *COLUMNS)
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    found = (report_exports(given.exports.split(","), angles) if given.exports
             else report_trained(given, flags, angles))
    if given.figure:
        draw(given.figure, found)


if __name__ == "__main__":
    main()
