"""What scores say of a perfect code on grids that lack combinations of their factors: docs/data.md states it."""

import warnings

import codes
import numpy as np
import pytest
import tensorflow as tf

from vae_tf import data
from vae_tf.export import card, functions

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


def test_u_and_its_scale_are_of_the_factors_that_no_example_lacks():
    values = np.array([[0.0, 3.0, 1.0], [np.nan, 5.0, 2.0], [2.0, 4.0, 5.0]])
    factors = [data.Factor(name, None, "continuous") for name in "abc"]
    x = np.ones((3, 2), np.float32)
    made = [data.from_arrays("mine", x, values, factors),
            data.from_function("mine", lambda indices: x[indices], 3, values, factors)]
    for ds in made:
        assert ds.factors_of_u == ("b", "c") and ds.u_size == 2
        np.testing.assert_allclose(ds.u_at(np.arange(3)), [[0, 0], [1, 0.25], [0.5, 1]])
        np.testing.assert_array_equal(ds.factors_at(np.arange(3)), values)
        scale = card.describe_scale(ds)
        assert scale == {"names": ["b", "c"], "low": [3, 1], "high": [5, 5]}
        assert card.scale_as_trained(ds, {"u_size": 2, "u": scale}).u_range == ds.u_range
        u = functions._scale_factors(ds, tf.constant(values[:, 1:]))
        np.testing.assert_allclose(u, ds.u_at(np.arange(3)))
    whole = data.from_arrays("whole", x, np.nan_to_num(values), factors)
    with pytest.raises(data.InputError, match="u is made of the factors b, c in this order; whole has a, b, c"):
        card.scale_as_trained(whole, {"u_size": 2, "u": scale})


def test_an_example_that_lacks_a_value_meets_no_condition_on_it():
    values = np.array([[0.0], [np.nan], [2.0], [2.0]])
    ds = data.from_arrays("mine", np.ones((4, 2), np.float32), values, [data.Factor("a", None, "continuous")])
    assert ds.find_indices("test", "hold_out:a!=2").tolist() == [0]
    assert ds.find_indices("test", "hold_out:a<=2,a!=0").tolist() == [2, 3]
