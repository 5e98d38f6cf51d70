import numpy as np
import pytest
import reference
import scipy.integrate
import scipy.optimize
import tensorflow as tf

from vae_tf import jacobians
from vae_tf.errors import InputError
from vae_tf.metrics import local_decoder, local_decoder_error, loss_split, od_score, stochastic_loss_error
from vae_tf.metrics.local_decoder import fit_local_decoders
from vae_tf.metrics.local_decoder_errors import LocalDecoders

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 20)).astype(np.float32)
MEANS, STDDEVS = RNG.standard_normal((6, 3)), RNG.uniform(0.1, 0.5, (6, 3))


def smooth(z):
    """A decoder that is neither linear nor a tanh of one: [B, 4]."""
    return tf.sigmoid(tf.sin(2 * z @ W[:, :8]) @ W[:1, :8].T * W[1:2, :4] + z @ W[:, 4:8])


def gram(decoder, means=MEANS):
    return jacobians.gram(decoder, tf.constant(means, tf.float32)).numpy()


def test_fits_are_those_of_one_pixel_at_a_time():
    fits = fit_local_decoders(smooth, MEANS, STDDEVS, draws=40, seed=3, keep_matrices=True)
    near = np.sqrt(local_decoder.GAIN)
    for i, (mean, stddev) in enumerate(zip(MEANS, STDDEVS, strict=True)):
        fitted, compared = np.split(np.random.default_rng([3, i]).standard_normal((80, 3), np.float32), 2)
        def decoder(z):
            return smooth(tf.constant(z[np.newaxis])).numpy()[0].astype(np.float64)
        mean = mean.astype(np.float32)
        linear, tanh = reference.local_decoder(decoder, mean, stddev.astype(np.float32), fitted)
        # float32 targets; a fit ends when a step gains less than GAIN of a loss: weights are then off by its root
        np.testing.assert_allclose(fits.matrix_linear[i], linear[:, :3] / stddev, atol=1e-4)
        np.testing.assert_allclose(fits.matrix[i], tanh[:, :3] / stddev, atol=near * np.abs(tanh / stddev.min()).max())
        y = np.stack([decoder(mean + stddev.astype(np.float32) * draw) - decoder(mean) for draw in compared])
        features = np.column_stack([compared, np.ones(40)])
        np.testing.assert_allclose(fits.delta_linear[i], ((y - features @ linear.T)**2).sum(1).mean(), rtol=1e-4)
        np.testing.assert_allclose(fits.delta[i], ((y - np.tanh(features @ tanh.T))**2).sum(1).mean(), rtol=near)
        np.testing.assert_allclose(fits.stochastic[i], (y**2).sum(1).mean(), rtol=1e-5)
        np.testing.assert_allclose(fits.stochastic_error[i], (y**2).sum(1).std(ddof=1) / np.sqrt(40), rtol=1e-4)
        integrals = [scipy.integrate.quad(lambda t, w=w: np.tanh(w[3] + np.linalg.norm(w[:3]) * t)**2
                                          * np.exp(-t * t / 2) / np.sqrt(2 * np.pi), -9, 9)[0] for w in tanh]
        np.testing.assert_allclose(fits.predicted[i], sum(integrals), rtol=near)
    for name in ("", "_linear"):
        M = getattr(fits, "matrix" + name)
        np.testing.assert_allclose(getattr(fits, "gram" + name), np.swapaxes(M, 1, 2) @ M, rtol=1e-12)


def test_levenberg_marquardt_reaches_the_losses_of_minpack():
    rng = np.random.default_rng(1)
    features = rng.standard_normal((2, 50, 4)).astype(np.float32)
    features[:, :, 3] = 1
    y = np.clip(rng.standard_normal((2, 50, 7)) * 0.6, -2, 2).astype(np.float32)       # noise: far from any tanh
    start = local_decoder.least_squares(features, y)
    weights = local_decoder.levenberg_marquardt(tf.constant(features), tf.constant(y), start).numpy()
    for phi, targets, found, first in zip(features, y, weights, start.numpy(), strict=True):
        for k, target in enumerate(targets.T):
            best = scipy.optimize.least_squares(lambda w, phi=phi, target=target: np.tanh(phi @ w) - target,
                                                          first[:, k], method="lm")
            loss = ((np.tanh(phi @ found[:, k]) - target)**2).sum()
            assert loss < 2 * best.cost * (1 + 10 * local_decoder.GAIN)


