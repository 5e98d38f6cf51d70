"""Consistency and restrictiveness against pairs that are counted, and pairs that are drawn as the paper draws them."""

import itertools

import numpy as np
import pytest
from codes import SIZES, grid, noisy, standardised
from scipy.optimize import linear_sum_assignment

from vae_tf import metrics
from vae_tf.errors import InputError


def match(matrix):
    return matrix[linear_sum_assignment(matrix, maximize=True)].mean()


def draw_pairs(codes, change, rng, count=40_000):
    """The paper's pairs on a complete grid: factors of both drawn anew, but for those that the two share."""
    first = np.stack([rng.integers(0, size, count) for size in SIZES], -1)
    second = np.where(change, np.stack([rng.integers(0, size, count) for size in SIZES], -1), first)
    squares = [(codes[np.ravel_multi_index(first.T, SIZES)] - codes[np.ravel_multi_index(second.T, SIZES)])**2][0]
    return squares.mean(0), squares.std(0) / np.sqrt(count)


def test_they_are_what_pairs_drawn_from_a_grid_give():
    """Post-interventional disagreement, as the paper's public code estimates it by share-pairing and change-pairing."""
    rng = np.random.default_rng(0)
    factors = grid(*SIZES)
    codes = standardised(factors) @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((len(factors), 4))
    consistency, restrictiveness = (metrics.METRICS[name](codes, factors) for name in ("consistency",
                                                                                       "restrictiveness"))
    total, total_error = draw_pairs(codes, np.ones(3, bool), rng)
    for k in range(3):
        shared, shared_error = draw_pairs(codes, np.arange(3) != k, rng)
        error = (shared_error + shared / total * total_error) / total
        assert (np.abs(consistency.parts["matrix"][:, k] - np.maximum(0, 1 - shared / total)) < 5 * error).all()
        changed, changed_error = draw_pairs(codes, np.arange(3) == k, rng)
        rest, rest_total = changed.sum() - changed, total.sum() - total
        error = (changed_error.sum() + rest / rest_total * total_error.sum()) / rest_total
        expected = np.maximum(0, 1 - rest / rest_total)
        assert (np.abs(restrictiveness.parts["matrix"][:, k] - expected) < 5 * error).all()
    for result in (consistency, restrictiveness):
        assert result.score == pytest.approx(match(result.parts["matrix"]), abs=1e-12)


def test_they_are_what_loops_over_all_pairs_give_where_combinations_are_missing_and_recur():
    codes, factors = noisy(60, sizes=(3, 2, 4))
    consistency, restrictiveness = (metrics.METRICS[name](codes, factors).parts for name in ("consistency",
                                                                                             "restrictiveness"))
    total = np.mean([(a - b)**2 for a, b in itertools.product(codes, codes)], 0)
    same = [i != j and (factors[i] == factors[j]).all() for i, j in itertools.product(range(60), repeat=2)]
    every = np.array(list(itertools.product(range(60), repeat=2)))
    stayed = np.mean([(codes[i] - codes[j])**2 for i, j in every[same]], 0)
    for k in range(3):
        values = np.unique(factors[:, k])
        within = sum(np.mean([(a - b)**2 for a, b in itertools.product(codes[factors[:, k] == value], repeat=2)], 0)
                     * np.mean(factors[:, k] == value) for value in values)
        np.testing.assert_allclose(consistency["matrix"][:, k], 1 - within / total, atol=1e-12)
        others = np.arange(3) != k
        alone = [(codes[i] - codes[j])**2 for i, j in every
                 if (factors[i] == factors[j])[others].all() and factors[i, k] != factors[j, k]]
        assert restrictiveness["pairs"][k] == len(alone) // 2
        again = sum(np.mean(factors[:, k] == value)**2 for value in values)
        moved = again * stayed + (1 - again) * np.mean(alone, 0)
        expected = np.maximum(0, 1 - (moved.sum() - moved) / (total.sum() - total))
        np.testing.assert_allclose(restrictiveness["matrix"][:, k], expected, atol=1e-12)


