"""DCI: how far each latent serves one factor, by the importances of trees that predict factors from all latents."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy

from vae_tf import threads
from vae_tf.arguments import Bins, Seed
from vae_tf.kinds import decide
from vae_tf.metrics import boosted_trees
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows

JOINED = 1e-7           # the distance within which scikit-learn's trees take values for one
LARGEST = float(np.finfo(np.float32).max)


@register(needs=("codes", "factors"), learns=True, cost="seconds", range=(0, 1), unchanged_by=("scale",),
          nearly_unchanged_by=("permutation", "sign", "warping", "relabelling"),
          meaning="`dci` with trees that see at most 255 bins of each latent; its scores are close to those of `dci`")
def dci_fast(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
             seed: Seed = 0, score_alone: bool = False) -> Result:
    """`dci` in less than a tenth of the time: the same trees, on bins of each latent (`BoostedTrees`).

    With up to 255 distinct values of each latent the two differ by ties alone. With more, trees that see every value
    adapt themselves more closely to noise, so importances differ by some thousandths, or hundredths with few rows.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the trees.
        score_alone: leave out the accuracies, which take time and are no part of the score; they are NaN then.

    Returns:
        Result; parts: disentanglement, completeness, informativeness, informativeness_train, per_latent [d],
        latent_weight [d], per_factor [K] (completeness), accuracy [K], importance [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    return measure_dci("dci_fast", codes, factors, bins, kinds, seed, score_alone, _fit_binned)


@register(needs=("codes", "factors"), learns=True, cost="minutes", range=(0, 1),
          nearly_unchanged_by=("permutation", "sign", "scale", "warping", "relabelling"), unchanged_by=(),
          meaning="whether each latent serves one factor, by the importances of gradient boosted trees")
def dci(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
        seed: Seed = 0, score_alone: bool = False) -> Result:
    """Disentanglement, completeness, informativeness (Eastwood, Williams 2018) with gradient boosted trees.

    R [d, K] is the importance of latent j to the trees that predict factor k from all latents; the importances for
    each factor sum to 1. Disentanglement is the mean over latents of 1 - H_K(R_j.), weighted by the share of all
    importance that latent j has. Completeness is the mean over factors of 1 - H_d(R_.k). The entropies are to base K
    and d. Informativeness is the test accuracy. The score is disentanglement, and all three are in [0, 1].

    Disentanglement is 1 if each latent serves one factor, and 0 if all latents serve all factors alike. Completeness is
    1 if each factor is served by one latent. With one factor disentanglement is 1, and with one latent completeness is
    1, even if the codes are useless. A constant factor is left out, with a warning.

    Monotone warping of a latent does not change the trees. Their seed decides ties: without a seed, as published, the
    score changes from call to call. The trees are those of sklearn's GradientBoostingClassifier at its defaults, as in
    disentanglement_lib. They take minutes at 10,000 rows; `dci_fast` takes less. Where float32, which they see, joins
    values of a latent, they get its ranks.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third, and of the trees.
        score_alone: leave out the accuracies, which take time and are no part of the score; they are NaN then.

    Returns:
        Result; parts: disentanglement, completeness, informativeness, informativeness_train, per_latent [d],
        latent_weight [d], per_factor [K] (completeness), accuracy [K], importance [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    return measure_dci("dci", codes, factors, bins, kinds, seed, score_alone, for_each(fit_boosted))


def fit_boosted(z: np.ndarray, v: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
    """Fit boosted trees that predict classes v [N] from codes z [N, d]; with the importance [d] of each latent."""
    from sklearn.ensemble import GradientBoostingClassifier

    trees = GradientBoostingClassifier(random_state=seed)
    learner = tell_apart_for(trees, z).fit(z, v)
    return learner, np.abs(trees.feature_importances_)      # rounding makes some zeros negative


def tell_apart_for(trees: Any, z: np.ndarray) -> Any:
    """Return a learner that gives codes to scikit-learn's trees in a form in which codes that differ stay apart.

    The trees take codes as float32, and join values that lie within 1e-7 of each other. In a latent of which they would
    join more than one value in a hundred, ranks among the values of z take the place of the values.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    ordered = [np.unique(column) if _would_be_joined(column) else None for column in z.T]

    def rank(codes: np.ndarray) -> np.ndarray:
        return np.stack([np.clip(column, -LARGEST, LARGEST) if values is None
                         else np.interp(column, values, np.arange(len(values)))
                         for column, values in zip(codes.T, ordered, strict=True)], 1)

    return make_pipeline(FunctionTransformer(rank), trees)


def _would_be_joined(column: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        told_apart = 1 + np.count_nonzero(np.diff(np.unique(column.astype(np.float32))) > JOINED)
    return bool(told_apart < 0.99 * len(np.unique(column)))


def _fit_binned(z: np.ndarray, v: np.ndarray, seed: int) -> list[tuple[Any, np.ndarray]]:
    return [(trees, trees.importance) for trees in boosted_trees.fit_each(z, v, seed)]


def for_each(fit: Callable[[np.ndarray, np.ndarray, int], tuple[Any, np.ndarray]]) -> Callable[..., Iterable[tuple]]:
    """Return a function that fits a learner to each column of classes [n, K], of one that fits one to classes [n].

    Each is fitted when it is asked for, so that memory holds one learner at a time.
    """
    return lambda z, v, seed: (fit(z, column, seed) for column in v.T)


def measure_dci(name: str, codes: np.ndarray, factors: np.ndarray, bins: int, kinds: tuple[str, ...] | str | None,
                seed: int, score_alone: bool, fit: Callable[[np.ndarray, np.ndarray, int], Iterable[tuple]]) -> Result:
    """Return the DCI of codes [N, d], whose factors [N, K] are classes that `fit` learns; a metric's Result.

    Args:
        name: the metric's name.
        codes, factors, bins, kinds, seed, score_alone: see `dci`.
        fit: a function of codes [n, d], classes [n, K] and a seed, which returns a learner and the importances [d] for
            each of the K factors.
    """
    import sklearn.ensemble  # noqa: F401    before its threads are limited

    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying(name, v, train)
    importance, accuracy = np.zeros((codes.shape[1], len(varies))), np.full((2, len(varies)), np.nan)
    with threads.limit_to_one():      # threads would only wait for each other
        fitted = fit(codes[train], v[train][:, varies], seed)
        for k, (learner, of_latents) in zip(np.flatnonzero(varies), fitted, strict=True):
            importance[:, k] = of_latents
            if not score_alone:
                accuracy[:, k] = [learner.score(codes[rows], v[rows, k]) for rows in (test, train)]
    return summarise(name, importance, accuracy, varies, kinds=np.array(kinds))


def summarise(name: str, importance: np.ndarray, accuracy: np.ndarray, varies: np.ndarray,
              **parts: np.ndarray) -> Result:
    """Return the Result of importances [d, K] and of accuracies [2, K] on test and training rows.

    varies [K] says which factors count, and parts are further ones of the Result.
    """
    disentanglement, per_latent, weight = concentration(importance[:, varies])
    completeness = concentration(importance[:, varies].T)[1]
    per_factor = np.full(len(varies), np.nan)
    per_factor[varies] = completeness
    informativeness = accuracy[:, varies].mean(1)
    return Result(name, disentanglement,
                  {"disentanglement": np.array(disentanglement), "completeness": np.array(completeness.mean()),
                   "informativeness": np.array(informativeness[0]),
                   "informativeness_train": np.array(informativeness[1]), "per_latent": per_latent,
                   "latent_weight": weight, "per_factor": per_factor, "accuracy": accuracy[0],
                   "importance": importance, **parts},
                  f"disentanglement; 0: latents serve all factors alike; 1: each serves one "
                  f"(completeness {completeness.mean():.3f}, informativeness {informativeness[0]:.3f})")


def concentration(importance: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return how concentrated each row of a table [rows, columns] >= 0 is: 1 - its entropy to base `columns`.

    Returns the mean weighted by the rows' sums, the rows' own values, and the weights. A row of zeros counts 0 and
    weighs nothing; with one column every row is 1; a table of zeros gives 0.
    """
    rows, columns = importance.shape
    total = importance.sum(1)
    share = importance / np.where(total > 0, total, 1)[:, np.newaxis]
    entropy = scipy.stats.entropy(np.where(total > 0, share.T, 1), axis=0)
    each = np.where(total > 0, 1 - entropy / np.log(max(columns, 2)), 0)
    weight = total / total.sum() if total.any() else np.full(rows, 1 / rows)
    return float(weight @ each), each, weight
