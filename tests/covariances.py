"""Covariances of data for linear models."""

import numpy as np


def random_covariance(n, seed):
    A = np.random.default_rng(seed).standard_normal((n, n + 2))
    return A @ A.T / n


def mixing(n=128, k=2):
    """sikka IV.B: A_ij = (1 + delta_ij) / 2."""
    return (1 + np.eye(n, k)) / 2


def of_mixture(A):
    """Covariance of A s + eta."""
    return A @ A.T + np.eye(len(A))
