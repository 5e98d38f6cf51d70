"""Measure how far linear autoencoders rotate the latents on synthetic_linear, for several kinds of initial weights.

    python benchmarks/autoencoder_angles.py [--models=200] [--steps=15000]

It trains many linear autoencoders side by side in NumPy, independently of TensorFlow, and prints a line of a Markdown
table per setting: mean and standard deviation over the models of the DtO of their decoders, before and after training.
An autoencoder's objective leaves every invertible map of the latents open, so where training ends depends on where it
begins. docs/defaults.md compares the result with rolinek's Table 2.
"""

import argparse

import numpy as np

EXAMPLES, BATCH = 40_000, 64


def draw_data(rng):
    """Return the unit square, one side twice as long, rotated by 45 degrees about (1, -1, 1): [EXAMPLES, 3]."""
    a = 1 / np.sqrt(3)
    axis = np.array([[0, -a, -a], [a, 0, -a], [a, a, 0]])
    rotation = np.eye(3) + np.sqrt(0.5) * axis + (1 - np.sqrt(0.5)) * axis @ axis
    return (rng.random((EXAMPLES, 2)) * [2, 1]) @ rotation[:, :2].T


def measure_dto(decoders):
    """Return the DtO of decoders [S, 3, 2]: the distance of V in J = U S V^T from the nearest signed permutation."""
    v = np.abs(np.linalg.svd(decoders)[2])
    traces = np.maximum(v[:, 0, 0] + v[:, 1, 1], v[:, 0, 1] + v[:, 1, 0])
    return np.sqrt(np.maximum(0, 4 - 2 * traces))


def draw_weights(kind, count, rng):
    """Return encoder weights [S, 3, 2] and biases, decoder weights [S, 2, 3] and biases."""
    def uniform(inputs, *shape):
        return rng.uniform(-1, 1, (count, *shape)) / np.sqrt(inputs)

    def normal(*shape, scale):
        return rng.normal(0, scale, (count, *shape))

    no_biases = [np.zeros((count, size)) for size in (2, 3)]
    if kind == "PyTorch":
        return [uniform(3, 3, 2), uniform(3, 2), uniform(2, 2, 3), uniform(2, 3)]
    if kind == "Glorot uniform":
        limit = np.sqrt(6 / 5)
        weights = [rng.uniform(-limit, limit, (count, *shape)) for shape in ((3, 2), (2, 3))]
    elif kind == "orthogonal":
        weights = [np.linalg.qr(normal(3, 2, scale=1))[0] for _ in range(2)]
        weights[1] = weights[1].transpose(0, 2, 1)
    elif kind == "truncated, by inputs":
        weights = [np.clip(normal(*shape, scale=1), -2, 2) / np.sqrt(shape[0]) for shape in ((3, 2), (2, 3))]
    else:
        scale = {"Glorot normal": np.sqrt(2 / 5), "normal, 0.01": 0.01}[kind]
        weights = [normal(*shape, scale=scale) for shape in ((3, 2), (2, 3))]
    return [weights[0], no_biases[0], weights[1], no_biases[1]]


def train(data, kind, optimizer, rate, l2, count, steps, rng):
    """Return the DtO [S] before and after training, and the mean squared error after it."""
    weights = draw_weights(kind, count, rng)
    before = measure_dto(weights[2].transpose(0, 2, 1))
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for step in range(1, steps + 1):
        x = data[rng.integers(0, EXAMPLES, BATCH)][np.newaxis]
        z = x @ weights[0] + weights[1][:, np.newaxis]
        error = 2 * (z @ weights[2] + weights[3][:, np.newaxis] - x) / BATCH
        of_z = error @ weights[2].transpose(0, 2, 1)
        gradients = [x.transpose(0, 2, 1) @ of_z, of_z.sum(1), z.transpose(0, 2, 1) @ error, error.sum(1)]
        for i, gradient in enumerate(gradients):
            if i in (0, 2):
                gradient = gradient + 2 * l2 * weights[i]
            if optimizer == "sgd":
                weights[i] -= rate * gradient
                continue
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.999 * second[i] + 0.001 * gradient**2
            weights[i] -= rate * first[i] / (1 - 0.9**step) / (np.sqrt(second[i] / (1 - 0.999**step)) + 1e-7)
    codes = data[:2_000] @ weights[0] + weights[1][:, np.newaxis]
    error = np.mean(np.sum((codes @ weights[2] + weights[3][:, np.newaxis] - data[:2_000])**2, axis=2))
    return before, measure_dto(weights[2].transpose(0, 2, 1)), error


SETTINGS = [("Glorot uniform", "adam", 1e-3, 0), ("Glorot normal", "adam", 1e-3, 0),
            ("truncated, by inputs", "adam", 1e-3, 0), ("PyTorch", "adam", 1e-3, 0),
            ("normal, 0.01", "adam", 1e-3, 0), ("orthogonal", "adam", 1e-3, 0), ("Glorot uniform", "sgd", 0.05, 0),
            ("normal, 0.01", "sgd", 0.05, 0), ("Glorot uniform", "adam", 1e-3, 1e-3),
            ("normal, 0.01", "adam", 1e-3, 1e-3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--steps", type=int, default=15_000)
    given = parser.parse_args()
    data = draw_data(np.random.default_rng(0))
    print("| initial weights | optimizer | L2 | DtO at the start | DtO at the end | squared error |")
    print("|---|---|---|---|---|---|")
    for kind, optimizer, rate, l2 in SETTINGS:
        before, after, error = train(data, kind, optimizer, rate, l2, given.models, given.steps,
                                     np.random.default_rng(1))
        print(f"| {kind} | {optimizer} {rate:g} | {l2:g} | {before.mean():.2f} ± {before.std():.2f} | "
              f"{after.mean():.2f} ± {after.std():.2f} | {error:.0e} |", flush=True)


if __name__ == "__main__":
    main()
