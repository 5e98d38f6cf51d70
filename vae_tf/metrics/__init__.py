"""The metrics of the papers: functions that return a Result, and METRICS, which holds their declarations.

Every metric is declared beside its function by `registry.register`: what it needs, whether it learns, what it costs.
A metric looks at what a `Context` holds: codes and factors, the whole posterior, the decoder around posterior means, or
the model, held against closed forms. `measure` computes metrics by name.

Importing this package loads neither TensorFlow nor scikit-learn, which take seconds: functions that need one of them
import it themselves, and SciPy's parts load when they are first used. Scoring codes does without TensorFlow, and so do
its worker processes. A new metric is a function in the file of its kind, with its declaration; metrics of one's own
need not be in this package. `docs/metrics.md` says how.
"""
# ruff: noqa: I001    The order of these imports is the order of metrics in tables.

from vae_tf.metrics.context import Context
from vae_tf.metrics.missing import find_missing
from vae_tf.metrics.registry import (
    COSTS,
    GROUPS,
    METRICS,
    Metric,
    check_names,
    find_name,
    list_default_names,
    list_names,
    measure,
    register,
)
from vae_tf.metrics.result import Result, check_arrays, find_varying

from vae_tf.metrics.polarised import PASSIVE_KL, active_units, classify, polarised_fraction, polarised_regime
from vae_tf.metrics.information import mig, mig_sup, modularity
from vae_tf.metrics.correlation import mcc
from vae_tf.metrics.identifiability import linear_r2, weak_mcc
from vae_tf.metrics.single_latents import disentanglement_score, sap
from vae_tf.metrics.readout import explicitness
from vae_tf.metrics.importance import dci, dci_fast
from vae_tf.metrics.dci_variants import dci_es, dci_forest, dci_lasso
from vae_tf.metrics.infomec import infomec
from vae_tf.metrics.downstream import downstream_gbt, downstream_logistic
from vae_tf.metrics.independence import mutual_information, total_correlation, wasserstein_correlation
from vae_tf.metrics.samplers import Sampler, make_sampler
from vae_tf.metrics.intervention import beta_vae_score, factor_vae_score, irs
from vae_tf.metrics.pairs import consistency, restrictiveness
from vae_tf.metrics.posterior import (
    elbo_decomposition,
    mig_from_entropies,
    mig_posterior,
    mig_sup_from_entropies,
    mig_sup_posterior,
)
from vae_tf.metrics.orthogonality import column_cosine, dto, hadamard_gap, variance_norm_relation
from vae_tf.metrics.squared_loss import loss_split
from vae_tf.metrics.orthogonality_deviation import od_score
from vae_tf.metrics.local_decoder_errors import local_decoder_error, stochastic_loss_error
from vae_tf.metrics.curvature import hessian_diagonality, posterior_covariance_gap
from vae_tf.metrics.deterministic_elbo import deterministic_elbo_gap
from vae_tf.metrics.linear_optimum import linear_optimum
from vae_tf.metrics.inference_error import matched_inference_error, model_inference_error, true_inference_error

from vae_tf.metrics.bound import elbo_terms
from vae_tf.metrics.principal_axes import principal_axes
from vae_tf.metrics.ranking import udr

__all__ = [
    "COSTS",
    "GROUPS",
    "METRICS",
    "PASSIVE_KL",
    "Context",
    "Metric",
    "Result",
    "Sampler",
    "active_units",
    "beta_vae_score",
    "check_arrays",
    "check_names",
    "classify",
    "column_cosine",
    "consistency",
    "dci",
    "dci_es",
    "dci_fast",
    "dci_forest",
    "dci_lasso",
    "deterministic_elbo_gap",
    "disentanglement_score",
    "downstream_gbt",
    "downstream_logistic",
    "dto",
    "elbo_decomposition",
    "elbo_terms",
    "explicitness",
    "factor_vae_score",
    "find_missing",
    "find_name",
    "find_varying",
    "hadamard_gap",
    "hessian_diagonality",
    "infomec",
    "irs",
    "linear_optimum",
    "linear_r2",
    "list_default_names",
    "list_names",
    "local_decoder_error",
    "loss_split",
    "make_sampler",
    "matched_inference_error",
    "mcc",
    "measure",
    "mig",
    "mig_from_entropies",
    "mig_posterior",
    "mig_sup",
    "mig_sup_from_entropies",
    "mig_sup_posterior",
    "model_inference_error",
    "modularity",
    "mutual_information",
    "od_score",
    "polarised_fraction",
    "polarised_regime",
    "posterior_covariance_gap",
    "principal_axes",
    "register",
    "restrictiveness",
    "sap",
    "stochastic_loss_error",
    "total_correlation",
    "true_inference_error",
    "udr",
    "variance_norm_relation",
    "wasserstein_correlation",
    "weak_mcc",
]
