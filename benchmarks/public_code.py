"""Compare the scores of disentanglement_lib's own code with ours, on codes of the dSprites factors.

    python benchmarks/public_code.py --disentanglement_lib=PATH [--examples=N] [--votes=N] [--write=FILE] [FIXTURE ...]

PATH is a checkout of github.com/google-research/disentanglement_lib. Its metrics are run as they are, through their
public functions, with the settings of its config/unsupervised_study_v1; its configuration library gin is replaced by
a stand-in of a dozen lines, and TensorFlow is not needed. FIXTURE is a name of FIXTURES; all are run by default. FILE
gets the public code's scores; tests/test_public_code.py compares ours with its copy, tests/public_code.json.

Metrics of arrays get the same rows on both sides, two thirds to learn from where they learn. Metrics that intervene
draw their own batches on either side, 3/2 `votes` of them, from the whole grid of 737,280 combinations of factors. A
difference is in bold where it is beyond chance: 1e-6 where nothing is drawn; 5 standard errors of a difference of
accuracies for `beta_vae_score` and `factor_vae_score`; and 0.05 for trees, whose ties another seed breaks otherwise.
The trees are of shape, scale and coarse positions alone, because there are as many of them as values.
"""

import argparse
import functools
import importlib
import json
import math
import sys
import types
import warnings

import numpy as np

from vae_tf import metrics
from vae_tf.data import dsprites
from vae_tf.metrics import splitting

