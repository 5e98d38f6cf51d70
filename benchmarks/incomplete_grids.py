"""Score a perfect code on data that lack combinations of their factors, and print a Markdown table.

    python benchmarks/incomplete_grids.py

The code is the factors themselves with noise of a hundredth of a value's step, one latent for each of three factors of
six values. The data are a complete grid; a grid without a corner (--split='hold_out:a>2,b>2'); one on which two factors
are correlated, |a - b| <= 1, by 0.88; and three factors that are continuous. docs/data.md has the table.
"""

import warnings

import numpy as np

from vae_tf import metrics

EXAMPLES = 2_000
VALUES = 6


def draw_factors(seed=0):
    """Return {kind of data: factors [EXAMPLES, 3]}."""
    rng = np.random.default_rng(seed)

    def draw(keep):
        v = rng.integers(0, VALUES, (20 * EXAMPLES, 3))
        return v[keep(v)][:EXAMPLES]

    return {"complete grid": draw(lambda v: v[:, 0] >= 0),
            "without a corner": draw(lambda v: ~((v[:, 0] > 2) & (v[:, 1] > 2))),
            "correlated": draw(lambda v: abs(v[:, 0] - v[:, 1]) <= 1),
            "continuous": rng.uniform(0, VALUES, (EXAMPLES, 3))}


def score_perfect_code(name, factors, seed=0):
    """Return the score of a metric for the factors themselves, with a little noise, as code."""
    rng = np.random.default_rng(seed)
    stddevs = np.full(factors.shape, 0.01)
    codes = factors + stddevs * rng.standard_normal(factors.shape)
    kind = "continuous" if factors.dtype.kind == "f" else "ordinal"
    with warnings.catch_warnings(action="ignore"):
        return metrics.METRICS[name].measure(metrics.Context(codes, factors, kinds=(kind,) * 3, stddevs=stddevs)).score


def list_metrics():
    """Return the metrics of codes against factors that take seconds."""
    return [name for name in metrics.list_names("metrics")
            if metrics.METRICS[name].is_supervised and metrics.METRICS[name].cost != "minutes"]


def main():
    data = draw_factors()
    print(f"| metric | {' | '.join(data)} |\n|---|{'---|' * len(data)}")
    for name in list_metrics():
        scores = " | ".join(f"{score_perfect_code(name, factors):.2f}" for factors in data.values())
        print(f"| `{name}` | {scores} |", flush=True)


if __name__ == "__main__":
    main()
