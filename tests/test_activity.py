"""What "active" means: one file of rules, held against loops, and the same latents for everyone who uses a rule."""

import re

import numpy as np
import pytest
import reference

from vae_tf import activity, evaluation, metrics, theory, verdicts
from vae_tf.errors import InputError

N = 500


def learned_prior(seed=0):
    """Posterior and prior [N, 3] of an iVAE: latent 0 is its prior of width 0.6, latent 1 says much, latent 2 little.

    The prior's mean moves with u, so that the posterior mean of latent 0 moves too, and says nothing about x by it.
    """
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (N, 1))
    prior_mean, prior_stddev = u * [1, 1, 0], np.full((N, 3), [0.6, 3.0, 1.0])
    mean = prior_mean + prior_stddev * rng.standard_normal((N, 3)) * [0, 1, 0.2]
    return mean, prior_stddev * [1, 0.1, 0.98], prior_mean, prior_stddev


def test_a_posterior_that_is_a_learned_prior_of_width_06_is_active_by_no_rule():
    mean, stddev, prior_mean, prior_stddev = arrays = learned_prior()
    assert metrics.classify(*arrays)[0] == "passive"
    assert not activity.is_narrow(stddev, prior_stddev)[0] and activity.is_narrow(stddev)[0]
    assert not activity.is_varying(mean, prior_mean, prior_stddev)[0] and activity.is_varying(mean)[0]
    assert not activity.is_informative(activity.kl_per_latent(*arrays).mean(0))[0]


def test_the_tables_numbers_agree_on_a_learned_prior():
    """Every score of one table that counts active latents leaves the passive one out, and looks at the others."""
    mean, stddev, prior_mean, prior_stddev = learned_prior()
    factors = np.stack([np.digitize(mean[:, 1], [-2, 0, 2]), np.arange(N) % 2], -1)
    codes = evaluation.Codes(mean, factors, None, stddev, prior_mean, prior_stddev)
    scored = evaluation.score(codes, ["active_units", "mig_sup", "mig_sup_posterior"])
    for name in scored.results:
        assert scored.results[name].parts["active"].tolist() == [False, True, True], name
    assert 0 not in scored.polarised["active_latents"].parts["latents"]
    around = metrics.Context(mean[:9], stddevs=stddev[:9], decoder=lambda z: z @ np.eye(3, 5, dtype=np.float32))
    learned = metrics.Context(mean[:9], stddevs=stddev[:9], prior_means=prior_mean[:9],
                              prior_stddevs=prior_stddev[:9], decoder=around.decoder)
    results, skipped = metrics.measure(["dto_active"], learned)
    assert not results and "1 of 3 latents has mean s_j^2 / s_pj^2 < 0.5" in skipped["dto_active"]
    results, _ = metrics.measure(["dto_active"], around)       # the same against N(0, I): the passive one counts, too
    assert results["dto_active"].parts["active"].tolist() == [True, True, False]


def test_rules_against_loops():
    mean, stddev, prior_mean, prior_stddev = arrays = [array[:50] for array in learned_prior(1)]
    kl = activity.kl_per_latent(*arrays)
    for j in range(3):
        each = [reference.between_diagonal_kl(*([value] for value in row))
                for row in zip(*(array[:, j] for array in arrays), strict=True)]
        np.testing.assert_allclose(kl[:, j], each, atol=1e-12)      # float64 terms of size 10
        assert activity.is_informative(kl.mean(0))[j] == (sum(each) / 50 >= 0.01)
        ratio = sum((s / b) ** 2 for s, b in zip(stddev[:, j], prior_stddev[:, j], strict=True)) / 50
        assert activity.is_narrow(stddev, prior_stddev)[j] == (ratio < 0.5)
        unit = [(m - a) / b for m, a, b in zip(mean[:, j], prior_mean[:, j], prior_stddev[:, j], strict=True)]
        variance = sum((value - sum(unit) / 50) ** 2 for value in unit) / 50
        np.testing.assert_allclose(activity.variance_of_means(mean, prior_mean, prior_stddev)[j], variance, atol=1e-15)
        assert activity.is_varying(mean, prior_mean, prior_stddev)[j] == (variance > 0.01)


def test_no_rule_depends_on_the_units_of_a_latent():
    mean, stddev, prior_mean, prior_stddev = learned_prior()
    scale, shift = 2.0 ** np.array([3, -6, 4]), np.arange(3)
    changed = scale * mean + shift, scale * stddev, scale * prior_mean + shift, scale * prior_stddev
    for rule in (lambda m, s, a, b: activity.is_narrow(s, b), lambda m, s, a, b: activity.is_varying(m, a, b),
                 lambda *q: activity.is_informative(activity.kl_per_latent(*q).mean(0))):
        assert rule(*changed).tolist() == rule(mean, stddev, prior_mean, prior_stddev).tolist()


