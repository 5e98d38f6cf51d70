"""Perfect, useless, duplicated, rotated and partly dead codes, whose scores are known."""

import numpy as np
import pytest
from codes import SIZES, grid, score, standardised

from vae_tf import metrics

PERFECT_SCORES = {
    "mig": 1, "mig_sup": 1, "modularity": 1, "mcc": 1, "explicitness": 1, "dci_fast": 1, "downstream_logistic": 1,
    "beta_vae_score": 1, "factor_vae_score": 1, "irs": 1, "total_correlation": 0, "wasserstein_correlation": 0,
    "mutual_information": 0,
}


@pytest.mark.parametrize("name", PERFECT_SCORES)
def test_perfect_codes(name):
    factors = grid(*SIZES, copies=5)
    scaled = 30 * standardised(factors)      # far from the regularisation of logistic regression
    unscaled = standardised(factors)
    # Boosted trees go on splitting where rounding alone is left to gain.
    assert score(name, unscaled if name == "wasserstein_correlation" else scaled, factors) == pytest.approx(
        PERFECT_SCORES[name], abs=1e-4 if name == "dci_fast" else 1e-6)


@pytest.mark.parametrize("name", ["mig", "mig_sup", "mcc", "sap", "dci_fast", "disentanglement_score"])
def test_useless_codes(name):
    rng = np.random.default_rng(0)
    factors = grid(*SIZES, copies=50)
    assert score(name, rng.standard_normal((len(factors), 4)), factors) < 0.1


@pytest.mark.parametrize(("name", "chance"), [("explicitness", 1 / 2), ("beta_vae_score", 1 / 3),
                                              ("factor_vae_score", 1 / 3)])
def test_useless_codes_score_chance(name, chance):
    factors = grid(*SIZES, copies=50)
    codes = np.random.default_rng(0).standard_normal((len(factors), 4))
    # 1,000 test rows in 12 classes, or 5,000 votes; a vote that is wrong by luck of the pool is wrong every time.
    assert score(name, codes, factors) == pytest.approx(chance, abs=0.06)


@pytest.mark.parametrize("name", ["mig", "disentanglement_score", "sap"])
def test_duplicated_codes_leave_no_gap(name):
    factors = grid(*SIZES, copies=10)
    codes = standardised(factors)
    assert score(name, np.hstack([codes, codes]), factors) == pytest.approx(0, abs=1e-12)


def test_duplicated_codes_keep_what_does_not_count_copies():
    factors = grid(*SIZES, copies=10)
    codes = np.tile(standardised(factors), 2)
    for name in ("mig_sup", "modularity", "irs"):
        assert score(name, codes, factors) == pytest.approx(1, abs=1e-12)
    completeness = metrics.dci_fast(codes, factors).parts["completeness"]
    assert metrics.dci_fast(codes, factors).score == pytest.approx(1) and completeness <= 1


@pytest.mark.parametrize("name", ["mig", "mig_sup", "modularity", "mcc", "disentanglement_score", "sap", "dci_fast",
                                  "factor_vae_score", "irs"])
def test_rotated_codes_score_less(name):
    factors = grid(*SIZES, copies=20)
    codes = standardised(factors)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    assert score(name, codes @ rotation, factors) < score(name, codes, factors) - 0.05


@pytest.mark.parametrize("name", ["mig", "mig_sup", "mcc", "disentanglement_score", "sap", "dci_fast", "explicitness",
                                  "downstream_logistic", "factor_vae_score", "irs", "total_correlation",
                                  "wasserstein_correlation"])
def test_dead_latents_change_nothing(name):
    factors = grid(*SIZES, copies=10)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    codes = standardised(factors) @ rotation
    padded = np.hstack([codes, np.full((len(codes), 2), 0.1)])
    assert score(name, padded, factors) == pytest.approx(score(name, codes, factors), abs=0.02)
