"""Closed forms in float64 NumPy, written to be read beside the papers. They need neither Keras nor TensorFlow.

Reading order:

    checks          checks of covariances and of positive numbers
    inference       KL of Gaussians, model and true inference error
    linear          PPCA and the linear beta-VAE
    pca             the linear autoencoder, PPCA by EM
    beta            beta as variance, as temperature, as the price of the KL
    second_order    the ELBO to second order in z, and the posterior covariance that maximises it
    push_forward    the density that a decoder gives the images of its latents
    orthogonality   what orthogonal columns save, and which components they identify
    neighbours      the local decoder, and neighbours in data and latent space
"""

from vae_tf.theory.beta import (
    best_trade_off,
    beta_as_noise_variance,
    collapse_beta,
    dispersed_log_likelihood,
    tempered_posterior,
)
from vae_tf.theory.inference import (
    best_signed_permutation,
    gaussian_kl,
    model_inference_error,
    true_inference_error,
)
from vae_tf.theory.linear import (
    PPCA,
    LinearOptimum,
    LinearPosterior,
    critical_betas,
    linear_beta_vae,
    linear_encoder,
    linear_inference_error,
    linear_log_likelihood,
    linear_noise_variance,
    linear_posterior,
    linear_terms,
    ppca,
    turn_angle,
)
from vae_tf.theory.neighbours import confusion_loss, nearest_neighbours, neighbour_distance, stochastic_loss
from vae_tf.theory.orthogonality import (
    Components,
    components,
    joint_precision_allocation,
    kl_saving,
    match_components,
    precision_allocation,
    rotate,
)
from vae_tf.theory.pca import autoencoder_loss, linear_autoencoder, ppca_by_em
from vae_tf.theory.push_forward import push_forward_factors, push_forward_log_density, split_error
from vae_tf.theory.second_order import (
    curvature,
    deterministic_elbo,
    diagonal_cost,
    gauss_newton_hessian,
    hessian,
    jacobian_cost,
    log_likelihood,
    optimal_precision,
    posterior_eigenvalue_bounds,
    precise_limit,
)

__all__ = [
    "PPCA", "Components", "LinearOptimum", "LinearPosterior", "autoencoder_loss", "best_signed_permutation",
    "best_trade_off", "beta_as_noise_variance", "collapse_beta", "components", "confusion_loss", "critical_betas",
    "curvature", "deterministic_elbo", "diagonal_cost", "dispersed_log_likelihood", "gauss_newton_hessian",
    "gaussian_kl", "hessian", "jacobian_cost", "joint_precision_allocation", "kl_saving", "linear_autoencoder",
    "linear_beta_vae", "linear_encoder", "linear_inference_error", "linear_log_likelihood", "linear_noise_variance",
    "linear_posterior", "linear_terms", "log_likelihood", "match_components", "model_inference_error",
    "nearest_neighbours", "neighbour_distance", "optimal_precision", "posterior_eigenvalue_bounds", "ppca",
    "ppca_by_em", "precise_limit", "precision_allocation", "push_forward_factors", "push_forward_log_density",
    "rotate", "split_error", "stochastic_loss", "tempered_posterior", "true_inference_error", "turn_angle",
]
