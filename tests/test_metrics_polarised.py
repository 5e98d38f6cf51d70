"""The polarised regime on encoders whose latents are known to be active, mixed or passive."""

import numpy as np
import pytest
import reference
from polarised_codes import KNOWN, MIXED_SHARE, N, encoder

from vae_tf import metrics
from vae_tf.errors import InputError
from vae_tf.metrics import polarised


def test_known_latents_are_classified_right():
    assert metrics.classify(*encoder()).tolist() == KNOWN


def test_the_public_rule_errs_where_the_learned_prior_is_narrow():
    public = metrics.classify(*encoder(), rule="standard_prior")
    assert public[:5].tolist() == ["active", "passive", "active", "active", "mixed"]
    results, _ = metrics.polarised_regime(*encoder())
    assert results["standard_prior_rule"].score == np.mean(public == KNOWN) < 1
    assert "it says 4 active, 2 mixed, 1 passive" in results["standard_prior_rule"].meaning


def test_classes_and_kl_against_loops():
    arrays = [array[:200] for array in encoder()]
    kl = polarised.kl_per_latent(*arrays)
    for j in range(len(KNOWN)):
        column = [array[:, j] for array in arrays]
        expected = [reference.between_diagonal_kl(*([value] for value in row)) for row in zip(*column, strict=True)]
        np.testing.assert_allclose(kl[:, j], expected, atol=1e-12)     # float64 terms of size 10
        assert metrics.classify(*arrays)[j] == reference.regime_of_latent(*column)


def test_classes_at_their_limits():
    # KL of a shift t is t^2 / 2: 0.0099 and 0.0101 nats; 95 of 100 examples, and 94.
    passive, active = np.sqrt(2 * 0.0099), np.sqrt(2 * 0.0101)
    counts = [100, 95, 94, 6, 5, 0]
    mean = np.stack([np.where(np.arange(100) < count, passive, active) for count in counts], -1)
    assert metrics.classify(mean, 1.0).tolist() == ["passive", "passive", "mixed", "mixed", "active", "active"]
    # Var(s^2) < 0.1; a mean of at most 0.1, or within 0.1 of 1.
    variances = np.array([[0.1, 0.11, 0.91, 1.09, 0.89, 1.11, 0.5, 0.1, 0.0999]]).repeat(2, 0)
    variances[:, -2:] = [[1 - 0.32, 1 - 0.31], [1 + 0.32, 1 + 0.31]]
    assert metrics.classify(0 * variances, variances ** 0.5, rule="standard_prior").tolist() == [
        "active", "mixed", "passive", "passive", "mixed", "mixed", "mixed", "mixed", "passive"]


def test_classes_do_not_depend_on_units_and_the_public_ones_do():
    mean, stddev, prior_mean, prior_stddev = encoder()
    scale, shift = 2.0 ** np.array([3, -6, 4, -2, -8, 5, -4]), np.arange(7)
    changed = scale * mean + shift, scale * stddev, scale * prior_mean + shift, scale * prior_stddev
    assert metrics.classify(*changed).tolist() == KNOWN
    assert metrics.classify(-mean, stddev, -prior_mean, prior_stddev).tolist() == KNOWN
    public = metrics.classify(*encoder(), rule="standard_prior")
    assert (metrics.classify(*changed, rule="standard_prior") != public).any()
    order = [3, 0, 6, 5, 4, 2, 1]
    assert metrics.classify(*(array[:, order] for array in encoder())).tolist() == [KNOWN[j] for j in order]
    # Rounding of z / scale moves no value past another but neighbours closer than it: a few of N.
    for before, after in zip(metrics.polarised_regime(*encoder())[0].values(),
                             metrics.polarised_regime(*changed)[0].values(), strict=True):
        if before.name != "standard_prior_rule":
            assert after.score == pytest.approx(before.score, abs=5 / N)


def test_what_is_passive_is_a_choice():
    mean = np.full((10, 1), np.sqrt(2 * 0.05))          # 0.05 nats
    assert metrics.classify(mean, 1.0) == ["active"] and metrics.classify(mean, 1.0, passive_kl=0.1) == ["passive"]
    for passive_kl, count in [(0.04, 0), (0.06, 1)]:
        results, _ = metrics.polarised_regime(mean, 1.0, passive_kl=passive_kl)
        assert results["passive_latents"].score == count


def test_a_prior_of_any_shape_is_broadcast():
    mean, stddev, *_ = encoder()
    whole = np.zeros(mean.shape), np.ones(mean.shape)
    for prior in [(), (0.0, 1.0), (np.zeros(7), np.ones(7)), (np.zeros((N, 1)), 1)]:
        np.testing.assert_array_equal(metrics.classify(mean, stddev, *prior), metrics.classify(mean, stddev, *whole))


