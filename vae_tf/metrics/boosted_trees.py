"""Gradient boosted trees that predict classes: scikit-learn's GradientBoostingClassifier in a tenth of its time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vae_tf.typing import Floats, Integers

ROUNDS, RATE, DEPTH = 100, 0.1, 3       # scikit-learn's defaults, which disentanglement_lib takes
BINS = 255                              # of a latent; scikit-learn reserves one more for values that are missing
SMALLEST = 1e-150                       # scikit-learn does not divide by less


class BoostedTrees:
    """Trees that predict classes from codes, like those of scikit-learn's GradientBoostingClassifier (Friedman 2001).

    The residuals, the choice of splits, the update of the leaves, and the number, depth and rate of the trees are those
    of scikit-learn at its defaults. What differs is how a split is found. The values of a latent are put into 255 bins
    of equally many examples first, which loses nothing of up to 255 distinct values, and scikit-learn's own histograms
    then add up residuals in float32. Between splits that are equally good, a random order of the latents decides.

    Attributes:
        classes: [C], sorted.
        importance: [d], the share of each latent in what all splits reduce the squared error by. The shares sum to 1,
            unless no tree has a split: then all are 0.
    """

    def __init__(self, z: Floats, v: Integers, seed: int = 0) -> None:
        """Fit the trees.

        Args:
            z: codes [N, d].
            v: the class [N] of each code; at least two of them differ.
            seed: seed of the order that decides between equally good splits.
        """
        from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper  # it has no public name

        self.classes, labels = np.unique(v, return_inverse=True)
        several, latents = len(self.classes) > 2, z.shape[1]
        targets = (np.eye(len(self.classes))[labels].T if several else labels[np.newaxis]).astype(np.float64)
        shares = targets.mean(1, keepdims=True)
        self._start = np.log(shares) if several else np.log(shares / (1 - shares))
        self._bins = _BinMapper(n_bins=BINS + 1, random_state=seed, n_threads=1).fit(z)
        self._rounds: list[tuple[Integers, list[Any]]] = []     # the order of the latents, and a tree for each score
        binned, counts, thresholds = self._bins.transform(z), self._bins.n_bins_non_missing_, self._bins.bin_thresholds_
        scores, gain = np.repeat(self._start, len(z), 1), np.zeros(latents)
        rate = RATE * (len(scores) - 1) / len(scores) if several else RATE
        random = np.random.default_rng(seed)
        for _ in range(ROUNDS):
            order = random.permutation(latents)
            columns, ordered_thresholds = binned.T[order].T, [thresholds[j] for j in order]
            trees = []
            for k, residuals in enumerate(targets - _find_shares(scores)):
                tree, steps = _grow_tree(columns, counts[order], ordered_thresholds, residuals, rate)
                scores[k] += steps
                splits = tree.nodes[tree.nodes["is_leaf"] == 0]
                np.add.at(gain, order[splits["feature_idx"]], np.maximum(splits["gain"], 0))
                trees.append(tree)
            self._rounds.append((order, trees))
        self.importance = gain / gain.sum() if gain.any() else gain

    def predict(self, z: Floats) -> Integers:
        """Return the most likely class [N] of codes z [N, d]."""
        binned = self._bins.transform(z)
        scores = np.repeat(self._start, len(z), 1)
        for order, trees in self._rounds:
            columns = binned.T[order].T
            for k, tree in enumerate(trees):
                scores[k] += tree.predict_binned(columns, BINS, 1)
        return self.classes[scores.argmax(0) if len(scores) > 1 else (scores[0] > 0).astype(int)]

    def score(self, z: Floats, v: Integers) -> float:
        """Return the share of codes z [N, d] whose class [N] is predicted."""
        return float(np.mean(self.predict(z) == v))


def _find_shares(scores: Floats) -> Floats:
    """Return the probabilities [S, N] of scores: of each class, or of the second of two if there is one score."""
    if len(scores) == 1:
        return 1 / (1 + np.exp(-scores))
    shares = np.exp(scores - scores.max(0))
    return shares / shares.sum(0)


def _grow_tree(binned: Integers, counts: Integers, thresholds: Sequence[Floats], residuals: Floats,
               rate: float) -> tuple[Any, Floats]:
    """Return a tree that fits residuals [N], and the step [N] that it adds to the score of each example."""
    from sklearn.ensemble._hist_gradient_boosting.grower import TreeGrower

    grower = TreeGrower(binned, (-residuals).astype(np.float32), np.ones(1, np.float32), max_depth=DEPTH,
                        min_samples_leaf=1, min_hessian_to_split=0, n_bins=BINS + 1, n_bins_non_missing=counts,
                        n_threads=1)
    grower.grow()
    leaves = grower.finalized_leaves
    rows = np.concatenate([leaf.sample_indices for leaf in leaves])
    sizes = [len(leaf.sample_indices) for leaf in leaves]
    # The step of a leaf is one of Newton's: the sum of the residuals r over that of abs(r) (1 - abs(r)).
    found, starts = residuals[rows], np.cumsum([0, *sizes[:-1]])
    up, down = np.add.reduceat(found, starts), np.add.reduceat(abs(found) * (1 - abs(found)), starts)
    of_leaf = rate * np.divide(up, down, out=np.zeros(len(leaves)), where=down > SMALLEST)
    for leaf, step in zip(leaves, of_leaf, strict=True):
        leaf.value = step
    steps = np.empty(len(rows))
    steps[rows] = np.repeat(of_leaf, sizes)
    return grower.make_predictor(thresholds), steps
