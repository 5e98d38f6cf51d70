"""What scores say of a perfect code on grids that lack combinations of their factors: docs/data.md states it."""

import warnings

import codes
import numpy as np
import pytest

GRID = codes.grid(4, 4, 3, copies=3)
PARTS = {"complete": np.ones(len(GRID), bool), "without a corner": ~((GRID[:, 0] > 1) & (GRID[:, 1] > 1)),
         "correlated": abs(GRID[:, 0] - GRID[:, 1]) <= 1}


def entropy(columns):
    """Entropy in nats of the rows of some columns."""
    counts = np.unique(columns, axis=0, return_counts=True)[1]
    return -(counts / counts.sum() * np.log(counts / counts.sum())).sum()


@pytest.mark.parametrize("part", PARTS)
def test_a_perfect_codes_gap_is_what_other_factors_do_not_tell(part):
    """The latent of another factor knows what that factor tells, so MIG is 1 - max I(v_k; v_l) / H(v_k), on average."""
    v = GRID[PARTS[part]]
    alone = [entropy(v[:, [k]]) for k in range(3)]
    told = [[0.0 if k == j else alone[k] + alone[j] - entropy(v[:, [k, j]]) for j in range(3)] for k in range(3)]
    expected = np.mean([1 - max(told[k]) / alone[k] for k in range(3)])
    assert codes.score("mig", v.astype(float), v) == pytest.approx(expected, abs=1e-9)
    assert (expected == pytest.approx(1)) == (part == "complete")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["mcc", "factor_vae_score", "beta_vae_score"])
def test_scores_that_a_missing_combination_leaves_alone(name, part):
    v = GRID[PARTS[part]]
    with warnings.catch_warnings(action="ignore"):
        assert codes.score(name, v.astype(float), v) == pytest.approx(1, abs=1e-6)