def test_a_full_covariance_is_narrow_by_its_marginals():
    L = np.array([[[0.1, 0], [0.9, 0.1]], [[0.2, 0], [0.9, 0.1]]])
    assert activity.is_narrow(L).tolist() == [True, False]        # 0.025 and 0.82


def test_a_prior_that_all_examples_share_depends_on_no_u():
    mean, stddev = np.random.default_rng(0).standard_normal((9, 2)), np.full((9, 2), 0.5)
    prior = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    shared, spread = (verdicts.judge(mean, stddev, *(np.broadcast_to(each, shape) for each in prior))
                      for shape in ((2,), (9, 2)))
    np.testing.assert_allclose(shared.kl, spread.kl, rtol=1e-12)
    assert not shared.given_u and not spread.given_u
    assert verdicts.judge(mean, stddev, mean, stddev).given_u


@pytest.mark.parametrize("d", [2, 4, 10, 64])
def test_a_full_covariance_carries_more_than_its_marginals_say(d):
    """One direction of variance 0.01 carries 2.3 nats, however it is turned; the marginals say 0.5 to 0.7."""
    rng = np.random.default_rng(0)
    axis = np.ones(d) / np.sqrt(d)
    mean = np.sqrt(0.99) * rng.standard_normal((4_000, 1)) * axis
    covariance = np.eye(d) - 0.99 * np.outer(axis, axis)
    L = np.broadcast_to(np.linalg.cholesky(covariance), (len(mean), d, d))
    exact = theory.gaussian_kl(mean, L @ L.swapaxes(1, 2), 0.0, np.eye(d)).mean()
    verdict = verdicts.judge(mean, np.linalg.norm(L, axis=2), dependence=activity.find_dependence(L))
    assert verdict.kl.sum() < np.log(2) < exact and (verdict.count > 0) == (d < 64)
    assert verdict.nats == pytest.approx(exact) and verdict.state == "alive"
    assert re.search(rf"{exact:.3g} nats together|together carry {exact:.3g} nats", verdicts.describe(verdict))
    assert verdicts.explain_no_meaning(verdict, "mig") is None


@pytest.mark.parametrize("first", [0.005, 0.02])
def test_scores_of_columns_mean_something_where_much_is_said_beside_one_latent(first):
    kl = np.full(64, 0.005)
    kl[0] = first
    turned, plain = (verdicts.Verdict(kl, kl >= 0.01, dependence=dependence) for dependence in (3.0, 0.0))
    assert verdicts.explain_no_meaning(turned, "column_cosine") is None and turned.state == "alive"
    assert "no other to be orthogonal" not in verdicts.describe(turned)
    assert verdicts.explain_no_meaning(plain, "column_cosine")
    alone = verdicts.Verdict(np.array([2.0, 0.001]), np.array([True, False]), dependence=0.1)
    assert verdicts.describe(alone).endswith("One latent has no other to be orthogonal to, or disentangled from.")
    closing = verdicts.write_closing_lines({"a": turned, "b": turned}, {name: {"steps": 1} for name in "ab"})
    assert closing == [f"2 of 2 models are alive: {turned.count} of 64 latents carry information about x"
                       + (" alone; where none does, all do together." if first < 0.01 else ".")]


@pytest.mark.parametrize("offset", [0.5, 5.0, -300.0])
def test_codes_without_a_posterior_are_alive_if_they_move(offset):
    rng = np.random.default_rng(0)
    moves = rng.standard_normal((N, 4)) * [1, 1e-4 * abs(offset), 0, 0] + offset
    moves[:, 3] += np.spacing(np.float32(abs(offset))) * rng.integers(0, 2, N)      # float32 rounds a constant
    assert activity.is_alive(moves).tolist() == [True, True, False, False]


def test_codes_of_small_types_are_alive_if_they_move():
    """Their squares overflow: 300 squared in float16, and 200 squared in int16."""
    moves = 300 + np.random.default_rng(0).standard_normal((N, 1))
    assert activity.is_alive(moves.astype(np.float16)).all()
    assert activity.variance_of_means(moves.astype(np.float16), np.float16([300])) == pytest.approx(1, rel=0.2)
    assert not activity.is_alive(np.full((N, 1), 200, np.int16)).any()


def test_udr_and_linear_optimum_mean_the_same_limit():
    assert activity.is_informative([0.0099, 0.01, 0.0101]).tolist() == [False, True, True]
    codes = np.random.default_rng(0).standard_normal((100, 2))
    both, one = (metrics.udr([codes, codes[:, ::-1]], kl=[kl, kl[::-1]]).score for kl in ([1, 0.01], [1, 0.0099]))
    assert one == pytest.approx(1) and both < 1      # two latents that correlate a little by chance share the weight


def test_bad_means_are_named():
    with pytest.raises(InputError, match=r"mean: expected an array \[N, d\]; got shape \(3,\)"):
        activity.kl_per_latent(np.zeros(3), 1.0)
