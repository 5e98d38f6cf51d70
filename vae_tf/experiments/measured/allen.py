"""Allen 2024: equation (7), Theorems 3 and 4, Corollary 1.1, each measured without training a network."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from vae_tf import theory
from vae_tf.experiments.measured import curve, number
from vae_tf.typing import Floats

BETAS = 10.0 ** np.arange(-4, 0.5, 0.5)     # of equation (7)
NODES = 24                                  # of Gauss-Hermite quadrature, along each of two latents
POINTS = 6                                  # random decoders and z


class Decoder:
    """A tanh network from z [..., 2] to 8 natural parameters, with random weights; width 0 makes it an affine map."""

    def __init__(self, seed: int, width: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.first = rng.standard_normal((2, width or 8))
        self.last = rng.standard_normal((width, 8)) / np.sqrt(width) if width else None

    def __call__(self, z: Floats) -> Floats:
        return z @ self.first if self.last is None else np.tanh(z @ self.first) @ self.last

    def jacobian(self, z: Floats) -> Floats:
        """J [8, 2] at one z [2]."""
        if self.last is None:
            return self.first.T
        return self.last.T @ ((1 - np.tanh(z @ self.first) ** 2)[:, np.newaxis] * self.first.T)


def equation7(betas: Floats = BETAS, points: int = POINTS) -> dict[str, Any]:
    """The covariance that maximises the ELBO itself, not its expansion, against I + J^T A J / beta, over beta.

    For two latents the ELBO of a decoder is an integral over a plane, which quadrature gives to many digits. Its
    maximum over all covariances is found numerically, at points that the decoder reconstructs (x = E[x|z = mu]), where
    the second term of (6) vanishes. The error is the relative error of the precision in the Frobenius norm, averaged
    over the points. A Gaussian likelihood has variance 1, so that beta is its noise (Theorem 3).
    """
    kinds = {"linear_gaussian": (0, 1.0), "gaussian": (12, 1.0), "bernoulli": (12, None)}
    errors = {}
    for kind, (width, noise_variance) in kinds.items():
        decoders = [Decoder(seed, width) for seed in range(points)]
        means = np.random.default_rng(0).standard_normal((points, 2)) / 2
        errors[kind] = [np.mean([_precision_error(decoder, mean, noise_variance, beta)
                                 for decoder, mean in zip(decoders, means, strict=True)]) for beta in betas]
    numbers = {"linear_error": max(errors.pop("linear_gaussian"))}
    for kind, values in errors.items():
        numbers[f"{kind}_error_at_least_beta"] = values[0]
        numbers[f"{kind}_error_at_beta_1"] = values[list(betas).index(1)]
        numbers[f"{kind}_order"] = np.diff(np.log(values[:3])).mean() / np.diff(np.log(betas[:3])).mean()
    return {**{name: number(value) for name, value in numbers.items()},
            **{kind: curve(betas, values) for kind, values in errors.items()}}


def _precision_error(decoder: Decoder, mean: Floats, noise_variance: float | None, beta: float) -> float:
    """||Sigma^-1 - P|| / ||P||, where P is given by (7) and Sigma maximises the ELBO at a mean."""
    H = theory.gauss_newton_hessian(decoder.jacobian(mean), decoder(mean), noise_variance)
    P = theory.optimal_precision(H, beta)
    best = best_covariance(decoder, mean, noise_variance, beta, start=np.linalg.inv(P))
    return float(np.linalg.norm(np.linalg.inv(best) - P) / np.linalg.norm(P))


def best_covariance(decoder: Callable[[Floats], Floats], mean: Floats, noise_variance: float | None, beta: float,
                    start: Floats) -> Floats:
    """The covariance [2, 2] of q(z|x) = N(mean, Sigma) that maximises the ELBO, x being what the decoder expects.

    Args:
        decoder: a function from z [..., 2] to natural parameters.
        mean: the mean of q(z|x), [2].
        noise_variance: the variance of a Gaussian likelihood; None for a Bernoulli.
        beta: the weight of the KL.
        start: the covariance from which the search starts.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    x = decoder(mean) if noise_variance else 1 / (1 + np.exp(-decoder(mean)))
    scale = np.linalg.cholesky(start)           # the search is over L = scale K, K lower triangular near I

    def objective(flat: Floats) -> float:
        L = scale @ np.array([[np.exp(flat[0]), 0], [flat[1], np.exp(flat[2])]])
        likelihood = weights @ theory.log_likelihood(x, decoder(mean + grid @ L.T), noise_variance)
        return -likelihood / beta + (np.sum(L**2) / 2 - np.log(np.diag(L)).sum())

    found = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    L = scale @ np.array([[np.exp(found.x[0]), 0], [found.x[1], np.exp(found.x[2])]])
    return L @ L.T