@pytest.mark.parametrize("target", [np.tanh, lambda u: u, lambda u: 40 * (u > 75)])      # within reach of tanh or not
def test_no_step_makes_a_pixel_worse(target):
    rng = np.random.default_rng(2)
    features = np.pad(rng.standard_normal((1, 60, 4)), [(0, 0), (0, 0), (0, 1)], constant_values=1).astype(np.float32)
    y = target(50 * features @ rng.standard_normal((1, 5, 40))).astype(np.float32)
    start = local_decoder.least_squares(features, y)
    found = local_decoder.levenberg_marquardt(tf.constant(features), tf.constant(y), start)
    before, after = (((np.tanh(features @ weights) - y)**2).sum(1) for weights in (start.numpy(), found.numpy()))
    assert (after <= before * (1 + 60 * EPS)).all() and after.sum() < before.sum()
    if target is np.tanh:
        assert after.sum() < 1e-3 * before.sum()


def test_a_tanh_target_is_recovered_to_float_precision_and_the_linear_model_loses():
    fits = fit_local_decoders(lambda z: tf.tanh(z @ W), 0 * MEANS, STDDEVS, keep_matrices=True)
    u = np.abs(STDDEVS @ np.abs(W)).max() * 4               # tanh'(u) magnifies the rounding of y
    np.testing.assert_allclose(fits.matrix, np.broadcast_to(W.T, (6, 20, 3)), atol=EPS * np.cosh(u)**2)
    assert (fits.delta < 20 * (10 * EPS)**2).all()
    assert (fits.delta_linear > 1e6 * fits.delta).all()
    result = local_decoder_error(fits)
    assert result.score < 1e-10 and result.parts["relative_linear"] > 0.01
    assert result.parts["over_linear"] == pytest.approx(result.score / result.parts["relative_linear"])
    assert result.parts["p_value"] == pytest.approx(2 / 2**6)          # six pairs, all of one sign
    np.testing.assert_allclose(result.parts["delta_per_pixel"] * 20, result.parts["delta"])
    np.testing.assert_allclose(fits.gram, np.broadcast_to(W @ W.T, (6, 3, 3)), rtol=1e-4, atol=1e-4)


def test_on_a_linear_target_both_tie_where_tanh_can_be_linear():
    fits = fit_local_decoders(lambda z: 1e-3 * z @ W, MEANS, STDDEVS, keep_matrices=True)
    u = 1e-3 * 5 * np.abs(STDDEVS @ np.abs(W)).max()        # at five standard deviations of all latents at once
    rounding = (1e-3 * EPS * 10 * np.abs(MEANS @ W).max())**2 * 20
    assert (fits.delta_linear < rounding).all()
    assert (fits.delta < (u**2 / 3)**2 * fits.stochastic + rounding).all()     # tanh u = u - u^3 / 3 + ...
    np.testing.assert_allclose(fits.matrix, fits.matrix_linear, atol=1e-3 * 1e-4)
    # A target beyond (-1, 1) is out of tanh's reach: the linear model must win.
    wide = fit_local_decoders(lambda z: z @ W, MEANS, STDDEVS)
    assert (wide.delta_linear < 1e-9 * wide.stochastic).all() and (wide.delta > 1e-3 * wide.stochastic).all()
    assert local_decoder_error(wide).parts["over_linear"] > 1e6


def test_linear_decoder_the_jacobian_is_exact_up_to_monte_carlo():
    G = gram(lambda z: z @ W)
    fits = fit_local_decoders(lambda z: z @ W, MEANS, STDDEVS, draws=400)
    result = stochastic_loss_error(fits, G, STDDEVS)
    expected = [sum(s * s * c @ c for s, c in zip(stddev, W.astype(np.float64), strict=True)) for stddev in STDDEVS]
    np.testing.assert_allclose(result.parts["jacobian"], expected, rtol=1e-5)
    assert (np.abs(fits.stochastic - expected) < 5 * fits.stochastic_error).all()
    assert result.parts["error_jacobian"] < 25 * result.parts["noise"]
    assert result.score == pytest.approx(result.parts["error_local_decoder"] / result.parts["error_jacobian"])


def test_stochastic_loss_of_a_tanh_decoder_is_the_local_decoders():
    fits = fit_local_decoders(lambda z: tf.tanh(z @ W), 0 * MEANS, 3 * STDDEVS, draws=400)
    result = stochastic_loss_error(fits, gram(lambda z: tf.tanh(z @ W), 0 * MEANS), 3 * STDDEVS)
    assert (np.abs(fits.predicted - fits.stochastic) < 5 * fits.stochastic_error).all()
    assert result.score < 0.1 and result.parts["p_value"] < 0.05