def test_perfect_rotated_and_useless_codes():
    factors = grid(*SIZES, copies=5)
    perfect = standardised(factors)
    turn = np.eye(3)
    turn[:2, :2] = np.sqrt(0.5) * np.array([[1, -1], [1, 1]])           # the first two latents by 45 degrees
    useless = np.random.default_rng(1).standard_normal(perfect.shape)
    for name in ("consistency", "restrictiveness"):
        assert metrics.METRICS[name](perfect, factors).score == pytest.approx(1, abs=1e-12)
    # A factor holds half of the variance of either latent; if it changes alone, it moves half of one of two others.
    assert metrics.consistency(perfect @ turn, factors).parts["per_factor"] == pytest.approx([1 / 2, 1 / 2, 1])
    assert metrics.restrictiveness(perfect @ turn, factors).parts["per_factor"] == pytest.approx([3 / 4, 3 / 4, 1])
    # The share of variance between C of N values is (C - 1) / (N - 1) on average; the best of three matchings is more.
    assert metrics.consistency(useless, factors).score < 3 * np.mean(np.array(SIZES) - 1) / (len(factors) - 1) * 2
    assert metrics.restrictiveness(useless, factors).score < 0.2


def test_a_latent_that_holds_a_factor_in_part_is_consistent_and_a_factor_in_two_latents_is_not_restricted():
    factors = grid(4, 4)
    coarse = np.stack([factors[:, 0] // 2, factors[:, 1] // 2], -1).astype(float)
    assert metrics.consistency(coarse, factors).score == metrics.restrictiveness(coarse, factors).score == 1
    twice = np.stack([factors[:, 0], factors[:, 0], factors[:, 1]], -1).astype(float)
    assert metrics.consistency(twice, factors).score == 1
    # Factor 0 moves its other latent, half of the variance of the two that are not matched to it.
    assert metrics.restrictiveness(twice, factors).parts["per_factor"] == pytest.approx([0.5, 1])


def test_special_cases():
    factors = grid(3, 4)
    # Beside a latent that moves, no other can move: its factor has 1. Constant latents are partners of no factor.
    alone = np.stack([factors[:, 0], np.full(12, 0.1)], -1).astype(float)
    assert metrics.restrictiveness(alone, factors).score == 0.5
    assert metrics.restrictiveness(factors[:, :1].astype(float), factors).parts["matrix"].tolist() == [[1, 1]]
    constant = np.hstack([factors.astype(float), np.full((12, 1), 0.1)])
    for name in ("consistency", "restrictiveness"):
        assert metrics.METRICS[name](constant, factors).score == pytest.approx(1, abs=1e-12)
        assert metrics.METRICS[name](np.full((12, 2), 0.1), factors).score == 0
    diagonal = np.repeat(np.arange(4), 2)[:, np.newaxis] * [1, 1]       # no factor ever changes alone
    with pytest.raises(InputError, match="restrictiveness expects rows that share all factors but one; there are none"):
        metrics.restrictiveness(diagonal.astype(float), diagonal)
    one = np.array([[0, 0], [0, 1], [1, 2], [1, 3], [0, 0], [0, 1], [1, 2], [1, 3]])        # only the second does
    with pytest.warns(UserWarning, match=r"restrictiveness leaves out factors that never change alone: \[0\]"):
        found = metrics.restrictiveness(one.astype(float), one)
    assert np.isnan(found.parts["per_factor"][0]) and found.score == 1


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e9])
def test_restrictiveness_does_not_depend_on_how_small_the_other_latents_are(scale):
    v = np.random.default_rng(0).integers(0, 4, (2_000, 2))
    alone, scaled = (metrics.restrictiveness(np.stack([v[:, 0], s * (v[:, 0] + 2 * v[:, 1])], 1), v).parts["matrix"]
                     for s in (1.0, scale))
    np.testing.assert_allclose(scaled, alone, rtol=1e-9)        # each of two latents is alone in the other's ratio
