"""Closed forms in float64 NumPy, readable beside the papers."""

from vae_tf.theory.linear import LinearOptimum, linear_beta_vae

__all__ = ["LinearOptimum", "linear_beta_vae"]
