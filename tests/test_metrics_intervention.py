"""Metrics that hold a factor fixed: what they draw, and the published protocols."""

import numpy as np
import pytest
import reference
from codes import SIZES, grid, noisy, score, standardised

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import samplers


@pytest.mark.parametrize("rows", [60, 23])      # a complete grid, and one with holes
def test_fixed_factor_batches(rows):
    factors = np.random.default_rng(0).permutation(grid(3, 4, 5))[:rows]
    factor, drawn = samplers.draw_fixed_factor(factors, 200, 8, np.random.default_rng(0))
    assert set(factor) == {0, 1, 2}
    for k, batch in zip(factor, drawn, strict=True):
        assert len(np.unique(factors[batch, k])) == 1


@pytest.mark.parametrize("rows", [60, 23])
def test_pairs_share_a_value_of_their_own(rows):
    factors = np.random.default_rng(0).permutation(grid(3, 4, 5))[:rows]
    factor, pairs = samplers.draw_alike_pairs(factors, 200, 20, np.random.default_rng(0))
    assert set(factor) == {0, 1, 2} and pairs.shape == (200, 20, 2)
    for k, (one, other) in zip(factor, pairs.transpose(0, 2, 1), strict=True):
        np.testing.assert_array_equal(factors[one, k], factors[other, k])
        assert (one != other).all()
        assert len(np.unique(factors[one, k])) > 1       # 20 pairs of one value: probability below 1e-8


@pytest.mark.parametrize("draw", [samplers.draw_fixed_factor, samplers.draw_alike_pairs])
def test_rows_are_drawn_evenly(draw):
    factors = np.array([[0], [0], [1], [1], [1], [1]])
    _, rows = draw(factors, 4_000, 5, np.random.default_rng(0))
    share = np.bincount(rows.reshape(-1), minlength=6) / rows.size
    # A batch may be of one value; the value's share varies by sqrt(2/9 / 4,000) = 0.0075.
    np.testing.assert_allclose(share, 1 / 6, atol=5 * 0.0075 / 2)


@pytest.mark.parametrize("draw", [samplers.draw_fixed_factor, samplers.draw_alike_pairs])
def test_values_of_a_single_row_are_never_fixed(draw):
    factors = np.array([[0, 0], [0, 1], [0, 2], [1, 3]])
    factor, rows = draw(factors, 50, 4, np.random.default_rng(0))
    assert set(factor) == {0} and 3 not in rows
    with pytest.raises(InputError, match="recur"):
        draw(np.arange(4)[:, np.newaxis], 10, 4, np.random.default_rng(0))


def test_beta_vae_score_against_the_published_protocol():
    """On codes whose differences depend on the value held fixed, a value per batch and a value per pair part ways."""
    sizes, votes = (3, 6, 10, 8), 1_000
    factors = grid(*sizes)
    U = standardised(factors)
    codes = U * np.exp(np.roll(U, -1, 1))
    expected = reference.beta_vae_score(codes, sizes, votes)
    score = metrics.beta_vae_score(metrics.Sampler(codes.__getitem__, factors), train=votes, test=votes).score
    # Two accuracies of 1,000 votes each. The published code may pair a row with itself: 1 pair in 144 or more.
    assert abs(score - expected) < 5 * np.sqrt(2 * expected * (1 - expected) / votes) and expected > 0.9


def test_factor_vae_score_counts_latents_by_standard_deviation():
    factors = grid(3, 4, 5)
    codes = metrics.make_sampler(0.2 * standardised(factors), factors)        # of variance 0.04
    assert metrics.factor_vae_score(codes, train=500, test=500).score == 1
    with pytest.warns(UserWarning, match="no latent has a standard deviation of at least"):
        assert metrics.factor_vae_score(codes, train=500, test=500, threshold=0.05**0.5).score == 0


@pytest.mark.parametrize("bins", [20, None])
def test_irs_against_loops(bins):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, size, 400) for size in (3, 32)], -1)
    codes = standardised(factors) @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((400, 3))
    binned = factors if bins is None else np.stack([reference.binned(v, bins) for v in factors.T], -1)
    assert len(np.unique(binned[:, 1])) == (32 if bins is None else 20)
    score = metrics.irs(metrics.make_sampler(codes, factors), bins=bins).score
    assert score == pytest.approx(reference.irs(codes, binned), abs=1e-12)


def test_a_constant_code_does_not_win_factor_vaes_argmin():
    factors = grid(*SIZES, copies=10)
    codes = np.hstack([standardised(factors), np.full((len(factors), 1), 0.3)])
    scored = metrics.factor_vae_score(metrics.make_sampler(codes, factors))
    assert scored.score == 1
    assert scored.parts["votes"][3].sum() == 0 and not scored.parts["active"][3]


