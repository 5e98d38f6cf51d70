"""Look for what would give random decoders the DtO that rolinek's Table 2 prints, in NumPy.

    python benchmarks/random_decoders.py [--decoders=20] [--matrices=2000]

It prints a Markdown table of mean ± standard deviation of the distance to orthogonality (DtO) for two, five and six
latents, as the synthetic data, dSprites and MNIST have them in the paper: of orthogonal matrices V drawn uniformly, of
matrices J with independent entries, and of untrained networks of the recipes' widths, of which each DtO is the mean
over 20 latents from N(0, I). docs/defaults.md compares the table with the paper.
"""

import argparse

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import ortho_group

POINTS = 20
SIZES = {2: (60, 40, 20, 6), 5: (1200, 1200, 1200, 4096), 6: (500, 500, 784)}   # of a decoder's layers, by its latents
NETWORKS = [("tanh", "Glorot uniform"), ("tanh", "Glorot normal"), ("tanh", "PyTorch"), ("tanh", "normal, 0.1"),
            ("relu", "Glorot uniform"), ("relu", "Glorot normal"), ("relu", "PyTorch")]


def measure_distance(v, greedy=False):
    """Return the distance of V [d, d] from its nearest signed permutation, or from one found greedily."""
    size = np.abs(v)
    if greedy:
        rows, columns, left = [], [], size.copy()
        for _ in v:
            row, column = np.unravel_index(left.argmax(), left.shape)
            rows.append(row)
            columns.append(column)
            left[row], left[:, column] = -1, -1
    else:
        rows, columns = linear_sum_assignment(-size)
    return np.sqrt(max(0, 2 * len(v) - 2 * size[rows, columns].sum()))


def measure_dto(jacobian):
    """Return the DtO of a Jacobian [n, d]."""
    return measure_distance(np.linalg.svd(jacobian, full_matrices=False)[2])


def draw_layer(kind, inputs, outputs, rng):
    """Return the weights [inputs, outputs] and the biases of a layer."""
    shape = (inputs, outputs)
    if kind == "PyTorch":
        return rng.uniform(-1, 1, shape) / np.sqrt(inputs), rng.uniform(-1, 1, outputs) / np.sqrt(inputs)
    weights = {"Glorot uniform": lambda: rng.uniform(-1, 1, shape) * np.sqrt(6 / (inputs + outputs)),
               "Glorot normal": lambda: rng.normal(size=shape) * np.sqrt(2 / (inputs + outputs)),
               "normal, 0.1": lambda: rng.normal(size=shape) * 0.1}[kind]()
    return weights, np.zeros(outputs)


def find_jacobian(layers, activation, z):
    """Return the Jacobian [n, d] of a network at z [d]; its last layer is linear."""
    jacobian, h = np.eye(len(z)), z
    for k, (weights, biases) in enumerate(layers):
        jacobian, h = jacobian @ weights, h @ weights + biases
        if k < len(layers) - 1:
            h, slope = (np.tanh(h), 1 - np.tanh(h) ** 2) if activation == "tanh" else (np.maximum(h, 0), h > 0)
            jacobian = jacobian * slope
    return jacobian.T


def measure_network(kind, activation, latents, rng):
    """Return the mean DtO of an untrained network over POINTS latents."""
    inputs = (latents, *SIZES[latents])
    layers = [draw_layer(kind, i, o, rng) for i, o in zip(inputs, SIZES[latents], strict=False)]
    return np.mean([measure_dto(find_jacobian(layers, activation, rng.normal(size=latents))) for _ in range(POINTS)])


def scale_columns(jacobian):
    """Return a Jacobian [n, d] whose columns have the norm 1."""
    return jacobian / np.linalg.norm(jacobian, axis=0)


def list_draws(decoders, matrices):
    """List the rows of the table: (what is drawn, a function of d and a generator that draws a DtO, how many)."""
    return [("uniform V", lambda d, rng: measure_distance(ortho_group.rvs(d, random_state=rng)), matrices),
            ("uniform V, signed permutation found greedily",
             lambda d, rng: measure_distance(ortho_group.rvs(d, random_state=rng), greedy=True), matrices),
            ("J of uniform entries", lambda d, rng: measure_dto(rng.uniform(-1, 1, (784, d))), matrices),
            ("J of normal entries, its columns scaled to one norm",
             lambda d, rng: measure_dto(scale_columns(rng.normal(size=(784, d)))), matrices),
            *((f"{activation} network, {kind}",
               lambda d, rng, k=kind, a=activation: measure_network(k, a, d, rng), decoders)
              for activation, kind in NETWORKS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decoders", type=int, default=20)
    parser.add_argument("--matrices", type=int, default=2_000)
    given = parser.parse_args()
    print("| drawn | 2 latents | 5 latents | 6 latents |\n|---|---|---|---|")
    for name, draw, count in list_draws(given.decoders, given.matrices):
        cells = []
        for latents in SIZES:
            rng = np.random.default_rng(0)
            found = [draw(latents, rng) for _ in range(count)]
            cells.append(f"{np.mean(found):.2f} ± {np.std(found, ddof=1):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
