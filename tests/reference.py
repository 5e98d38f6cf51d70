"""Slow oracles: the formulas as the papers write them, in loops, in float64."""

import itertools
import math
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse

from vae_tf.data import dsprites


def normal_log_pdf(z, mean, stddev):
    return -0.5 * math.log(2 * math.pi) - math.log(stddev) - 0.5 * ((z - mean) / stddev) ** 2


def diagonal_kl(mean, stddev):
    """rolinek (4): 1/2 sum_j (mu_j^2 + s_j^2 - log s_j^2 - 1)."""
    return sum(0.5 * (m * m + s * s - math.log(s * s) - 1) for m, s in zip(mean, stddev, strict=True))


def full_kl(mean, lower):
    """rolinek S77: 1/2 (|mu|^2 + tr Sigma - log det Sigma - d)."""
    covariance = lower @ lower.T
    return 0.5 * (mean @ mean + np.trace(covariance) - math.log(np.linalg.det(covariance)) - len(mean))


def between_diagonal_kl(mean, stddev, prior_mean, prior_stddev):
    """KL(N(m, s^2) || N(a, b^2)) summed over latents: log b/s + (s^2 + (m - a)^2) / 2 b^2 - 1/2."""
    return sum(math.log(b / s) + (s * s + (m - a) ** 2) / (2 * b * b) - 0.5
               for m, s, a, b in zip(mean, stddev, prior_mean, prior_stddev, strict=True))


def weights(estimator, batch_size, examples):
    """Importance weights [B, B] of Chen 2018: what example j counts in the estimate of q(z_i)."""
    B, N, M = batch_size, examples, batch_size - 1
    W = np.empty((B, B))
    for i, j in itertools.product(range(B), range(B)):
        if estimator == "weighted":
            W[i, j] = 1 / (N * B)
        elif i == j:
            W[i, j] = 1 / N
        elif j == (i + 1) % B:
            W[i, j] = (N - M) / (N * M)
        else:
            W[i, j] = 1 / M
    return W


def kl_decomposition(mean, stddev, z, examples, estimator):
    """Mutual information, total correlation, dimension-wise KL [B] each, prior N(0, I)."""
    B, d = z.shape
    W = weights(estimator, B, examples)
    parts = []
    for i in range(B):
        density = [[math.exp(normal_log_pdf(z[i, k], mean[j, k], stddev[j, k])) for k in range(d)] for j in range(B)]
        log_q_x = sum(math.log(density[i][k]) for k in range(d))
        log_q = math.log(sum(W[i, j] * math.prod(density[j]) for j in range(B)))
        log_prod = sum(math.log(sum(W[i, j] * density[j][k] for j in range(B))) for k in range(d))
        log_p = sum(normal_log_pdf(z[i, k], 0, 1) for k in range(d))
        parts.append((log_q_x - log_q, log_q - log_prod, log_prod - log_p))
    return np.array(parts).T


def sprite(classes):
    """One dSprites image, pixel by pixel in exact fractions: uint8 [64, 64], 0 or 1.

    Even-odd rule: a centre is inside if an odd number of edges cross its row at or left of it.
    """
    shape, scale, orientation, x, y = (np.array([c]) for c in classes)
    columns, rows = dsprites.place_vertices(dsprites.OUTLINES[int(shape[0])], scale, orientation, x, y)
    corners = [(Fraction(int(c), 256), Fraction(int(r), 256)) for c, r in zip(columns[0], rows[0], strict=True)]
    image = np.zeros((64, 64), np.uint8)
    half = Fraction(1, 2)
    for i in range(64):
        at = []
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
            if min(y0, y1) < i + half <= max(y0, y1):
                at.append(x0 + (i + half - y0) * (x1 - x0) / (y1 - y0))
        for j in range(64):
            image[i, j] = sum(crossing <= j + half for crossing in at) % 2
    return image


def mutual_information(a, b):
    """I(a; b) in nats of two integer sequences, from the definition."""
    n, total = len(a), 0.0
    for p, q in itertools.product(set(a), set(b)):
        joint = sum(x == p and y == q for x, y in zip(a, b, strict=True)) / n
        if joint:
            total += joint * math.log(joint / (sum(x == p for x in a) / n) / (sum(y == q for y in b) / n))
    return total


def mcc(codes, factors):
    """Best mean |Pearson correlation| over all one-to-one matchings, by trying every one."""
    d, K = codes.shape[1], factors.shape[1]
    r = np.array([[abs(np.corrcoef(codes[:, j], factors[:, k])[0, 1]) for k in range(K)] for j in range(d)])
    return max(np.mean([r[j, k] for k, j in enumerate(match)]) for match in itertools.permutations(range(d), K))


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


def binned(column, bins=20):
    """Equal-width bins as disentanglement_lib makes them: np.digitize on np.histogram's edges but the last."""
    return np.digitize(column, np.histogram(column, bins)[1][:-1])


def information_table(codes, factors):
    """I(z_j; v_k) [d, K] and H(v_k) [K] by `mutual_information`, codes in 20 bins."""
    table = [[mutual_information(binned(z).tolist(), v.tolist()) for v in factors.T] for z in codes.T]
    return np.array(table), np.array([mutual_information(v.tolist(), v.tolist()) for v in factors.T])


