"""Rotate the latents of trained models: which scores fall, and does the distance to orthogonality (DtO) follow?

    python benchmarks/rotated_latents.py [--dataset=conformal_mixture] [--models=beta_vae,full_covariance_vae]
                                         [--seeds=5] [--most_steps=N] [--angles=0,5,10,20,30,45]
    python benchmarks/rotated_latents.py --exports=exported/one/1,exported/another/1

A rotation Q makes z' = Q z of the latents and Dec'(z') = Dec(Q^T z') of the decoder. The model is then the same for
every x: the same reconstructions, the same ELBO (p(z) = N(0, I) does not change), and another posterior covariance,
Q Sigma Q^T. Only the columns of the decoder's Jacobian differ, J' = J Q^T. So what a rotation does to a score is due to
the columns' directions alone.

The script prints a line of a Markdown table for each model and angle, mean ± standard deviation over the seeds. With
more than two latents, Q turns a random plane. The line `most orthogonal` is of the rotation at which the Hadamard gap
is least, of 90 angles in the plane (two latents only): it shows whether orthogonal columns restore the scores.
All other flags are those of train.py, such as --jacobian_penalty=orthogonality or
--likelihood_variance=0.001.
"""

import argparse
import pathlib
import sys

import numpy as np
import scipy.linalg

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

import defaults
import tensorflow as tf

from vae_tf import data, export, jacobians, metrics, models
from vae_tf.data import held_out

EXAMPLES = 3_000        # for scores of codes
AROUND = 200            # for scores of the decoder
SCORES = ("mig", "mig_posterior", "sap", "mcc", "disentanglement_score", "modularity")


def make_rotation(angle, latents, seed=0):
    """Return the rotation [d, d] by an angle, in degrees, in a plane: that of z_1 and z_2, or a random one."""
    first, second = np.linalg.qr(np.random.default_rng(seed).standard_normal((latents, 2))).Q.T
    plane = np.outer(second, first) - np.outer(first, second)
    return scipy.linalg.expm(np.radians(angle) * plane)


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
    """Print the lines of models that differ in their seed, each given as `describe_trained` returns it."""
    latents = described[0][0].shape[1]
    rows = {f"{angle:g}°": [make_rotation(angle, latents)] * len(described) for angle in angles}
    if latents == 2:
        rows["most orthogonal"] = [find_most_orthogonal(grams) for _, _, grams, _ in described]
    for row, rotations in rows.items():
        scores = [score(*rotate(*arrays, Q), factors, kinds)
                  for (*arrays, factors), Q in zip(described, rotations, strict=True)]
        cells = []
        for name in (*SCORES, "dto", "hadamard_gap"):
            values = [found[name] for found in scores if name in found]
            spread = np.std(values, ddof=min(1, len(values) - 1)) if values else 0
            cells.append(f"{np.mean(values):.3f} ± {spread:.3f}" if values else "-")
        print(f"| {label} | {row} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="conformal_mixture")
    parser.add_argument("--models", default="beta_vae,full_covariance_vae")
    parser.add_argument("--exports", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most_steps", type=int)
    parser.add_argument("--angles", default="0,5,10,20,30,45")
    given, flags = parser.parse_known_args()            # all other flags are train.py's
    angles = [float(angle) for angle in given.angles.split(",")]
    columns = ("model", "rotation", *SCORES, "DtO", "Hadamard gap")
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    if given.exports:
        for path in given.exports.split(","):
            described, dataset = describe_exported(path)
            report(path, [described], tuple(factor.kind for factor in dataset.factors), angles)
        return
    for model in given.models.split(","):
        replicas = [f"--replicas={given.seeds}"] if given.seeds > 1 else []
        _, built, dataset, _ = defaults.train_all(f"--dataset={given.dataset}", f"--model={model}", *replicas, *flags,
                                                  most_steps=given.most_steps)
        report(f"`{model}`", [describe_trained(each, dataset) for each in built],
               tuple(factor.kind for factor in dataset.factors), angles)


if __name__ == "__main__":
    main()
