"""Slow oracles: the formulas as the papers write them, in loops, in float64."""

from reference.codes import (
    beta_vae_score,
    binned,
    dci_scores,
    explicitness,
    gaussian_correlations,
    information_table,
    irs,
    lasso,
    mcc,
    mig,
    mig_sup,
    modularity,
    mutual_information,
    neighbour_performance,
    roc_area,
    sap_matrix,
    udr_pair,
)
from reference.decoders import TanhDecoder, local_decoder, nearest_signed_permutation, od_distances
from reference.distributions import (
    between_diagonal_kl,
    diagonal_kl,
    full_gaussian_kl,
    full_kl,
    kl_decomposition,
    ks_distance,
    log_mixture,
    mixture_entropy,
    normal_log_pdf,
    polarised_kl,
    regime_of_latent,
    weights,
)
from reference.linear import inference_error, linear_objective, matched_inference_error, sikka_objective
from reference.scenes import scene_pixel
from reference.sprites import sprite

__all__ = [
    "TanhDecoder", "beta_vae_score", "between_diagonal_kl", "binned", "dci_scores", "diagonal_kl", "explicitness",
    "full_gaussian_kl", "full_kl", "gaussian_correlations", "inference_error", "information_table", "irs",
    "kl_decomposition", "ks_distance", "lasso", "linear_objective", "local_decoder", "log_mixture",
    "matched_inference_error", "mcc", "mig", "mig_sup", "mixture_entropy", "modularity", "mutual_information",
    "nearest_signed_permutation", "neighbour_performance", "normal_log_pdf", "od_distances", "polarised_kl",
    "regime_of_latent", "roc_area", "sap_matrix", "scene_pixel", "sikka_objective", "sprite", "udr_pair", "weights",
]
