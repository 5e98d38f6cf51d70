"""InfoMEC against its formulas in slow loops, and on codes whose scores are known."""

import numpy as np
import pytest
from codes import SIZES, grid, noisy, standardised
from scipy.special import digamma

from vae_tf import metrics
from vae_tf.errors import InputError


def estimate_information(z, v, neighbours=10):
    """Ross 2014, (5): I(z; v) in nats of a latent z [N] and classes v [N], by counting."""
    psi = []
    for i in range(len(z)):
        away = np.abs(z - z[i])
        of_class = np.sort(away[v == v[i]])[1:]         # without z_i itself
        k = min(neighbours, len(of_class))
        within = np.sum(away < of_class[k - 1])         # z_i itself counts, the k-th neighbour does not
        psi.append(digamma(k) - digamma(np.sum(v == v[i])) - digamma(within))
    return max(0.0, digamma(len(z)) + np.mean(psi))


def test_it_is_what_slow_loops_give():
    codes, factors = noisy(150)
    codes = np.hstack([codes, 0.01 * codes[:, :1]])     # its range is too small to be active
    parts = metrics.infomec(codes, factors).parts
    assert list(parts["active"]) == [True] * 4 + [False]
    known = np.zeros((4, 3))
    for j in range(4):
        for k in range(3):
            shares = np.bincount(factors[:, k]) / len(factors)
            known[j, k] = estimate_information(codes[:, j], factors[:, k]) / -np.sum(shares * np.log(shares))
    np.testing.assert_allclose(parts["normalised_information"][:4], known, atol=1e-6)      # sklearn jitters by 1e-10
    modularity = np.mean([max(row) / sum(row) for row in known])
    compactness = np.mean([max(row) / sum(row) for row in known.T])
    assert parts["modularity"] == pytest.approx((modularity - 1 / 3) / (1 - 1 / 3), abs=1e-6)
    assert parts["compactness"] == pytest.approx((compactness - 1 / 4) / (1 - 1 / 4), abs=1e-6)


def test_perfect_useless_and_rotated_codes():
    factors = grid(*SIZES, copies=20)
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    noise = 0.05 * rng.standard_normal((len(factors), 3))
    perfect = metrics.infomec(standardised(factors) + noise, factors)
    # What an unrelated latent seems to know, of 1,200 examples, is noise of the estimate.
    assert perfect.score > 0.98 and perfect.parts["compactness"] > 0.98
    assert perfect.parts["explicitness"] > 0.99
    rotated = metrics.infomec(standardised(factors) @ rotation + noise, factors)
    assert rotated.score < 0.6 and rotated.parts["compactness"] < 0.7 and rotated.parts["explicitness"] > 0.99
    useless = metrics.infomec(rng.standard_normal((len(factors), 4)), factors)
    assert abs(useless.parts["explicitness"]) < 0.02


def test_explicitness_is_relative_to_a_guess_of_all_classes_alike():
    """Two classes of N(-1, 1) and N(1, 1): the best prediction is 1 / (1 + exp(-2 z)), whose cross-entropy is known."""
    rng = np.random.default_rng(0)
    v = np.repeat([0, 1], 20_000)
    z = rng.standard_normal(40_000) + 2.0 * v - 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    of_best = np.sum(weights * np.logaddexp(0, -2 * (1 + nodes))) / np.sqrt(2 * np.pi)
    found = metrics.infomec(z[::20, np.newaxis], v[::20, np.newaxis])
    assert found.score == 1 and found.parts["compactness"] == 1         # one latent and one factor
    spread = np.std(np.logaddexp(0, -2 * z * (2 * v - 1))) / np.sqrt(2_000) / np.log(2)
    assert abs(found.parts["explicitness"] - (1 - of_best / np.log(2))) < 4 * spread


@pytest.mark.parametrize(("codes", "message"), [
    (np.ones((40, 2)), "codes: infomec expects a latent that varies; all are constant"),
    (np.random.default_rng(0).standard_normal((8, 2)), "codes: infomec expects more than 10 rows"),
])
def test_codes_that_say_nothing_are_refused(codes, message):
    with pytest.raises(InputError, match=message):
        metrics.infomec(codes, np.arange(len(codes))[:, np.newaxis] % 4)


def test_a_factor_in_a_single_bin_does_not_vary():
    codes, factors = np.random.default_rng(0).standard_normal((2, 40, 2))
    with pytest.raises(InputError, match="factors: expected at least one that varies"):
        metrics.infomec(codes, factors, bins=1)


def test_explicitness_weighs_classes_alike():
    """Without weights, the regression would predict the classes' shares, and useless codes would seem explicit."""
    rng = np.random.default_rng(0)
    v = (np.arange(2_000) % 10 == 0).astype(int)[:, np.newaxis]
    found = metrics.infomec(rng.standard_normal((2_000, 2)), v).parts["explicitness"]
    assert abs(found) < 0.02


def test_latents_of_a_twentieth_of_the_widest_range_are_active():
    z = np.linspace(0, 1, 40)[:, np.newaxis] * [1, 1 / 19, 1 / 21]
    v = np.arange(40)[:, np.newaxis] % 4
    assert metrics.infomec(z, v).parts["active"].tolist() == [True, True, False]