def test_theorem_2_holds_on_known_latents_and_fails_on_shuffled_ones():
    mean, stddev, prior_mean, prior_stddev = encoder()
    z, prior = polarised.draw_samples(mean, stddev, prior_mean, prior_stddev, seed=1)
    passive, active = (np.array([kind == name for kind in KNOWN]) for name in ("passive", "active"))
    noise = polarised.ks_noise(N)
    assert (polarised.ks_distances(z, prior)[passive] < noise).all()
    assert (polarised.ks_distances(z, mean)[active] < noise).all()
    assert (polarised.ks_distances(z, prior)[~passive] > noise).all()
    assert (polarised.ks_distances(z, mean)[~active] > noise).all()
    # Held against the prior, or the mean, of another latent of the same class.
    for kind, columns in (("passive", prior), ("active", mean)):
        of = np.flatnonzero(np.array(KNOWN) == kind)
        assert (polarised.ks_distances(z[:, of], columns[:, np.roll(of, 1)]) > noise).all()


def test_every_claim_in_numbers():
    _, stddev, _, prior_stddev = arrays = encoder()
    results, skipped = metrics.polarised_regime(*arrays)
    assert not skipped
    assert {name: result.parts["latents"].tolist() for name, result in results.items() if "latents" in name} == {
        "active_latents": [0, 5], "mixed_latents": [4, 6], "passive_latents": [1, 2, 3]}
    assert [results[f"{name}_latents"].score for name in polarised.CLASSES] == [2, 2, 3]
    shares = {j: share for name in polarised.CLASSES for part in [results[f"{name}_latents"].parts]
              for j, share in zip(part["latents"], part["active_at"], strict=True)}
    expected = [1, 0, 0, 0, 1 - MIXED_SHARE[0], 1, 1 - MIXED_SHARE[1]]
    np.testing.assert_allclose([shares[j] for j in range(7)], expected, atol=5 * np.sqrt(0.25 / N))
    assert f"{sum(shares.values()):.1f} latents do so" in results["active_latents"].meaning
    # A passive latent of these is the prior to the last bit.
    assert results["proposition_2"].score == results["proposition_3_passive"].score == 0
    assert (results["proposition_2"].parts["variance"] == 0).all()
    share = (stddev[:, [0, 5]] ** 2).mean(0) / (prior_stddev[:, [0, 5]] ** 2).mean(0)
    np.testing.assert_allclose(results["proposition_3_active"].parts["each"], share, rtol=1e-12)
    noise = polarised.ks_noise(N)
    for name in ("theorem_2_passive", "theorem_2_active", "theorem_2_mixed"):
        assert results[name].score == results[name].parts["each"].max() < noise
    assert results["theorem_2_active"].parts["to_prior"].min() > noise
    mixed = results["theorem_2_mixed"].parts
    np.testing.assert_allclose(mixed["mixing_weight"], MIXED_SHARE, atol=5 * np.sqrt(0.25 / N))
    # Distribution functions of three samples, each within its noise; priors and means overlap, which may double it.
    np.testing.assert_allclose(mixed["fitted_weight"], mixed["mixing_weight"], atol=2 * 3 * noise)


def test_claims_fail_on_a_posterior_that_leaves_its_prior():
    """The same numbers on latents that are called passive, but are off by what passive allows, are not 0."""
    shift, widths = 0.1, 1.05
    results, _ = metrics.polarised_regime(np.full((N, 1), shift), widths)
    assert results["passive_latents"].score == 1        # KL = 0.0051 + 0.0025 nats
    assert results["proposition_2"].score == pytest.approx(shift)
    assert results["proposition_3_passive"].score == pytest.approx(widths ** 2 - 1)
    # Pinsker: KS <= total variation <= sqrt(KL / 2); each of the two samples adds its noise.
    kl = polarised.kl_per_latent(np.full((1, 1), shift), widths).item()
    assert 0 < results["theorem_2_passive"].score < np.sqrt(kl / 2) + polarised.ks_noise(N)


def test_a_mixture_needs_the_means_where_the_latent_is_active():
    """Theorem 2 (iii) as printed takes mu_j over all examples: no weight c makes that the distribution of z_j."""
    mean, stddev, prior_mean, prior_stddev = encoder()
    j, rng = 4, np.random.default_rng(0)
    z, prior = (columns[:, j] for columns in polarised.draw_samples(mean, stddev, prior_mean, prior_stddev))

    def mixture(c, means):
        return np.where(rng.random(N) < c, prior, rng.choice(means, N))

    active = polarised.kl_per_latent(mean, stddev, prior_mean, prior_stddev)[:, j] >= polarised.PASSIVE_KL
    printed = min(reference_ks(z, mixture(c, mean[:, j])) for c in np.linspace(0, 1, 21))
    # A uniform choice of c and of means makes the mixture a fresh sample of N.
    assert reference_ks(z, mixture(MIXED_SHARE[0], mean[active, j])) < polarised.ks_noise(N) < printed / 3


def reference_ks(one, other):
    return polarised.ks_distances(one[:, np.newaxis], other[:, np.newaxis]).item()


def test_ks_distance_against_a_loop():
    rng = np.random.default_rng(0)
    one, other = rng.integers([0, 1, 9], [5, 6, 14], (30, 3)), rng.integers(0, 5, (20, 3))
    expected = [reference.ks_distance(a.tolist(), b.tolist()) for a, b in zip(one.T, other.T, strict=True)]
    np.testing.assert_allclose(polarised.ks_distances(one, other), expected, rtol=1e-12)
    assert expected[2] == 1