def mig(codes, factors):
    table, entropy = information_table(codes, factors)
    total = 0
    for k in range(factors.shape[1]):
        best, second = sorted(table[:, k])[::-1][:2]
        total += (best - second) / entropy[k]
    return total / factors.shape[1]


def mig_sup(codes, factors):
    table, entropy = information_table(codes, factors)
    gaps = []
    for j in range(codes.shape[1]):
        if codes[:, j].var() > 0.01:
            best, second = sorted(table[j] / entropy)[::-1][:2]
            gaps.append(best - second)
    return np.mean(gaps)


def modularity(codes, factors):
    table, _ = information_table(codes, factors)
    scores = []
    for row in table:
        best = row.argmax()
        if row[best] == 0:
            scores.append(0)
            continue
        template = [row[best] if k == best else 0 for k in range(len(row))]
        deviation = sum((i - t)**2 for i, t in zip(row, template, strict=True)) / (row[best]**2 * (len(row) - 1))
        scores.append(1 - deviation)
    return np.mean(scores)


def sap_matrix(train, train_factors, test, test_factors):
    """Accuracy of the published linear SVM, dual form, latent by latent."""
    from sklearn import svm
    table = np.zeros((train.shape[1], train_factors.shape[1]))
    for j, k in itertools.product(*map(range, table.shape)):
        learner = svm.LinearSVC(C=0.01, class_weight="balanced", dual=True, max_iter=100_000, tol=1e-8, random_state=0)
        learner.fit(train[:, [j]], train_factors[:, k])
        table[j, k] = np.mean(learner.predict(test[:, [j]]) == test_factors[:, k])
    return table


def roc_area(positive, score):
    """Share of (positive, negative) pairs in the right order, ties counting half."""
    pairs = [(p > n) + 0.5 * (p == n) for p in score[positive] for n in score[~positive]]
    return np.mean(pairs)


def explicitness(train, train_factors, test, test_factors):
    """disentanglement_lib's: codes are standardised by the training part's mean and standard deviation."""
    from sklearn.linear_model import LogisticRegression
    train, test = ((codes - train.mean(0)) / train.std(0) for codes in (train, test))
    areas = []
    for v, w in zip(train_factors.T, test_factors.T, strict=True):
        learner = LogisticRegression(max_iter=1_000).fit(train, v)
        probability = learner.predict_proba(test)
        areas.append(np.mean([roc_area(w == c, probability[:, i]) for i, c in enumerate(learner.classes_)]))
    return np.mean(areas)


def neighbour_performance(train, v_train, test, v_test, regression, k=5):
    """rolinek S70, for one latent: std - rmse, or accuracy, of the k nearest neighbours."""
    predicted = []
    for z in test:
        nearest = v_train[np.argsort(np.abs(train - z), kind="stable")[:k]]
        predicted.append(nearest.mean() if regression else np.bincount(nearest).argmax())
    if regression:
        return v_test.std() - math.sqrt(np.mean((predicted - v_test)**2))
    return np.mean(predicted == v_test)


def dci_scores(importance):
    """Disentanglement and completeness of importances [d, K], with disentanglement_lib's 1e-11."""
    def entropy(p, base):
        p = p / p.sum()
        return -sum(x * math.log(x, base) for x in p)

    d, K = importance.shape
    disentanglement = sum(row.sum() / importance.sum() * (1 - entropy(row + 1e-11, K)) for row in importance)
    completeness = sum(column.sum() / importance.sum() * (1 - entropy(column + 1e-11, d)) for column in importance.T)
    return disentanglement, completeness


def gaussian_correlations(codes):
    """Total correlation, Wasserstein correlation and its normalised form, of a Gaussian with the codes' covariance."""
    from scipy.linalg import sqrtm
    C = np.cov(codes.T)
    root = np.diag(np.sqrt(np.diag(C)))
    total = 0.5 * (np.log(np.diag(C)).sum() - np.linalg.slogdet(C)[1])
    distance = 2 * np.trace(C) - 2 * np.trace(sqrtm(root @ C @ root))
    return total, distance.real, distance.real / np.trace(C)


def beta_vae_score(codes, sizes, votes, batch_size=64):
    """Higgins 2017 as disentanglement_lib has it: codes of a complete grid, a new value of the factor for each pair."""
    from sklearn.linear_model import LogisticRegression
    rng = np.random.default_rng(0)
    features, fixed = [], []
    for _ in range(2 * votes):
        k = rng.integers(len(sizes))
        one, other = rng.integers(0, sizes, (2, batch_size, len(sizes)))
        other[:, k] = one[:, k]
        z, w = (codes[np.ravel_multi_index(rows.T, sizes)] for rows in (one, other))
        features.append(abs(z - w).mean(0))
        fixed.append(k)
    learner = LogisticRegression(max_iter=1_000).fit(features[:votes], fixed[:votes])
    return np.mean(learner.predict(features[votes:]) == fixed[votes:])


