"""Codes whose latents are known to be active, mixed or passive."""

import numpy as np

from vae_tf import evaluation

N = 4_000
KNOWN = ["active", "passive", "passive", "passive", "mixed", "active", "mixed"]
MIXED_SHARE = (0.4, 0.8)        # of the examples where latents 4 and 6 are passive


def encoder(seed=0, n=N):
    """mean, stddev, prior mean and prior stddev [N, 7] of an iVAE with latents as KNOWN.

    The priors of latents 2 and 3 are narrow, and follow u; that of latent 3 moves with u, too.
    """
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, n)
    prior_mean = np.stack([0 * u, 0 * u, 0 * u, 0.5 * u, 0 * u, u, 0 * u], -1)
    prior_stddev = np.stack([np.exp(0.5 * u), 1 + 0 * u, 0.02 * np.exp(u), 0.1 + 0.05 * u, 1 + 0 * u, 0.1 + 0 * u,
                             np.exp(0.5 * u)], -1)
    mean, stddev = prior_mean.copy(), prior_stddev.copy()
    for j, share in [(0, 0), (4, MIXED_SHARE[0]), (5, 0), (6, MIXED_SHARE[1])]:
        on = rng.random(n) >= share
        mean[on, j] += prior_stddev[on, j] * (2 + rng.standard_normal(on.sum()))
        stddev[on, j] *= 0.01 * rng.uniform(1, 2, on.sum())
    return mean, stddev, prior_mean, prior_stddev


def some_codes(n=300):
    mean, stddev, prior_mean, prior_stddev = encoder(n=n)
    factors = np.random.default_rng(3).integers(0, 4, (n, 2))
    return evaluation.Codes(mean, factors, stddev=stddev, prior_mean=prior_mean, prior_stddev=prior_stddev)


def of_latents(codes, latents):
    return codes._replace(**{name: getattr(codes, name)[:, latents] for name in evaluation.PER_LATENT})
