"""What a dataset is trained with unless flags say otherwise, and what theory says of a choice before training.

The numbers are held to by `benchmarks/defaults.py`; docs/defaults.md has its table and the reasons at length.
"""

import math

import numpy as np

from vae_tf import models

# The likelihood variance s^2 of the vectors is such that beta s^2 stays below the eigenvalue of the data that the least
# latent encodes, for beta_vae's beta 4 as well, and otherwise large: the larger beta s^2, the faster latents turn into
# place (docs/defaults.md).
RECOMMENDED = {
    "dsprites": {"network": "conv_locatello", "latents": 10, "steps": 4_000},
    **{f"synthetic_linear{ratio}": {"network": "linear", "latents": 2, "steps": 30_000, "likelihood_variance": 0.01,
                                    "learning_rate": 3e-3} for ratio in ("", "_1_0", "_1_2", "_1_5")},
    "synthetic_nonlinear": {"network": "mlp_synthetic", "latents": 2, "steps": 20_000, "likelihood_variance": 5e-4,
                            "learning_rate": 3e-3},
    "nonstationary_sources": {"network": "mlp_tcl", "latents": 5, "steps": 12_500, "likelihood_variance": 3e-4},
    "circles": {"network": "mlp_synthetic", "latents": 2, "steps": 20_000, "likelihood_variance": 1.0,
                "learning_rate": 3e-3},
    # sikka has s^2 = 1, the variance of the noise in the data; the step counts are the paper's 1000 epochs of 1,000
    # examples.
    "linear_mixture": {"network": "linear", "latents": 2, "steps": 15_625, "likelihood_variance": 1.0},
    "linear_mixture_digits": {"network": "mlp_mixture", "latents": 10, "steps": 15_625, "likelihood_variance": 1.0},
    "translated_digit": {"network": "mlp_mixture", "latents": 2, "steps": 15_625},
    "mnist": {"network": "mlp_mnist", "latents": 6, "steps": 10_000},
    "fashion_mnist": {"network": "mlp_mnist", "latents": 6, "steps": 10_000},
}

# Of the user's own data. The convolutions take images of any size.
OWN_IMAGES = {"network": "conv_locatello", "latents": 10, "steps": 10_000}
OWN_VECTORS = {"network": "mlp_synthetic", "latents": 5, "steps": 10_000}
OWN_VARIANCE = 0.02         # of a vector's likelihood, in units of the mean variance of its entries

# Adam moves every weight by about the learning rate, so a unit that sums n inputs by up to n times that. Dense layers
# on more inputs than dSprites' 64x64 pixels get proportionally smaller steps: at 128x128x3 a rate of 1e-3 gave NaN
# within eight steps, with gradients clipped or not.
LEARNING_RATE = 1e-3
WIDEST = 64 * 64

EXAMPLES = {"images": 2_000, "vectors": 10_000}     # of which eigenvalues are taken


def suited(dataset):
    """The settings that suit a dataset, by flag: network, latents, steps, likelihood, likelihood_variance and, for
    some, learning_rate."""
    if dataset.name in RECOMMENDED:
        chosen = RECOMMENDED[dataset.name]
    elif dataset.is_image:
        chosen = OWN_IMAGES
    else:
        variance = OWN_VARIANCE * float(_some(dataset).var(0).mean())
        chosen = {**OWN_VECTORS, "likelihood_variance": float(f"{variance:.3g}") or 0.5}
    return {"likelihood": "bernoulli" if dataset.is_image else "gaussian", "likelihood_variance": 0.5, **chosen}


def learning_rate(network, shape):
    """The step size that suits a network on examples of a shape, where the dataset has none of its own."""
    wide = len(shape) == 3 and not network.startswith("conv")
    return float(f"{LEARNING_RATE * min(1, WIDEST / math.prod(shape)):.2g}") if wide else LEARNING_RATE


def eigenvalues(dataset, count):
    """The largest `count` eigenvalues of the covariance of a dataset, estimated from some examples."""
    x = _some(dataset)
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


def _some(dataset):
    """Some examples, evenly spread, as floats [N, n] in the units of the model."""
    most = EXAMPLES["images" if dataset.is_image else "vectors"]
    x = dataset.images_at(np.unique(np.linspace(0, len(dataset) - 1, most).astype(int)))
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    return x / 255 if dataset.is_image else x
