import types
import warnings

import cases
import numpy as np
import pytest
import reference
import tensorflow as tf
from cases import NEEDS_MNIST
from tensorflow_probability import distributions as tfd

from vae_tf import data, evaluation, export, jacobians, metrics, models, theory, training
from vae_tf.errors import InputError
from vae_tf.metrics import derivatives, inference_error
from vae_tf.metrics.expansion import Expansion


def exported(tmp_path, model, dataset, name, network, likelihood, beta=1.0, variance=0.5):
    card = {"model": name, "beta": beta, "u_size": model.u_size, "likelihood": likelihood, "latents": model.latents,
            "data": {"shape": dataset.shape}, "recipe": {"network": network, "likelihood_variance": variance}}
    return export.Exported(export.save(tmp_path, model, dataset, card))


THEORY = metrics.list_names("theory")


def measured(model, dataset, indices, names=THEORY):
    return metrics.measure(names, metrics.Context.from_model(model, dataset, indices))


EVERYWHERE = {"posterior_covariance_gap", "diagonal_covariance_gap", "hessian_diagonality", "deterministic_elbo_gap"}
MEASURED = {"ae": {"hessian_diagonality"}, "beta_tcvae": {"hessian_diagonality", "deterministic_elbo_gap"}}


@pytest.mark.parametrize(("name", "shape", "network", "likelihood"), [
    *((name, (3,), "mlp_synthetic", "gaussian") for name in ("ae", "full_covariance_vae", "beta_tcvae")),
    ("ivae", (6, 6, 1), "mlp_mnist", "bernoulli"), ("vae", (3,), "linear", "gaussian")])
def test_every_model_is_held_against_what_applies_to_it(tmp_path, name, shape, network, likelihood):
    dataset, model = cases.dataset(shape), cases.build(name, network, shape, likelihood, {})
    saved = exported(tmp_path, model, dataset, name, network, likelihood, model.beta)
    scored = evaluation.evaluate(saved, dataset, (), examples=12)
    seen = []
    after = evaluation.measure_around(scored, saved, dataset, THEORY, examples=6,
                                      progress=lambda done, total: seen.append((done, total)))
    there = {*after.results} - {*scored.results}
    linear = {"linear_optimum", "model_inference_error"} if (name, network) == ("vae", "linear") else set()
    assert there == MEASURED.get(name, EVERYWHERE) | linear
    assert there | {*after.skipped} == {*THEORY} and seen == [(6, 6)]
    assert all(np.isfinite(after.results[key].score) for key in there)
    assert after.skipped["true_inference_error"] == "the true posterior of random is not known"
    assert evaluation.as_json(after)
    assert evaluation.measure_around(scored, saved, dataset, ()) is scored


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_curvatures_against_the_model_itself(tmp_path, likelihood):
    """Of an exported iVAE: the gap by loops over J and the learned prior, the Hessian by autodiff of TFP's density."""
    shape = (4, 4, 1) if likelihood == "bernoulli" else (5,)
    dataset, beta = cases.dataset(shape), 2.5
    model = models.build("ivae", shape, network="mlp_mixture", latents=3, likelihood=likelihood, u_size=2, beta=beta,
                         likelihood_variance=0.2)
    i = np.arange(3)
    x, u = models.scale_to_unit_range(tf.constant(dataset.images_at(i))), tf.constant(dataset.u_at(i))
    saved = exported(tmp_path, model, dataset, "ivae", "mlp_mixture", likelihood, beta, 0.2)
    results, _ = measured(saved, dataset, i)
    posterior, prior = model.posterior(x, u), model.prior(u)
    gaps, diagonal_gaps, shares = [], [], []
    for row in i:
        z = posterior.mean()[row:row + 1]
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                value = model.likelihood(z).log_prob(x[row:row + 1])
            gradient = inner.gradient(value, z)
        H = outer.jacobian(gradient, z).numpy().reshape(3, 3).astype(np.float64)
        shares.append(1 - np.sum(np.diag(H) ** 2) / np.sum(H**2))
        output = model.decoder(z).numpy().reshape(-1).astype(np.float64)
        p = 1 / (1 + np.exp(-output))
        weight = p * (1 - p) if likelihood == "bernoulli" else np.full(len(output), 1 / 0.2)
        J = jacobians.jacobian(model.decoder, z, mode="reverse").numpy()[0].astype(np.float64)
        P = np.diag(1 / prior.stddev().numpy()[row].astype(np.float64) ** 2)
        P += sum(w * np.outer(c, c) for w, c in zip(weight, J, strict=True)) / beta
        own = np.diag(1 / posterior.stddev().numpy()[row].astype(np.float64) ** 2)
        gaps.append(np.linalg.norm(own - P) / np.linalg.norm(P))
        diagonal_gaps.append(np.linalg.norm(np.diag(own - P)) / np.linalg.norm(np.diag(P)))
    for name, values in (("posterior_covariance_gap", gaps), ("diagonal_covariance_gap", diagonal_gaps),
                         ("hessian_diagonality", shares)):
        np.testing.assert_allclose(results[name].parts["per_example"], values, rtol=1e-4, err_msg=name)   # float32
        assert results[name].score == pytest.approx(np.mean(values), rel=1e-4)


