"""The decoder's geometry around posterior means: Jacobians and local decoders computed once, then every metric."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from vae_tf import activity, jacobians
from vae_tf.errors import InputError
from vae_tf.metrics import local_decoder
from vae_tf.metrics.local_decoder import LocalDecoders, local_decoder_error, loss_split, stochastic_loss_error
from vae_tf.metrics.orthogonality import column_cosine, dto, hadamard_gap, od_score, variance_norm_relation

# Examples whose Jacobians are computed between two reports of progress.
BATCH = 64


class Surroundings(NamedTuple):
    """A decoder around N posterior means: x [N, ...] as it makes them, J^T J [N, d, d] and, if asked for, fits.

    active [d] says which latents have a posterior narrower than their prior (`activity.is_narrow`).
    """

    decoder: object
    x: np.ndarray | None
    means: np.ndarray
    stddevs: np.ndarray | None
    active: np.ndarray | None
    gram: np.ndarray
    fits: LocalDecoders | None
    seed: int


def _of_active(at, metric, *arrays):
    """A metric over the active latents alone, which its meaning names with their rule."""
    count, d = at.active.sum(), len(at.active)
    which = f"mean s_j^2 / s_pj^2 < {activity.NARROW_VARIANCE:g}"
    if count < 2 and np.isfinite(at.gram).all():
        raise InputError(f"{count} of {d} latents {'has' if count == 1 else 'have'} {which}; "
                         "orthogonality needs two columns")
    result = metric(at.gram, *arrays, active=at.active)
    return dataclasses.replace(result, meaning=f"{result.meaning}; over the {count} of {d} latents with {which}")


GEOMETRY = {
    "dto": lambda at: dto(at.gram),
    "dto_active": lambda at: _of_active(at, dto),
    "hadamard_gap": lambda at: hadamard_gap(at.gram),
    "column_cosine": lambda at: column_cosine(at.gram),
    "variance_norm_relation": lambda at: _of_active(at, variance_norm_relation, at.stddevs),
    "loss_split": lambda at: loss_split(at.decoder, at.x, at.means, at.stddevs, seed=at.seed),
    "od_score_jacobian": lambda at: od_score({"model": at.gram})["model"],
    "od_score": lambda at: od_score({"model": at.fits.gram})["model"],
    "local_decoder_error": lambda at: local_decoder_error(at.fits),
    "stochastic_loss_error": lambda at: stochastic_loss_error(at.fits, at.gram, at.stddevs),
}

# These fit local decoders, at a few tenths of a second per example for 64x64 images.
FITTED = ("od_score", "local_decoder_error", "stochastic_loss_error")

# These need a posterior of some width; the others, but for loss_split, the Jacobian alone.
STOCHASTIC = (*FITTED, "dto_active", "variance_norm_relation", "loss_split")


def check_names(names):
    """Raise InputError for metrics that GEOMETRY does not have."""
    for name in names:
        if name not in GEOMETRY:
            raise InputError(f"geometry: expected names of {', '.join(GEOMETRY)}; got {name!r}")


def grams(decoder, means, progress=None):
    """J^T J [N, d, d] at posterior means [N, d]; progress is called with (done, N) after each batch."""
    # The graph itself: TensorFlow warns of a tf.function that is built anew for each of several models.
    program = tf.function(lambda z: jacobians.gram(decoder, z)).get_concrete_function(
        tf.TensorSpec((None, means.shape[1])))
    found = []
    for start in range(0, len(means), BATCH):
        found.append(program(tf.constant(means[start:start + BATCH], tf.float32)).numpy())
        if progress:
            progress(min(start + BATCH, len(means)), len(means))
    return np.concatenate(found)


def measure(decoder, means, stddevs=None, x=None, names=tuple(GEOMETRY), *, prior_stddevs=1.0, seed=0,
            progress=None):
    """Metrics of a decoder around posterior means.

    Args:
        decoder: as in `jacobians`; for an exported model, its `decoder`.
        means: [N, d].
        stddevs: posterior standard deviations [N, d] or Cholesky factors [N, d, d]; None for an autoencoder.
        x: the data as the decoder makes them [N, ...], for loss_split.
        names: of GEOMETRY.
        prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I): they say which latents are active.
        seed: of the posterior noise.
        progress: called with (done, total) now and then.

    Returns:
        Results by name, and by name why a metric could not be computed.

    Raises:
        InputError: a name that GEOMETRY does not have, or means that are not [N, d].
    """
    check_names(names)
    means = np.asarray(means, np.float32)
    if means.ndim != 2 or not means.size:
        raise InputError(f"means: expected shape [N, d], not empty; got {means.shape}")
    N, fitted = len(means), stddevs is not None and any(name in FITTED for name in names)
    total = N * (1 + fitted)

    def report(done, _=None):
        if progress is not None:
            progress(done, total)

    gram = grams(decoder, means, report)
    fits = local_decoder.fit(decoder, means, stddevs, seed=seed, progress=lambda done, _: report(N + done)
                             ) if fitted else None
    active = None if stddevs is None else activity.is_narrow(stddevs, prior_stddevs)
    at = Surroundings(decoder, x, means, stddevs, active, gram, fits, seed)
    results, skipped = {}, {}
    for name in names:
        if stddevs is None and name in STOCHASTIC:
            skipped[name] = "an autoencoder's posterior has no width"
        elif x is None and name == "loss_split":
            skipped[name] = "needs the data x"
        else:
            try:
                results[name] = GEOMETRY[name](at)
            except InputError as error:
                skipped[name] = str(error)
    return results, skipped
