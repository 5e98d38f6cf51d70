"""Objectives and inference errors of linear models, as printed."""

import itertools
import math

import numpy as np

from reference.distributions import full_gaussian_kl


def linear_objective(x, weights, beta, noise_variance):
    """Exact mean objective of an affine beta-VAE with Gaussian noise, over data x [N, n]; no sampling.

    weights: encoder mean (W, b), encoder log-variance (W, b), decoder (D, b), each W as x @ W.
    """
    (Wm, bm), (Wv, bv), (D, bd) = weights
    mean, variance = x @ Wm + bm, np.exp(x @ Wv + bv)
    squared = ((x - mean @ D - bd) ** 2).sum(1) + variance @ (D**2).sum(1)
    reconstruction = x.shape[1] / 2 * np.log(2 * np.pi * noise_variance) + squared / (2 * noise_variance)
    kl = 0.5 * (mean**2 + variance - np.log(variance) - 1).sum(1)
    return np.mean(reconstruction + beta * kl), reconstruction.mean(), kl.mean()


def sikka_objective(C, beta, latents, flat):
    """-L_beta of sikka (21) as printed, s^2 = 1, and its gradient (42)-(47); parameters D, W_mu, W_sigma, b's, flat."""
    n, k = len(C), latents
    sizes = np.cumsum([n * k, k * n, k * n, k, k, n])[:-1]
    D, W, Ws, bs, bm, bD = (part.reshape(shape) for part, shape in zip(
        np.split(flat, sizes), [(n, k), (k, n), (k, n), (k,), (k,), (n,)], strict=True))
    R, offset = D @ W - np.eye(n), D @ bm + bD
    norms, v = (D**2).sum(0), np.exp(0.5 * np.sum((Ws @ C) * Ws, 1) + bs)
    value = 0.5 * (np.sum((R @ C) * R) + beta * np.sum((W @ C) * W) + np.sum((norms + beta) * v)
                   + offset @ offset + beta * bm @ bm - beta * bs.sum())
    gradients = [R @ C @ W.T + np.outer(offset, bm) + D * v, (D.T @ R + beta * W) @ C,
                 0.5 * ((norms + beta) * v)[:, np.newaxis] * (Ws @ C), 0.5 * ((norms + beta) * v - beta),
                 D.T @ offset + beta * bm, offset]
    return value, np.concatenate([gradient.ravel() for gradient in gradients]), (D, W, Ws, bs, bm, bD)


def inference_error(C, W, Ws, bs, E, F):
    """MIE or TIE by sikka (25) as printed."""
    k = len(W)
    inverse = np.linalg.inv(E)
    spread = Ws @ C @ Ws.T
    first = sum(inverse[i, i] * math.exp(0.5 * spread[i, i] + bs[i]) for i in range(k))
    return 0.5 * (first - sum(bs) + np.log(np.linalg.eigvalsh(E)).sum()
                  + np.trace((F - W).T @ inverse @ (F - W) @ C) - k)


def matched_inference_error(mean, covariance, true_mean, true_covariance):
    """The least E KL over every signed permutation, by trying each."""
    k = mean.shape[1]
    errors = []
    for order in itertools.permutations(range(k)):
        for signs in itertools.product((1, -1), repeat=k):
            P = np.zeros((k, k))
            for i, (j, sign) in enumerate(zip(order, signs, strict=True)):
                P[i, j] = sign
            errors.append(np.mean([full_gaussian_kl(P @ m, P @ S @ P.T, t, true_covariance)
                                   for m, S, t in zip(mean, covariance, true_mean, strict=True)]))
    return min(errors)
