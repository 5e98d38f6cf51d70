"""The polarised regime on encoders whose latents are known to be active, mixed or passive."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

from vae_tf import data, distributions, evaluation, export, metrics, models, objectives, report, training
from vae_tf.errors import InputError
from vae_tf.metrics import polarised

N = 4_000
KNOWN = ["active", "passive", "passive", "passive", "mixed", "active", "mixed"]
MIXED_SHARE = (0.4, 0.8)        # of the examples where latents 4 and 6 are passive


def encoder(seed=0, n=N):
    """mean, stddev, prior mean and prior stddev [N, 7] of an iVAE with latents as KNOWN.

    The priors of latents 2 and 3 are narrow, and follow u; that of latent 3 moves with u, too.
    """
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, n)
    prior_mean = np.stack([0 * u, 0 * u, 0 * u, 0.5 * u, 0 * u, u, 0 * u], -1)
    prior_stddev = np.stack([np.exp(0.5 * u), 1 + 0 * u, 0.02 * np.exp(u), 0.1 + 0.05 * u, 1 + 0 * u, 0.1 + 0 * u,
                             np.exp(0.5 * u)], -1)
    mean, stddev = prior_mean.copy(), prior_stddev.copy()
    for j, share in [(0, 0), (4, MIXED_SHARE[0]), (5, 0), (6, MIXED_SHARE[1])]:
        on = rng.random(n) >= share
        mean[on, j] += prior_stddev[on, j] * (2 + rng.standard_normal(on.sum()))
        stddev[on, j] *= 0.01 * rng.uniform(1, 2, on.sum())
    return mean, stddev, prior_mean, prior_stddev


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


def test_kl_of_arrays_is_that_of_distributions():
    q, p = posterior(), posterior(seed=1)
    expected = objectives.kl_per_latent(q, p)
    np.testing.assert_allclose(polarised.kl_per_latent(q.mean(), q.stddev(), p.mean(), p.stddev()), expected, rtol=1e-4,
                               atol=1e-5)      # float32 differences of terms of size 10


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
    ((np.full((3, 2), np.nan), 1.0), r"mean: expected finite values .*\(3, 2\), 6 of them NaN or infinite"),
    ((np.zeros((3, 2)), np.ones((3, 5))), r"stddev: expected .* broadcasts to \(3, 2\), as mean; got \(3, 5\)"),
    ((np.zeros((3, 2)), 0.0), "stddev: expected finite positive values; got 0 to 0"),
    ((np.zeros((3, 2)), 1.0, np.inf), "prior_mean: expected finite values; got inf to inf"),
    ((np.zeros((3, 2)), 1.0, 0.0, [1.0, -1.0]), "prior_stddev: expected finite positive values; got -1 to 1"),
])
def test_bad_arrays_are_named(arguments, message):
    for function in (metrics.classify, metrics.polarised_regime):
        with pytest.raises(InputError, match=message):
            function(*arguments)
    with pytest.raises(InputError, match="rule: expected one of prior, standard_prior; got 'mine'"):
        metrics.classify(np.zeros((3, 2)), 1.0, rule="mine")


# While training.

def posterior(seed=0, n=50, d=6, full=False):
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((n, d)).astype(np.float32)
    log_variance = (rng.uniform(-6, 0.5, d) + 0.3 * rng.standard_normal((n, d))).astype(np.float32)
    if not full:
        return distributions.diagonal_normal(mean, log_variance)
    lower = 0.3 * rng.standard_normal((n, d * (d + 1) // 2)).astype(np.float32)
    return distributions.full_normal(mean, lower)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("full", "learned"), [(False, False), (False, True), (True, False)])
def test_polarised_kl_against_loops(full, learned, threshold):
    q = posterior(full=full)
    p = posterior(seed=1) if learned else distributions.standard_normal(6)
    arrays = [np.broadcast_to(array, (50, 6)).astype(np.float64)
              for array in (q.mean(), q.stddev(), p.mean(), p.stddev())]
    _, expected, delta, active = reference.polarised_kl(*arrays, threshold)
    got = {name: float(value) for name, value in objectives.polarised_kl(q, p, threshold).items()}
    assert got["active_latents"] == len(active)
    np.testing.assert_allclose(got["kl_polarised"], expected, rtol=1e-5)      # sums of float32 terms of one size
    np.testing.assert_allclose(got["delta_kl"], delta, rtol=1e-4, atol=1e-6)  # a difference of two such sums


def test_delta_kl_of_precise_and_of_ignored_latents_is_their_half_variance():
    """(10) leaves out s_j^2 / 2 of each active latent, and nothing of one at the prior."""
    stddev = tf.constant([[1e-2, 1e-2, 1.0]])
    q = distributions.diagonal_normal(tf.constant([[1.0, -2.0, 0.0]]), 2 * tf.math.log(stddev))
    p = distributions.standard_normal(3)
    expected = 1e-4 / float(objectives.kl(q, p)[0])
    assert float(objectives.polarised_kl(q, p)["delta_kl"]) == pytest.approx(expected, rel=0.1)


def test_delta_kl_of_a_posterior_that_is_the_prior_is_0():
    q = distributions.diagonal_normal(tf.zeros((5, 3)), tf.zeros((5, 3)))
    got = objectives.polarised_kl(q, distributions.standard_normal(3))
    assert [float(got[name]) for name in ("kl_polarised", "delta_kl", "active_latents")] == [0, 0, 0]


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
])
def test_polarised_fraction(history, share, since):
    result = metrics.polarised_fraction(history)
    assert result.score == pytest.approx(share, abs=1e-12) and result.parts["since"] == since
    assert result.parts["measurements"] == sum("delta_kl" in row for row in history)


def test_polarised_fraction_of_an_autoencoder_is_absent():
    assert metrics.polarised_fraction(rows(None, None)) is None


# Trained.

@pytest.fixture(scope="module")
def trained():
    """A VAE on three-dimensional data with one direction of hardly any variance, and the data."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2_000, 3)) * [3, 2, 0.05] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    dataset = data.dataset.from_arrays("blob", x.astype(np.float32))
    model = models.build("vae", (3,), network="mlp_synthetic", latents=4, likelihood="gaussian",
                         likelihood_variance=0.1)
    history = training.fit(model, dataset, keras.optimizers.Adam(5e-3), steps=3_000, batch_size=64, log_every=500,
                           watch=lambda model, x, u: objectives.polarised_kl(model.posterior(x, u), model.prior(u)))
    return model, dataset, history


