"""Explicitness: can the classes of a factor be read off all latents linearly?"""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from vae_tf.arguments import Bins, Seed
from vae_tf.errors import InputError
from vae_tf.kinds import decide
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, find_classes, find_varying
from vae_tf.metrics.splitting import TEST_SHARE, split_rows

FEW_WEIGHTS = 600       # of a logistic regression, up to which Newton's steps take little time and reach the optimum
NEWTON_STEPS = 100
ROWS = 2048             # examples whose part of the Hessian is computed at a time, which bounds its memory


@register(needs=("codes", "factors"), learns=True, cost="seconds", range=(0, 1), unchanged_by=("scale",),
          nearly_unchanged_by=("permutation", "sign", "relabelling"),
          by_factor=True,
          meaning="how well each class of each factor can be read off linearly, as an area under the ROC curve")
def explicitness(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20,
                 kinds: tuple[str, ...] | str | None = None, seed: Seed = 0, score_alone: bool = False) -> Result:
    """Explicitness: can each class of each factor be read off linearly? (Ridgeway, Mozer 2018.)

    The score is the test ROC area of one class against the rest under logistic regression on all latents, averaged over
    the classes of a factor and then over factors. It is in [0, 1]. It is 1 if every class can be read off perfectly,
    and 0.5 by chance. It does not say how many latents that takes. A class absent from the training or the test part
    has no area, and is left out; a constant factor is left out, with a warning. The regression is regularised, so each
    latent is first brought to mean 0 and standard deviation 1 on the training part, as in disentanglement_lib; its
    units do not count.

    Args:
        codes: [N, d].
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of a continuous factor.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        seed: seed of the split, two thirds to one third.
        score_alone: leave out per_factor_train, which takes time and is no part of the score; it is NaN then.

    Returns:
        Result; parts: per_factor [K], per_factor_train [K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, too few rows, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    v = find_classes(factors, bins, kinds)
    train, test = split_rows(len(codes), TEST_SHARE, seed)
    varies = find_varying("explicitness", v, train, test)
    constant = (codes[train] == codes[train[0]]).all(0)
    codes = (codes - codes[train].mean(0)) / np.where(constant, 1, codes[train].std(0))
    area = np.full((2, len(varies)), np.nan)
    for k in np.flatnonzero(varies):
        learner = fit_logistic(codes[train], v[train, k])
        for i, rows in enumerate((test,) if score_alone else (test, train)):
            area[i, k] = mean_roc_area(v[rows, k], learner.predict_proba(codes[rows]), learner.classes_)
    if np.isnan(area[0, varies]).all():
        raise InputError("factors: expected one with two classes in the test part; none has; give more rows")
    return Result("explicitness", float(np.nanmean(area[0])),
                  {"per_factor": area[0], "per_factor_train": area[1], "kinds": np.array(kinds)},
                  "0.5: chance; 1: every class of every factor can be read off linearly")


def mean_roc_area(v: np.ndarray, probability: np.ndarray, known: np.ndarray) -> float:
    """Compute the mean over classes of the ROC area of a class against the rest.

    v are classes [N], probability is [N, C], of classes known [C]. A class that v lacks has no area. The mean is NaN
    where none has: v is of one class, or of unknown classes alone.
    """
    is_class = v[:, np.newaxis] == known
    count = is_class.sum(0)
    has_area = (count > 0) & (count < len(v))
    if not has_area.any():
        return np.nan
    is_class, count = is_class[:, has_area], count[has_area]
    ranks = scipy.stats.rankdata(probability[:, has_area], axis=0)
    above = (ranks * is_class).sum(0) - count * (count + 1) / 2     # pairs in the right order (Mann, Whitney)
    return float(np.mean(above / (count * (len(v) - count))))


def fit_logistic(z: np.ndarray, v: np.ndarray) -> Any:
    """Fit a logistic regression of classes v [N] on codes z [N, d]; returns scikit-learn's, at its default penalty.

    Newton's steps reach the optimum soonest, unless weights are many: each step solves equations of all weights of all
    classes. Those of scikit-learn sum the Hessian for each pair of classes, which is slow where there are several.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classes, labels = np.unique(v, return_inverse=True)
    has_few = (z.shape[1] + 1) * len(classes) <= FEW_WEIGHTS
    # Where codes lie is only a matter of the constants, but all solvers are slow, or stop early, far from 0. A mean
    # would follow outliers, and leave all other codes on one side of it.
    center = np.median(z, 0)
    learner: Any = None
    is_optimal = False
    if has_few and len(classes) > 2:
        learner, is_optimal = _fit_in_newton_steps(z - center, classes, labels)
    if not is_optimal:
        with warnings.catch_warnings():
            for each in (ConvergenceWarning, scipy.linalg.LinAlgWarning):       # after the latter it goes on by L-BFGS
                warnings.simplefilter("ignore", each)
            solver: Any = {"solver": "newton-cholesky", "tol": 1e-8} if has_few and len(classes) == 2 else {}
            other = LogisticRegression(max_iter=1_000, **solver).fit(z - center, v)
        if learner is None or _compute_loss(other, z - center, labels) < _compute_loss(learner, z - center, labels):
            learner = other
    learner.intercept_ = learner.intercept_ - learner.coef_ @ center
    return learner


def _compute_loss(learner: Any, z: np.ndarray, labels: np.ndarray) -> float:
    """Return what a logistic regression of three classes or more minimises: -log p(labels), and half the weights^2."""
    log_p = scipy.special.log_softmax(learner.decision_function(z), axis=1)
    return float((learner.coef_**2).sum() / 2 - log_p[np.arange(len(z)), labels].sum())


