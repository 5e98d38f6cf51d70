"""What the papers measure. METRICS take plain arrays (codes [N, d], factors [N, K]) and return a Result.

A new metric is a function of (codes, factors) in the file of its kind, and a line here. GEOMETRY looks at a decoder
around posterior means instead; see `geometry.measure`.
"""

import numpy as np

from vae_tf.metrics import geometry, local_decoder
from vae_tf.metrics.bound import elbo_terms
from vae_tf.metrics.correlation import mcc
from vae_tf.metrics.geometry import FITTED, GEOMETRY
from vae_tf.metrics.information import mig
from vae_tf.metrics.orthogonality import column_cosine, dto, hadamard_gap, od_score, variance_norm_relation
from vae_tf.metrics.polarised import active_units
from vae_tf.metrics.principal_axes import principal_axes
from vae_tf.metrics.result import Result

METRICS = {"active_units": active_units, "mig": mig, "mcc": mcc}

# These look at codes alone; all others need ground-truth factors, and shuffling codes against them gives chance.
UNSUPERVISED = ("active_units",)


def noise_floor(metric, codes, factors, seed=0):
    """The score of codes that have nothing to do with the factors: the same codes, in shuffled order."""
    return metric(np.random.default_rng(seed).permutation(codes), factors).score


__all__ = ["FITTED", "GEOMETRY", "METRICS", "UNSUPERVISED", "Result", "active_units", "column_cosine", "dto",
           "elbo_terms", "geometry", "hadamard_gap", "local_decoder", "mcc", "mig", "noise_floor", "od_score",
           "principal_axes", "variance_norm_relation"]
