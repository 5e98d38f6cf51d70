"""Draw the embedding of rolinek's Synth. Non-Lin. anew for each restart: do scores and columns spread as printed?

    python benchmarks/embeddings.py [--epochs=60] [--restarts=10] [--models=beta_vae,ae,full_covariance_vae]

Rolinek's Table 2 gives a mean and a ± over restarts, and the paper does not say whether a restart draws the random
embedding of the data anew, which is a 2-10-6 tanh network with weights from N(0, 1). The recipes have one embedding for
all seeds. The script trains each model by its recipe both ways, and prints a line of a Markdown table for each: mean ±
standard deviation over the restarts of the disentanglement score (the part `bounded`) and of the distance to
orthogonality (DtO), on the test part, and the correlation of the two.
"""

import argparse

import defaults
import numpy as np
from rotated_latents import describe_trained, score

from vae_tf import data


def measure(model, draw, seeds, epochs):
    """Return the pairs (score, DtO) of some seeds of a model on the data of one draw of the embedding."""
    flags = [f"--recipe=rolinek2018/synthetic_nonlinear_{model}", f"--data_seed={draw}", f"--epochs={epochs}",
             f"--seed={seeds[0]}", f"--replicas={len(seeds)}"]
    _, trained, dataset, _ = defaults.train_all(*flags)
    test = data.load("synthetic_nonlinear", seed=draw).split("random", "test", draw)
    kinds = [factor.kind for factor in dataset.factors]
    found = [score(*describe_trained(each, test), kinds) for each in trained]
    return [(each["disentanglement_score"], each["dto"]) for each in found]


def describe(found):
    """Return cells of the table for pairs of a score and a DtO."""
    scores, dto = np.transpose(found)
    spread = [f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" for values in (scores, dto)]
    return f"{spread[0]} | {spread[1]} | {np.corrcoef(scores, dto)[0, 1]:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--models", default="beta_vae,ae,full_covariance_vae")
    given = parser.parse_args()
    print("| model | embedding | Disent. | DtO | correlation |\n|---|---|---|---|---|")
    for model in given.models.split(","):
        seeds = range(given.restarts)
        print(f"| `{model}` | one for all seeds | {describe(measure(model, 0, seeds, given.epochs))}", flush=True)
        drawn = [pair for seed in seeds for pair in measure(model, seed, [seed], given.epochs)]
        print(f"| `{model}` | one for each seed | {describe(drawn)}", flush=True)


if __name__ == "__main__":
    main()
