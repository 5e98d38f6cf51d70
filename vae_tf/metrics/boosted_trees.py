"""Gradient boosted trees that predict classes: those of scikit-learn, on bins, in less than a tenth of the time.

The trees of one round, one for each class, grow together: each step below works on all of them at once.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from vae_tf.typing import Floats, Integers

ROUNDS, RATE, DEPTH = 100, 0.1, 3       # scikit-learn's defaults, which disentanglement_lib takes
BINS = 255                              # of a latent, at most
IN_A_BIN, FEWEST = 10, 60               # of a latent of more values: examples in a bin, and the fewest bins
BLOCK, LONG = 15, 32                    # bins in a block, and the shortest long row, see `_accumulate`
WIDEST = 80                             # of differences of scores whose exponential is a float32
SMALLEST = 1e-150                       # scikit-learn does not divide by less
LONGEST = 10                            # the most by which a leaf moves a score


class Round(NamedTuple):
    """The trees of one round. Node m of a level has the children 2 m and 2 m + 1 in the next.

    Examples whose bin of a latent is larger than a threshold go to the second child. A node that is not split has its
    largest bin for a threshold, so that all go to the first.

    levels: for each level, the latents and the thresholds of the splits, [nodes, S]; a tree for each of S scores.
    steps: [S, 2^DEPTH], what the leaves add to the scores.
    """

    levels: list[tuple[Integers, Integers]]
    steps: Floats


class BoostedTrees:
    """Trees that predict classes from codes, like those of scikit-learn's GradientBoostingClassifier (Friedman 2001).

    The residuals, the choice of splits, the update of the leaves, and the number, depth and rate of the trees are those
    of scikit-learn at its defaults. But splits are between bins: the values of a latent are put into bins of about
    equally many examples first, which loses nothing of up to 255 distinct values. A latent of more values has a bin for
    every ten examples, but no fewer than 60 bins and no more than 255. Scores and residuals are float32, so that the
    step of a leaf whose examples are known nearly for certain is mostly rounding: no step is longer than LONGEST.
    Between splits that are equally good, rounding or, for each node, chance decides, as in scikit-learn.

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
            seed: seed of the choice between equally good splits.
        """
        self.classes, labels = np.unique(v, return_inverse=True)
        several, latents = len(self.classes) > 2, z.shape[1]
        targets = (np.eye(len(self.classes))[labels] if several else labels[:, np.newaxis]).astype(np.float32)
        shares = targets.mean(0)
        self._start = np.log(shares) if several else np.log(shares / (1 - shares))
        most = min(BINS, max(FEWEST, len(z) // IN_A_BIN))
        self._edges = [_find_edges(values, most) for values in z.T]
        self._rounds: list[Round] = []
        binned = self._put_into_bins(z)
        bins = BLOCK * math.ceil((1 + max(map(len, self._edges))) / BLOCK)
        members = _list_members(binned, bins)
        counts = _accumulate(_add_up(members, bins, np.ones((len(z), 1), np.float32), 1))
        scores, gain = np.tile(self._start, (len(z), 1)), np.zeros(latents)
        rate = RATE * (len(self._start) - 1) / len(self._start) if several else RATE
        random = np.random.default_rng(seed)
        for _ in range(ROUNDS):
            residuals = np.subtract(targets, shares := _find_shares(scores), out=shares)
            grown, leaves = _grow(binned, members, counts, residuals, rate, random, gain)
            scores += grown.steps.take(leaves)
            self._rounds.append(grown)
        self.importance = gain / gain.sum() if gain.any() else gain

    def predict(self, z: Floats) -> Integers:
        """Return the most likely class [N] of codes z [N, d]."""
        binned = self._put_into_bins(z)
        scores = np.tile(self._start, (len(z), 1))
        for grown in self._rounds:
            nodes: Integers = np.zeros(scores.T.shape, np.uint8)
            for latents, thresholds in grown.levels:
                nodes = _descend(binned, nodes, latents, thresholds)
            scores += grown.steps.take(_number_leaves(nodes))
        return self.classes[scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)]

    def score(self, z: Floats, v: Integers) -> float:
        """Return the share of codes z [N, d] whose class [N] is predicted."""
        return float(np.mean(self.predict(z) == v))

    def _put_into_bins(self, z: Floats) -> Integers:
        """Return the bins uint8 [d, N] of codes [N, d]; values on an edge belong to the bin below it."""
        return np.array([np.searchsorted(edges, values) for edges, values in zip(self._edges, z.T, strict=True)],
                        np.uint8)


def _find_edges(values: Floats, most: int) -> Floats:
    """Return what lies between the bins of a latent's values [N], ascending: `most` bins, or one for each value."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(values, np.arange(1, most) / most, method="midpoint"))


def _list_members(binned: Integers, bins: int) -> "scipy.sparse.csc_array":
    """Return [d bins, N]: 1 where an example is in a bin of a latent.

    A product with it goes from example to example, so that the values of one are read once for all latents.
    """
    latents, examples = binned.shape
    rows = (binned + bins * np.arange(latents)[:, np.newaxis]).T.ravel()
    return scipy.sparse.csc_array((np.ones(rows.size, np.float32), rows, latents * np.arange(examples + 1)),
                                  shape=(latents * bins, examples))


def _find_shares(scores: Floats) -> Floats:
    """Return the probabilities [N, S] of scores: of each class, or of the second of two if there is one score."""
    if scores.shape[1] == 1:
        return 1 / (1 + np.exp(-scores))
    low, high = scores.min(), scores.max()
    # No exponential may be infinite, nor all of a row 0. The largest of each row takes longer to find than that of all.
    shares = scores - (high if high - low < WIDEST else scores.max(1, keepdims=True))
    np.exp(shares, out=shares)
    shares /= (shares @ np.ones(shares.shape[1], np.float32))[:, np.newaxis]
    return shares


