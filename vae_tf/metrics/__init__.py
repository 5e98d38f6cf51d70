"""What the papers measure: literal tables of functions that return a Result.

METRICS         of plain arrays: (codes [N, d], factors [N, K]). UNSUPERVISED ones look at codes alone.
INTERVENTIONAL  of a Sampler, which holds one factor fixed; `sampler(codes, factors)` makes one of plain arrays.
POSTERIOR       of the whole posterior: (means [N, d], stddevs [N, d], factors [N, K]).

`metrics.geometry.GEOMETRY` is of a decoder around posterior means, `metrics.closed_forms.THEORY` of a model against
what theory predicts for it. They are not imported here because they need TensorFlow, which takes seconds to load:
scoring codes does without, and so do its worker processes.

A new metric is a function in the file of its kind, a line here, and a line in tests/test_metrics_properties.py.
"""

from collections.abc import Callable

from vae_tf.metrics.bound import elbo_terms
from vae_tf.metrics.correlation import mcc
from vae_tf.metrics.curvature import hessian_diagonality, posterior_covariance_gap
from vae_tf.metrics.independence import mutual_information, total_correlation, wasserstein_correlation
from vae_tf.metrics.information import mig, mig_sup, modularity
from vae_tf.metrics.intervention import Sampler, beta_vae_score, factor_vae_score, irs, sampler
from vae_tf.metrics.orthogonality import column_cosine, dto, hadamard_gap, od_score, variance_norm_relation
from vae_tf.metrics.polarised import PASSIVE_KL, active_units, classify, polarised_fraction, polarised_regime
from vae_tf.metrics.posterior import (
    elbo_decomposition,
    mig_from_entropies,
    mig_posterior,
    mig_sup_from_entropies,
    mig_sup_posterior,
)
from vae_tf.metrics.prediction import (
    dci,
    dci_fast,
    disentanglement_score,
    downstream_gbt,
    downstream_logistic,
    explicitness,
    sap,
)
from vae_tf.metrics.principal_axes import principal_axes
from vae_tf.metrics.ranking import udr
from vae_tf.metrics.result import Result, checked

METRICS: dict[str, Callable[..., Result]] = {
    "active_units": active_units,
    "mig": mig,
    "mig_sup": mig_sup,
    "modularity": modularity,
    "mcc": mcc,
    "disentanglement_score": disentanglement_score,
    "sap": sap,
    "explicitness": explicitness,
    "dci_fast": dci_fast,
    "dci": dci,
    "downstream_logistic": downstream_logistic,
    "downstream_gbt": downstream_gbt,
    "total_correlation": total_correlation,
    "wasserstein_correlation": wasserstein_correlation,
    "mutual_information": mutual_information,
}

INTERVENTIONAL: dict[str, Callable[..., Result]] = {
    "beta_vae_score": beta_vae_score,
    "factor_vae_score": factor_vae_score,
    "irs": irs,
}

POSTERIOR: dict[str, Callable[..., Result]] = {
    "mig_posterior": mig_posterior,
    "mig_sup_posterior": mig_sup_posterior,
    "elbo_decomposition": elbo_decomposition,
}

# These look at codes alone; all others need ground-truth factors, and shuffling codes against them gives chance.
UNSUPERVISED = ("active_units", "total_correlation", "wasserstein_correlation", "mutual_information",
                "elbo_decomposition")

# These hold codes against the prior, a learned one if the model has one.
IN_UNITS_OF_THE_PRIOR = ("active_units", "mig_sup", "mig_sup_posterior", "elbo_decomposition")

# These take `samples_per_value`.
PER_VALUE = ("mig_posterior", "mig_sup_posterior")

# These learn from two thirds of the rows (disentanglement_score from 80 %) and are tested on the rest.
HELD_OUT = ("disentanglement_score", "sap", "explicitness", "dci_fast", "dci", "downstream_logistic", "downstream_gbt")

ALL = {**METRICS, **INTERVENTIONAL, **POSTERIOR}

# These treat discrete factors otherwise than continuous ones, and take their kinds.
BY_KIND = (*(name for name in METRICS if name not in UNSUPERVISED and name != "mcc"), "mig_posterior",
           "mig_sup_posterior")

# These rest on the most extreme rows. What the extremes of other rows would be, no resampling of these rows tells, so
# they have no interval.
EXTREMES = ("irs",)

# Minutes each at 10,000 examples: computed when asked for by name.
HEAVY = ("dci", "downstream_gbt")
DEFAULT = tuple(name for name in ALL if name not in HEAVY)

# Seconds each: their intervals come from fewer resamples.
SLOW = ("explicitness", "dci_fast", "downstream_logistic", *HEAVY, *POSTERIOR)

__all__ = ["ALL", "BY_KIND", "DEFAULT", "EXTREMES", "HEAVY", "HELD_OUT", "INTERVENTIONAL", "IN_UNITS_OF_THE_PRIOR",
           "METRICS", "PASSIVE_KL", "PER_VALUE", "POSTERIOR", "SLOW",
           "UNSUPERVISED", "Result", "Sampler", "active_units", "beta_vae_score", "checked", "classify",
           "column_cosine", "dci", "dci_fast", "disentanglement_score", "downstream_gbt", "downstream_logistic", "dto",
           "elbo_decomposition", "elbo_terms", "explicitness", "factor_vae_score", "hadamard_gap",
           "hessian_diagonality", "irs", "mcc", "mig", "mig_from_entropies", "mig_posterior", "mig_sup",
           "mig_sup_from_entropies", "mig_sup_posterior", "modularity", "mutual_information", "od_score",
           "polarised_fraction", "polarised_regime", "posterior_covariance_gap", "principal_axes", "sampler", "sap",
           "total_correlation", "udr", "variance_norm_relation", "wasserstein_correlation"]
