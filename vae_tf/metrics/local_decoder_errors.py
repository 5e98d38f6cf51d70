"""Measure how well local decoders describe a decoder's response to posterior noise (bhowal)."""

from typing import NamedTuple

import numpy as np
import scipy

from vae_tf.errors import InputError
from vae_tf.metrics.registry import NOT_IF_DEAD, register
from vae_tf.metrics.result import Result


class LocalDecoders(NamedTuple):
    """Local decoders at N points, and how they do on draws of eps they were not fitted on.

    gram and gram_linear [N, d, d]: M^T M of M_D and of the linear M, squared data units per squared latent unit.
    delta and delta_linear [N]: squared error summed over pixels, mean over draws (bhowal (11), (12)).
    stochastic [N]: mean ||Dec(mu + eps) - Dec(mu)||^2 over the same draws; stochastic_error [N]: its standard error.
    predicted [N]: E ||f_D(M_D eps)||^2.
    pixels: n.
    matrix and matrix_linear [N, n, d]: M_D and the linear M, if they were asked for.
    """

    gram: np.ndarray
    gram_linear: np.ndarray
    delta: np.ndarray
    delta_linear: np.ndarray
    stochastic: np.ndarray
    stochastic_error: np.ndarray
    predicted: np.ndarray
    pixels: int
    matrix: np.ndarray | None = None
    matrix_linear: np.ndarray | None = None


@register(needs=("local_decoders",), cost="minutes", no_meaning_for=NOT_IF_DEAD,
          meaning="what tanh(M eps + b) misses of the decoder's response to posterior noise, beside M eps + b")
def local_decoder_error(fits: LocalDecoders) -> Result:
    """Errors of the linear and the non-linear local decoder (bhowal (11), (12), Table 1).

    The score is the mean over x of ||y - f_D(M_D eps)||^2, divided by the mean of ||y||^2. It is 0 if the local decoder
    is exact, and 1 if it predicts no better than 0 does. The part relative_linear is the same for the linear model, and
    over_linear is the score over relative_linear: below 1, tanh fits better than a plane. p_value is that of Wilcoxon's
    signed-rank test on the paired delta and delta_linear.

    Args:
        fits: LocalDecoders.

    Returns:
        Result; parts: relative_linear; over_linear; delta, delta_linear (sums over pixels); delta_per_pixel,
        delta_linear_per_pixel; p_value; per_example, per_example_linear [N]: the sums.
    """
    noise = fits.stochastic.mean()
    delta, linear = fits.delta.mean(), fits.delta_linear.mean()
    return Result("local_decoder_error", ratio(delta, noise),
                  {"relative_linear": np.array(ratio(linear, noise)), "over_linear": np.array(ratio(delta, linear)),
                   "delta": delta, "delta_linear": linear,
                   "delta_per_pixel": delta / fits.pixels, "delta_linear_per_pixel": linear / fits.pixels,
                   "p_value": np.array(_wilcoxon(fits.delta, fits.delta_linear)),
                   "per_example": fits.delta, "per_example_linear": fits.delta_linear},
                  f"of the decoder's response to posterior noise, what tanh(M eps + b) misses; "
                  f"M eps + b misses {ratio(linear, noise):.3g}")


@register(needs=("local_decoders", "gram", "widths"), cost="minutes", no_meaning_for=NOT_IF_DEAD,
          meaning="error of the local decoder's stochastic loss over that of the Jacobian's")
def stochastic_loss_error(fits: LocalDecoders, gram: np.ndarray, stddevs: np.ndarray) -> Result:
    """The stochastic loss E ||Dec(mu + eps) - Dec(mu)||^2 from J and from the local decoder (bhowal Table 2, A.8.2).

    E ||J eps||^2 = tr(J^T J Sigma), with J at mu, and E ||f_D(M_D eps)||^2 are held against the Monte Carlo loss, over
    draws on which M_D was not fitted. The score is the mean squared error of the local decoder divided by that of J;
    below 1 the local decoder is nearer. Both errors contain the error of the Monte Carlo loss, which is the part noise.

    Args:
        fits: LocalDecoders.
        gram: J^T J [N, d, d] at the same means.
        stddevs: [N, d], or Cholesky factors [N, d, d], as given to `local_decoder.fit_local_decoders`.

    Returns:
        Result; parts: error_jacobian, error_local_decoder, noise (mean squares, data units^4);
        relative_error_jacobian, relative_error_local_decoder (mean squares of errors over the loss); p_value
        (Wilcoxon's signed-rank test on the paired squared errors); jacobian, local_decoder, monte_carlo [N]
        (data units^2).

    Raises:
        InputError: shapes that disagree.
    """
    if np.ndim(gram) != 3:
        raise InputError(f"gram: expected shape [N, d, d]; got {np.shape(gram)}")
    _, factors = check_posterior(np.zeros(np.shape(gram)[:2]), stddevs)
    if len(factors) != len(fits.delta):
        raise InputError(f"gram: expected {len(fits.delta)} examples, as many as fits; got {len(factors)}")
    factors = factors.astype(np.float64)
    jacobian = np.einsum("bij,bik,bjk->b", gram, factors, factors)
    errors = {"jacobian": jacobian - fits.stochastic, "local_decoder": fits.predicted - fits.stochastic}
    squared = {name: error**2 for name, error in errors.items()}
    relative = {name: np.divide(error, fits.stochastic, out=np.zeros(len(error)), where=fits.stochastic > 0) ** 2
                for name, error in errors.items()}
    score = ratio(squared["local_decoder"].mean(), squared["jacobian"].mean())
    return Result("stochastic_loss_error", score,
                  {**{f"error_{name}": value.mean() for name, value in squared.items()},
                   **{f"relative_error_{name}": value.mean() for name, value in relative.items()},
                   "noise": (fits.stochastic_error**2).mean(),
                   "p_value": np.array(_wilcoxon(squared["local_decoder"], squared["jacobian"])),
                   "jacobian": jacobian, "local_decoder": fits.predicted, "monte_carlo": fits.stochastic},
                  "squared error of the local decoder's stochastic loss over the Jacobian's; "
                  "below 1: the local decoder is nearer")


def check_posterior(means: np.ndarray, stddevs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means float32 [N, d] and the Cholesky factors of the covariances float32 [N, d, d]."""
    means, stddevs = np.asarray(means, np.float32), np.asarray(stddevs, np.float32)
    if means.ndim != 2 or not means.size:
        raise InputError(f"means: expected shape [N, d], not empty; got {means.shape}")
    if stddevs.shape not in (means.shape, (*means.shape, means.shape[1])):
        raise InputError(f"stddevs: expected shape {means.shape}, or {(*means.shape, means.shape[1])} for Cholesky "
                         f"factors; got {stddevs.shape}")
    for name, value in (("means", means), ("stddevs", stddevs)):
        if not np.isfinite(value).all():
            raise InputError(f"{name}: expected finite values; got NaN or infinite")
    factors = stddevs if stddevs.ndim == 3 else stddevs[:, np.newaxis] * np.eye(means.shape[1], dtype=np.float32)
    if not (np.diagonal(factors, axis1=1, axis2=2) > 0).all():
        raise InputError("stddevs: expected positive values; got zero or less")
    return means, factors


def ratio(a: float, b: float) -> float:
    """Return a / b, and 0 where a is 0 too."""
    return float(a / b) if b else float("inf") if a else 0.0


def _wilcoxon(a: np.ndarray, b: np.ndarray) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; 1 if a and b are the same everywhere."""
    return 1.0 if np.array_equal(a, b) else float(scipy.stats.wilcoxon(a, b).pvalue)
