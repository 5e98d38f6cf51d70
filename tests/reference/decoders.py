"""A decoder's columns and its local models, by general solvers, and a decoder with derivatives written out."""

import math

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse


def nearest_signed_permutation(V):
    """P minimising sum |V - P| by the mixed-integer program of rolinek S72-S75, with scipy's HiGHS."""
    d = len(V)
    size, eye, ones = d * d, scipy.sparse.identity(d * d), np.ones(d)
    zero = scipy.sparse.csr_matrix((d, size))
    rows, columns = scipy.sparse.kron(scipy.sparse.identity(d), ones), scipy.sparse.kron(ones, scipy.sparse.identity(d))
    v = V.ravel()
    constraints = [       # of the variables P+, P-, D, each d^2
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([eye, -eye, -eye]), ub=v),
        scipy.optimize.LinearConstraint(scipy.sparse.hstack([-eye, eye, -eye]), ub=-v),
        *(scipy.optimize.LinearConstraint(scipy.sparse.hstack([sums, sums, zero]), 1, 1) for sums in (rows, columns))]
    found = scipy.optimize.milp(np.repeat([0, 0, 1], size), constraints=constraints,
                                integrality=np.repeat([1, 1, 0], size),
                                bounds=scipy.optimize.Bounds(0, np.repeat([1, 1, np.inf], size)))
    assert found.success
    return np.rint(found.x[:size] - found.x[size:2 * size]).reshape(d, d)


def od_distances(M):
    """d_U, d_S, d_V of one matrix of full column rank, from its SVD and its polar factor (bhowal 4.4, Lemma 4)."""
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    P = nearest_signed_permutation(Vt.T)
    U, S, V = U @ P.T, P @ np.diag(s) @ P.T, Vt.T @ P.T
    polar = M @ np.linalg.inv(scipy.linalg.sqrtm(M.T @ M).real)
    norms = np.diag([math.sqrt(sum(x * x for x in column)) for column in M.T])
    return [np.sum(difference**2) for difference in (U - polar, S - norms, V - np.eye(len(V)))]


def local_decoder(decoder, mean, stddev, noise):
    """Weights on [noise, 1] of the linear and the tanh model of Dec(mu + s noise) - Dec(mu), [n, d + 1] each."""
    y = np.stack([decoder(mean + stddev * draw) - decoder(mean) for draw in noise])
    features = np.column_stack([noise, np.ones(len(noise))])
    linear, tanh = [], []
    for pixel in y.T:
        linear.append(np.linalg.lstsq(features, pixel, rcond=None)[0])
        tanh.append(scipy.optimize.least_squares(lambda w, pixel=pixel: np.tanh(features @ w) - pixel, linear[-1],
                                                 method="lm", xtol=1e-12, ftol=1e-12).x)
    return np.array(linear), np.array(tanh)


class TanhDecoder:
    """f(z) = B tanh(W z + b) in float64, with Jacobian and second derivatives written out."""

    def __init__(self, latents, size, hidden=7, seed=0):
        rng = np.random.default_rng(seed)
        self.W, self.b = rng.standard_normal((hidden, latents)), rng.standard_normal(hidden)
        self.B = rng.standard_normal((size, hidden))

    def __call__(self, z):
        return self.B @ np.tanh(self.W @ z + self.b)

    def jacobian(self, z):
        t = np.tanh(self.W @ z + self.b)
        return self.B @ ((1 - t**2)[:, np.newaxis] * self.W)

    def second(self, z):
        t = np.tanh(self.W @ z + self.b)
        return np.einsum("nh,h,hi,hj->nij", self.B, -2 * t * (1 - t**2), self.W, self.W)
