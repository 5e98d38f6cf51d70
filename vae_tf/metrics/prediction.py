"""Metrics from predicting factors from codes: disentanglement_score, sap, explicitness, DCI, downstream accuracy.

All learn on one part of the rows and are scored on the rest; the seed says which.
"""

import warnings

import numpy as np
from scipy.stats import entropy
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from vae_tf.errors import InputError
from vae_tf.kinds import decided
from vae_tf.metrics.information import gaps
from vae_tf.metrics.result import Result, checked, classes, varying

TEST_SHARE = 1 / 3          # 10,000 rows to learn from, 5,000 to be scored on
FEWEST_ROWS = 10


def parts(rows, test_share, seed):
    """Indices of the training and of the test part, a random split of `rows` rows.

    Raises:
        InputError: too few rows to learn anything.
    """
    if rows < FEWEST_ROWS:
        raise InputError(f"codes: expected at least {FEWEST_ROWS} rows, to learn from some and test on the others; "
                         f"got {rows}")
    order = np.random.default_rng(seed).permutation(rows)
    test = round(test_share * rows)
    return order[test:], order[:test]


def disentanglement_score(codes, factors, kinds=None, neighbours=5, seed=0):
    """rolinek's Disentanglement score (S65-S71): the gap in how well single latents predict a factor.

    mean over factors i of (A_im - A_is) / M_i, with m and s the two latents that predict v_i best, by k nearest
    neighbours from that latent alone. Regression: A = std - rmse, M = std of v_i. Classification: A = accuracy,
    M = accuracy of the best constant, the commonest class.

    From 0 up. 0: for each factor two latents predict equally well. 1, regression: one latent predicts the
    factor perfectly and no other does better than a constant. The paper calls it a number between 0 and 1; as
    printed it is not: a useless latent's kNN is worse than a constant (rmse = std sqrt(1 + 1/k)), so that a perfect
    code scores 1.095 at k = 5; and accuracy over the accuracy of a constant reaches the number of classes. The part
    `bounded` is in [0, 1]: A no worse than the best constant's, over what is to be gained on that.
    With one latent, its rival is the constant. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K].
        kinds: of the factors, see `vae_tf.kinds.decided`. The categorical ones are classified, all others regressed,
            as rolinek did for positions.
        neighbours: k.
        seed: of the split, 80/20.

    Returns:
        Result; parts: gap [K], latent [K] (m), performance A [d, K], normaliser M [K], kinds [K], bounded.

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = checked(codes, factors)
    kinds = decided(factors, kinds)
    train, test = parts(len(codes), 0.2, seed)
    if neighbours > len(train):
        raise InputError(f"neighbours: expected at most {len(train)}, the training rows; got {neighbours}")
    varies = varying("disentanglement_score", factors[test])
    performance, normaliser, constant, perfect = (np.zeros((codes.shape[1], len(varies))), *np.ones((3, len(varies))))
    for k in np.flatnonzero(varies):
        v, classify = factors[:, k], kinds[k] == "categorical"
        if classify:
            v = np.unique(v, return_inverse=True)[1]
            count = np.unique(v[test], return_counts=True)[1]
            constant[k] = normaliser[k] = count.max() / len(test)
        else:
            constant[k], perfect[k] = 0, v[test].std()
            normaliser[k] = perfect[k]
        for j, z in enumerate(codes.T[..., np.newaxis]):
            learner = (KNeighborsClassifier if classify else KNeighborsRegressor)(neighbours)
            predicted = learner.fit(z[train], v[train]).predict(z[test])
            performance[j, k] = (np.mean(predicted == v[test]) if classify
                                 else perfect[k] - np.sqrt(np.mean((predicted - v[test])**2)))
    above = np.maximum(performance - constant, 0)
    gap = (gaps(performance) if len(performance) > 1 else above[0]) / normaliser
    bounded = gaps(above) / np.where(varies, perfect - constant, 1)
    return Result("disentanglement_score", float(gap[varies].mean()),
                  {"gap": np.where(varies, gap, np.nan), "latent": performance.argmax(0), "performance": performance,
                   "normaliser": normaliser, "kinds": np.array(kinds), "bounded": np.array(bounded[varies].mean())},
                  "0: no latent predicts a factor better than another does; 1: one predicts it, the rest do not")


def sap(codes, factors, kinds=None, seed=0):
    """Separated attribute predictability (Kumar 2018): the gap in how well single latents predict a factor linearly.

    mean over factors of the gap between the two best latents. Discrete factors: test accuracy of a linear SVM
    (C = 0.01, balanced classes) on one latent. Continuous factors: squared correlation. In [0, 1]. 0: two latents
    predict equally well; 1: one predicts perfectly and the next not at all, which chance accuracy keeps out
    of reach for discrete factors. The SVM regularises its weight and its intercept, so the score depends on the scale
    of each latent, and on its mean. A constant latent predicts the commonest class, or correlates 0; so does one of
    a variance below 1e-12 with a continuous factor. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K].
        kinds: of the factors, see `vae_tf.kinds.decided`.
        seed: of the split, two thirds to one third.

    Returns:
        Result; parts: gap [K], latent [K], score_matrix [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = checked(codes, factors)
    kinds = decided(factors, kinds)
    v = classes(factors, kinds=kinds)
    train, test = parts(len(codes), TEST_SHARE, seed)
    varies = varying("sap", factors[train])
    table = np.zeros((codes.shape[1], len(varies)))
    for k in np.flatnonzero(varies):
        for j, z in enumerate(codes.T[..., np.newaxis]):
            table[j, k] = (_squared_correlation(z[train, 0], factors[train, k]) if kinds[k] == "continuous"
                           else _svm_accuracy(z, v[:, k], train, test))
    gap = gaps(table)
    return Result("sap", float(gap[varies].mean()),
                  {"gap": np.where(varies, gap, np.nan), "latent": table.argmax(0), "score_matrix": table,
                   "kinds": np.array(kinds)},
                  "0: no latent predicts a factor better than another does; higher: one does; depends on the scale "
                  "and the mean of codes")


def _svm_accuracy(z, v, train, test):
    learner = LinearSVC(C=0.01, class_weight="balanced", dual=False)     # the primal: deterministic, and converges
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return learner.fit(z[train], v[train]).score(z[test], v[test])


def _squared_correlation(z, v):
    """r^2; that of a variance below 1e-12 is 0."""
    (zz, zv), (_, vv) = np.cov(z, v, ddof=0)
    return zv**2 / (zz * vv) if min(zz, vv) > 1e-12 else 0.0


def explicitness(codes, factors, bins=20, kinds=None, seed=0):
    """Explicitness: can each class of each factor be read off linearly? (Ridgeway, Mozer 2018.)

    Test ROC area of one class against the rest under logistic regression on all latents; mean over the
    classes of a factor, then over factors. In [0, 1]. 1: perfectly readable. 0.5: chance. It does not ask how
    many latents that takes. A class absent from the training or the test part has no area, and is left out; a
    constant factor is left out, with a warning. The regression is regularised, so each latent is first brought to
    mean 0 and standard deviation 1 on the training part, as in disentanglement_lib; its units do not count.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: of continuous factors.
        kinds: of the factors, see `vae_tf.kinds.decided`.
        seed: of the split, two thirds to one third.

    Returns:
        Result; parts: per_factor [K], per_factor_train [K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = checked(codes, factors)
    kinds = decided(factors, kinds)
    v = classes(factors, bins, kinds)
    train, test = parts(len(codes), TEST_SHARE, seed)
    varies = varying("explicitness", v[train])
    constant = (codes[train] == codes[train[0]]).all(0)
    codes = (codes - codes[train].mean(0)) / np.where(constant, 1, codes[train].std(0))
    area = np.full((2, len(varies)), np.nan)
    for k in np.flatnonzero(varies):
        learner = _logistic(codes[train], v[train, k])
        for i, rows in enumerate((test, train)):
            area[i, k] = mean_roc_area(v[rows, k], learner.predict_proba(codes[rows]), learner.classes_)
    if np.isnan(area[0, varies]).all():
        raise InputError("factors: expected one with two classes in the test part; none has; give more rows")
    return Result("explicitness", float(np.nanmean(area[0])),
                  {"per_factor": area[0], "per_factor_train": area[1], "kinds": np.array(kinds)},
                  "0.5: chance; 1: every class of every factor can be read off linearly")


def mean_roc_area(v, probability, known):
    """Mean over classes of the ROC area of class against rest; v [N], probability [N, C] of classes known [C].

    Classes that v lacks have no area; if v is of one class, or of unknown classes alone, none has: NaN.
    """
    areas = [roc_auc_score(v == c, p) for c, p in zip(known, probability.T, strict=True) if 0 < (v == c).sum() < len(v)]
    return np.mean(areas) if areas else np.nan


def _logistic(z, v):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return LogisticRegression(max_iter=1_000).fit(z, v)


def dci(codes, factors, bins=20, kinds=None, seed=0):
    """Disentanglement, completeness, informativeness (Eastwood, Williams 2018) with gradient boosted trees.

    R [d, K] is the importance of latent j to the trees that predict factor k from all latents, each factor's
    summing to 1. Disentanglement: mean of 1 - H_K(R_j.), weighted by the share of importance latent j has;
    completeness: mean over factors of 1 - H_d(R_.k), entropies to base K and d; informativeness: test accuracy.
    The score is disentanglement; all are in [0, 1]. Disentanglement 1: each latent serves one factor; 0: all
    serve all alike. Completeness 1: each factor is served by one latent. One factor alone is disentangled (1),
    one latent alone complete (1), useless or not. A constant factor is left out, with a warning.

    Trees do not mind monotone warping of a latent. Their seed decides ties: unseeded, as published, the score
    moves. sklearn's GradientBoostingClassifier at its defaults, as in disentanglement_lib: minutes at 10,000
    rows; see `dci_fast`.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: of continuous factors.
        kinds: of the factors, see `vae_tf.kinds.decided`.
        seed: of the split, two thirds to one third, and of the trees.

    Returns:
        Result; parts: disentanglement, completeness, informativeness, informativeness_train, per_latent [d],
        latent_weight [d], per_factor [K] (completeness), accuracy [K], importance [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    return _dci("dci", codes, factors, bins, kinds, seed, _boosted)


def dci_fast(codes, factors, bins=20, kinds=None, seed=0):
    """`dci` with histogram gradient boosting: the same depth, rate and number of trees, on 255 quantile bins.

    The importance of a latent is the total gain of its splits. A variant of its own: it agrees with `dci` in kind,
    not in digits.

    Args, returns, raises: as `dci`.
    """
    return _dci("dci_fast", codes, factors, bins, kinds, seed, _histogram_boosted)


def _boosted(z, v, seed):
    learner = GradientBoostingClassifier(random_state=seed).fit(z, v)
    return learner, np.abs(learner.feature_importances_)        # rounding makes some of those that are 0 negative


def _histogram_boosted(z, v, seed):
    learner = HistGradientBoostingClassifier(max_depth=3, early_stopping=False, random_state=seed).fit(z, v)
    gain = np.zeros(z.shape[1])
    for tree in (tree for iteration in learner._predictors for tree in iteration):   # sklearn has no public way
        nodes = tree.nodes[tree.nodes["is_leaf"] == 0]
        np.add.at(gain, nodes["feature_idx"], np.maximum(nodes["gain"], 0))
    return learner, gain / gain.sum() if gain.any() else gain


def _dci(name, codes, factors, bins, kinds, seed, fit):
    codes, factors = checked(codes, factors)
    kinds = decided(factors, kinds)
    v = classes(factors, bins, kinds)
    train, test = parts(len(codes), TEST_SHARE, seed)
    varies = varying(name, v[train])
    importance, accuracy = np.zeros((codes.shape[1], len(varies))), np.full((2, len(varies)), np.nan)
    with threadpool_limits(1):      # on thousands of small trees, threads only wait for each other
        for k in np.flatnonzero(varies):
            learner, importance[:, k] = fit(codes[train], v[train, k], seed)
            accuracy[:, k] = [learner.score(codes[rows], v[rows, k]) for rows in (test, train)]
    disentanglement, per_latent, weight = concentration(importance[:, varies])
    completeness = concentration(importance[:, varies].T)[1]
    per_factor = np.full(len(varies), np.nan)
    per_factor[varies] = completeness
    return Result(name, disentanglement,
                  {"disentanglement": np.array(disentanglement), "completeness": np.array(completeness.mean()),
                   "informativeness": np.array(np.nanmean(accuracy[0])),
                   "informativeness_train": np.array(np.nanmean(accuracy[1])), "per_latent": per_latent,
                   "latent_weight": weight, "per_factor": per_factor, "accuracy": accuracy[0],
                   "importance": importance, "kinds": np.array(kinds)},
                  f"disentanglement; 0: latents serve all factors alike; 1: each serves one "
                  f"(completeness {completeness.mean():.3f}, informativeness {np.nanmean(accuracy[0]):.3f})")


def concentration(importance):
    """How concentrated each row of a table [rows, columns] >= 0 is: 1 - its entropy to base `columns`.

    Returns the mean weighted by the rows' sums, the rows' own values, and the weights. A row of zeros counts 0 and
    weighs nothing; with one column every row is 1; a table of zeros gives 0.
    """
    rows, columns = importance.shape
    total = importance.sum(1)
    share = importance / np.where(total > 0, total, 1)[:, np.newaxis]
    each = np.where(total > 0, 1 - entropy(np.where(total > 0, share.T, 1), axis=0) / np.log(max(columns, 2)), 0)
    weight = total / total.sum() if total.any() else np.full(rows, 1 / rows)
    return float(weight @ each), each, weight


SIZES = (10, 100, 1_000, 10_000)


def downstream_logistic(codes, factors, sizes=SIZES, bins=20, kinds=None, seed=0):
    """Accuracy of logistic regression that predicts factors from all latents, learned from few labels.

    Mean over factors of the test accuracy (Locatello 2019, section 5.4), for each number of labels; the score
    is that at the most labels. In [0, 1]. 1: read off perfectly; chance is 1/classes. Default regularisation,
    not the published cross-validated one, so the scale of codes counts. A size beyond the training rows is cut to
    them; labels that happen to be of one class predict that class. A constant factor is left out, with a warning.

    Args:
        codes: [N, d].
        factors: [N, K]; integers as classes, floats in `bins` equal-width bins.
        sizes: numbers of labels.
        bins: of float factors.
        seed: of the split, two thirds to one third, and of the labels drawn.

    Returns:
        Result; parts: labels [S], accuracy [S, K], mean_accuracy [S], efficiency (accuracy at 100 labels over that
        at 10,000, Locatello's statistical efficiency; NaN without both sizes), kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, sizes below 2, or no factor that varies.
    """
    return _downstream("downstream_logistic", codes, factors, sizes, bins, kinds, seed, _logistic)


def downstream_gbt(codes, factors, sizes=SIZES, bins=20, kinds=None, seed=0):
    """Accuracy of gradient boosted trees that predict factors from all latents, learned from few labels.

    As `downstream_logistic`, with sklearn's GradientBoostingClassifier at its defaults: minutes at 10,000 labels,
    and no matter what the scale of codes is.

    Args, returns, raises: as `downstream_logistic`.
    """
    return _downstream("downstream_gbt", codes, factors, sizes, bins, kinds, seed,
                       lambda z, v: _boosted(z, v, seed)[0])


def _downstream(name, codes, factors, sizes, bins, kinds, seed, fit):
    codes, factors = checked(codes, factors)
    if not len(sizes) or min(sizes) < 2:
        raise InputError(f"sizes: expected numbers of labels, at least 2; got {tuple(sizes)}")
    kinds = decided(factors, kinds)
    v = classes(factors, bins, kinds)
    train, test = parts(len(codes), TEST_SHARE, seed)
    varies = varying(name, v[train])
    accuracy = np.full((len(sizes), len(varies)), np.nan)
    for (s, size), k in ((s, k) for s in enumerate(sizes) for k in np.flatnonzero(varies)):
        rows = train[:size]
        constant = (v[rows, k] == v[rows[0], k]).all()
        predicted = v[rows[0], k] if constant else fit(codes[rows], v[rows, k]).predict(codes[test])
        accuracy[s, k] = np.mean(predicted == v[test, k])
    mean = np.nanmean(accuracy, axis=1)
    by_size = dict(zip(sizes, mean, strict=True)) if len(train) >= max(sizes) else {}
    efficiency = by_size[100] / by_size[10_000] if {100, 10_000} <= by_size.keys() else np.nan
    labels = np.minimum(sizes, len(train))
    by_number = dict(zip(labels, mean, strict=True))    # where there are fewer than asked for, sizes coincide
    return Result(name, float(mean[np.argmax(sizes)]),
                  {"labels": labels, "accuracy": accuracy, "mean_accuracy": mean, "efficiency": np.array(efficiency),
                   "kinds": np.array(kinds)},
                  "accuracy at " + ", ".join(f"{n:,} labels {a:.3f}" for n, a in by_number.items()))