def irs(codes, factors, quantile=0.99):
    d, K = codes.shape[1], factors.shape[1]
    largest = [max(abs(z - codes[:, j].mean()) for z in codes[:, j]) for j in range(d)]
    scores = []
    for j in range(d):
        best = 0
        for k in range(K):
            deviations = []
            for value in set(factors[:, k].tolist()):
                group = codes[factors[:, k] == value, j]
                deviations.append(np.percentile([abs(z - group.mean()) for z in group], 100 * quantile))
            best = max(best, 1 - np.mean(deviations) / largest[j])
        scores.append(best)
    return sum(s * m for s, m in zip(scores, largest, strict=True)) / sum(largest)


def udr_pair(a, b, similarity="spearman", average="latents"):
    """Duan 2020, for one pair of models, all latents informative; by Lasso, b as it is predicted from a."""
    from scipy.stats import spearmanr
    if similarity == "spearman":
        R = np.array([[abs(spearmanr(x, y).statistic) for y in b.T] for x in a.T])
    else:
        R = np.abs(np.stack([lasso(a, y) for y in b.T], -1))
    of_b = [max(R[:, j])**2 / sum(R[:, j]) if sum(R[:, j]) else 0 for j in range(R.shape[1])]
    of_a = [max(R[i])**2 / sum(R[i]) if sum(R[i]) else 0 for i in range(R.shape[0])]
    return np.mean(of_a + of_b) if average == "latents" else (np.mean(of_a) + np.mean(of_b)) / 2


def lasso(X, y, alpha=0.1, sweeps=500):
    """Weights of |y - X w|^2 / 2N + alpha |w|_1 for standardised columns, one coordinate after the other."""
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    w = np.zeros(X.shape[1])
    for _ in range(sweeps):
        for j in range(len(w)):
            pull = X[:, j] @ (y - X @ w) / len(y) + w[j]
            w[j] = math.copysign(max(abs(pull) - alpha, 0), pull)
    return w


def mixture_entropy(means, stddevs):
    """H of a one-dimensional mixture of normals, by the trapezoidal rule."""
    z = np.linspace((means - 12 * stddevs).min(), (means + 12 * stddevs).max(), 200_001)
    density = sum(np.exp(-0.5 * ((z - m) / s)**2) / (s * math.sqrt(2 * math.pi)) for m, s in zip(means, stddevs,
                                                                                                strict=True))
    density /= len(means)
    return -np.trapezoid(density * np.log(np.maximum(density, 1e-300)), z)


def log_mixture(z, means, stddevs):
    """log 1/N sum_n prod_j N(z_j; mean_nj, stddev_nj^2)."""
    return math.log(sum(math.exp(sum(normal_log_pdf(*column) for column in zip(z, m, s, strict=True)))
                        for m, s in zip(means, stddevs, strict=True)) / len(means))


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


def full_gaussian_kl(mean, covariance, other_mean, other_covariance):
    """KL of two Gaussians as E_q log q / p, the expectation by the moments, densities by SciPy's log-determinants."""
    from scipy.stats import multivariate_normal
    entropy = multivariate_normal(mean, covariance).entropy()
    other = multivariate_normal(other_mean, other_covariance)
    eigenvalues, Q = np.linalg.eigh(covariance)
    # E_q of a quadratic: its value at the mean, and half its second difference along each axis of q
    at_mean = other.logpdf(mean)
    axes = [q * math.sqrt(e) for q, e in zip(Q.T, eigenvalues, strict=True)]
    second = sum(other.logpdf(mean + a) + other.logpdf(mean - a) - 2 * at_mean for a in axes)
    return -entropy - at_mean - second / 2


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


def polarised_kl(mean, stddev, prior_mean, prior_stddev, threshold):
    """rolinek (10) and (30) of a batch, in units of the prior: L_KL, L~KL, their relative distance, active latents."""
    B, d = mean.shape
    active = [j for j in range(d)
              if sum(stddev[i, j] ** 2 / prior_stddev[i, j] ** 2 for i in range(B)) / B < threshold]
    full = sum(between_diagonal_kl(*row) for row in zip(mean, stddev, prior_mean, prior_stddev, strict=True)) / B
    polarised = sum(0.5 * (((mean[i, j] - prior_mean[i, j]) / prior_stddev[i, j]) ** 2
                           - math.log((stddev[i, j] / prior_stddev[i, j]) ** 2) - 1)
                    for i in range(B) for j in active) / B
    return full, polarised, abs(full - polarised) / full, active


def regime_of_latent(mean, stddev, prior_mean, prior_stddev):
    """active, mixed or passive, counting examples [N] whose KL to the prior is below 0.01 nats."""
    passive = sum(between_diagonal_kl([m], [s], [a], [b]) < 0.01
                  for m, s, a, b in zip(mean, stddev, prior_mean, prior_stddev, strict=True))
    return "passive" if passive >= 0.95 * len(mean) else "active" if passive <= 0.05 * len(mean) else "mixed"


def ks_distance(one, other):
    """The largest difference of the empirical distribution functions, which only jump at the points themselves."""
    def share(sample, t):
        return sum(value <= t for value in sample) / len(sample)

    return max(abs(share(one, t) - share(other, t)) for t in [*one, *other])