def loaded_optimum(dataset, beta, s2, latents=2):
    """A `linear` network with the weights of the optimum in closed form, for the data's own covariance and mean."""
    x = dataset.images_at(np.arange(len(dataset))).astype(np.float64)
    o = theory.linear_beta_vae(np.cov(x.T, bias=True), latents, beta, s2)
    model = models.build("beta_vae", dataset.shape, network="linear", latents=latents, likelihood="gaussian",
                         likelihood_variance=s2, beta=beta)
    mean = x.mean(0)
    mean_head, variance_head = (layer for layer in model.encoder.layers if layer.weights)
    mean_head.set_weights([o.encoder.T, -o.encoder @ mean])
    variance_head.set_weights([np.zeros((len(mean), latents)), np.log(o.variances)])
    next(layer for layer in model.decoder.layers if layer.weights).set_weights([o.decoder.T, mean])
    return model, o


@pytest.mark.parametrize("beta", [0.5, 4.0])       # at 4 the second latent is passive
def test_the_linear_optimum_has_no_gap(tmp_path, beta):
    dataset, s2 = data.load("linear_mixture"), 1.0
    model, o = loaded_optimum(dataset, beta, s2)
    results, skipped = measured(
        exported(tmp_path, model, dataset, "beta_vae", "linear", "gaussian", beta, s2), dataset, np.arange(2_000))
    assert not skipped
    # Weights are float32: relative errors of 1e-7, summed over 128 dimensions; the excess is quadratic in them.
    for name in ("posterior_covariance_gap", "diagonal_covariance_gap"):
        assert results[name].score < 1e-4
    assert results["hessian_diagonality"].score < 1e-6
    optimum = results["linear_optimum"]
    assert abs(optimum.score) < 1e-4
    for name, value in (("objective", o.reconstruction + beta * o.kl), ("reconstruction", o.reconstruction),
                        ("kl", o.kl), ("active", sum(o.active))):
        np.testing.assert_allclose(optimum.parts[name], [value, value], rtol=1e-5, err_msg=name)
    gap = results["deterministic_elbo_gap"]
    assert abs(gap.score) < 5 * gap.parts["standard_error"] and gap.parts["standard_error"] < 0.1
    # Over examples, against the closed forms in expectation
    assert results["model_inference_error"].score == pytest.approx(
        o.mie, abs=5 * results["model_inference_error"].parts["standard_error"] + 1e-4)
    A = (1 + np.eye(128, 2)) / 2
    covariance = np.cov(dataset.images_at(np.arange(len(dataset))).T.astype(np.float64), bias=True)
    for name, matched in (("true_inference_error", False), ("matched_inference_error", True)):
        exact = theory.linear_inference_error(covariance, o.encoder, o.variances, theory.linear_posterior(A), matched)
        assert abs(results[name].score - exact) < 5 * results[name].parts["standard_error"], name
    if beta > 1:
        return
    # away from the optimum every one of them sees it
    model.decoder.set_weights([1.2 * w for w in model.decoder.get_weights()])
    saved = exported(tmp_path, model, dataset, "beta_vae", "linear", "gaussian", beta, s2)
    worse, _ = measured(saved, dataset, np.arange(500))
    assert worse["linear_optimum"].score > 0.1 and worse["posterior_covariance_gap"].score > 0.1
    assert worse["model_inference_error"].score > results["model_inference_error"].score + 0.1
    assert "not at the optimum: " in worse["linear_optimum"].meaning
    saved.card |= {"likelihood": "gaussian_learned", "likelihood_variance": s2}
    learned = measured(saved, dataset, np.arange(4), ("linear_optimum",))[0]["linear_optimum"]
    assert learned.parts["noise_variance"][0] == s2 and "the noise variance was learned: " in learned.meaning
    assert learned.score == pytest.approx(worse["linear_optimum"].score, rel=1e-6)


