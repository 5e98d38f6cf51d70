"""Closed forms in float64 NumPy, readable beside the papers; no Keras, no TensorFlow.

Reading order:

    checks      covariances and positive numbers, or one line that says what is wrong
    inference   KL of Gaussians, model and true inference error
    linear      PPCA and the linear beta-VAE
    bound       deterministic ELBO, Hessian of the log-likelihood, optimal posterior covariance, beta as variance
    geometry    precision allocation, push-forward density, rotation
"""

from vae_tf.theory.bound import (
    beta_as_noise_variance,
    curvature,
    deterministic_elbo,
    diagonal_cost,
    gauss_newton_hessian,
    hessian,
    log_likelihood,
    optimal_precision,
)
from vae_tf.theory.geometry import (
    precision_allocation,
    push_forward_factors,
    push_forward_log_density,
    rotated,
    split_error,
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
    linear_posterior,
    linear_terms,
    ppca,
)

__all__ = ["PPCA", "LinearOptimum", "LinearPosterior", "best_signed_permutation", "beta_as_noise_variance",
           "critical_betas", "curvature", "deterministic_elbo", "diagonal_cost", "gauss_newton_hessian", "gaussian_kl",
           "hessian", "linear_beta_vae", "linear_encoder", "linear_inference_error", "linear_log_likelihood",
           "linear_posterior", "linear_terms", "log_likelihood", "model_inference_error", "optimal_precision", "ppca",
           "precision_allocation", "push_forward_factors", "push_forward_log_density", "rotated", "split_error",
           "true_inference_error"]
