"""Metrics of codes and factors, from their definitions."""

import itertools
import math

import numpy as np


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
        learner = LogisticRegression(max_iter=10_000, tol=1e-9).fit(train, v)
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
    learner = LogisticRegression(max_iter=10_000, tol=1e-9).fit(features[:votes], fixed[:votes])
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
