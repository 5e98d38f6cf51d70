"""Metrics of codes alone against the published protocol, and numbers by hand."""

import numpy as np
import pytest
import reference
from codes import EXACT, noisy

from vae_tf import metrics


def test_unsupervised_scores_equal_the_published_protocol():
    codes, _ = noisy()
    total, distance, normalised = reference.gaussian_correlations(codes)
    wasserstein = metrics.METRICS["wasserstein_correlation"](codes)
    assert metrics.METRICS["total_correlation"](codes).score == pytest.approx(total, abs=EXACT)
    assert wasserstein.score == pytest.approx(distance, abs=EXACT)
    assert wasserstein.parts["normalised"] == pytest.approx(normalised, abs=EXACT)
    pairs = [reference.mutual_information(reference.binned(a).tolist(), reference.binned(b).tolist())
             for i, a in enumerate(codes.T) for j, b in enumerate(codes.T) if i != j]
    assert metrics.METRICS["mutual_information"](codes).score == pytest.approx(np.mean(pairs), abs=EXACT)


def test_total_correlation_by_hand():
    z = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert metrics.METRICS["total_correlation"](z).score == pytest.approx(0, abs=1e-12)
    turned = np.stack([z[:, 0], 0.6 * z[:, 0] + 0.8 * z[:, 1]], -1)      # correlation 0.6
    assert metrics.METRICS["total_correlation"](turned).score == pytest.approx(-0.5 * np.log(1 - 0.36), abs=1e-12)
    # Eigenvalues 1 + r and 1 - r of a covariance with unit diagonal, here times 4/3: N - 1 for N.
    expected = 4 / 3 * (4 - 2 * (np.sqrt(1.6) + np.sqrt(0.4)))
    assert metrics.METRICS["wasserstein_correlation"](turned).score == pytest.approx(expected, abs=1e-12)


def test_mutual_information_of_copies_is_their_entropy():
    z = np.repeat(np.arange(4.0), 5)[:, np.newaxis]
    assert metrics.METRICS["mutual_information"](np.hstack([z, z])).score == pytest.approx(np.log(4), abs=1e-12)


def test_duplicated_codes_have_infinite_total_correlation():
    codes = np.tile(np.random.default_rng(0).standard_normal((100, 2)), 2)
    with pytest.warns(UserWarning, match="linear function"):
        assert metrics.METRICS["total_correlation"](codes).score == np.inf


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6 + 0.1])
def test_constant_codes_are_independent(value):
    """The covariance of constant columns is rounding, and the share of it that is off the diagonal is any number."""
    score = metrics.wasserstein_correlation(np.full((777, 4), value))
    assert score.score == 0 and score.parts["normalised"] == 0 and not score.parts["covariance"].any()
