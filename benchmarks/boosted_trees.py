"""Compare the trees of `dci_fast`, on bins, with those of `dci`, which are scikit-learn's and see every value.

    python benchmarks/boosted_trees.py [--factors=0,1] [--rows=10000] [--draws=3] [--fixture=noisy]

For each factor of the README's model, or of codes that benchmarks/public_code.py makes by hand, it prints the processor
seconds of a fit on one thread, and how far the importances of binned trees are from scikit-learn's: for the latent that
differs most, the mean difference over --draws of other examples. The last two columns are the largest standard
deviations of scikit-learn's own importances: over these draws, which is what another seed of the protocol changes, and
over two seeds of the trees alone.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import public_code
from threadpoolctl import threadpool_limits

from vae_tf import data, export
from vae_tf.evaluation import encoding
from vae_tf.metrics import boosted_trees, importance


def measure(fit, draws):
    """Return the importances [draws, d] that a function fits, and the processor seconds of one fit."""
    started = time.process_time()
    found = np.array([fit(*draw) for draw in draws])
    return found, (time.process_time() - started) / len(draws)


def encode(given):
    """Return the means [N, d] of a model, the factors [N, K] and their names."""
    model = export.load(given.export)
    dataset = data.load(model.card["recipe"]["dataset"])
    indices = np.random.default_rng(0).permutation(len(dataset))[:given.rows * given.draws]
    codes, _ = encoding.encode(model, dataset, indices, 0)
    return codes.mean.astype(np.float64), codes.factors, dataset.factor_names


def make_codes(given):
    """Return codes [N, d] made by hand, the factors [N, K] and their names."""
    rows = np.random.default_rng(0).permutation(len(public_code.GRID))[:given.rows * given.draws]
    return (public_code.FIXTURES[given.fixture]()[rows], public_code.COARSE[rows],
            ("shape", "scale", "quarter of x", "quarter of y"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factors", default="0,1", help="Numbers of factors; all of dSprites are 0,1,2,3,4.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--export", default="exported/readme-ivae-dsprites")
    parser.add_argument("--fixture", choices=sorted(public_code.FIXTURES), help="Codes made by hand, with coarse "
                        "factors of dSprites, in place of the model.")
    given = parser.parse_args()
    z, factors, names = (make_codes if given.fixture else encode)(given)
    print("| factor | values | binned, s | scikit-learn, s | mean difference | over draws | over seeds |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    with threadpool_limits(1):
        for number in map(int, given.factors.split(",")):
            v = np.unique(factors[:, number], return_inverse=True)[1]
            draws = list(zip(np.split(z, given.draws), np.split(v, given.draws), strict=True))
            binned, fast = measure(lambda z, v: boosted_trees.fit(z, v).importance, draws)
            exact, slow = measure(lambda z, v: importance.fit_boosted(z, v, 0)[1], draws)
            other = importance.fit_boosted(*draws[0], 1)[1]
            print(f"| {names[number]} | {v.max() + 1} | {fast:.1f} | {slow:.1f} | "
                  f"{abs((binned - exact).mean(0)).max():.4f} | "
                  + (f"{exact.std(0, ddof=1).max():.4f}" if given.draws > 1 else "-")
                  + f" | {np.std([exact[0], other], 0, ddof=1).max():.4f} |", flush=True)


if __name__ == "__main__":
    main()
