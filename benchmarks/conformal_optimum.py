"""Print the loss of VAEs made by hand for `conformal_mixture`: along its sources, and along their square's diagonals.

    python benchmarks/conformal_optimum.py

The sources s are uniform on the unit square. u_j is s_j - 1/2, or the distance from a diagonal of the square. With the
distribution function F of u_j, a latent is z_j = Phi^-1(1/2 + a (F(u_j) - 1/2)), where Phi is the distribution function
of N(0, 1), and the decoder undoes this before it mixes the sources. So each latent is one source, or moves along one
diagonal. Both ways the columns of the decoder's Jacobian are orthogonal everywhere, and for a = 1 each latent without
noise is distributed as the prior. The posterior's variances are 1 / (1 + b |c_j|^2 / s^2), those of a linear decoder
for b = 1, where c_j is the column at x. The script tries some a and b, which are not trained, and prints the least
loss, KL + reconstruction, in nats per example, beta 1. Where the loss along the sources is smaller than along the
diagonals, and smaller than that of a trained VAE, the objective is not the reason that its latents are others.
"""

import itertools

import numpy as np
import scipy.stats

from vae_tf.data import conformal

VARIANCES = (0.1, 0.01, 0.001, 0.0001)
SHRUNK = (1 - 1e-9, 0.98, 0.95, 0.9, 0.85)      # a; 1 would send the sides to infinity
NARROWED = (0.5, 1, 1.5)                        # b
DRAWS = 4                                       # of z for each example
# What u is: the matrix that makes it of s - 1/2, and the distribution of each u_j.
HALF = np.sqrt(0.5)         # of a diagonal
ALONG = {"the sources": (np.eye(2), scipy.stats.uniform(-0.5, 1)),
         "the diagonals": (HALF * np.array([[1, 1], [1, -1]]), scipy.stats.triang(0.5, -HALF, 2 * HALF))}


def measure_loss(sources, along, variance, a, b, rng):
    """Return the mean KL and the mean reconstruction term, in nats per example.

    Args:
        sources: s [N, d] of the data with seed 0.
        along: a name in ALONG.
        variance: s^2 of the likelihood.
        a, b: see above.
        rng: draws the posterior's noise.
    """
    turn, distribution = ALONG[along]
    mixing = conformal.draw_map(0)
    x, u = mixing.mix(sources), (sources - 0.5) @ turn.T
    lengths = np.linalg.norm(mixing.compute_jacobian(sources)[:, :, 0], axis=1)      # all columns have the same
    means = scipy.stats.norm.ppf(0.5 + a * (distribution.cdf(u) - 0.5))
    columns = lengths[:, np.newaxis] * scipy.stats.norm.pdf(means) / (a * distribution.pdf(u))
    variances = 1 / (1 + b * columns**2 / variance)
    kl = 0.5 * np.sum(variances + means**2 - 1 - np.log(variances), 1)
    errors = []
    for _ in range(DRAWS):
        z = means + np.sqrt(variances) * rng.standard_normal(means.shape)
        errors.append(np.mean(np.sum((x - mixing.mix(decode(z, along, a)))**2, 1)))
    n = x.shape[1]
    return np.mean(kl), np.mean(errors) / (2 * variance) + n / 2 * np.log(2 * np.pi * variance)


def decode(z, along, a):
    """Return the sources [N, d] of latents [N, d]; those outside of the square are moved to its edge."""
    turn, distribution = ALONG[along]
    shares = np.clip(0.5 + (scipy.stats.norm.cdf(z) - 0.5) / a, 0, 1)
    return np.clip(0.5 + distribution.ppf(shares) @ turn, 0, 1)


def main():
    print("| s² | latents along | least loss | KL | reconstruction | a | b |\n|---|---|---|---|---|---|---|")
    sources = conformal.draw_sources(0)
    for variance, along in itertools.product(VARIANCES, ALONG):
        tried = [(*measure_loss(sources, along, variance, a, b, np.random.default_rng(0)), a, b)
                 for a, b in itertools.product(SHRUNK, NARROWED)]
        kl, reconstruction, a, b = min(tried, key=lambda found: found[0] + found[1])
        print(f"| {variance:g} | {along} | {kl + reconstruction:.3f} | {kl:.3f} | {reconstruction:.3f} | {a:.2f} "
              f"| {b:g} |")


if __name__ == "__main__":
    main()
