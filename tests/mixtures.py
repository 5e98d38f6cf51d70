"""What holds of every dataset that knows the true posterior of its sources, x = A s + eta."""

import numpy as np


def check_posterior(dataset, A):
    """Check that sources less the posterior's mean are draws of the posterior; return the matrix of its mean."""
    i = np.arange(len(dataset))
    mean, covariance = dataset.posterior_at(i)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (dataset.factors_at(i) - mean).T)
    n, k = len(i), A.shape[1]
    # Standard errors of a mean, of a variance and of a covariance of standard normals; 5 of them.
    assert np.abs(whitened.mean(1)).max() < 5 / np.sqrt(n)
    assert np.abs(np.cov(whitened, bias=True) - np.eye(k)).max() < 5 * np.sqrt(2 / n)
    assert np.abs(whitened @ mean / n).max() < 5 * mean.std(0).max() / np.sqrt(n)
    inverse = np.linalg.inv(A @ A.T + np.eye(len(A)))                  # conditioning (sikka (49)), not the code's form
    np.testing.assert_allclose(covariance, np.eye(k) - A.T @ inverse @ A, atol=1e-10)
    part = dataset.take(i[::-1][:3])
    # A product of matrices is rounded otherwise for a batch of another size: float64, sums of some hundred terms.
    np.testing.assert_allclose(part.posterior_at(np.array([2, 0]))[0], mean[[n - 3, n - 1]], rtol=1e-12, atol=1e-12)
    return A.T @ inverse
