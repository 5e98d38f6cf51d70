"""Choose the step size that suits a network, and predict from theory which latents of a configuration collapse.

The other settings that suit a dataset are declared where it is registered (`data.register`). `benchmarks/defaults.py`
measures the result; docs/defaults.md has its table and the reasons at length.
"""

import math
from collections.abc import Sequence

import numpy as np

from vae_tf import models, networks
from vae_tf.configuration import Configuration
from vae_tf.data import Dataset, sample_evenly
from vae_tf.typing import Floats

# Adam moves every weight by about the learning rate, so a unit that sums n inputs moves by up to n times that rate.
# Dense layers on more inputs than dSprites' 64x64 pixels get proportionally smaller steps: at 128x128x3 a rate of 1e-3
# gave NaN within eight steps, with gradients clipped or not.
LEARNING_RATE = 1e-3
WIDEST = 64 * 64


def choose_learning_rate(network: str, shape: Sequence[int]) -> float:
    """Return the learning rate that suits a network on examples of a shape, for datasets without one of their own."""
    wide = not networks.NETWORKS[network].images_only       # and so with dense layers on all entries
    return float(f"{LEARNING_RATE * min(1, WIDEST / math.prod(shape)):.2g}") if wide else LEARNING_RATE


def estimate_eigenvalues(dataset: Dataset, count: int) -> Floats:
    """Return the `count` largest eigenvalues of a dataset's covariance, estimated from some of its examples."""
    x = sample_evenly(dataset)
    x = x - x.mean(0)
    products = x.T @ x if x.shape[1] <= len(x) else x @ x.T
    return np.maximum(np.linalg.eigvalsh(products)[::-1][:count] / len(x), 0)


def predict_collapse(config: Configuration, dataset: Dataset) -> str:
    """Return what theory says before training of latents that will be passive; "" if it says nothing.

    With a Gaussian likelihood of variance s^2 a linear model uses a direction of the data iff its eigenvalue is above
    beta s^2 (`theory.critical_betas`). With any other network the state in which z is ignored is a local optimum iff
    the largest eigenvalue is below beta s^2, because near this state every network acts as a linear one. (Some models
    have another weight in place of beta, and for some nothing is known: see `models.LinearTheory`.)

    Args:
        config: the configuration of the run.
        dataset: the training data.
    """
    kind = models.find(config.model)
    beta, variance = kind.weigh_kl(config.beta), config.likelihood_variance
    if not beta or config.likelihood != "gaussian":
        return ""
    spread = estimate_eigenvalues(dataset, config.latents)
    if not networks.is_linear(config.network):
        return _describe_likely_collapse(kind, beta, variance, spread)
    return _describe_linear_collapse(kind, beta, variance, spread, config.latents)


def _describe_likely_collapse(kind: type[models.Autoencoder], beta: float, variance: float, spread: Floats) -> str:
    """Return what to say of networks that are not linear; `spread` holds the data's largest eigenvalues."""
    level = beta * variance
    if spread[0] > level:
        return ""
    if not spread[0]:
        return "posterior collapse is certain, because the data do not vary"
    return (f"posterior collapse is likely {_describe_settings(kind, beta, variance)}: beta times the variance, "
            f"{level:.3g}, is above the largest eigenvalue of the data's covariance, {spread[0]:.3g}, so that ignoring "
            f"every latent is a local optimum. {_name_remedy(kind, beta, variance, spread[0])} would leave that state")


def _describe_linear_collapse(kind: type[models.Autoencoder], beta: float, variance: float, spread: Floats,
                              latents: int) -> str:
    """Return what to say of linear networks: how many latents will be active, why, and what would keep more alive."""
    level = beta * variance
    active, possible = int(np.sum(spread > level)), int(np.sum(spread > 1e-6 * spread[0]))
    if active == latents:
        return ""
    settings = _describe_settings(kind, beta, variance)
    outcome = (f"{active} of {latents} latents will be active {settings}" if active else
               f"all {latents} latents will be passive (KL 0: the model will learn nothing but the mean) {settings}")
    reason = (f": a linear model uses a direction of the data if its variance is above beta times the likelihood's, "
              f"{level:.3g}; the data have {', '.join(f'{value:.3g}' for value in spread[:6])}"
              f"{', ...' if len(spread) > 6 else ''}")
    if possible <= active:
        return f"{outcome}{reason}: they vary in no more directions"
    return f"{outcome}{reason}. {_name_remedy(kind, beta, variance, spread[possible - 1])} would keep {possible} alive"


def _describe_settings(kind: type[models.Autoencoder], beta: float, variance: float) -> str:
    weight = "" if kind.default_beta is None else f"beta {beta:g} and "
    return f"at {weight}--likelihood_variance {variance:g}"


def _name_remedy(kind: type[models.Autoencoder], beta: float, variance: float, eigenvalue: float) -> str:
    """Return the flags that would bring beta times the variance below an eigenvalue."""
    lower = f"A --likelihood_variance below {eigenvalue / beta:.3g}"
    return lower + (f", or a --beta below {eigenvalue / variance:.3g}," if kind.weighs_kl_by_beta() else "")
