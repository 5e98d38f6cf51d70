"""The KL in its polarised form, against loops and while a VAE is trained."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from vae_tf import data, distributions, metrics, models, objectives, training
from vae_tf.errors import InputError
from vae_tf.metrics import polarised


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


def test_the_polarised_kl_is_that_of_a_batch():
    """It took the latents of a posterior without a batch for examples."""
    q = distributions.diagonal_normal(tf.zeros(2), tf.zeros(2))
    with pytest.raises(InputError, match=r"^posterior: expected [^\n]* or \[B, d\]; got batch shape \(\) and "):
        objectives.polarised_kl(q, distributions.standard_normal(2))
    mean, stddev = tf.constant([[1.0, 0.5], [2.0, -1.0], [0.0, 3.0]]), tf.constant([0.1, 0.7])
    one, other = (objectives.polarised_kl(*pair) for pair in (
        (tfd.Normal(mean, stddev), tfd.Normal(0.0, 1.0)),       # of batch shape [B, d]
        (tfd.MultivariateNormalDiag(mean, stddev), distributions.standard_normal(2))))
    assert {key: float(value) for key, value in one.items()} == pytest.approx(
        {key: float(value) for key, value in other.items()}, rel=1e-6)


@pytest.fixture(scope="module")
def trained():
    """A VAE on three-dimensional data with one direction of hardly any variance, and the data."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2_000, 3)) * [3, 2, 0.05] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    dataset = data.from_arrays("blob", x.astype(np.float32))
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


def test_kl_of_arrays_is_that_of_distributions():
    q, p = posterior(), posterior(seed=1)
    expected = objectives.kl_per_latent(q, p)
    np.testing.assert_allclose(polarised.kl_per_latent(q.mean(), q.stddev(), p.mean(), p.stddev()), expected, rtol=1e-4,
                               atol=1e-5)      # float32 differences of terms of size 10
