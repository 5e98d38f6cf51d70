"""The step size that suits a network, and what theory says of a configuration before training.

What else a dataset is trained with stands where the dataset is registered (`data.register`). `benchmarks/defaults.py`
measures the result; docs/defaults.md has its table and the reasons at length.
"""

import math

import numpy as np

from vae_tf import models, networks
from vae_tf.data import evenly_spread

# Adam moves every weight by about the learning rate, so a unit that sums n inputs by up to n times that. Dense layers
# on more inputs than dSprites' 64x64 pixels get proportionally smaller steps: at 128x128x3 a rate of 1e-3 gave NaN
# within eight steps, with gradients clipped or not.
LEARNING_RATE = 1e-3
WIDEST = 64 * 64


def learning_rate(network, shape):
    """The learning rate that suits a network on examples of a shape; for datasets that have none of their own."""
    wide = len(shape) == 3 and not networks.NETWORKS[network].images_only
    return float(f"{LEARNING_RATE * min(1, WIDEST / math.prod(shape)):.2g}") if wide else LEARNING_RATE


def eigenvalues(dataset, count):
    """The largest `count` eigenvalues of the covariance of a dataset, estimated from some examples."""
    x = evenly_spread(dataset)
    x = x - x.mean(0)
    products = x.T @ x if x.shape[1] <= len(x) else x @ x.T
    return np.maximum(np.linalg.eigvalsh(products)[::-1][:count] / len(x), 0)


def predicted_collapse(config, dataset):
    """What theory says before training of latents that will be passive; "" if it says nothing.

    With a Gaussian likelihood of variance s^2 a linear model uses a direction of the data iff its eigenvalue is above
    beta s^2 (`theory.critical_betas`). With any other network the state in which z is ignored is a local optimum iff
    the largest eigenvalue is below that: near it every network acts as a linear one. (What weighs
    the KL instead of beta in some models they declare, see `models.LinearTheory`; of others nothing is known.)

    Args:
        config: a configuration, see cli.configuration.
        dataset: the training data.
    """
    kind = models.find(config["model"])
    beta, variance = kind.weight_of_kl(config["beta"]), config["likelihood_variance"]
    if beta is None or config["likelihood"] != "gaussian":
        return ""
    latents = config["latents"]
    spread = eigenvalues(dataset, latents)
    level = beta * variance
    active, possible = int(np.sum(spread > level)), int(np.sum(spread > 1e-6 * spread[0]))
    if not beta or active == latents:
        return ""
    at = f"at {'' if kind.default_beta is None else f'beta {beta:g} and '}--likelihood_variance {variance:g}"
    if config["network"] != "linear":
        if active:
            return ""
        return (f"posterior collapse is likely {at}: beta times the variance, {level:.3g}, is above the largest "
                f"eigenvalue of the data's covariance, {spread[0]:.3g}, so that ignoring every latent is a local "
                f"optimum. {_remedy(kind, beta, variance, spread[0])} would leave that state")
    said = (f"{active} of {latents} latents will be active {at}" if active else
            f"all {latents} latents will be passive (KL 0: the model will learn nothing but the mean) {at}")
    reason = (f": a linear model uses a direction of the data if its variance is above beta times the likelihood's, "
              f"{level:.3g}; the data have {', '.join(f'{value:.3g}' for value in spread[:6])}"
              f"{', ...' if len(spread) > 6 else ''}")
    if possible <= active:
        return f"{said}{reason}: they vary in no more directions"
    return f"{said}{reason}. {_remedy(kind, beta, variance, spread[possible - 1])} would keep {possible} alive"


def _remedy(kind, beta, variance, eigenvalue):
    lower = f"A --likelihood_variance below {eigenvalue / beta:.3g}"
    return lower + (f", or a --beta below {eigenvalue / variance:.3g}," if kind.weighs_kl_by_beta() else "")
