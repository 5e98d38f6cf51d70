"""Print the loss of VAEs made by hand, whose latents are the sources of `conformal_mixture`: what training could reach.

    python benchmarks/conformal_optimum.py

The source s_j, uniform on [0, 1], becomes z_j = Phi^-1(1/2 + a (s_j - 1/2)), where Phi is the distribution function of
N(0, 1), and the decoder undoes this before it mixes the sources. So each latent is one source, the columns of the
decoder's Jacobian are orthogonal everywhere, and for a = 1 q(z) without noise is the prior. The posterior's variances
are 1 / (1 + b |c_j|^2 / s^2), those of a linear decoder for b = 1, where c_j is the column at x. The script tries some
a and b, which are not trained, and prints the least loss, KL + reconstruction, in nats per example, beta 1. A trained
VAE whose loss is larger has stopped short of these: its objective is not the reason that its latents are others.
"""

import itertools

import numpy as np
import scipy.stats

from vae_tf.data import conformal

VARIANCES = (0.1, 0.01, 0.001, 0.0001)
SHRUNK = (1 - 1e-9, 0.98, 0.95, 0.9, 0.85)      # a; 1 would send the sides to infinity
NARROWED = (0.5, 1, 1.5)                        # b
DRAWS = 4                                       # of z for each example


def measure_loss(sources, variance, a, b, rng):
    """Return the mean KL and the mean reconstruction term, in nats per example.

    Args:
        sources: s [N, d] of the data with seed 0.
        variance: s^2 of the likelihood.
        a, b: see above.
        rng: draws the posterior's noise.
    """
    mixing = conformal.draw_map(0)
    x = mixing.mix(sources)
    lengths = np.linalg.norm(mixing.compute_jacobian(sources)[:, :, 0], axis=1)      # all columns have the same
    means = scipy.stats.norm.ppf(0.5 + a * (sources - 0.5))
    columns = lengths[:, np.newaxis] * scipy.stats.norm.pdf(means) / a
    variances = 1 / (1 + b * columns**2 / variance)
    kl = 0.5 * np.sum(variances + means**2 - 1 - np.log(variances), 1)
    errors = []
    for _ in range(DRAWS):
        z = means + np.sqrt(variances) * rng.standard_normal(means.shape)
        decoded = mixing.mix(0.5 + (scipy.stats.norm.cdf(z) - 0.5) / a)
        errors.append(np.mean(np.sum((x - decoded)**2, 1)))
    n = x.shape[1]
    return np.mean(kl), np.mean(errors) / (2 * variance) + n / 2 * np.log(2 * np.pi * variance)


def main():
    print("| s² | least loss | KL | reconstruction | a | b |\n|---|---|---|---|---|---|")
    sources = conformal.draw_sources(0)
    for variance in VARIANCES:
        tried = [(*measure_loss(sources, variance, a, b, np.random.default_rng(0)), a, b)
                 for a, b in itertools.product(SHRUNK, NARROWED)]
        kl, reconstruction, a, b = min(tried, key=lambda found: found[0] + found[1])
        print(f"| {variance:g} | {kl + reconstruction:.3f} | {kl:.3f} | {reconstruction:.3f} | {a:.2f} | {b:g} |")


if __name__ == "__main__":
    main()