def _fit_in_newton_steps(z: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> tuple[Any, bool]:
    """Fit scikit-learn's LogisticRegression of classes [C], three or more, to codes z [N, d] with labels [N] in 0..C-1.

    The codes lie around 0. It returns the regression, and whether it is the optimum: rounding may keep the steps from
    it, or too many may be needed.

    It minimises the sum over examples of -log p(label) plus half the squared weights; the constants are free. Nearly
    all of the time goes into the Hessian. So that of an earlier step is taken again where it leads on quickly, and far
    from the optimum its sums are of float32.
    """
    from sklearn.linear_model import LogisticRegression

    spread = np.sqrt((z**2).mean(0))
    scale = np.append(np.where(spread > 0, spread, 1), 1)       # so that rounding treats all columns alike
    X = np.hstack([z, np.ones((len(z), 1))]) / scale
    penalty = np.append(scale[:-1] ** -2.0, 0)
    own = labels[:, np.newaxis] == np.arange(len(classes))

    def evaluate(W: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective, and the probabilities [N, C]."""
        scores = X @ W.T
        scores -= scores.max(1, keepdims=True)
        p = np.exp(scores)
        total = p.sum(1)
        loss = np.log(total).sum() - scores[np.arange(len(X)), labels].sum() + (penalty * W**2).sum() / 2
        return float(loss), p / total[:, np.newaxis]

    W = np.zeros((len(classes), X.shape[1]))
    loss, p = evaluate(W)
    promised, solve, is_rough, is_optimal = np.inf, None, True, False
    for _ in range(NEWTON_STEPS):
        gradient = (np.where(own, -_complement(p), p).T @ X + penalty * W).ravel()
        step = solve(gradient) if solve else gradient
        is_new = solve is None or gradient @ step > promised / 10
        if is_new:
            is_rough &= promised > 1e-2 * (1 + loss)
            H = _sum_curvature(p, X, np.float32 if is_rough else np.float64)
            H[np.diag_indices(len(H))] += np.tile(penalty, len(classes))
            solve = _make_solver(H, 1e-12 * len(X))
            step = solve(gradient)
        promised, length = float(gradient @ step), 1.0
        # What is left after a step is about the square of what it promised, and with an old Hessian a tenth of it.
        nearly = not is_rough and promised < (1e-6 if is_new else 1e-12) * (1 + loss)
        while True:         # a full step, unless the objective falls by less than a part of what the slope promises
            there = W - length * step.reshape(W.shape)
            found, p_there = evaluate(there)
            if found <= loss - 1e-4 * length * promised or length < 1e-6:
                break
            length /= 2
        if found < loss:
            W, loss, p = there, found, p_there
        elif is_new and not nearly:
            break
        if nearly:
            is_optimal = True
            break
    learner = LogisticRegression()
    learner.classes_, learner.n_features_in_ = classes, z.shape[1]
    learner.coef_ = W[:, :-1] / scale[:-1]
    learner.intercept_ = W[:, -1]
    return learner, is_optimal


def _sum_curvature(p: np.ndarray, X: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    """Return the Hessian float64 [C D, C D] of a logistic loss, at examples X [N, D] of probabilities p [N, C].

    It is sum_n (diag p_n - p_n p_n^T) (x) x_n x_n^T, and the sums are of numbers of a dtype.
    """
    (N, C), D, each = p.shape, X.shape[1], np.arange(p.shape[1])
    H, own = np.zeros((C * D, C * D), dtype), np.zeros((C, D, D), dtype)
    variance = p * _complement(p)       # p - p^2 of examples that are nearly known would be nothing but rounding
    for rows in (slice(start, start + ROWS) for start in range(0, N, ROWS)):
        x = X[rows].astype(dtype)
        flat = (p[rows].astype(dtype)[:, :, np.newaxis] * x[:, np.newaxis]).reshape(len(x), -1)
        H -= flat.T @ flat
        own += (variance[rows].T.astype(dtype)[:, :, np.newaxis] * x).transpose(0, 2, 1) @ x
    H.reshape(C, D, C, D)[each, :, each] = own
    return H.astype(np.float64)


def _complement(p: np.ndarray) -> np.ndarray:
    """Return 1 - p of probabilities p [N, C], to the same relative precision where p is nearly 1."""
    others = p.copy()
    largest = np.arange(len(p)), p.argmax(1)
    others[largest] = 0
    complement = 1 - p
    complement[largest] = others.sum(1)
    return complement


def _make_solver(H: np.ndarray, least: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from g [n] to about H^-1 g, for a symmetric H [n, n], positive semidefinite up to rounding.

    H is brought to a diagonal of ones, and a little is added to it, so that directions that H does not see are left
    alone: a shift of all constants, and latents that are copies of each other. More is added where rounding is larger,
    as it is where all examples are known for certain. Entries of the diagonal below `least` count as `least`.
    """
    unit = 1 / np.sqrt(np.maximum(H.diagonal(), least))
    H = H * unit * unit[:, np.newaxis]
    for little in 10.0 ** np.arange(-10, 11, 2):
        with contextlib.suppress(scipy.linalg.LinAlgError):
            factor = scipy.linalg.cho_factor(H + little * np.eye(len(H)), overwrite_a=True, check_finite=False)
            break
    else:
        return lambda g: unit**2 * g
    return lambda g: unit * scipy.linalg.cho_solve(factor, unit * g, check_finite=False)
