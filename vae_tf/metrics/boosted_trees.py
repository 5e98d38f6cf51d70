"""Gradient boosted trees that predict classes: those of scikit-learn, on bins, in less than a tenth of the time.

The trees of one round, one for each class of each factor, grow together: each step below works on all of them at once.
"""

import itertools
import math
from collections.abc import Callable, Iterator
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
TOGETHER = 80                           # the most trees that grow together, unless a factor has more classes


class Round(NamedTuple):
    """The trees of one round. Node m of a level has the children 2 m and 2 m + 1 in the next.

    Examples whose bin of a latent is larger than a threshold go to the second child. A node that is not split has its
    largest bin for a threshold, so that all go to the first.

    levels: for each level, the latents and the thresholds of the splits, [nodes, S]; a tree for each of S scores.
    steps: [S, 2^DEPTH], what the leaves add to the scores.
    """

    levels: list[tuple[Integers, Integers]]
    steps: Floats

    def take(self, columns: slice) -> "Round":
        """Return the trees of some of the scores."""
        return Round([(latents[:, columns], thresholds[:, columns]) for latents, thresholds in self.levels],
                     self.steps[columns])


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

    def __init__(self, classes: Integers, start: Floats, edges: list[Floats]) -> None:
        """Begin without trees, see `fit`.

        Args:
            classes: [C], sorted.
            start: the scores [S] before the first round.
            edges: what lies between the bins of each latent.
        """
        self.classes = classes
        self.importance: Floats = np.zeros(len(edges))
        self._start, self._edges = start, edges
        self._rounds: list[Round] = []

    def predict(self, z: Floats) -> Integers:
        """Return the most likely class [N] of codes z [N, d]."""
        binned = _put_into_bins(self._edges, z)
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


def fit(z: Floats, v: Integers, seed: int = 0) -> BoostedTrees:
    """Fit trees that predict classes.

    Args:
        z: codes [N, d].
        v: the class [N] of each code; at least two of them differ.
        seed: seed of the choice between equally good splits.
    """
    return fit_each(z, v[:, np.newaxis], seed)[0]