def test_a_standard_prior_is_classified_alike_by_both_rules(trained):
    model, dataset, _ = trained
    q = model.posterior(dataset.images_at(np.arange(len(dataset))))
    classes = metrics.classify(q.mean(), q.stddev())
    assert sorted(classes) == ["active", "active", "passive", "passive"]        # two directions are worth a latent
    np.testing.assert_array_equal(classes, metrics.classify(q.mean(), q.stddev(), rule="standard_prior"))


def test_a_trained_vae_polarises(trained):
    _, _, history = trained
    assert [row["step"] for row in history if "delta_kl" in row] == [500, 1000, 1500, 2000, 2500, 3000]
    assert history[-1]["active_latents"] == 2
    assert metrics.polarised_fraction(history).score > 0
    assert history[-1]["delta_kl"] < 0.03 and abs(history[-1]["kl_polarised"] / history[-1]["kl"] - 1) < 0.05


# Scored, drawn and pruned.

def some_codes(n=300):
    mean, stddev, prior_mean, prior_stddev = encoder(n=n)
    factors = np.random.default_rng(3).integers(0, 4, (n, 2))
    return evaluation.Codes(mean, factors, stddev=stddev, prior_mean=prior_mean, prior_stddev=prior_stddev)


def of_latents(codes, latents):
    return codes._replace(**{name: getattr(codes, name)[:, latents] for name in evaluation.PER_LATENT})


def test_pruned_codes_are_scored_as_if_the_passive_latents_were_not_there():
    codes, names = some_codes(), ["mig", "mcc", "active_units", "elbo_decomposition"]
    pruned = evaluation.score(codes, names, latents="active")
    kept = [0, 4, 5, 6]
    assert pruned.latents.tolist() == kept and pruned.codes.shape == (300, 7)
    alone = evaluation.score(of_latents(codes, kept), names)
    assert {name: result.score for name, result in pruned.results.items()} == {
        name: result.score for name, result in alone.results.items()}
    whole = evaluation.score(codes, names)
    assert whole.latents.tolist() == list(range(7))
    assert whole.results["elbo_decomposition"].score != pruned.results["elbo_decomposition"].score
    assert whole.polarised.keys() == pruned.polarised.keys() and len(whole.polarised) == 10