def theorem3(betas: Sequence[float] = (0.5, 4.0, 60.0), variance: float = 0.25) -> dict[str, Any]:
    """A beta-VAE with likelihood variance s^2 against a VAE with variance beta s^2: gradients, and powers of densities.

    The gradients are those of two Keras models with the same weights, a tanh network in float32, on the same data and
    noise; the beta-VAE's are divided by beta. For each likelihood, the ratio of p(x|z)^(1/beta) to the density of the
    member with beta times the variance must not depend on the mean: `..._spread` says by how many nats its logarithm
    does. For a Bernoulli and a whole beta there is no such member: there the normaliser of p(x|z)^(1/beta) over x = 0
    and 1 depends on the mean.
    """
    numbers = {"gradient_difference": max(_gradient_difference(beta, variance) for beta in betas)}
    means = np.linspace(0.05, 0.95, 19)
    families = {"gaussian": ([[-0.7], [0.2], [1.9]], betas), "gamma": ([[0.1], [0.8], [3.0]], betas),
                "bernoulli": ([[0.0], [0.5], [1.0]], (0.5,))}
    for family, (points, of) in families.items():
        x = np.array(points)
        numbers[f"{family}_spread"] = max(
            np.ptp(_log_density(family, x, means) / beta - theory.dispersed_log_likelihood(family, x, means, beta),
                   axis=1).max() for beta in of)
    powers = {beta: np.log(means ** (1 / beta) + (1 - means) ** (1 / beta)) for beta in (2.0, 4.0)}
    numbers["bernoulli_above_1_spread"] = np.ptp(powers[4.0])
    return {**{name: number(value) for name, value in numbers.items()},
            **{f"bernoulli_beta_{beta:g}": curve(means, y) for beta, y in powers.items()}}


def _log_density(family: str, x: Floats, mean: Floats) -> Floats:
    """log p(x; mean) of a family, without terms that do not hold the mean; a Bernoulli's x may be a mean of draws."""
    if family == "bernoulli":
        return x * np.log(mean) + (1 - x) * np.log1p(-mean)
    return theory.dispersed_log_likelihood(family, x, mean)


def _gradient_difference(beta: float, variance: float) -> float:
    """Largest difference between the two models' gradients, relative to the largest entry of each weight's."""
    import tensorflow as tf

    from vae_tf import models
    scaled, _ = theory.beta_as_noise_variance(6, beta, variance)
    pair = [models.build(models.BetaVAE.key, (6,), network="mlp_synthetic", latents=3, likelihood="gaussian",
                         likelihood_variance=s2, beta=weight) for s2, weight in ((variance, beta), (scaled, 1.0))]
    x, noise = (tf.random.stateless_normal((64, size), seed=(0, size)) for size in (6, 3))
    gradients = []
    for model, weight in zip(pair, (beta, 1.0), strict=True):
        with tf.GradientTape() as tape:
            loss = model.objective(x, noise=noise)["loss"] / weight
        gradients.append([g.numpy() for g in tape.gradient(loss, model.trainable_variables)])
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(*gradients, strict=True))


