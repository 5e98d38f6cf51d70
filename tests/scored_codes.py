"""Codes that follow two factors, and metrics that score them quickly."""

import numpy as np

CHEAP = ("mig", "mcc", "sap", "irs", "total_correlation")


def codes_and_factors(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, 3, rows), rng.integers(0, 4, rows)], -1)
    return factors + 0.4 * rng.standard_normal((rows, 2)), factors