def test_covariances_diagonal_or_full():
    factors = np.stack([np.diag(stddev) for stddev in STDDEVS])
    a, b = fit_local_decoders(smooth, MEANS, STDDEVS), fit_local_decoders(smooth, MEANS, factors)
    for field in ("gram", "delta", "stochastic", "predicted"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    G = gram(smooth)
    assert stochastic_loss_error(a, G, STDDEVS).score == stochastic_loss_error(b, G, factors).score
    # correlated noise, exactly tanh target: the same M, seen through other noise
    factors = np.tril(np.random.default_rng(5).uniform(-0.3, 0.3, (6, 3, 3))) + 0.3 * np.eye(3)
    correlated = fit_local_decoders(lambda z: tf.tanh(0.3 * z @ W), 0 * MEANS, np.abs(factors), keep_matrices=True)
    np.testing.assert_allclose(correlated.matrix, np.broadcast_to(0.3 * W.T, (6, 20, 3)), atol=1e-4)


def test_same_scores_in_any_order_of_models_and_any_company():
    decoders = {"smooth": smooth, "tanh": lambda z: tf.tanh(z @ W)}
    there = {name: fit_local_decoders(f, MEANS, STDDEVS).gram for name, f in decoders.items()}
    back = {name: fit_local_decoders(f, MEANS, STDDEVS).gram for name, f in reversed(decoders.items())}
    for name in decoders:
        assert od_score(there)[name].score == od_score(back)[name].score
    few, many = fit_local_decoders(smooth, MEANS[:2], STDDEVS[:2]), fit_local_decoders(smooth, MEANS, STDDEVS)
    np.testing.assert_allclose(few.delta, many.delta[:2], rtol=1e-3)


def test_batches_and_progress(monkeypatch):
    whole, seen = fit_local_decoders(smooth, MEANS, STDDEVS), []
    monkeypatch.setattr(local_decoder, "ENTRIES", 4 * 4 * 128)          # four x at a time: n = 4, 2 x 64 draws
    parts = fit_local_decoders(smooth, MEANS, STDDEVS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 6), (6, 6)]
    np.testing.assert_allclose(whole.delta, parts.delta, rtol=1e-3)
    assert whole.matrix is None and whole.pixels == 4


def test_orthogonal_tanh_decoder_has_no_orthogonality_deviation():
    Q = np.linalg.qr(RNG.standard_normal((9, 3)))[0].T.astype(np.float32) * [[1.0], [0.7], [0.5]]
    Q = Q.astype(np.float32)
    fits = fit_local_decoders(lambda z: tf.tanh(z @ Q), 0 * MEANS, STDDEVS)
    parts = od_score({"m": fits.gram})["m"].parts
    # M is off by some eps, V by that over the relative gap of singular values, 1/3
    assert parts["d_v"] < (100 * EPS)**2 and parts["d_sigma"] < (100 * EPS)**2


@pytest.mark.parametrize("d", [1, 4])
def test_a_decoder_that_ignores_its_latents(d):
    means, stddevs = np.zeros((3, d)), np.full((3, d), 0.5)
    fits = fit_local_decoders(lambda z: 0.3 + 0 * z[:, :1], means, stddevs)            # n = 1, d >= n
    assert (fits.delta == 0).all() and (fits.gram == 0).all() and (fits.stochastic == 0).all()
    assert local_decoder_error(fits).score == 0 and local_decoder_error(fits).parts["p_value"] == 1
    assert stochastic_loss_error(fits, np.zeros((3, d, d)), stddevs).score == 0
    assert od_score({"m": fits.gram})["m"].score == 0
    half = fit_local_decoders(lambda z: tf.tanh(z[:, :1]), means, stddevs, keep_matrices=True)
    np.testing.assert_allclose(half.matrix, np.broadcast_to(np.eye(1, d), (3, 1, d)), atol=1e-4)