def test_sampled_and_exact_model_inference_errors_agree(tmp_path):
    """The same linear model, once as such, once as if its network were not known to be linear."""
    dataset = data.load("linear_mixture")
    model, _ = loaded_optimum(dataset, 2.0, 1.0)
    saved, found = exported(tmp_path, model, dataset, "beta_vae", "linear", "gaussian", 2.0, 1.0), []
    for network in ("linear", "unknown"):
        saved.card["recipe"]["network"] = network
        results, _ = measured(saved, dataset, np.arange(300), ("model_inference_error",))
        found.append(results["model_inference_error"])
    exact, sampled = found
    difference = sampled.parts["per_example"] - exact.parts["per_example"]
    bias = sampled.parts["bias"].mean()
    assert 0 < bias < (1 / (2 * sampled.parts["effective_sample_size"])).mean()      # by 1 / (2 * 256)
    assert abs(difference.mean() + bias) < 5 * difference.std() / np.sqrt(300) + bias < 0.1
    assert f"too low by about {bias:.2g})" in sampled.meaning


@NEEDS_MNIST
def test_deterministic_elbo_of_a_trained_mnist_model():
    """allen A.4 on real images: the gap to Monte Carlo vanishes as the posterior variance is scaled down."""
    dataset = data.load("mnist").split("grid", "train")
    model = models.build("vae", dataset.shape, network="mlp_mnist", latents=6)
    training.fit(model, dataset, training.OPTIMIZERS["adam"](1e-3), steps=400, batch_size=100, log_every=400)
    x = models.scale_to_unit_range(tf.constant(dataset.images_at(np.arange(64))))
    q = model.posterior(x)
    mean, stddev = q.mean().numpy(), q.stddev().numpy()
    flat = tf.reshape(x, [64, -1])
    output, J, H = (a.numpy() for a in derivatives.compile_curvatures(model.decoder, None, 6)(q.mean(), flat))
    GN = theory.gauss_newton_hessian(J, output)
    at_mean = theory.log_likelihood(flat.numpy(), output)
    np.testing.assert_allclose(at_mean, model.likelihood(q.mean()).log_prob(x).numpy(), rtol=1e-4)

    @tf.function
    def log_likelihoods(z):
        return model.likelihood(z).log_prob(x)

    rng, gaps = np.random.default_rng(0), []
    for scale in (1.0, 0.1, 0.01):
        covariance = scale * stddev[:, :, np.newaxis].astype(np.float64) ** 2 * np.eye(6)
        noise = np.float32(np.sqrt(scale)) * stddev * rng.standard_normal((100, 64, 6), np.float32)
        # A draw and its mirror image, which cancels odd orders, less the quadratic term, whose mean is known.
        pairs = np.mean([[log_likelihoods(mean + sign * e).numpy() for sign in (1, -1)] for e in noise], 1)
        pairs -= np.einsum("sbi,bij,sbj->sb", noise, H, noise) / 2
        sampled = pairs.mean(0) + np.einsum("bii,bii->b", H, covariance) / 2
        scaled = tfd.MultivariateNormalDiag(mean, np.float32(np.sqrt(scale)) * stddev)
        elbo = sampled - scaled.kl_divergence(model.prior()).numpy()
        expanded, exact = (theory.deterministic_elbo(at_mean, hessian.astype(np.float64), mean.astype(np.float64),
                                                     covariance) for hessian in (GN, H))
        error = np.sqrt(pairs.var(0, ddof=1) / len(pairs))
        gaps.append([np.abs(gap).mean() for gap in (expanded - elbo, exact - elbo)] + [error.mean()])
    (wide, wide_exact, wide_error), (middle, middle_exact, middle_error), (narrow, _, narrow_error) = gaps
    # Gauss-Newton's error is of first order in the scale, the exact Hessian's of second: 10 and 100 times smaller at
    # each tenth. A factor of 2 is for the next order, the standard error for the noise; float32 knows sums of 784
    # terms, here some 170 nats, to 1e-7 of that, and the mean of 100 of them better.
    assert wide > 2 * wide_error and wide_exact > 2 * wide_error      # noise alone: 0.8 times it, on average over 64 x
    assert middle < wide / 5 + middle_error and narrow < middle / 5 + narrow_error + 2e-5
    assert middle_exact < wide_exact / 50 + middle_error + 2e-5 and middle_exact < middle


