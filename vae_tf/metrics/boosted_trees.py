"""Gradient boosted trees that predict classes: those of scikit-learn, on bins, in a tenth of the time.

The trees of one round, one for each class, grow together: each step below works on all of them at once.
"""

from typing import NamedTuple

import numpy as np
import scipy

from vae_tf.typing import Floats, Integers

ROUNDS, RATE, DEPTH = 100, 0.1, 3       # scikit-learn's defaults, which disentanglement_lib takes
BINS = 255                              # of a latent
BLOCK, LONG = 15, 32                    # bins in a block, and the shortest long row, see `_accumulate`
SMALLEST = 1e-150                       # scikit-learn does not divide by less


class Round(NamedTuple):
    """The trees of one round. Node m of a level has the children 2 m and 2 m + 1 in the next.

    Examples whose bin of a latent is larger than a threshold go to the second child. A node that is not split has its
    largest bin for a threshold, so that all go to the first.

    levels: for each level, the latents and the thresholds of the splits, [S, nodes]; a tree for each of S scores.
    steps: [S, 2^DEPTH], what the leaves add to the scores.
    """

    levels: list[tuple[Integers, Integers]]
    steps: Floats


class BoostedTrees:
    """Trees that predict classes from codes, like those of scikit-learn's GradientBoostingClassifier (Friedman 2001).

    The residuals, the choice of splits, the update of the leaves, and the number, depth and rate of the trees are those
    of scikit-learn at its defaults. But splits are between bins: the values of a latent are put into 255 bins of about
    equally many examples first, which loses nothing of up to 255 distinct values. Scores and residuals are float32.
    Between splits that are equally good, rounding or a random order of the latents decides.

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
        self.classes, labels = np.unique(v, return_inverse=True)
        several, latents = len(self.classes) > 2, z.shape[1]
        targets = (np.eye(len(self.classes))[labels].T if several else labels[np.newaxis]).astype(np.float32)
        shares = targets.mean(1, keepdims=True)
        self._start = np.log(shares) if several else np.log(shares / (1 - shares))
        self._edges = [_find_edges(values) for values in z.T]
        self._rounds: list[Round] = []
        binned = self._put_into_bins(z)
        members = _list_members(binned)
        scores, gain = np.repeat(self._start, len(z), 1), np.zeros(latents)
        rate = RATE * (len(scores) - 1) / len(scores) if several else RATE
        random = np.random.default_rng(seed)
        for _ in range(ROUNDS):
            residuals = targets - _find_shares(scores)
            grown, nodes = _grow(binned, members, residuals, rate, random.permutation(latents), gain)
            scores += np.take_along_axis(grown.steps, nodes, 1)
            self._rounds.append(grown)
        self.importance = gain / gain.sum() if gain.any() else gain

    def predict(self, z: Floats) -> Integers:
        """Return the most likely class [N] of codes z [N, d]."""
        binned = self._put_into_bins(z)
        scores = np.repeat(self._start, len(z), 1)
        for grown in self._rounds:
            nodes: Integers = np.zeros(scores.shape, np.uint8)
            for latents, thresholds in grown.levels:
                nodes = _descend(binned, nodes, latents, thresholds)
            scores += np.take_along_axis(grown.steps, nodes, 1)
        return self.classes[scores.argmax(0) if len(scores) > 1 else (scores[0] > 0).astype(int)]

    def score(self, z: Floats, v: Integers) -> float:
        """Return the share of codes z [N, d] whose class [N] is predicted."""
        return float(np.mean(self.predict(z) == v))

    def _put_into_bins(self, z: Floats) -> Integers:
        """Return the bins uint8 [d, N] of codes [N, d]; values on an edge belong to the bin below it."""
        return np.array([np.searchsorted(edges, values) for edges, values in zip(self._edges, z.T, strict=True)],
                        np.uint8)


def _find_edges(values: Floats) -> Floats:
    """Return what lies between the bins of a latent's values [N], ascending."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(values, np.arange(1, BINS) / BINS, method="midpoint"))


def _list_members(binned: Integers) -> "scipy.sparse.csr_array":
    """Return [d BINS, N]: 1 where an example is in a bin of a latent."""
    latents, examples = binned.shape
    rows = (binned + BINS * np.arange(latents)[:, np.newaxis]).ravel()
    return scipy.sparse.csr_array((np.ones(rows.size, np.float32), (rows, np.tile(np.arange(examples), latents))),
                                  shape=(latents * BINS, examples))


def _find_shares(scores: Floats) -> Floats:
    """Return the probabilities [S, N] of scores: of each class, or of the second of two if there is one score."""
    if len(scores) == 1:
        return 1 / (1 + np.exp(-scores))
    shares = np.exp(scores - scores.max(0))
    return shares / shares.sum(0)