def test_loss_split_adds_up_and_knows_its_cross_term():
    x = RNG.standard_normal((6, 3))
    linear = loss_split(lambda z: z @ W[:, :3], x, MEANS, STDDEVS)
    square = loss_split(lambda z: z**2, x, MEANS, STDDEVS, pairs=2000)
    for result in (linear, square):
        p = result.parts
        np.testing.assert_allclose(p["reconstruction"], p["deterministic"] + p["stochastic"] + p["cross"], rtol=1e-12)
    np.testing.assert_allclose(linear.parts["deterministic"], ((MEANS @ W[:, :3] - x)**2).sum(1), rtol=1e-5)
    # A linear decoder is unbiased, and the two draws of a pair cancel but for the rounding of float32.
    np.testing.assert_allclose(linear.parts["cross"], 0, atol=1e-5 * linear.parts["reconstruction"].max())
    # Dec = z^2: E (Dec(mu + eps) - Dec(mu)) = s^2, E (2 mu eps + eps^2)^2 = 4 mu^2 s^2 + 3 s^4
    cross = (2 * STDDEVS**2 * (MEANS**2 - x)).sum(1)
    assert abs(square.parts["cross"].mean() - cross.mean()) < 5 * square.parts["cross_error"]
    assert abs(cross.mean()) > 10 * square.parts["cross_error"]                         # so zero would not pass
    # The cross term of a pair is 2 eps^2 . (mu^2 - x), whose variance is 8 sum s^4 (mu^2 - x)^2.
    variance = 8 * (STDDEVS**4 * (MEANS**2 - x)**2).sum(1) / 2000
    np.testing.assert_allclose(square.parts["cross_error"], np.sqrt(variance.sum()) / len(x), rtol=0.1)
    np.testing.assert_allclose(square.score, abs(square.parts["cross"].mean()) / square.parts["reconstruction"].mean())
    stochastic = (4 * MEANS**2 * STDDEVS**2 + 3 * STDDEVS**4).sum(1)
    # Var(2 mu eps + eps^2)^2 by the moments of a normal is below 105 E(.)^2 / draws each
    np.testing.assert_allclose(square.parts["stochastic"], stochastic, rtol=5 * np.sqrt(105 / 4000))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: fit_local_decoders(smooth, MEANS[0], STDDEVS), r"means: expected shape \[N, d\]"),
    (lambda: fit_local_decoders(smooth, MEANS, STDDEVS[:3]), r"stddevs: expected shape \(6, 3\)"),
    (lambda: fit_local_decoders(smooth, MEANS, 0 * STDDEVS), "stddevs: expected positive"),
    (lambda: fit_local_decoders(smooth, MEANS * np.nan, STDDEVS), "means: expected finite"),
    (lambda: fit_local_decoders(smooth, MEANS, STDDEVS, draws=4),
     "draws: expected more than the 4 weights of a pixel; got 4"),
    (lambda: fit_local_decoders(lambda z: z * np.nan, MEANS, STDDEVS), "decoder: expected finite"),
    (lambda: loss_split(smooth, MEANS, MEANS, STDDEVS), "x: expected 6 examples of 4 values"),
    (lambda: loss_split(smooth, 1.0, MEANS, STDDEVS), "x: expected 6 examples of 4 values"),
    (lambda: loss_split(lambda z: z * np.nan, MEANS, MEANS, STDDEVS), "expected finite"),
    (lambda: stochastic_loss_error(fit_local_decoders(smooth, MEANS, STDDEVS), gram(smooth)[:2], STDDEVS[:2]),
     "expected 6 examples"),
])
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_the_stochastic_loss_of_a_full_covariance():
    rng = np.random.default_rng(0)
    W, means = rng.standard_normal((3, 5)).astype(np.float32), rng.standard_normal((4, 3))
    L = np.tril(rng.uniform(0.1, 0.5, (4, 3, 3)))
    fits = fit_local_decoders(lambda z: z @ W, means, L, draws=40)
    found = stochastic_loss_error(fits, np.tile(W @ W.T, (4, 1, 1)), L).parts["jacobian"]
    np.testing.assert_allclose(found, [np.trace(W @ W.T @ factor @ factor.T) for factor in L], rtol=1e-5)


def test_relative_errors_are_mean_squares_of_errors_over_the_loss():
    gram, stddevs = np.array([[[4.0]], [[9.0]]]), np.ones((2, 1))
    fits = LocalDecoders(gram, gram, np.ones(2), np.ones(2), np.array([2.0, 10.0]), np.ones(2), np.array([3.0, 5.0]), 1)
    parts = stochastic_loss_error(fits, gram, stddevs).parts
    assert parts["relative_error_jacobian"] == pytest.approx((1.0**2 + 0.1**2) / 2)
    assert parts["relative_error_local_decoder"] == pytest.approx((0.5**2 + 0.5**2) / 2)
    assert parts["error_jacobian"] == pytest.approx((2.0**2 + 1.0**2) / 2)