GRID = dsprites.factors_at(np.arange(np.prod(dsprites.SIZES)))
U = (GRID - GRID.mean(0)) / GRID.std(0)
COARSE = np.column_stack([GRID[:, :2], GRID[:, 3:] // 8])     # shape, scale, and positions in quarters

BINDINGS = {"prune_dims": {"threshold": 0.05}}        # settings of gin, by the names in its files


def draws(seed, size=U.shape[1]):
    return np.random.default_rng(seed).standard_normal((len(U), size))


def turned(degrees):
    """Return U with every pair of neighbouring latents turned by an angle, one pair after the other."""
    codes, c, s = U.copy(), math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    for i in range(U.shape[1] - 1):
        a, b = codes[:, i].copy(), codes[:, i + 1].copy()
        codes[:, i], codes[:, i + 1] = c * a - s * b, s * a + c * b
    return codes


FIXTURES = {
    "perfect": lambda: U,
    "scaled by 0.15": lambda: 0.15 * U,
    "scaled by 1e-3": lambda: 1e-3 * U,
    "shifted by 3": lambda: U + 3,
    "rotated": lambda: turned(35),
    "products": lambda: U * np.roll(U, -1, 1),
    "U exp(roll U)": lambda: U * np.exp(np.roll(U, -1, 1)),
    "polar": lambda: np.column_stack([U[:, :3], np.hypot(U[:, 3], U[:, 4]), np.arctan2(U[:, 4], U[:, 3])]),
    "warped": lambda: U**3,
    "noisy": lambda: U + 0.5 * draws(0),
    "correlated": lambda: U + 0.5 * U.sum(1, keepdims=True),
    "duplicated": lambda: np.hstack([U, U + 0.01 * draws(1)]),
    "one factor missing": lambda: np.column_stack([U[:, 1:], 0.1 * draws(2, 1)]),
    "two factors in one latent": lambda: np.column_stack([U[:, 0] + 0.5 * U[:, 1], U[:, 2:], 0.3 * draws(3, 1)]),
    "useless": lambda: draws(4),
    "useless beside perfect": lambda: np.hstack([U, draws(5)]),
    "a constant latent": lambda: np.column_stack([U, np.full(len(U), 0.1)]),
}


class Rows:
    """The interface of a data set in disentanglement_lib; observations are row numbers of the grid.

    `sample` returns the rows of a list, in order, so that both sides score the same ones.
    """

    num_factors = GRID.shape[1]

    def __init__(self, rows=(), factors=GRID):
        self.rows, self.factors, self.given = rows, factors, 0

    def sample(self, number, random_state):
        rows = self.rows[self.given:self.given + number]
        self.given += number
        return self.factors[rows], rows

    def sample_factors(self, number, random_state):
        return np.stack([random_state.randint(size, size=number) for size in dsprites.SIZES], -1)

    def sample_observations_from_factors(self, factors, random_state):
        return np.ravel_multi_index(factors.T, dsprites.SIZES)

    def sample_observations(self, number, random_state):
        return self.sample_observations_from_factors(self.sample_factors(number, random_state), random_state)


def drawn(examples):
    """Return the grid rows that metrics of arrays get, those that metrics learn from and those they are tested on."""
    rows = np.random.default_rng(0).permutation(len(GRID))[:3 * examples // 2]
    return rows, splitting.split_rows(len(rows), splitting.TEST_SHARE, 0)


def public_metrics(path):
    """Return the metric modules of a checkout, by name, with gin replaced."""
    def configurable(name, blacklist=()):
        def bind(function):
            @functools.wraps(function)
            def bound(*arguments, **named):
                return function(*arguments, **{**BINDINGS.get(name, {}), **named})
            return bound
        return bind

    gin = types.ModuleType("gin")
    gin.configurable, gin.REQUIRED, gin.tf = configurable, object(), types.ModuleType("gin.tf")
    sys.modules.update({"gin": gin, "gin.tf": gin.tf})
    sys.path.insert(0, path)
    names = ("utils", "mig", "sap_score", "dci", "modularity_explicitness", "irs", "beta_vae", "factor_vae",
             "unsupervised_metrics")
    found = {name: importlib.import_module(f"disentanglement_lib.evaluation.metrics.{name}") for name in names}
    BINDINGS["discretizer"] = {"num_bins": 20, "discretizer_fn": found["utils"]._histogram_discretize}
    return types.SimpleNamespace(**found)


def theirs(public, codes, examples, votes, seed=0):
    """Return the scores of disentanglement_lib for codes of the whole grid, by the names that vae_tf has for them."""
    rows, parts = drawn(examples)
    at, random = codes.__getitem__, np.random.RandomState(seed)
    sizes = {"num_train": len(parts[0]), "num_test": len(parts[1])}
    learned = np.concatenate([rows[part] for part in parts])
    np.random.seed(seed)        # the trees and the support vector machine draw from NumPy's global generator

    batches = {"batch_size": 64, "num_train": votes, "num_eval": votes // 2}

    def of(compute, rows, *keys, factors=GRID, **arguments):
        found = compute(Rows(rows, factors), at, random, **arguments)
        return [found[key] for key in keys]

    groups = {
        ("mig",): lambda: of(public.mig.compute_mig, rows, "discrete_mig", num_train=len(rows)),
        ("explicitness", "modularity"): lambda: of(
            public.modularity_explicitness.compute_modularity_explicitness, learned, "explicitness_score_test",
            "modularity_score", **sizes),
        ("sap",): lambda: of(public.sap_score.compute_sap, learned, "SAP_score", continuous_factors=False, **sizes),
        ("sap, continuous",): lambda: of(public.sap_score.compute_sap, learned, "SAP_score", continuous_factors=True,
                                         **sizes),
        ("irs",): lambda: of(public.irs.compute_irs, rows, "IRS", num_train=len(rows), batch_size=16),
        ("total_correlation", "wasserstein_correlation", "mutual_information"): lambda: of(
            public.unsupervised_metrics.unsupervised_metrics, rows, "gaussian_total_correlation",
            "gaussian_wasserstein_correlation", "mutual_info_score", num_train=len(rows)),
        ("dci", "dci completeness"): lambda: of(
            public.dci.compute_dci, learned, "disentanglement", "completeness", factors=COARSE, **sizes),
        ("beta_vae_score",): lambda: of(public.beta_vae.compute_beta_vae_sklearn, (), "eval_accuracy", **batches),
        ("factor_vae_score",): lambda: of(public.factor_vae.compute_factor_vae, (), "eval_accuracy",
                                          num_variance_estimate=10_000, **batches),
    }
    scores = {}
    for names, compute in groups.items():
        try:
            scores |= {name: float(np.real(score)) for name, score in zip(names, compute(), strict=True)}
        except (ValueError, IndexError, np.linalg.LinAlgError) as error:
            print(f"{', '.join(names)}: the public code fails: {str(error).splitlines()[0]}", file=sys.stderr)
            scores |= dict.fromkeys(names, math.nan)
    return scores


def ours(codes, examples, votes, names=None):
    """Return vae_tf's scores for codes of the whole grid; `names` selects some of them."""
    rows, (train, _) = drawn(examples)
    z, v = codes[rows], GRID[rows]
    grid = metrics.Sampler(codes.__getitem__, GRID)
    dci = functools.cache(lambda: metrics.dci(z, COARSE[rows]))
    scores = {
        **{name: lambda name=name: metrics.METRICS[name].measure(metrics.Context(z, v)).score for name in
           ("mig", "explicitness", "sap", "total_correlation", "wasserstein_correlation", "mutual_information")},
        "modularity": lambda: metrics.modularity(z[train], v[train]).score,
        "sap, continuous": lambda: metrics.sap(z, v, kinds="continuous").score,
        "irs": lambda: metrics.irs(metrics.make_sampler(z, v)).score,
        "dci": lambda: dci().score,
        "dci completeness": lambda: dci().parts["completeness"],
        "beta_vae_score": lambda: metrics.beta_vae_score(grid, train=votes, test=votes // 2).score,
        "factor_vae_score": lambda: metrics.factor_vae_score(grid, train=votes, test=votes // 2).score,
    }
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return {name: float(scores[name]()) for name in names or scores}


def tolerance(name, score, votes):
    """Return how far apart chance alone may bring two scores of the same codes."""
    if name.startswith("dci"):
        return 0.05
    if name in ("beta_vae_score", "factor_vae_score"):
        # Half of the votes are for testing. An accuracy of 1 over all of them is known to within 1 / votes.
        return 5 * math.sqrt(2 * max(score * (1 - score), 2 / votes) / (votes // 2))
    return 1e-6


def save(flags, written):
    """Write the public code's scores as JSON, null where it fails, and how they were computed."""
    scores = {fixture: {name: score if math.isfinite(score) else None for name, score in of.items()}
              for fixture, of in written.items()}
    with open(flags.write, "w") as file:
        json.dump({"made_by": f"benchmarks/public_code.py --examples={flags.examples} --votes={flags.votes}",
                   "examples": flags.examples, "votes": flags.votes, "scores": scores}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disentanglement_lib", required=True, help="path of a checkout")
    parser.add_argument("--examples", type=int, default=1_000, help="rows that metrics estimate from")
    parser.add_argument("--votes", type=int, default=2_000, help="batches that interventional metrics learn from")
    parser.add_argument("--write", help="JSON file for the public code's scores")
    parser.add_argument("fixtures", nargs="*", metavar="FIXTURE")
    flags = parser.parse_args()
    public, written, differ = public_metrics(flags.disentanglement_lib), {}, []
    print("| codes | score | disentanglement_lib | ours | difference |\n|---|---|--:|--:|--:|")
    for fixture in flags.fixtures or FIXTURES:
        codes = FIXTURES[fixture]()
        with warnings.catch_warnings(action="ignore"):
            written[fixture] = theirs(public, codes, flags.examples, flags.votes)
        for name, score in ours(codes, flags.examples, flags.votes).items():
            published = written[fixture][name]
            equal = abs(score - published) <= tolerance(name, published, flags.votes)
            differ += [] if equal else [(fixture, name)]
            difference = f"{score - published:.1g}" if equal else f"**{score - published:.3f}**"
            print(f"| {fixture} | `{name}` | {published:.4f} | {score:.4f} | {difference} |", flush=True)
        if flags.write:
            save(flags, written)
    print(f"\n{sum(map(len, written.values()))} scores of {len(written)} fixtures; beyond chance differ {len(differ)}: "
          + "; ".join(f"{name} of {fixture}" for fixture, name in differ))


if __name__ == "__main__":
    main()
