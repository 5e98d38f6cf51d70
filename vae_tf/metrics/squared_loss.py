"""Split the squared reconstruction loss into what the posterior mean causes and what the posterior's noise causes."""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np

from vae_tf import threads
from vae_tf.arguments import Seed, Whole
from vae_tf.errors import InputError
from vae_tf.metrics.local_decoder_errors import check_posterior, ratio
from vae_tf.metrics.registry import NOT_IF_DEAD, register
from vae_tf.metrics.result import Result


@register(needs=("decoder", "x", "codes", "widths"), no_meaning_for=NOT_IF_DEAD,
          meaning="share of the cross term that the split of the squared loss leaves out")
def loss_split(decoder: Callable, x: np.ndarray, means: np.ndarray, stddevs: np.ndarray, *,
               pairs: Annotated[int, Whole(2, 500_000)] = 32, seed: Seed = 0) -> Result:
    """Split the squared loss: it is deterministic + stochastic + cross term (rolinek (13)-(15), bhowal (7)).

    E ||Dec(mu + eps) - x||^2 = ||Dec(mu) - x||^2 + E ||Dec(mu + eps) - Dec(mu)||^2
    + 2 E (Dec(mu + eps) - Dec(mu)) . (Dec(mu) - x). The papers drop the last term: it is zero only if the decoder is
    unbiased around mu. The score is the absolute value of the cross term's share of the whole; it is 0 if the split is
    exact.

    Noise is drawn in pairs eps and -eps, for which what the decoder does in a straight line cancels in the cross term.
    The 32 pairs of the default leave the cross term half the standard error that 256 independent draws leave it (of an
    iVAE of dSprites), and the mean of the stochastic term less than three times theirs, a hundredth of it.

    Args:
        decoder: a function of z, as `vae_tf.jacobians` takes it.
        x: the data as the decoder makes them, [N, ...] (images in [0, 1]).
        means: posterior means [N, d].
        stddevs: posterior standard deviations [N, d], or Cholesky factors [N, d, d].
        pairs: the number of pairs eps, -eps per x.
        seed: seed of the draws; each x has its own.

    Returns:
        Result; parts: reconstruction, deterministic, stochastic, cross, each [N], data units^2; cross_error, the
        standard error of the mean cross term.

    Raises:
        InputError: shapes that disagree or values that are not finite.
    """
    from vae_tf.metrics import local_decoder  # imports TensorFlow, which scoring codes does not need

    means, factors = check_posterior(means, stddevs)
    x = np.atleast_1d(np.asarray(x, np.float64))
    x = x.reshape(len(x), -1)
    d = means.shape[1]
    moved_by = local_decoder.compile_for(local_decoder.response, decoder, d, 2 * pairs)
    size = max(1, local_decoder.ENTRIES // (x.shape[1] * 2 * pairs))

    @np.errstate(over="ignore", invalid="ignore")       # what is not finite is refused in the end
    def split(start: int) -> Sequence[tuple[float, ...]]:
        """Return the parts of each example of a batch."""
        batch = slice(start, min(start + size, len(means)))
        noise = np.stack([np.random.default_rng([seed, i]).standard_normal((pairs, d), np.float32)
                          for i in range(len(means))[batch]])
        noise = np.concatenate([noise, -noise], 1)
        responses, centres = (value.numpy() for value in moved_by(means[batch], factors[batch], noise))
        if centres.shape[1:] != x.shape[1:] or len(x) != len(means):
            raise InputError(f"x: expected {len(means)} examples of {centres.shape[1]} values; got {x.shape}")
        rows = []
        for response, residual in zip(responses, centres.astype(np.float64) - x[batch], strict=True):
            moved = response.astype(np.float64)
            cross = (2 * moved @ residual).reshape(2, pairs).mean(0)
            stochastic = np.einsum("sn,sn->s", moved, moved).mean()
            moved += residual
            rows.append((np.einsum("sn,sn->s", moved, moved).mean(), residual @ residual, stochastic,
                         cross.mean(), cross.var() / (pairs - 1)))
        return rows

    rows = [row for of in threads.map_in_pairs(split, range(0, len(means), size)) for row in of]
    whole, deterministic, stochastic, cross, variance = np.array(rows).T
    if not np.isfinite(whole).all():
        raise InputError("x, decoder: expected finite values; got NaN or infinite")
    return Result("loss_split", ratio(abs(cross.mean()), whole.mean()),
                  {"reconstruction": whole, "deterministic": deterministic, "stochastic": stochastic, "cross": cross,
                   "cross_error": np.sqrt(variance.sum()) / len(variance)},
                  "share of the squared loss in the cross term that deterministic + stochastic leaves out; "
                  "0: the split is exact")