def test_pruning_needs_a_posterior_and_something_active():
    with pytest.raises(InputError, match="a posterior to tell active ones by; got active, and codes alone"):
        evaluation.score(evaluation.Codes(np.eye(3)), ["active_units"], latents="active")
    with pytest.raises(InputError, match="no latent is: every posterior is the prior"):
        evaluation.score(evaluation.Codes(np.zeros((3, 2)), stddev=np.ones((3, 2))), ["active_units"], latents="active")


def test_a_posterior_that_is_none_is_said_and_the_rest_is_scored():
    codes = some_codes()
    scored = evaluation.score(codes._replace(stddev=0 * codes.stddev), ["active_units"])
    assert scored.absent == {"polarised_regime": "stddev: expected finite positive values; got 0 to 0"}
    assert scored.results["active_units"].score > 0 and not scored.polarised


def test_the_table_and_the_numbers_have_a_group_of_their_own():
    scored = evaluation.score(some_codes(), ["active_units"])
    lines = report.table(scored).splitlines()
    at = lines.index("  polarised regime")
    assert [line.split()[0] for line in lines[at + 1:] if not line.startswith("   ")] == list(scored.polarised)
    assert not any(name in " ".join(lines[:at]) for name in scored.polarised)
    only = evaluation.score(evaluation.Codes(np.eye(3)), ["active_units"])
    assert "not scored: there is no posterior, only codes" in report.table(only).splitlines()[-1]
    assert '"polarised_regime": "there is no posterior' in evaluation.as_json(only)
    assert '"theorem_2_mixed": {' in evaluation.as_json(scored).partition('"polarised_regime"')[2]


def test_full_covariance_is_looked_at_by_its_marginals_and_an_autoencoder_not_at_all(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    dataset = data.dataset.from_arrays("blob", x)
    for name in ("full_covariance_vae", "ae"):
        model = models.build(name, (3,), network="mlp_synthetic", latents=2, likelihood="gaussian")
        card = {"model": name, "u_size": 0, "data": {"shape": dataset.shape}}
        scored = evaluation.evaluate(export.load(export.save(tmp_path / name, model, dataset, card)), dataset,
                                     ["active_units"])
        if name == "ae":
            assert not scored.polarised and scored.absent["polarised_regime"] == "there is no posterior, only codes"
        else:
            q = model.posterior(x)
            diagonal = tf.linalg.diag_part(q.covariance()) ** 0.5
            # Rows are in another order; and the marginals of an export agree to float32.
            expected = polarised.kl_per_latent(q.mean(), diagonal).mean(0)
            classes = metrics.classify(*scored.posterior.distributions())
            np.testing.assert_allclose(polarised.kl_per_latent(*scored.posterior.distributions()).mean(0), expected,
                                       rtol=1e-4)
            assert sorted(classes) == sorted(metrics.classify(q.mean(), diagonal))


@pytest.mark.parametrize("d", [1, 7, 30])
def test_the_page_of_histograms_has_every_latent_and_no_label_on_another(tmp_path, monkeypatch, d):
    drawn = []
    monkeypatch.setattr("matplotlib.pyplot.close", drawn.append)
    codes = of_latents(some_codes(), np.arange(d) % 7)
    report.polarised_page(tmp_path / "page.png", "a model of a name that is rather long/1: posterior and prior", codes)
    figure, = drawn
    renderer = figure.canvas.get_renderer()
    shown = [text for axis in figure.axes for text in [*axis.texts, axis.title, *axis.get_xticklabels()]
             if text.get_text() and axis_shows(axis, text)]
    boxes = [text.get_window_extent(renderer) for text in [*shown, *figure.texts, *figure.legends]]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])
    said = {text.get_text() for text in shown}
    assert {f"z{j}" for j in range(d)} <= said and {"posterior mean", "variance", "samples"} <= said
    assert min(text.get_fontsize() for text in shown) >= 7
    assert (tmp_path / "page.png").stat().st_size < 250_000


def axis_shows(axis, text):
    """Matplotlib keeps labels of ticks beyond the ends of an axis, and does not draw them."""
    if text not in axis.get_xticklabels():
        return True
    low, high = axis.get_xlim()
    return axis.axison and low <= text.get_position()[0] <= high


def test_active_units_by_hand():
    codes = np.array([[0.0, 0, 5], [0.3, 0.1, 5]])       # variances 0.0225, 0.0025, 0
    assert metrics.active_units(codes).score == 1
