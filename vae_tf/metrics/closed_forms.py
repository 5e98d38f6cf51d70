"""A trained model against what closed forms predict for it: curvatures computed once, then every comparison.

Each entry of THEORY is a function of Around. One that does not apply raises InputError with the reason, which the
table shows instead of a score.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from vae_tf import jacobians, models, theory
from vae_tf.errors import InputError
from vae_tf.metrics import linear_optimum as optimum
from vae_tf.metrics.curvature import hessian_diagonality, posterior_covariance_gap
from vae_tf.metrics.result import Result
from vae_tf.theory.checks import check_positive_definite

BATCH = 16              # examples whose curvature is computed at a time; the decoder sees d times as many rows
DRAWS = 32              # of z per example, for the Monte Carlo ELBO
WEIGHTS = 256           # of z per example, for log p(x)
LINEAR_EXAMPLES = 50_000        # whose covariance gives the linear optimum, at most


class Around(NamedTuple):
    """A model around N posterior means.

    x [N, n] as the decoder makes them, mean [N, d], covariance [N, d, d], prior_mean and prior_variance [N, d];
    output [N, n] of the decoder at the means (logits or Gaussian means); gauss_newton and hessian [N, d, d] of
    log p(x|z) there; noise_variance of a Gaussian likelihood, None for a Bernoulli.
    """

    model: object
    dataset: object
    indices: np.ndarray
    u: np.ndarray | None
    x: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray | None
    prior_mean: np.ndarray
    prior_variance: np.ndarray
    output: np.ndarray
    gauss_newton: np.ndarray
    hessian: np.ndarray
    noise_variance: float | None
    seed: int


def _covariance_gap(at, diagonal):
    if (term := models.declared(at.model.card).beta_term) != models.KL:
        raise InputError(f"beta weighs the {term}, not the KL: no optimum in closed form")
    covariance = _posterior(at)
    if at.model.card["beta"] == 0:
        raise InputError("beta is 0: the optimal posterior has no width")
    return posterior_covariance_gap(
        covariance, theory.optimal_precision(at.gauss_newton, at.model.card["beta"], at.prior_variance), diagonal)


def deterministic_elbo_gap(at):
    """Deterministic ELBO less the Monte Carlo ELBO, nats per example, at beta = 1 (allen (5), A.4).

    0 for a linear decoder with Gaussian noise. Parts: deterministic, monte_carlo, hessian (the gap with the exact
    Hessian instead of Gauss-Newton's), standard_error of the gap.
    """
    covariance = _posterior(at)
    at_mean = theory.log_likelihood(at.x, at.output, at.noise_variance)
    expanded, exact = (theory.deterministic_elbo(at_mean, H, at.mean, covariance, 1.0, at.prior_mean,
                                                 at.prior_variance) for H in (at.gauss_newton, at.hessian))
    x, drawn = at.dataset.images_at(at.indices), np.zeros(len(at.x))
    for draw in range(DRAWS):
        terms = at.model.objective(x, seed=at.seed * 1_000 + draw, u=at.u)
        drawn -= (terms["reconstruction"].astype(np.float64) + terms["kl"]) / DRAWS
    gap = expanded - drawn
    return Result("deterministic_elbo_gap", float(gap.mean()),
                  {"deterministic": expanded.mean(), "monte_carlo": drawn.mean(), "hessian": (exact - drawn).mean(),
                   "per_example": gap, "standard_error": gap.std() / math.sqrt(len(gap))},
                  f"nats: the ELBO expanded to second order, {expanded.mean():.2f}, less that of {DRAWS} draws of z, "
                  f"{drawn.mean():.2f}; {(exact - drawn).mean():.3g} with the decoder's own curvature")


def linear_optimum(at):
    """A linear network against the least objective of any, over all examples of its data set (50,000 at most).

    See `metrics.linear_optimum`, whose score and parts it returns.
    """
    F, card = _linear_decoder(at), at.model.card
    known = models.declared(card).linear_theory
    if known is None or known.optimum is None:
        raise InputError(f"the optimum of a linear {card['model']} is not known in closed form")
    some = np.random.default_rng(at.seed).permutation(len(at.dataset))[:LINEAR_EXAMPLES]
    x, posterior = _encoded(at.model, at.dataset, some)
    bias = at.model.decode(np.zeros((1, F.shape[1])))["mean"].reshape(-1).astype(np.float64)
    return optimum.linear_optimum(x, F, bias, posterior["mean"], _covariance(posterior), beta=card["beta"],
                                  noise_variance=at.noise_variance, full=known.optimum == "full",
                                  learned=card["likelihood"] == "gaussian_learned")


def model_inference_error(at):
    """MIE: mean over x of KL(q(z|x) || p(z|x)), nats (sikka (2)).

    A linear decoder's posterior is a Gaussian, and the divergence exact. Of others p(x) is sampled, on data whose
    true posterior is known: then it is worth the time. Parts: per_example; if sampled, effective_sample_size and bias,
    how much too low the error is on average, to first order.
    """
    covariance = _posterior(at)
    if _is_linear(at) and at.u is None:
        F = _linear_decoder(at)
        posterior = theory.linear_posterior(F, at.noise_variance)
        centred = at.x - at.output + at.mean @ F.T                # x - b
        error = theory.gaussian_kl(at.mean, covariance, centred @ posterior.matrix.T, posterior.covariance)
        return _error("model_inference_error", error, {}, "KL(q(z|x) || p(z|x)) of the model's own posterior, exact")
    _true_posterior(at)
    L, rng, d = np.linalg.cholesky(covariance), np.random.default_rng(at.seed), at.mean.shape[1]
    log_weights = []
    for i in range(len(at.x)):
        noise = rng.standard_normal((WEIGHTS, d))
        z = at.mean[i] + noise @ L[i].T
        likelihood = theory.log_likelihood(at.x[i], _decoded(at.model.decode(z)), at.noise_variance)
        prior = -((z - at.prior_mean[i]) ** 2 / at.prior_variance[i] + np.log(at.prior_variance[i])).sum(1) / 2
        log_weights.append(likelihood + prior + (noise**2).sum(1) / 2 + np.log(np.diag(L[i])).sum())
    error, effective, bias = theory.model_inference_error(log_weights)
    return _error("model_inference_error", error, {"effective_sample_size": effective, "bias": bias},
                  f"KL(q(z|x) || p(z|x)) of the model's own posterior, p(x) from {WEIGHTS} weighted draws "
                  f"(effectively {effective.mean():.0f}; too low by about {bias.mean():.2g})")


def true_inference_error(at, matched):
    """TIE: mean over x of KL(q(z|x) || p(s|x)), nats, on data whose true posterior is known (sikka (3)).

    As printed, latent j against source j, or after the best signed permutation. Parts: per_example,
    matching [k, k].
    """
    mean, covariance = _true_posterior(at)
    printed, best, P = theory.true_inference_error(at.mean, _posterior(at), mean, covariance)
    if matched:
        return _error("matched_inference_error", best, {"matching": P},
                      "KL(q(z|x) || p(s|x)) of the true posterior, after the best signed permutation of the latents")
    return _error("true_inference_error", printed, {}, "KL(q(z|x) || p(s|x)) of the true posterior, latent j for "
                  "source j; depends on order and signs, and where eigenvalues are equal on the rotation")


THEORY = {
    "posterior_covariance_gap": lambda at: _covariance_gap(at, diagonal=False),
    "diagonal_covariance_gap": lambda at: _covariance_gap(at, diagonal=True),
    "hessian_diagonality": lambda at: hessian_diagonality(at.hessian),
    "deterministic_elbo_gap": deterministic_elbo_gap,
    "linear_optimum": linear_optimum,
    "model_inference_error": model_inference_error,
    "true_inference_error": lambda at: true_inference_error(at, matched=False),
    "matched_inference_error": lambda at: true_inference_error(at, matched=True),
}


def check_names(names):
    """Raise InputError for comparisons that THEORY does not have."""
    for name in names:
        if name not in THEORY:
            raise InputError(f"theory: expected names of {', '.join(THEORY)}; got {name!r}")


def measure(model, dataset, indices, names=tuple(THEORY), *, seed=0, progress=None):
    """Hold an exported model against closed forms around the posterior means of some examples.

    Args:
        model: export.Exported.
        dataset: data.Dataset, of the model's shape.
        indices: of examples [N].
        names: of THEORY.
        seed: of the noise.
        progress: called with (done, N) now and then.

    Returns:
        Results by name, and by name why a comparison could not be made.

    Raises:
        InputError: a name that THEORY does not have.
    """
    check_names(names)
    try:
        at = _around(model, dataset, np.asarray(indices), seed, progress)
    except InputError as error:
        return {}, dict.fromkeys(names, str(error))
    results, skipped = {}, {}
    for name in names:
        try:
            results[name] = THEORY[name](at)
        except InputError as error:
            skipped[name] = str(error)
    return results, skipped


def _around(model, dataset, indices, seed, progress):
    noise_variance = _noise_variance(model.card)
    x, posterior = _encoded(model, dataset, indices)
    mean = posterior["mean"]
    program = curvatures(model.decoder, noise_variance, mean.shape[1])
    found = []
    for start in range(0, len(mean), BATCH):
        rows = slice(start, start + BATCH)
        output, J, exact = (value.numpy() for value in program(*(a[rows].astype(np.float32) for a in (mean, x))))
        found.append((output, theory.gauss_newton_hessian(J, output, noise_variance), exact))
        if progress:
            progress(min(start + BATCH, len(mean)), len(mean))
    output, gauss_newton, exact = (np.concatenate(part).astype(np.float64) for part in zip(*found, strict=True))
    if not all(np.isfinite(part).all() for part in (mean, output, gauss_newton, exact)):
        raise InputError("decoder: expected finite values and derivatives; got NaN or infinite")
    return Around(model, dataset, indices, model.u_at(dataset, indices), x, mean,
                  _covariance(posterior), posterior.get("prior_mean", np.zeros_like(mean)),
                  posterior.get("prior_stddev", np.ones_like(mean)) ** 2, output, gauss_newton, exact,
                  noise_variance, seed)


def curvatures(decoder, noise_variance, d):
    """A program (z [B, d], x [B, n]) -> natural parameter [B, n], its Jacobian, Hessian of log p(x|z) [B, d, d].

    Args:
        decoder: as in `jacobians`.
        noise_variance: s^2 of a Gaussian likelihood, None for a Bernoulli.
        d: latents.
    """
    def flat(z):
        return tf.reshape(jacobians.output_of(decoder(z), "natural"), [tf.shape(z)[0], -1])

    @tf.function(input_signature=[tf.TensorSpec((None, d)), tf.TensorSpec((None, None))])
    def program(z, x):
        # The gradient's tangents, d of them per example as rows of one batch: vectorised over tangents instead, a
        # loaded decoder computes gradients of its weights, too.
        many, directions = tf.repeat(z, d, axis=0), tf.tile(tf.eye(d), [tf.shape(z)[0], 1])
        with tf.autodiff.ForwardAccumulator(many, directions) as tangents:
            with tf.GradientTape() as tape:
                tape.watch(many)
                output, data = flat(many), tf.repeat(x, d, axis=0)
                total = tf.reduce_sum(data * output - tf.math.softplus(output) if noise_variance is None
                                      else -tf.square(data - output) / (2 * noise_variance))
            gradient = tape.gradient(total, many)
        H = tangents.jvp(gradient, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return flat(z), jacobians.jacobian(decoder, z, output="natural"), tf.reshape(H, [-1, d, d])

    return program


def _noise_variance(card):
    """s^2 of a Gaussian likelihood, None for a Bernoulli."""
    if card["likelihood"] == "bernoulli":
        return None
    known = card.get("likelihood_variance")
    if known is None and card["likelihood"] == "gaussian":
        known = card["recipe"]["likelihood_variance"]
    if known is None:
        raise InputError("the export does not say the variance that its likelihood learned; export it anew")
    return known


def _encoded(model, dataset, indices):
    """Data [N, n] as the decoder makes them, and the posterior's parts, in float64."""
    examples = dataset.images_at(indices)
    x = (examples / 255 if dataset.is_image else examples.astype(np.float64)).reshape(len(indices), -1)
    posterior = model.encode(examples, u=model.u_at(dataset, indices))
    return x, {name: part.astype(np.float64) for name, part in posterior.items()}


def _covariance(posterior):
    if "scale_tril" in posterior:
        return posterior["scale_tril"] @ posterior["scale_tril"].swapaxes(1, 2)
    if "stddev" in posterior:
        return posterior["stddev"][:, :, np.newaxis] ** 2 * np.eye(posterior["stddev"].shape[1])
    return None


def _posterior(at):
    if at.covariance is None:
        raise InputError("an autoencoder's posterior has no width")
    return check_positive_definite("posterior covariance", at.covariance)


def _is_linear(at):
    return (at.model.card["recipe"]["network"] == "linear" and not at.dataset.is_image
            and at.noise_variance is not None)


def _linear_decoder(at):
    """The matrix [n, d] of a linear decoder with Gaussian noise."""
    _posterior(at)
    if not _is_linear(at):
        raise InputError("needs a linear network on vectors")
    return jacobians.jacobian(at.model.decoder, at.mean[:1].astype(np.float32)).numpy()[0].astype(np.float64)


def _true_posterior(at):
    if at.dataset.posterior_at is None:
        raise InputError(f"the true posterior of {at.dataset.name} is not known")
    return at.dataset.posterior_at(at.indices)


def _decoded(parts):
    output = parts.get("logits", parts["mean"])
    return output.reshape(len(output), -1)


def _error(name, error, parts, meaning):
    return Result(name, float(error.mean()),
                  {**parts, "per_example": error, "standard_error": error.std() / math.sqrt(len(error))},
                  f"nats: {meaning}")