def test_ks_noise_is_exceeded_as_often_as_it_says():
    rng = np.random.default_rng(0)
    draws, level = 600, 0.1
    apart = polarised.ks_distances(*rng.standard_normal((2, 1_000, draws)))
    exceeded = np.mean(apart > polarised.ks_noise(1_000, level))
    assert abs(exceeded - level) < 4 * np.sqrt(level * (1 - level) / draws)


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_mixing_weight_is_recovered(c):
    n, rng = 20_000, np.random.default_rng(0)
    z = np.where(rng.random(n) < c, rng.random(n), 2 + rng.random(n))
    weight = polarised.mixing_weight(z, rng.random(n), 2 + rng.random(n))
    # The fit is linear in z's distribution function, with influence at most max |P - M| / mean |P - M|^2 < 3 apart.
    assert abs(weight - c) < 5 * 3 * np.sqrt(0.25 / n)
    assert 0 <= weight <= 1 and np.isnan(polarised.mixing_weight(z, z, z))


def test_few_latents_and_few_examples():
    results, skipped = metrics.polarised_regime(np.zeros((2, 1)), np.ones((2, 1)))
    assert results["passive_latents"].score == 1 and results["active_latents"].score == 0
    assert skipped == {"proposition_3_active": "no latent is active", "theorem_2_active": "no latent is active",
                       "theorem_2_mixed": "no latent is mixed"}
    _, skipped = metrics.polarised_regime(np.arange(4.0).reshape(2, 2) + 1, np.full((2, 2), 0.1))
    assert set(skipped) == {"proposition_2", "proposition_3_passive", "theorem_2_passive", "theorem_2_mixed"}


@pytest.mark.parametrize(("arguments", "message"), [
    ((np.full((3, 2), np.nan), 1.0), "mean: expected finite numbers; got nan"),
    ((np.zeros((3, 2)), np.ones((3, 5))), r"stddev: expected an array \[N, d\] where d is 2, as in mean"),
    ((np.zeros((3, 2)), 0.0), "stddev: expected finite numbers above 0; got 0.0"),
    ((np.zeros((3, 2)), 1.0, np.inf), "prior_mean: expected finite numbers; got inf"),
    ((np.zeros((3, 2)), 1.0, 0.0, [1.0, -1.0]), "prior_stddev: expected finite numbers above 0; got -1.0"),
])
def test_bad_arrays_are_named(arguments, message):
    for function in (metrics.classify, metrics.polarised_regime):
        with pytest.raises(InputError, match=message):
            function(*arguments)
    with pytest.raises(InputError, match="rule: expected one of prior, standard_prior; got 'mine'"):
        metrics.classify(np.zeros((3, 2)), 1.0, rule="mine")


def rows(*deltas, every=500):
    return [{"step": (i + 1) * every, "kl": 1.0, **({} if delta is None else {"delta_kl": delta})}
            for i, delta in enumerate(deltas)]


@pytest.mark.parametrize(("history", "share", "since"), [
    (rows(0.5, 0.02, 0.04, 0.01, 0.029), 1 - 4 / 5, 2000),
    (rows(0.01, 0.01, 0.01, 0.01), 1 - 1 / 4, 500),
    (rows(0.5, None, 0.01, None), 1 - 3 / 4, 1500),             # rows without a measurement
    (rows(0.01, 0.01, 0.03), 0.0, None),                        # 3 % is not below 3 %
    (rows(0.01, float("nan"), 0.01), 0.0, 1500),
    (rows(*[0.01] * 200), 1 - 1 / 200, 500),
    ([{"step": 0, "delta_kl": 0.01}], 1.0, 0),                  # before the first step
])
def test_polarised_fraction(history, share, since):
    result = metrics.polarised_fraction(history)
    assert result.score == pytest.approx(share, abs=1e-12) and result.parts["since"] == since
    assert result.parts["measurements"] == sum("delta_kl" in row for row in history)


def test_polarised_fraction_of_an_autoencoder_is_absent():
    assert metrics.polarised_fraction(rows(None, None)) is None


def test_active_units_by_hand():
    codes = np.array([[0.0, 0, 5], [0.3, 0.1, 5]])       # variances 0.0225, 0.0025, 0
    assert metrics.active_units(codes).score == 1


def test_the_spread_of_passive_variances_is_held_against_the_priors():
    results, _ = metrics.polarised_regime(*encoder())
    assert (results["proposition_3_passive"].parts["spread"] == 0).all()
    assert encoder()[3][:, results["proposition_3_passive"].parts["latents"]].std(0).max() > 0.01


def test_the_spread_of_an_active_latents_variance():
    stddev = np.tile([[0.1], [0.3]], (50, 1))
    found = metrics.polarised_regime(np.arange(100.0)[:, np.newaxis], stddev)[0]["proposition_3_active"].parts
    assert found["variance"] == pytest.approx((0.01 + 0.09) / 2)
    assert found["spread"] == pytest.approx(0.04**2)