def fit_each(z: Floats, v: Integers, seed: int = 0) -> list[BoostedTrees]:
    """Fit trees for each of several factors, v [N, K]: those of `fit`, in less time.

    The choice between equally good splits has the same seed for each factor.
    """
    most = min(BINS, max(FEWEST, len(z) // IN_A_BIN))
    edges = [_find_edges(values, most) for values in z.T]
    binned = _put_into_bins(edges, z)
    bins = BLOCK * math.ceil((1 + max(map(len, edges))) / BLOCK)
    members = _list_members(binned, bins)
    counts = _accumulate(_add_up(members, bins, np.ones((len(z), 1), np.float32), 1))
    found: list[BoostedTrees] = []
    for part in _group(v):
        found += _fit_together(edges, binned, members, counts, part, seed)
    return found


def _group(v: Integers) -> Iterator[Integers]:
    """Give the factors [N, K] in groups [N, k] of no more than TOGETHER classes, or of one factor."""
    last, together = 0, 0
    for k, column in enumerate(v.T):
        classes = len(np.unique(column))
        if together and together + classes > TOGETHER:
            yield v[:, last:k]
            last, together = k, 0
        together += classes
    yield v[:, last:]


def _fit_together(edges: list[Floats], binned: Integers, members: "scipy.sparse.csc_array", counts: Floats, v: Integers,
                  seed: int) -> list[BoostedTrees]:
    """Fit trees for factors v [N, K]; the other arguments are those of `_grow`."""
    found, targets, rates = [], [], []
    for column in v.T:
        classes, labels = np.unique(column, return_inverse=True)
        several = len(classes) > 2
        target = (np.eye(len(classes))[labels] if several else labels[:, np.newaxis]).astype(np.float32)
        share = target.mean(0)
        found.append(BoostedTrees(classes, np.log(share) if several else np.log(share / (1 - share)), edges))
        targets.append(target)
        rates.append(RATE * (len(classes) - 1) / len(classes) if several else RATE)
    sizes = [target.shape[1] for target in targets]
    ends = list(itertools.accumulate(sizes))
    columns = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    goal, owners = np.concatenate(targets, 1), np.repeat(np.arange(len(sizes)), sizes)
    scores = np.tile(np.concatenate([trees._start for trees in found]), (len(v), 1))
    gain, randoms = np.zeros((len(sizes), len(binned))), [np.random.default_rng(seed) for _ in sizes]

    def draw(nodes: int) -> Floats:
        return np.concatenate([each.random((len(binned), nodes, size), np.float32)
                               for each, size in zip(randoms, sizes, strict=True)], 2)

    for _ in range(ROUNDS):
        residuals = np.empty_like(goal)
        for of in columns:
            residuals[:, of] = _find_shares(scores[:, of])
        np.subtract(goal, residuals, out=residuals)
        grown, leaves = _grow(binned, members, counts, residuals, np.repeat(rates, sizes)[:, np.newaxis], draw, gain,
                              owners)
        scores += grown.steps.take(leaves)
        for trees, of in zip(found, columns, strict=True):
            trees._rounds.append(grown.take(of))
    for trees, of_latents in zip(found, gain, strict=True):
        if of_latents.any():
            trees.importance = of_latents / of_latents.sum()
    return found


def _put_into_bins(edges: list[Floats], z: Floats) -> Integers:
    """Return the bins uint8 [d, N] of codes [N, d]; values on an edge belong to the bin below it."""
    return np.array([np.searchsorted(of, values) for of, values in zip(edges, z.T, strict=True)], np.uint8)


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


def _grow(binned: Integers, members: "scipy.sparse.csc_array", counts: Floats, residuals: Floats, rates: Floats,
          draw: Callable[[int], Floats], gain: Floats, owners: Integers) -> tuple[Round, Integers]:
    """Return trees that fit residuals [N, S], and the place in their steps [N, S] of the leaf of each example.

    Args:
        binned, members: the bins [d, N] of examples, and the same as a matrix, see `_list_members`.
        counts: how many examples are in the bins up to each, [d, bins, 1, 1].
        residuals, rates: what the trees fit, and the shares [S, 1] of it that they add.
        draw: gives random numbers [d, nodes, S], which decide between latents of equal gain.
        gain: [K, d], to which the gains of the splits are added.
        owners: the factor [S] of each tree.
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
        latents, thresholds, gains = _split(sums, counts, draw(2**level))
        np.add.at(gain, (owners, latents), gains)
        levels.append((latents, thresholds))
        nodes = _descend(binned, nodes, latents, thresholds)
    # The step of a leaf is one of Newton's: the sum of the residuals r over that of abs(r) (1 - abs(r)).
    leaves, sizes = _number_leaves(nodes), abs(residuals)
    first = sums.reshape(*sums.shape[:2], -1)[latents.ravel(), thresholds.ravel(), np.arange(latents.size)]
    first = first.reshape(latents.shape)
    up = np.stack([first, sums[0, -1] - first], 1).reshape(-1, len(nodes)).T
    down = np.bincount(leaves.ravel(), (sizes * (1 - sizes)).ravel(), 2**DEPTH * len(nodes)).reshape(len(nodes), -1)
    steps = rates * np.divide(up, down, out=np.zeros(up.shape), where=down > SMALLEST)
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


def _split(sums: Floats, counts: Floats, random: Floats) -> tuple[Integers, Integers, Floats]:
    """Return the latent, the threshold and the gain [nodes, S] of the best split of each node.

    Args:
        sums, counts: of residuals and of examples in the bins up to each, [d, bins, nodes, S]; counts may have S = 1.
        random: numbers [d, nodes, S] that decide between latents of equal gain.
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
    latents = np.where(best == best.max(0), random, -1).argmax(0)
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