def test_weights_that_overflow_leave_no_score(tmp_path):
    dataset, model = cases.dataset((3,)), cases.build("vae", "mlp_synthetic", (3,), "gaussian", {})
    model.decoder.set_weights([np.full_like(w, 3e38) for w in model.decoder.get_weights()])
    saved = exported(tmp_path, model, dataset, "vae", "mlp_synthetic", "gaussian")
    with warnings.catch_warnings(action="error"):
        results, skipped = measured(saved, dataset, np.arange(4))
    assert not results and all("expected finite" in why for why in skipped.values())


def test_reasons_and_names(tmp_path):
    dataset, model = cases.dataset((3,)), cases.build("beta_vae", "mlp_synthetic", (3,), "gaussian_learned", {})
    saved = exported(tmp_path, model, dataset, "beta_vae", "mlp_synthetic", "gaussian_learned", beta=0.0)
    with pytest.raises(InputError, match=r"theory: expected names of posterior_covariance_gap, .*got 'elbow'"):
        metrics.check_names(("elbow",), "theory")
    assert "export it anew" in measured(saved, dataset, np.arange(4))[1]["hessian_diagonality"]
    saved.card["likelihood_variance"] = 0.3
    results, skipped = measured(saved, dataset, np.arange(4))
    assert skipped["posterior_covariance_gap"] == "beta is 0: the optimal posterior has no width"
    assert "hessian_diagonality" in results
    saved.card["model"] = "annealed_vae"
    skipped = measured(saved, dataset, np.arange(4))[1]
    assert skipped["diagonal_covariance_gap"] == "the best posterior of annealed_vae is not known in closed form"


def random_problem(d=3):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((2, 20, d, d))
    return (L @ L.swapaxes(2, 3) + np.eye(d)) / 2


