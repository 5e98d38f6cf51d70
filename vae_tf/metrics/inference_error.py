"""Measure how far q(z|x) is from the model's true posterior, or from that of data where it is known (sikka)."""


import numpy as np

from vae_tf import theory
from vae_tf.errors import InputError
from vae_tf.metrics.context import Context
from vae_tf.metrics.expansion import Expansion, is_linear, posterior_covariance, take_linear_decoder
from vae_tf.metrics.registry import ANY_MODEL, register
from vae_tf.metrics.result import Result, estimate_error

WEIGHTS = 256           # number of draws of z per example, for log p(x)


@register(needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="KL(q(z|x) || p(z|x)) to the model's own posterior, in nats")
def model_inference_error(expansion: Expansion, context: Context) -> Result:
    """MIE: mean over x of KL(q(z|x) || p(z|x)), nats (sikka (2)).

    The posterior of a linear decoder is a Gaussian, so its divergence is exact. For other decoders p(x) is sampled,
    which takes time and is done only for data whose true posterior is known.

    Args:
        expansion: the model around the posterior means.
        context: the model, its data and the examples.

    Returns:
        Result; parts: per_example, standard_error; if sampled, effective_sample_size and bias, how much too low the
        error is on average, to first order.

    Raises:
        InputError: the posterior has no width, or the decoder is not linear and the true posterior is not known.
    """
    covariance = posterior_covariance(expansion)
    if is_linear(expansion, context) and not context.model.card["u_size"]:
        F, noise_variance = take_linear_decoder(expansion, context)
        posterior = theory.linear_posterior(F, noise_variance)
        centred = expansion.x - expansion.output + expansion.mean @ F.T                # x - b
        error = theory.gaussian_kl(expansion.mean, covariance, centred @ posterior.matrix.T, posterior.covariance)
        return _make_result("model_inference_error", error, {},
                            "KL(q(z|x) || p(z|x)) of the model's own posterior, exact")
    _take_true_posterior(context)
    error, effective, bias = theory.model_inference_error(_draw_log_weights(expansion, context, covariance))
    return _make_result("model_inference_error", error, {"effective_sample_size": effective, "bias": bias},
                        f"KL(q(z|x) || p(z|x)) of the model's own posterior, p(x) from {WEIGHTS} weighted draws "
                        f"(effectively {effective.mean():.0f}; too low by about {bias.mean():.2g})")


@register(needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="KL(q(z|x) || p(s|x)) to the data's true posterior, latent j for source j, in nats")
def true_inference_error(expansion: Expansion, context: Context) -> Result:
    """TIE: mean over x of KL(q(z|x) || p(s|x)), nats, latent j against source j (sikka (3)).

    Args:
        expansion: the model around the posterior means.
        context: the model, its data and the examples.

    Returns:
        Result; parts: per_example, standard_error.

    Raises:
        InputError: the true posterior of the data is not known, or the posterior has no width.
    """
    mean, covariance = _take_true_posterior(context)
    printed, _, _ = theory.true_inference_error(expansion.mean, posterior_covariance(expansion), mean, covariance)
    return _make_result("true_inference_error", printed, {}, "KL(q(z|x) || p(s|x)) of the true posterior, latent j for "
                        "source j; depends on order and signs, and where eigenvalues are equal on the rotation")


@register(needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="KL(q(z|x) || p(s|x)) after the best signed permutation of the latents, in nats")
def matched_inference_error(expansion: Expansion, context: Context) -> Result:
    """TIE after the best signed permutation of the latents: mean over x of KL(q(z|x) || p(s|x)), nats (sikka (3)).

    Args:
        expansion: the model around the posterior means.
        context: the model, its data and the examples.

    Returns:
        Result; parts: per_example, standard_error, matching [k, k].

    Raises:
        InputError: the true posterior of the data is not known, or the posterior has no width.
    """
    mean, covariance = _take_true_posterior(context)
    _, best, P = theory.true_inference_error(expansion.mean, posterior_covariance(expansion), mean, covariance)
    return _make_result("matched_inference_error", best, {"matching": P},
                        "KL(q(z|x) || p(s|x)) of the true posterior, after the best signed permutation of the latents")


def _draw_log_weights(expansion: Expansion, context: Context, covariance: np.ndarray) -> list[np.ndarray]:
    """Return log p(x, z) - log q(z|x), but for constants, of WEIGHTS draws z ~ q(z|x) for each example."""
    at, L, rng = expansion, np.linalg.cholesky(covariance), np.random.default_rng(context.seed)
    log_weights = []
    for i in range(len(at.x)):
        noise = rng.standard_normal((WEIGHTS, at.mean.shape[1]))
        z = at.mean[i] + noise @ L[i].T
        likelihood = theory.log_likelihood(at.x[i], _decode(context, z), at.noise_variance)
        prior = -((z - at.prior_mean[i]) ** 2 / at.prior_variance[i] + np.log(at.prior_variance[i])).sum(1) / 2
        log_weights.append(likelihood + prior + (noise**2).sum(1) / 2 + np.log(np.diag(L[i])).sum())
    return log_weights


def _take_true_posterior(context: Context) -> tuple[np.ndarray, np.ndarray]:
    if context.dataset.posterior_at is None:
        raise InputError(f"the true posterior of {context.dataset.name} is not known")
    return context.dataset.posterior_at(context.indices)


def _decode(context: Context, z: np.ndarray) -> np.ndarray:
    """Return what the decoder makes of z [B, d]: logits, or Gaussian means, [B, n]."""
    parts = context.model.decode(z)
    output = parts.get("logits", parts["mean"])
    return output.reshape(len(output), -1)


def _make_result(name: str, error: np.ndarray, parts: dict, meaning: str) -> Result:
    return Result(name, float(error.mean()),
                  {**parts, "per_example": error, "standard_error": estimate_error(error)},
                  f"nats: {meaning}")