def test_factor_vae_score_without_active_latents_is_zero():
    factors = grid(*SIZES)
    with pytest.warns(UserWarning, match="no latent"):
        assert metrics.factor_vae_score(metrics.make_sampler(1e-3 * factors, factors)).score == 0


def test_irs_counts_active_latents():
    factors = grid(*SIZES, copies=2)
    codes = np.hstack([7 * standardised(factors), np.zeros((len(factors), 2))])
    scored = metrics.irs(metrics.make_sampler(codes, factors))
    assert scored.parts["active_latents"] == 3 and scored.score == pytest.approx(1)


def test_a_sampler_that_encodes_when_asked():
    factors = grid(*SIZES, copies=2)
    encoded = metrics.Sampler(lambda indices: standardised(factors)[indices], factors)
    for metric in [metrics.beta_vae_score, metrics.factor_vae_score, metrics.irs]:
        assert metric(encoded).score == metric(metrics.make_sampler(standardised(factors), factors)).score


@pytest.mark.parametrize("metric", [metrics.beta_vae_score, metrics.factor_vae_score, metrics.irs])
def test_samplers_of_any_arrays_are_checked(metric):
    factors = grid(*SIZES, copies=2)
    codes = standardised(factors)
    assert metric(metrics.Sampler(codes.__getitem__, factors.tolist())).score == metric(
        metrics.Sampler(codes.__getitem__, factors)).score
    with pytest.raises(InputError, match="factors: expected finite values; got 1 NaN"):
        metric(metrics.Sampler(codes.__getitem__, np.where(np.arange(len(factors))[:, np.newaxis] == [3, -1, -1],
                                                           np.nan, factors)))
    with pytest.raises(InputError, match=r"codes_at: expected codes of \d+ rows, one for each index; got 1"):
        metric(metrics.Sampler(lambda indices: codes[:1], factors))


def test_factor_vae_score_needs_two_rows():
    with pytest.raises(InputError, match="codes: expected at least 2 rows for a variance; got 1"):
        metrics.factor_vae_score(metrics.make_sampler(np.ones((1, 2)), np.ones((1, 2), int)))


def test_beta_vae_score_needs_two_factors():
    with pytest.raises(InputError, match="at least two"):
        codes = np.random.default_rng(0).standard_normal((20, 2))
        metrics.beta_vae_score(metrics.make_sampler(codes, grid(4, copies=5)))


def test_rotation_fools_the_beta_vae_score():
    factors = grid(*SIZES, copies=20)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    assert score("beta_vae_score", 30 * standardised(factors) @ rotation, factors) > 0.8       # chance is 1/3


def test_irs_takes_the_quantile_that_is_asked_for():
    codes, factors = noisy(400)
    scored = metrics.irs(metrics.make_sampler(codes, factors), quantile=0.5).parts["matrix"]
    for k, v in enumerate(factors.T):
        medians = np.mean([np.median(np.abs(codes[v == value] - codes[v == value].mean(0)), 0) for value in
                           np.unique(v)], 0)
        np.testing.assert_allclose(scored[:, k], 1 - medians / np.abs(codes - codes.mean(0)).max(0), atol=1e-12)


@pytest.mark.parametrize("metric", [metrics.beta_vae_score, metrics.factor_vae_score])
def test_accuracies_of_factors_that_are_always_told_are_1(metric):
    factors = grid(*SIZES, copies=5)
    found = metric(metrics.make_sampler(30 * standardised(factors), factors), train=500, test=500)
    assert found.score == 1 and found.parts["per_factor"].tolist() == [1, 1, 1]


def test_irs_is_of_as_many_examples_as_are_asked_for():
    from codes import noisy
    codes, factors = noisy(400)
    rows = np.random.default_rng(3).permutation(400)[:60]
    some = metrics.irs(metrics.make_sampler(codes, factors), examples=60, seed=3)
    assert some.score == pytest.approx(metrics.irs(metrics.make_sampler(codes[rows], factors[rows])).score, abs=1e-12)


def test_irs_does_not_name_a_constant_factor():
    """Held at either value, this latent moves farther from its mean than in all, so its robustness is below 0."""
    codes, held = np.array([0, 0, 0, 10, 10, 10, 10, 0.0]), np.repeat([0, 1], 4)
    with pytest.warns(UserWarning, match="constant factors"):
        score = metrics.irs(samplers.make_sampler(codes[:, np.newaxis], np.stack([0 * held, held], 1)))
    assert score.score < 0 and score.parts["factor"] == [1]