def _grow(binned: Integers, members: "scipy.sparse.csr_array", residuals: Floats, rate: float, order: Integers,
          gain: Floats) -> tuple[Round, Integers]:
    """Return trees that fit residuals [S, N], and the leaf [S, N] of each example; gains are added to gain [d]."""
    trees, examples = residuals.shape
    summed = residuals[:, np.newaxis]
    levels: list[tuple[Integers, Integers]] = []
    nodes: Integers = np.zeros(residuals.shape, np.uint8)
    sums, counts = _add_up(members, summed), _add_up(members, np.ones((1, 1, examples), np.float32))
    for level in range(DEPTH):
        if level:       # the histograms of second children are what those of the first leave of their parents'
            first = nodes[:, np.newaxis] == 2 * np.arange(2 ** (level - 1), dtype=np.uint8)[:, np.newaxis]
            sums, counts = (_interleave(found, parents - found) for parents, found in (
                (sums, _add_up(members, first * summed)),
                (counts, _add_up(members, first.astype(np.float32)))))
        latents, thresholds, gains = _split(sums, counts, order)
        np.add.at(gain, latents, gains)
        levels.append((latents, thresholds))
        nodes = _descend(binned, nodes, latents, thresholds)
    # The step of a leaf is one of Newton's: the sum of the residuals r over that of abs(r) (1 - abs(r)).
    leaves = (nodes + 2**DEPTH * np.arange(trees)[:, np.newaxis]).ravel()
    up, down = (np.bincount(leaves, values.ravel(), 2**DEPTH * trees).reshape(trees, -1)
                for values in (residuals, abs(residuals) * (1 - abs(residuals))))
    steps = rate * np.divide(up, down, out=np.zeros(up.shape), where=down > SMALLEST)
    return Round(levels, steps.astype(np.float32)), nodes


def _add_up(members: "scipy.sparse.csr_array", values: Floats) -> Floats:
    """Return the sums of values [S, nodes, N] in each bin of each latent: [d, BINS, S, nodes]."""
    columns = np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T)
    return (members @ columns).reshape(-1, BINS, *values.shape[:2])


def _interleave(first: Floats, second: Floats) -> Floats:
    """Return [..., 2 n] of first and second children [..., n]."""
    return np.stack([first, second], -1).reshape(*first.shape[:-1], -1)


def _split(sums: Floats, counts: Floats, order: Integers) -> tuple[Integers, Integers, Floats]:
    """Return the latent, the threshold and the gain [S, nodes] of the best split of each node.

    Args:
        sums, counts: of residuals and of examples, [d, BINS, S, nodes]; counts may have S = 1.
        order: of the latents, which decides between equal gains.
    """
    sums, counts = _accumulate(sums), _accumulate(counts)
    number = counts[:1, -1:]
    # What a split takes from the squared error is n1 n2 / n (mean1 - mean2)^2. Of centred residuals, whose sum is 0,
    # that is n / (n1 n2) sum1^2.
    gains = counts * (sums[:1, -1:] / np.maximum(number, 1))
    gains -= sums
    gains *= gains
    weight = number - counts
    weight *= counts
    splits = weight > 0
    gains /= np.maximum(weight, 1, out=weight)      # faster than a division with a mask
    gains *= splits
    best = gains.max(1)
    latents = order[best[order].argmax(0)]
    found = np.take_along_axis(gains, latents[np.newaxis, np.newaxis], 0)[0]
    largest = found.max(0) * number[0, 0]
    thresholds = np.where(largest > 0, found.argmax(0), BINS - 1).astype(np.uint8)
    return latents, thresholds, largest


def _accumulate(values: Floats) -> Floats:
    """Return the sums of values [d, BINS, ...] over the bins up to each.

    np.cumsum goes from bin to bin for each of the last indices. Where these are many, it is faster to add up whole rows
    of them.
    """
    if values[0, 0].size < LONG:
        return np.cumsum(values, 1)
    blocks = values.reshape(len(values), -1, BLOCK, *values.shape[2:]).copy()
    for i in range(1, BLOCK):
        blocks[:, :, i] += blocks[:, :, i - 1]
    for i in range(1, blocks.shape[1]):
        blocks[:, i] += blocks[:, i - 1, -1:]
    return blocks.reshape(values.shape)


def _descend(binned: Integers, nodes: Integers, latents: Integers, thresholds: Integers) -> Integers:
    """Return the children [S, N] to which examples of bins [d, N] go from nodes [S, N] of trees."""
    children = 2 * nodes
    for k, own in enumerate(nodes):
        for m, (latent, threshold) in enumerate(zip(latents[k], thresholds[k], strict=True)):
            children[k] += (binned[latent] > threshold) & (own == m)
    return children
