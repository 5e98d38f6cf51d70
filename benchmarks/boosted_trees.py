"""Compare scikit-learn's gradient boosted trees, by which `dci` measures importances, with LightGBM made like them.

    pip install lightgbm
    python benchmarks/boosted_trees.py [--factor=1] [--rows=10000] [--draws=3]

It prints, for one factor of the README's model, the processor seconds of a fit on one thread and the three largest
importances: of scikit-learn with two seeds, and of LightGBM with a few bins and with so many that hardly two values
share one. LightGBM's trees are given scikit-learn's residuals, a Hessian of 1, and scikit-learn's update of leaves.
The last column is of the latent that differs most from scikit-learn with seed 0: the mean difference over --draws of
other examples. The line below the table is the largest standard deviation of scikit-learn's own importances over these
draws, which is what another seed of the protocol changes, since it draws the examples.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import lightgbm
import numpy as np
from threadpoolctl import threadpool_limits

from vae_tf import data, export
from vae_tf.evaluation import scoring
from vae_tf.metrics import importance

ROUNDS, RATE, DEPTH = 100, 0.1, 3       # scikit-learn's defaults


def fit_lightgbm(z, v, bins):
    """Return the importance [d] of each latent z [N, d] for trees that predict classes v [N] from 0 on."""
    classes = v.max() + 1
    one_hot = np.eye(classes)[v]
    options = {"verbose": -1, "num_threads": 1, "max_bin": bins}
    rows = lightgbm.Dataset(z, v, params={**options, "min_data_in_bin": 1, "feature_pre_filter": False,
                                          "bin_construct_sample_cnt": len(v)})
    booster = lightgbm.Booster({**options, "objective": "none", "num_class": classes, "max_depth": DEPTH,
                                "num_leaves": 2**DEPTH, "learning_rate": 1.0, "min_data_in_leaf": 1,
                                "min_sum_hessian_in_leaf": 0, "boost_from_average": False}, rows)
    scores = np.tile(np.log(one_hot.mean(0)), (len(v), 1))
    for i in range(ROUNDS):
        shares = np.exp(scores - scores.max(1, keepdims=True))
        residuals = one_hot - shares / shares.sum(1, keepdims=True)
        booster.update(fobj=lambda *_, given=residuals: (-given, np.ones_like(given)))
        leaves = booster.predict(z, pred_leaf=True, start_iteration=i, num_iteration=1).reshape(len(v), classes)
        for k, (leaf, residual) in enumerate(zip(leaves.T, residuals.T, strict=True)):
            size = abs(residual)
            up, down = (np.bincount(leaf, weights) for weights in (residual, size * (1 - size)))
            update = np.where(down > 0, up / np.where(down > 0, down, 1), 0)
            scores[:, k] += RATE * (classes - 1) / classes * update[leaf]
    gain = booster.feature_importance("gain")
    return gain / gain.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factor", type=int, default=1, help="Number of the factor; 1 is the scale.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--export", default="exported/readme-ivae-dsprites")
    given = parser.parse_args()
    model = export.load(given.export)
    dataset = data.load(model.card["recipe"]["dataset"])
    indices = np.random.default_rng(0).permutation(len(dataset))[:given.rows * given.draws]
    codes, _ = scoring._encode(model, dataset, indices, 0)
    z, v = codes.mean.astype(np.float64), np.unique(codes.factors[:, given.factor], return_inverse=True)[1]
    draws = list(zip(np.split(z, given.draws), np.split(v, given.draws), strict=True))
    fits = {f"scikit-learn, seed {seed}": lambda z, v, seed=seed: importance.fit_boosted(z, v, seed)[1]
            for seed in (0, 1)}
    fits |= {f"LightGBM, {bins:,} bins": lambda z, v, bins=bins: fit_lightgbm(z, v, bins)
             for bins in (255, 1_023, 20_000)}
    print("| trees | processor s | largest importances | mean difference |\n|---|--:|---|--:|")
    usual = None
    with threadpool_limits(1):
        for name, fit in fits.items():
            started = time.process_time()
            found = np.array([fit(*draw) for draw in draws])
            seconds, usual = (time.process_time() - started) / given.draws, found if usual is None else usual
            print(f"| {name} | {seconds:.1f} | " + ", ".join(f"{value:.4f}" for value in np.sort(found[0])[::-1][:3])
                  + f" | {abs((found - usual).mean(0)).max():.4f} |", flush=True)
    if given.draws > 1:
        print(f"\nStandard deviation over draws, scikit-learn: {usual.std(0, ddof=1).max():.4f}")


if __name__ == "__main__":
    main()
