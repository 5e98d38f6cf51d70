"""Measure bias and spread of two estimators of I(z_j; v): `python benchmarks/posterior.py`, half a minute.

One factor has 40 values, three latents N = 1,000 posteriors: z_0 holds the factor, z_1 does not but varies, z_2 is
passive. `same` takes H(z_j) and H(z_j|v) from the same samples, as `mig_posterior` does. `apart` draws other samples
for each entropy and cuts I off at 0, as Chen's code does; with `per value` it draws as many for each of the 40 values.
The truth is by quadrature, bias and its standard error are of 400 seeds, and spread is their standard deviation.
"""

import numpy as np

from vae_tf.metrics import mixtures

VALUES, EXAMPLES, SAMPLES, SEEDS = 40, 1_000, 2_000, 400


def example():
    """Return means [N, 3], stddevs [N, 3], v [N]."""
    rng = np.random.default_rng(0)
    v = rng.permutation(np.arange(EXAMPLES) % VALUES)
    means = np.stack([v / VALUES * 3.4, 0 * v, 0 * v], -1) + rng.standard_normal((EXAMPLES, 3)) * [0.1, 1, 0.05]
    return means, np.tile([0.1, 0.3, 1.0], (EXAMPLES, 1)), v


def entropy(means, stddevs):
    """Return the entropy of a mixture of normals, by the trapezoidal rule with steps of a tenth of the least stddev."""
    z = np.arange((means - 8 * stddevs).min(), (means + 8 * stddevs).max(), stddevs.min() / 10)
    log_density = mixtures.log_mixture(z, means, stddevs)
    return -np.trapezoid(np.exp(log_density) * log_density, z)


def information(means, stddevs, v):
    return entropy(means, stddevs) - np.mean([entropy(means[v == value], stddevs[v == value])
                                              for value in range(VALUES)])


def marginal(means, stddevs, samples, rng):
    one = np.zeros((len(means), 1), int)
    return mixtures.entropies(means, stddevs, one, samples, rng)[0]


def same(means, stddevs, v, samples, rng):
    of_z, given_v = mixtures.entropies(means, stddevs, v[:, np.newaxis], samples, rng)
    return of_z - given_v[:, 0]


def apart(means, stddevs, v, samples, rng, per_value):
    given = [marginal(means[v == value], stddevs[v == value], per_value, rng) for value in range(VALUES)]
    return np.maximum(marginal(means, stddevs, samples, rng) - np.mean(given, 0), 0)


def main():
    means, stddevs, v = example()
    truth = np.array([information(*columns, v) for columns in zip(means.T, stddevs.T, strict=True)])
    print("I(z_j; v) in nats:", " ".join(f"{value:.5f}" for value in truth))
    print("| entropies, samples | bias z_0 | z_1 | z_2 | spread z_0 | z_1 | z_2 |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, estimate in (
            (f"apart, {SAMPLES:,}", lambda rng: apart(means, stddevs, v, SAMPLES, rng, SAMPLES // VALUES)),
            (f"apart, {SAMPLES:,} per value", lambda rng: apart(means, stddevs, v, SAMPLES, rng, SAMPLES)),
            (f"same, {SAMPLES:,}", lambda rng: same(means, stddevs, v, SAMPLES, rng))):
        drawn = np.array([estimate(np.random.default_rng(seed)) for seed in range(SEEDS)])
        spread = drawn.std(0, ddof=1)
        cells = [f"{bias:+.4f} ± {error:.4f}"
                 for bias, error in zip(drawn.mean(0) - truth, spread / np.sqrt(SEEDS), strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {' | '.join(f'{sd:.4f}' for sd in spread)} |", flush=True)


if __name__ == "__main__":
    main()
