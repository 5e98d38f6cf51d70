"""Codes and factors that tests of metrics share."""

import warnings

import numpy as np

from vae_tf import metrics

SIZES = (3, 4, 5)
EXACT = 1e-6      # what is asked of the published protocols


def noisy(rows=400, seed=0, sizes=(3, 4, 5)):
    """Codes that follow factors, mixed and with noise."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, rows) for size in sizes], -1)
    mixing = rng.standard_normal((len(sizes), 4)) / 3 + np.eye(len(sizes), 4)
    return factors / factors.std(0) @ mixing + 0.3 * rng.standard_normal((rows, 4)), factors


def grid(*sizes, copies=1):
    """Every combination of factor values, `copies` times: int [N, K]."""
    cells = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))
    return np.tile(cells, (copies, 1))


def standardised(factors):
    return (factors - factors.mean(0)) / factors.std(0)


def score(name, codes, factors):
    with warnings.catch_warnings(action="ignore"):
        return metrics.METRICS[name].measure(metrics.Context(codes, factors)).score


def called(name, codes, factors):
    return metrics.METRICS[name].measure(metrics.Context(codes, factors, stddevs=np.full(np.shape(codes), 0.1)))
