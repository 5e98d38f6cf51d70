"""Linear support vector machines of a single latent, fitted by sums over its sorted values.

For each class c, w and b minimise
    (w^2 + b^2) / 2 + sum_n C_n max(0, 1 - y_n (w z_n + b))^2,    y_n = 1 for rows of class c, -1 for the others,
which is what scikit-learn's LinearSVC(dual=False) minimises. The rows whose loss is above 0 lie on one side of a value
of z. So a Newton step needs no pass over the rows, but cumulative sums of 1, z and z^2 at that value alone.
"""

import numpy as np

STEPS, HALVINGS = 100, 40       # of Newton's method, which ends after the step from which no row enters or leaves
ROUNDING = 1e-12                # relative, of an objective


def predict_classes(z: np.ndarray, v: np.ndarray, new: np.ndarray, cost: float) -> np.ndarray:
    """Return the classes [M] that support vector machines with balanced classes predict for new values [M].

    Args:
        z: values of a latent to learn from [N].
        v: their classes [N].
        new: values of the latent [M].
        cost: the weight C of a row's loss in classes of equal size.
    """
    classes, v = np.unique(v, return_inverse=True)
    if len(classes) == 1:
        return np.full(len(new), classes[0])
    weight = cost * len(v) / (len(classes) * np.bincount(v))
    # As in LinearSVC, the weights of two classes are both balanced, and the rest of more classes has the weight C.
    w, b = _fit(z, v, weight, weight[::-1] if len(classes) == 2 else np.full(len(classes), cost))
    return classes[(new[:, np.newaxis] * w + b).argmax(1)]


def _fit(z: np.ndarray, v: np.ndarray, of_class: np.ndarray, of_rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return w and b [C] of each class 0..C-1 of v, with weights C_n [C] of the rows of the class and of the rest."""
    rows = _SortedRows(z, v)
    w, b = np.zeros((2, len(of_class)))
    value, gradient, step = _evaluate(rows, w, b, of_class, of_rest)
    for _ in range(STEPS):
        share = np.ones_like(w)
        for halved in range(1, HALVINGS + 2):
            trial = w - share * step[0], b - share * step[1]
            found = _evaluate(rows, *trial, of_class, of_rest)
            worse = found[0] > value * (1 + ROUNDING)
            if not worse.any():
                break
            share[worse] *= 0.5 if halved < HALVINGS else 0
        (w, b), (value, gradient, step) = trial, found
        if (np.abs(gradient * step).sum(0) <= ROUNDING * value).all():      # what another step would gain, twice
            break
    return w, b


def _evaluate(rows: "_SortedRows", w: np.ndarray, b: np.ndarray, of_class: np.ndarray, of_rest: np.ndarray,
              ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the objective [C], its gradient by w and b [2, C], and Newton's step, which is to be subtracted [2, C]."""
    of, rest = rows.sum_losing(w, b)
    n, s, q = of_class * of + of_rest * rest                        # weighted sums of 1, z and z^2
    m, r, _ = of_class * of - of_rest * rest                        # the same, times y
    value = (w**2 + b**2) / 2 + n - 2 * (w * r + b * m) + w**2 * q + 2 * w * b * s + b**2 * n
    gradient = np.stack([w + 2 * (w * q + b * s - r), b + 2 * (w * s + b * n - m)])
    ww, wb, bb = 1 + 2 * q, 2 * s, 1 + 2 * n
    determinant = np.maximum(ww * bb - wb**2, 1)        # it is at least 1, but for rounding
    step = np.stack([bb * gradient[0] - wb * gradient[1], ww * gradient[1] - wb * gradient[0]]) / determinant
    return value, gradient, step


class _SortedRows:
    """Cumulative sums of 1, z and z^2 over rows in the order of z, of all rows and of each class apart."""

    def __init__(self, z: np.ndarray, v: np.ndarray) -> None:
        order = np.argsort(z)
        self.z, v = z[order], v[order]
        by_class = np.argsort(v, kind="stable")
        self.count = np.bincount(v)
        self.first = np.cumsum(self.count) - self.count
        self.places = v[by_class] * len(z) + by_class               # rising: by class, and within it by z
        self.of_all, self.by_class = _accumulate(self.z), _accumulate(self.z[by_class])
        self.of_class = self.by_class[:, self.first + self.count] - self.by_class[:, self.first]
        self.of_rest = self.of_all[:, -1:] - self.of_class

    def sum_losing(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of 1, z, z^2 [3, C] over rows whose loss is above 0, of each class and of the rest."""
        with np.errstate(over="ignore"):
            divisor = np.where(w == 0, 1e-300, w)
            of = self._sum_below((1 - b) / divisor)[0]
            rest = self._sum_below((-1 - b) / divisor)[1]
        rising = w >= 0
        return np.where(rising, of, self.of_class - of), np.where(rising, self.of_rest - rest, rest)

    def _sum_below(self, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums over rows of each class, and of the rest, whose z is below the class's limit [C]."""
        place = np.searchsorted(self.z, limit)
        own = np.searchsorted(self.places, np.arange(len(limit)) * len(self.z) + place)
        of = self.by_class[:, own] - self.by_class[:, self.first]
        return of, self.of_all[:, place] - of


def _accumulate(z: np.ndarray) -> np.ndarray:
    """Return the sums of 1, z and z^2 over the first 0, 1, ..., N rows [3, N + 1]."""
    return np.concatenate([np.zeros((3, 1)), np.cumsum([np.ones_like(z), z, z**2], axis=1)], 1)
