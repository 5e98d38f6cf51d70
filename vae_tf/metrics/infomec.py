"""InfoMEC: modularity, explicitness and compactness of codes, from information about factors."""

import warnings

import numpy as np
import scipy

from vae_tf import threads
from vae_tf.arguments import Bins, Seed
from vae_tf.errors import InputError
from vae_tf.kinds import decide
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying

NEIGHBOURS = 10         # of the estimate of mutual information, as in the public code
ACTIVE_RANGE = 1 / 20   # of the widest latent's range, below which a latent is left out, as there


@register(needs=("codes", "factors"), cost="minutes", range=(0, 1), unchanged_by=(),
          nearly_unchanged_by=("permutation", "sign", "relabelling"),
          meaning="whether each latent is about one factor alone, by the nearest neighbours' mutual information")
def infomec(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, kinds: tuple[str, ...] | str | None = None,
            seed: Seed = 0) -> Result:
    """InfoMEC (Hsu 2023): modularity, with explicitness and compactness as parts.

    NMI [d, K] is I(z_j; v_k) / H(v_k), with the information estimated by nearest neighbours within each class (Ross
    2014), which needs no bins of codes. Modularity is the mean over active latents of the share that the best known
    factor has of all that a latent knows; compactness is the mean over factors of the share that the best latent has of
    all that is known of a factor. Both are scaled so that 1/K (1/d) becomes 0. Explicitness is the mean over factors of
    1 - L / log C, where L is the cross-entropy of a logistic regression from all codes to the C classes, on the rows
    that it has learned from.

    Modularity, the score, is 1 if each active latent is about one factor, and 0 if each knows all factors alike; a
    latent that knows nothing counts 0. With one factor it is 1, and with one active latent compactness is 1. A latent
    is active if its range is above a twentieth of the widest latent's. A constant factor is left out, with a warning.

    This is the public code's InfoMEC of continuous latents. For quantised latents that code has another one, of their
    values as classes, which this function does not compute: it takes quantised codes as numbers, and ties between them
    are broken by a jitter.

    Args:
        codes: [N, d], usually posterior means; 10,000 rows are usual.
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the jitter that breaks ties between neighbours.

    Returns:
        Result; parts: modularity, compactness, explicitness, per_latent [d] and per_factor [K] (before scaling),
        per_factor_explicitness [K], normalised_information [d, K], active [d], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    from sklearn.feature_selection import mutual_info_classif  # before its threads are limited

    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    varies, active = find_varying("infomec", v), _is_wide(codes)
    if len(codes) <= NEIGHBOURS:
        raise InputError(f"codes: infomec expects more than {NEIGHBOURS} rows, its neighbours; got {len(codes)}")
    z = (codes - codes.mean(0)) / np.where(codes.std(0) > 0, codes.std(0), 1)
    known = np.zeros((codes.shape[1], len(varies)))
    explicitness = np.full(len(varies), np.nan)
    with threads.limit_to_one():      # threads would only wait for each other
        for k in np.flatnonzero(varies):
            known[active, k] = mutual_info_classif(z[:, active], v[:, k], discrete_features=False,
                                                   n_neighbors=NEIGHBOURS, random_state=seed)
            known[:, k] /= scipy.stats.entropy(np.bincount(v[:, k]))
            explicitness[k] = _measure_explicitness(z, v[:, k])
    table = known[np.ix_(active, varies)]
    per_latent, per_factor = np.full(len(active), np.nan), np.full(len(varies), np.nan)
    per_latent[active], per_factor[varies] = _share_of_largest(table), _share_of_largest(table.T)
    modularity = _scale(per_latent[active].mean(), table.shape[1])
    compactness = _scale(per_factor[varies].mean(), table.shape[0])
    return Result("infomec", modularity,
                  {"modularity": np.array(modularity), "compactness": np.array(compactness),
                   "explicitness": np.array(np.nanmean(explicitness)), "per_latent": per_latent,
                   "per_factor": per_factor, "per_factor_explicitness": explicitness,
                   "normalised_information": known, "active": active, "kinds": np.array(kinds)},
                  f"modularity; 0: latents know all factors alike; 1: each is about one "
                  f"(explicitness {np.nanmean(explicitness):.3f}, compactness {compactness:.3f})")


def _is_wide(codes: np.ndarray) -> np.ndarray:
    """Return bool [d], whether a latent's range is above a twentieth of the widest latent's."""
    ranges = np.ptp(codes, axis=0)
    if not ranges.any():
        raise InputError("codes: infomec expects a latent that varies; all are constant")
    return ranges > ACTIVE_RANGE * ranges.max()


def _share_of_largest(table: np.ndarray) -> np.ndarray:
    """Return the share that the largest entry of each row has of the row's sum; of a row of zeros, an equal share."""
    total = table.sum(1)
    return np.where(total > 0, table.max(1) / np.where(total > 0, total, 1), 1 / table.shape[1])


def _scale(share: float, count: int) -> float:
    """Return a share of `count` parts as a number that is 0 for equal parts and 1 for a single one."""
    return 1.0 if count == 1 else float((share - 1 / count) / (1 - 1 / count))


def _measure_explicitness(z: np.ndarray, classes: np.ndarray) -> float:
    """Return 1 - L / log C for codes z [N, d] and classes [N]: balanced, without a penalty, and on the same rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    learner = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)     # 100 iterations are part of the definition
        predicted = learner.fit(z, classes).predict_proba(z)
    # Balanced classes make the regression from nothing predict all C alike, whose cross-entropy is log C.
    return 1 - float(log_loss(classes, predicted)) / np.log(len(learner.classes_))
