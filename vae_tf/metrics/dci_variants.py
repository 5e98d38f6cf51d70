"""DCI with the learners of Eastwood, Williams 2018, Lasso and random forests, and DCI-ES with probes of many sizes."""

import functools
import warnings
from typing import Any

import numpy as np

from vae_tf import threads
from vae_tf.arguments import Bins, Seed
from vae_tf.kinds import decide
from vae_tf.metrics.importance import for_each, measure_dci, summarise, tell_apart_for
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows

TREES = 30                      # of a forest
DEPTHS = (1, 2, 4, 8, 16)       # of the trees of DCI-ES's probes: their capacities
FOLDS = 5


@register(needs=("codes", "factors"), learns=True, range=(0, 1), unchanged_by=("scale",),
          nearly_unchanged_by=("permutation", "sign"),
          meaning="`dci` with the weights of a Lasso regression, which sees straight lines alone")
def dci_lasso(codes: np.ndarray, factors: np.ndarray, seed: Seed = 0) -> Result:
    """`dci` with Lasso: the importance of a latent is the size of its weight in a sparse linear regression.

    Codes and factors are brought to standard deviation 1, and each factor is regressed on all latents. The weight of
    the L1 penalty is that of 100 which has the least squared error in cross-validation with 5 folds. Informativeness is
    1 less the root mean squared error on new rows over the factor's standard deviation, at least 0: Eastwood, Williams
    2018 print that quotient. A factor that depends on a latent in a curve may have small weights everywhere. Factors
    are taken as numbers, so the score misleads for an unordered one. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K].
        seed: seed of the split, two thirds to one third.

    Returns:
        Result; parts: those of `dci` but kinds, where accuracy [K] is informativeness; penalty [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV, lasso_path

    class CheckedOnceLassoCV(LassoCV):
        # By itself scikit-learn checks the products of columns at each of the 100 weights, which takes longer than all
        # that it computes.
        path = staticmethod(functools.partial(lasso_path, check_input=False))

    codes, factors = check_arrays(codes, factors)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying("dci_lasso", factors, train)
    z, v = (_standardise(columns, train) for columns in (codes, factors))
    importance, accuracy = np.zeros((codes.shape[1], len(varies))), np.full((2, len(varies)), np.nan)
    penalty = np.full(len(varies), np.nan)
    for k in np.flatnonzero(varies):
        with threads.limit_to_one(), warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            learner = CheckedOnceLassoCV(cv=FOLDS, precompute=True).fit(z[train], v[train, k])
        importance[:, k], penalty[k] = np.abs(learner.coef_), learner.alpha_
        for i, rows in enumerate((test, train)):
            error, spread = np.sqrt(np.mean((learner.predict(z[rows]) - v[rows, k])**2)), v[rows, k].std()
            accuracy[i, k] = max(0.0, 1 - error / spread) if spread else 0.0
    return summarise("dci_lasso", importance, accuracy, varies, penalty=penalty)


@register(needs=("codes", "factors"), learns=True, cost="minutes", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "scale", "warping", "relabelling"),
          meaning="`dci` with random forests, whose numbers differ")
def dci_forest(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
               seed: Seed = 0, score_alone: bool = False) -> Result:
    """`dci` with random forests of 30 trees, which may split on any latent and are as deep as they get.

    The importance of a latent is what its splits take from the impurity of a factor's classes. Eastwood, Williams 2018
    regress factors by forests; here factors are classes, as in `dci`. This is another metric than `dci`, because deep
    trees also split on what is noise: the importances of useless latents are not 0.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the trees.
        score_alone: leave out the accuracies, which are no part of the score; they are NaN then.

    Returns:
        Result; parts: those of `dci`.

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    return measure_dci("dci_forest", codes, factors, bins, kinds, seed, score_alone, for_each(_fit_forest))


@register(needs=("codes", "factors"), learns=True, cost="minutes", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "scale", "warping", "relabelling"),
          meaning="`dci_forest`, how small a forest does nearly as well, and the number of factors per latent")
def dci_es(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
           seed: Seed = 0, score_alone: bool = False) -> Result:
    """DCI-ES (Eastwood 2023): disentanglement, completeness and informativeness, with explicitness and size.

    Random forests of depth 1 to 16 learn each factor from all latents. The loss of a depth is 1 less the accuracy on
    new rows, and the least of it and of all smaller depths counts. Explicitness is the mean over factors of
    1 - 2 A / (15 b), where A is the area between the loss and its least value, over the depths, and b is the loss of a
    guess among the classes. It is 1 if the shallowest trees do as well as any, 0 if the loss falls from b to 0 in a
    straight line, and negative if only the deepest trees learn. Size is the number of factors over that of latents. The
    three other numbers are those of the deepest forests; the score is their disentanglement. (The public code takes
    the numbers of the depth that has the highest accuracy, which changes from one draw of rows to the next.)

    Explicitness says how soon a probe learns what can be learned, and not how much that is: useless codes have 1, too.
    Read it beside informativeness. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the trees.
        score_alone: fit the deepest forests alone, which give the score; explicitness is NaN then.

    Returns:
        Result; parts: those of `dci`, explicitness, size, per_factor_explicitness [K], loss [depths, K], depths.

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying("dci_es", v, train)
    importance, accuracy = np.zeros((codes.shape[1], len(varies))), np.full((len(DEPTHS), 2, len(varies)), np.nan)
    for i in (-1,) if score_alone else range(len(DEPTHS)):
        for k in np.flatnonzero(varies):
            learner, importance[:, k] = _fit_forest(codes[train], v[train, k], seed, DEPTHS[i])
            accuracy[i, :, k] = [learner.score(codes[rows], v[rows, k]) for rows in (test, train)]
    loss = 1 - accuracy[:, 0]
    explicitness = np.full(len(varies), np.nan)
    explicitness[varies] = [measure_explicitness(DEPTHS, loss[:, k], 1 - 1 / len(np.unique(v[:, k])))
                            for k in np.flatnonzero(varies)]
    return summarise("dci_es", importance, accuracy[-1], varies, kinds=np.array(kinds), loss=loss,
                     explicitness=np.array(np.mean(explicitness[varies])), per_factor_explicitness=explicitness,
                     size=np.array(varies.sum() / codes.shape[1]), depths=np.array(DEPTHS))


def measure_explicitness(capacities: Any, losses: np.ndarray, of_guess: float) -> float:
    """Return 1 - 2 A / ((last - first capacity) * of_guess), see `dci_es`.

    Args:
        capacities: [C], rising.
        losses: [C], of probes of these capacities.
        of_guess: the loss of a guess that knows no codes.
    """
    least = np.minimum.accumulate(losses)
    return float(1 - 2 * np.trapezoid(least - least[-1], capacities) / ((capacities[-1] - capacities[0]) * of_guess))


def _fit_forest(z: np.ndarray, v: np.ndarray, seed: int, depth: int | None = None) -> tuple[Any, np.ndarray]:
    """Fit a random forest that predicts classes v [N] from codes z [N, d]; with the importance [d] of each latent."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, max_depth=depth, max_features=None, random_state=seed)
    learner = tell_apart_for(forest, z).fit(z, v)
    return learner, forest.feature_importances_


def _standardise(columns: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return columns [N, c] of mean 0 and standard deviation 1 in the training rows; constant ones are 0."""
    constant = (columns[train] == columns[train[0]]).all(0)
    return np.where(constant, 0, (columns - columns[train].mean(0)) / np.where(constant, 1, columns[train].std(0)))
