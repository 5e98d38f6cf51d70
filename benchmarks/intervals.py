"""Count how often a score's interval covers its mean over samples: `python benchmarks/intervals.py`, 2 minutes.

For each kind of codes, 150 samples of 1,000 rows are drawn and scored, each with the half-samples of
`evaluation.estimate_interval`. A 95 % interval should cover the mean of the 150 scores in .95 of the cases. It does not
for `irs`, which rests on the most extreme rows; `irs` therefore has no interval.
"""

import numpy as np

from vae_tf import evaluation, metrics

SAMPLES, ROWS, HALVES = 150, 1_000, 20
SIZES = np.array((3, 6, 10, 8, 8))      # numbers of values of five factors


def noisy(U, rng):
    """Return each factor in a latent of its own, with normal noise of half its standard deviation."""
    return U + 0.5 * rng.standard_normal(U.shape)


def heavy_tailed(U, rng):
    """Return each factor in a latent of its own, with noise of Student's t with 3 degrees of freedom."""
    return U + 0.3 * rng.standard_t(3, U.shape)


def rotated(U, rng):
    """Return codes in which every latent holds all factors."""
    return U @ np.linalg.qr(np.random.default_rng(3).standard_normal((5, 5)))[0] + 0.1 * rng.standard_normal(U.shape)


SCORES = {
    "mig": metrics.mig,
    "mcc": metrics.mcc,
    "irs": lambda codes, factors: metrics.irs(metrics.make_sampler(codes, factors)),
}


def covered(score, codes_of):
    """Return the share of samples whose interval covers the mean score, and that mean."""
    centres, reaches = [], []
    for sample in range(SAMPLES):
        rng = np.random.default_rng(sample)
        factors = np.stack([rng.integers(0, size, ROWS) for size in SIZES], -1)
        codes = codes_of((factors - (SIZES - 1) / 2) / np.sqrt((SIZES**2 - 1) / 12), rng)
        halves = [score(codes[rows], factors[rows]).score
                  for rows in (rng.permutation(ROWS)[:ROWS // 2] for _ in range(HALVES))]
        centres.append(score(codes, factors).score)
        reaches.append(evaluation.estimate_interval(centres[-1], halves)[1] - centres[-1])
    return np.mean(np.abs(np.array(centres) - np.mean(centres)) <= reaches), np.mean(centres)


if __name__ == "__main__":
    error = np.sqrt(0.95 * 0.05 / SAMPLES)
    print(f"covered, of {SAMPLES} samples of {ROWS:,} rows; .95 +- {error:.3f} is claimed")
    for name, score in SCORES.items():
        for codes_of in (noisy, heavy_tailed, rotated):
            share, mean = covered(score, codes_of)
            print(f"  {name:<4} {codes_of.__name__:<13} {share:.3f}   (score {mean:.3f})")
