"""mcc against all matchings, and of constant latents."""

import numpy as np
import pytest
import reference
from codes import noisy

from vae_tf import metrics


def test_mcc_tries_every_matching():
    codes, factors = noisy()
    assert metrics.mcc(codes, factors).score == pytest.approx(reference.mcc(codes, factors), abs=1e-12)


def test_spearman_of_mcc_sees_through_warping():
    _, factors = noisy()
    warped = np.exp(3.0 * factors)
    assert metrics.mcc(warped, factors).score < 0.95
    assert metrics.mcc(warped, factors).parts["spearman"] == pytest.approx(1)


@pytest.mark.parametrize("rows", [9, 1_000, 10_000])       # rounding grows with the number of rows
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-30])
def test_mcc_of_a_constant_latent_is_zero(rows, value):
    factors = np.random.default_rng(0).integers(0, 3, (rows, 2))
    assert metrics.mcc(np.full((rows, 2), value), factors).score == 0
    half = metrics.mcc(np.column_stack([factors[:, 0], np.full(rows, value)]), factors)
    assert half.parts["correlation"][1].max() == 0 and half.score == pytest.approx(0.5)