def theorem4(latents: int = 4, rotations: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """The deterministic ELBO over rotations V of the Hessian's eigenvectors, against V = I, nats.

    `gain` is the ELBO at V less that at I: Theorems 4 and 5 say that it is never above 0. With the best diagonal
    posterior for each V (Theorem 5) it never is. With one fixed posterior (Theorem 4) it depends: V = I is the best if
    directions of small curvature have the large variances, and not otherwise.
    """
    rng = np.random.default_rng(seed)
    curvature = np.sort(rng.gamma(1.0, 10.0, latents))
    turned = np.linalg.qr(rng.standard_normal((rotations, latents, latents)))[0]
    matched = 1 / (1 + curvature)
    gains = {"optimal_posterior": _gain(turned, curvature), "matched_posterior": _gain(turned, curvature, matched),
             "mismatched_posterior": _gain(turned, curvature, matched[::-1])}
    angles = np.linspace(0, 90, 91)
    c, s = np.cos(np.radians(angles)), np.sin(np.radians(angles))
    plane = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    numbers = {f"{name}_largest_gain": gain.max() for name, gain in gains.items()}
    numbers |= {f"{name}_better_share": np.mean(gain > 1e-9) for name, gain in gains.items()}
    two, fixed = np.array([1.0, 9.0]), np.array([0.5, 0.1])
    return {**{name: number(value) for name, value in numbers.items()},
            **{"optimal_posterior": curve(angles, _gain(plane, two)),
                     "matched_posterior": curve(angles, _gain(plane, two, fixed)),
                     "mismatched_posterior": curve(angles, _gain(plane, two, fixed[::-1]))}}


def _gain(rotations: Floats, curvature: Floats, variances: Floats | None = None) -> Floats:
    """Deterministic ELBO at V less at I [R], for H = -V diag(curvature) V^T; the best diagonal posterior by default."""
    d = len(curvature)
    V = np.concatenate([rotations, np.eye(d)[np.newaxis]])
    H = -V @ (curvature[:, np.newaxis] * V.swapaxes(1, 2))
    if variances is None:
        variances = 1 / np.diagonal(theory.optimal_precision(H), axis1=1, axis2=2)
    Sigma = np.broadcast_to(variances, (len(V), d))[:, :, np.newaxis] * np.eye(d)
    elbo = theory.deterministic_elbo(0.0, H, np.zeros((len(V), d)), Sigma)
    return elbo[:-1] - elbo[-1]


def corollary1(sizes: Sequence[int] = (100, 1_000, 10_000, 100_000), draws: int = 8) -> dict[str, Any]:
    """How far what a linear VAE, or PPCA by EM, learns from N examples is from the components of the data.

    Data are drawn from PPCA with 3 latents in 10 dimensions, with noise of variance .1. The error is that of the
    decoder's columns against singular values times left singular vectors of the true weights. It is relative, taken
    after the best signed permutation (`theory.match_components`), and averaged over draws. The linear VAE is at its
    optimum for the sample. The singular values are distinct (2, 1, .5), or two of them are equal (1, 1, .5).
    """
    scales = {"distinct": (2.0, 1.0, 0.5), "equal": (1.0, 1.0, 0.5)}
    errors = {f"{fit}_{name}": [np.mean([_component_error(of, size, seed, fit) for seed in range(draws)])
                                for size in sizes]
              for name, of in scales.items() for fit in ("linear_vae", "ppca_by_em")}
    numbers = {f"{name}_error": values[-1] for name, values in errors.items()}
    ratio = np.log(errors["linear_vae_distinct"][0] / errors["linear_vae_distinct"][-1])
    numbers["rate"] = ratio / np.log(sizes[-1] / sizes[0])
    return {**{name: number(value) for name, value in numbers.items()},
            **{name: curve(sizes, values) for name, values in errors.items()}}


def _component_error(scales: Sequence[float], size: int, seed: int, fit: str, noise_variance: float = 0.1) -> float:
    """Relative error of the components learned from `size` examples of PPCA with these singular values."""
    rng = np.random.default_rng(seed)
    U, R = (np.linalg.qr(rng.standard_normal((n, n)))[0][:, :len(scales)] for n in (10, len(scales)))
    W = U * scales @ R
    x = rng.standard_normal((size, len(scales))) @ W.T + np.sqrt(noise_variance) * rng.standard_normal((size, 10))
    C = np.cov(x.T, bias=True)
    if fit == "linear_vae":
        learned = theory.linear_beta_vae(C, len(scales), noise_variance=noise_variance).decoder
    else:
        learned = theory.ppca_by_em(C, len(scales), seed=seed)[0].weights
    return theory.match_components(learned, U * scales)[1]
