"""The second-order expansion of log p(x|z) around posterior means, from which comparisons with closed forms start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vae_tf import theory, threads
from vae_tf.errors import InputError
from vae_tf.metrics.context import Context
from vae_tf.theory.checks import check_positive_definite

BATCH = 16              # examples whose curvature is computed at a time; derivatives have d times as many rows


class Expansion(NamedTuple):
    """A model around N posterior means, in float64.

    x: the data as the decoder makes them, [N, n].
    mean: the means of q(z|x), [N, d].
    covariance: the covariances of q(z|x), [N, d, d]; None for an autoencoder.
    prior_mean, prior_variance: the means and variances of the prior, [N, d].
    output: what the decoder returns at the means, logits or Gaussian means, [N, n].
    gauss_newton, hessian: the Hessian of log p(x|z) by z at the means, approximated and exact, [N, d, d].
    noise_variance: the variance of a Gaussian likelihood; None for a Bernoulli.
    """

    x: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray | None
    prior_mean: np.ndarray
    prior_variance: np.ndarray
    output: np.ndarray
    gauss_newton: np.ndarray
    hessian: np.ndarray
    noise_variance: float | None


def expand(context: Any, progress: Callable[[int, int], None]) -> Expansion:
    """Expand log p(x|z) of the model that a `Context` has; progress is called with (done, N) after each batch.

    Raises:
        InputError: the export does not say its variance, or values or derivatives that are not finite.
    """
    from vae_tf.metrics import derivatives  # imports TensorFlow, which scoring codes does not need

    variance = read_noise_variance(context.model.card)
    x, posterior = encode(context.model, context.dataset, context.indices)
    mean = posterior["mean"]
    program = derivatives.compile_curvatures(context.model.inlined_decoder, variance, mean.shape[1])

    def differentiate(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = slice(start, start + BATCH)
        output, J, exact = (value.numpy() for value in program(*(a[rows].astype(np.float32) for a in (mean, x))))
        return output, theory.gauss_newton_hessian(J, output, variance), exact

    found, starts = [], range(0, len(mean), BATCH)
    for start, parts in zip(starts, threads.map_in_pairs(differentiate, starts), strict=True):
        found.append(parts)
        progress(min(start + BATCH, len(mean)), len(mean))
    output, gauss_newton, exact = (np.concatenate(part).astype(np.float64) for part in zip(*found, strict=True))
    if not all(np.isfinite(part).all() for part in (mean, output, gauss_newton, exact)):
        raise InputError("decoder: expected finite values and derivatives; got NaN or infinite")
    return Expansion(x, mean, covariance_of(posterior), posterior.get("prior_mean", np.zeros_like(mean)),
                     posterior.get("prior_stddev", np.ones_like(mean)) ** 2, output, gauss_newton, exact, variance)


def read_noise_variance(card: dict[str, Any]) -> float | None:
    """Return s^2 of a Gaussian likelihood, None for a Bernoulli.

    Raises:
        InputError: the card of the export does not say the variance that was learned.
    """
    if card["likelihood"] == "bernoulli":
        return None
    known = card.get("likelihood_variance")
    if known is None and card["likelihood"] == "gaussian":
        known = card["recipe"]["likelihood_variance"]
    if known is None:
        raise InputError("the export does not say the variance that its likelihood learned; export it anew")
    return known


def encode(model: Any, dataset: Any, indices: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return data [N, n] as the decoder makes them, and the posterior's parts, in float64."""
    examples = dataset.images_at(indices)
    x = (examples / 255 if dataset.is_image else examples.astype(np.float64)).reshape(len(indices), -1)
    posterior = model.encode(examples, u=model.u_at(dataset, indices))
    return x, {name: part.astype(np.float64) for name, part in posterior.items()}


def covariance_of(posterior: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the covariances [N, d, d] of what a model's `encode` returns; None for an autoencoder."""
    if "scale_tril" in posterior:
        return posterior["scale_tril"] @ posterior["scale_tril"].swapaxes(1, 2)
    if "stddev" in posterior:
        return posterior["stddev"][:, :, np.newaxis] ** 2 * np.eye(posterior["stddev"].shape[1])
    return None


def posterior_covariance(expansion: Expansion) -> np.ndarray:
    """Return the covariances [N, d, d] of q(z|x).

    Raises:
        InputError: the posterior has no width, or covariances that are not positive definite.
    """
    if expansion.covariance is None:
        raise InputError("an autoencoder's posterior has no width")
    return check_positive_definite("posterior covariance", expansion.covariance)


def is_linear(expansion: Expansion, context: Context) -> bool:
    """Return whether p(x|z) is a Gaussian whose mean is linear in z."""
    from vae_tf import networks  # imports TensorFlow, which scoring codes does not need

    return (networks.is_linear(context.model.card["recipe"]["network"]) and not context.dataset.is_image
            and expansion.noise_variance is not None)


def take_linear_decoder(expansion: Expansion, context: Context) -> tuple[np.ndarray, float]:
    """Return the matrix [n, d] of a linear decoder, and the variance of its Gaussian noise.

    Raises:
        InputError: the decoder is not linear, or the posterior has no width.
    """
    from vae_tf import jacobians  # imports TensorFlow, which scoring codes does not need

    posterior_covariance(expansion)
    if not is_linear(expansion, context) or expansion.noise_variance is None:
        raise InputError("needs a linear network on vectors")
    J = jacobians.jacobian(context.model.decoder, expansion.mean[:1].astype(np.float32))
    return J.numpy()[0].astype(np.float64), expansion.noise_variance