def test_gaps_by_definition_and_their_ends():
    covariances, precisions = random_problem()
    gap = metrics.posterior_covariance_gap(covariances, precisions)
    slow = [np.sqrt(sum((np.linalg.inv(S) - P)[i, j] ** 2 for i in range(3) for j in range(3))
                    / sum(P[i, j] ** 2 for i in range(3) for j in range(3)))
            for S, P in zip(covariances, precisions, strict=True)]
    np.testing.assert_allclose(gap.parts["per_example"], slow)
    inverse = np.linalg.inv(precisions)
    assert metrics.posterior_covariance_gap(inverse, precisions).score == pytest.approx(0, abs=1e-12)
    diagonal = np.stack([np.diag(1 / np.diag(P)) for P in precisions])
    assert metrics.posterior_covariance_gap(diagonal, precisions, diagonal=True).score == pytest.approx(0, abs=1e-12)
    assert metrics.posterior_covariance_gap(diagonal, precisions).score > 0.01
    share = metrics.hessian_diagonality(-precisions)
    slow = [sum(P[i, j] ** 2 for i in range(3) for j in range(3) if i != j) / np.sum(P**2) for P in precisions]
    np.testing.assert_allclose(share.parts["per_example"], slow)
    assert metrics.hessian_diagonality(diagonal).score == 0 == metrics.hessian_diagonality(np.zeros((2, 3, 3))).score
    assert metrics.hessian_diagonality(np.ones((4, 1, 1))).score == 0                 # one latent
    assert metrics.hessian_diagonality([[[0, 1], [1, 0]]]).score == 1


def test_signs_and_order_of_latents_change_no_curvature():
    covariances, precisions = random_problem()
    P = np.eye(3)[[2, 0, 1]] * np.array([[1], [-1], [-1]])
    for score in (lambda S, H: metrics.posterior_covariance_gap(S, H), lambda S, H: metrics.hessian_diagonality(H),
                  lambda S, H: metrics.posterior_covariance_gap(S, H, diagonal=True)):
        assert score(P @ covariances @ P.T, P @ precisions @ P.T).score == pytest.approx(
            score(covariances, precisions).score, rel=1e-12)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: metrics.posterior_covariance_gap(np.eye(2), np.eye(2)), r"covariances: expected shape \[N, d, d\]"),
    (lambda: metrics.posterior_covariance_gap(np.ones((2, 1, 1)), np.ones((3, 1, 1))), "precisions: expected shape"),
    (lambda: metrics.hessian_diagonality(np.full((2, 1, 1), np.nan)), "hessians: expected finite values; got 2 NaN"),
])
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_reference_kl_is_the_closed_form():
    covariances, precisions = random_problem()
    means = np.random.default_rng(1).standard_normal((20, 3))
    slow = [reference.full_gaussian_kl(m, S, np.zeros(3), P) for m, S, P in zip(means, covariances, precisions,
                                                                                strict=True)]
    np.testing.assert_allclose(theory.gaussian_kl(means, covariances, 0.0, precisions), slow, rtol=1e-9)


def test_draws_from_the_models_own_posterior_weigh_alike_whatever_its_prior():
    """log p(x, z) - log q(z|x) is log p(x) at every z where q(z|x) is p(z|x)."""
    rng = np.random.default_rng(0)
    W, s2 = rng.standard_normal((5, 2)), 0.3
    x, prior_mean = rng.standard_normal((3, 5)), rng.standard_normal((3, 2))
    prior_variance = rng.uniform(0.2, 3, (3, 2))
    covariance = np.linalg.inv(W.T @ W / s2 + np.eye(2) / prior_variance[:, np.newaxis])
    mean = np.einsum("nij,nj->ni", covariance, x @ W / s2 + prior_mean / prior_variance)
    at = Expansion(x, mean, covariance, prior_mean, prior_variance, mean @ W.T, covariance, covariance, s2)
    context = types.SimpleNamespace(seed=0, model=types.SimpleNamespace(decode=lambda z: {"mean": z @ W.T}))
    for i, weights in enumerate(inference_error._draw_log_weights(at, context, covariance)):
        evidence = theory.linear_log_likelihood(np.outer(*2 * [x[i] - W @ prior_mean[i]]),
                                                W * np.sqrt(prior_variance[i]), s2)
        np.testing.assert_allclose(weights, evidence, atol=1e-9)