def _grow(binned: Integers, members: "scipy.sparse.csc_array", counts: Floats, residuals: Floats, rate: float,
          random: np.random.Generator, gain: Floats) -> tuple[Round, Integers]:
    """Return trees that fit residuals [N, S], and the place in their steps [N, S] of the leaf of each example.

    Args:
        binned, members: the bins [d, N] of examples, and the same as a matrix, see `_list_members`.
        counts: how many examples are in the bins up to each, [d, bins, 1, 1].
        residuals, rate: what the trees fit, and the share of it that they add.
        random: what decides between latents of equal gain.
        gain: [d], to which the gains of the splits are added.
    """
    levels: list[tuple[Integers, Integers]] = []
    nodes: Integers = np.zeros(residuals.T.shape, np.uint8)     # [S, N], as whole rows of bins are compared
    bins = counts.shape[1]
    sums = _accumulate(_add_up(members, bins, residuals, 1))
    for level in range(DEPTH):
        if level:       # the histograms of second children are what those of the first leave of their parents'
            across, parents = nodes.T.copy(), 2 ** (level - 1)
            first = np.concatenate([across == 2 * m for m in range(parents)], 1).astype(np.float32)
            inside = (first.reshape(len(first), parents, -1) * residuals[:, np.newaxis]).reshape(first.shape)
            sums, counts = (_add_second(total, _accumulate(_add_up(members, bins, values, parents)))
                            for total, values in ((sums, inside), (counts, first)))
        latents, thresholds, gains = _split(sums, counts, random)
        np.add.at(gain, latents, gains)
        levels.append((latents, thresholds))
        nodes = _descend(binned, nodes, latents, thresholds)
    # The step of a leaf is one of Newton's: the sum of the residuals r over that of abs(r) (1 - abs(r)).
    leaves, sizes = _number_leaves(nodes), abs(residuals)
    first = sums.reshape(*sums.shape[:2], -1)[latents.ravel(), thresholds.ravel(), np.arange(latents.size)]
    first = first.reshape(latents.shape)
    up = np.stack([first, sums[0, -1] - first], 1).reshape(-1, len(nodes)).T
    down = np.bincount(leaves.ravel(), (sizes * (1 - sizes)).ravel(), 2**DEPTH * len(nodes)).reshape(len(nodes), -1)
    steps = rate * np.divide(up, down, out=np.zeros(up.shape), where=down > SMALLEST)
    return Round(levels, steps.clip(-LONGEST, LONGEST).astype(np.float32)), leaves


def _number_leaves(nodes: Integers) -> Integers:
    """Return the place [N, S] in the steps [S, 2^DEPTH] of the leaves [S, N] of examples."""
    return nodes.T.copy() + 2**DEPTH * np.arange(len(nodes))


def _add_up(members: "scipy.sparse.csc_array", bins: int, values: Floats, nodes: int) -> Floats:
    """Return the sums of values [N, nodes S] in each bin of each latent: [d, bins, nodes, S]."""
    return (members @ values).reshape(-1, bins, nodes, values.shape[1] // nodes)


def _add_second(parents: Floats, first: Floats) -> Floats:
    """Return the sums [..., 2 n, S] of first and second children, from those [..., n, S] of parents and first ones."""
    both = np.empty((*first.shape[:3], 2, first.shape[3]), np.float32)
    both[..., 0, :] = first
    np.subtract(parents, first, out=both[..., 1, :])
    return both.reshape(*first.shape[:2], -1, first.shape[3])


def _split(sums: Floats, counts: Floats, random: np.random.Generator) -> tuple[Integers, Integers, Floats]:
    """Return the latent, the threshold and the gain [nodes, S] of the best split of each node.

    Args:
        sums, counts: of residuals and of examples in the bins up to each, [d, bins, nodes, S]; counts may have S = 1.
        random: what decides between latents of equal gain.
    """
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
    latents = np.where(best == best.max(0), random.random(best.shape, np.float32), -1).argmax(0)
    found = gains.reshape(*gains.shape[:2], -1)[latents.ravel(), :, np.arange(latents.size)]        # [nodes S, bins]
    largest = found.max(1).reshape(latents.shape) * number[0, 0]
    thresholds = np.where(largest > 0, found.argmax(1).reshape(latents.shape), counts.shape[1] - 1).astype(np.uint8)
    return latents, thresholds, largest


def _accumulate(values: Floats) -> Floats:
    """Return the sums of values [d, bins, ...] over the bins up to each, in the place of the values.

    np.cumsum goes from bin to bin for each of the last indices. Where these are many, it is faster to add up whole rows
    of them.
    """
    if values[0, 0].size < LONG:
        return np.cumsum(values, 1, out=values)
    blocks = values.reshape(len(values), -1, BLOCK, *values.shape[2:])
    for i in range(1, BLOCK):
        blocks[:, :, i] += blocks[:, :, i - 1]
    for i in range(1, blocks.shape[1]):
        blocks[:, i] += blocks[:, i - 1, -1:]
    return values


def _descend(binned: Integers, nodes: Integers, latents: Integers, thresholds: Integers) -> Integers:
    """Return the children [S, N] to which examples of bins [d, N] go from nodes [S, N] of trees."""
    children = 2 * nodes
    for m, (latent, threshold) in enumerate(zip(latents, thresholds, strict=True)):
        children += (binned[latent] > threshold[:, np.newaxis]) & (nodes == m)
    return children
