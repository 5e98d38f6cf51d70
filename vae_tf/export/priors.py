"""The prior of an exported model, which scores compare the posterior with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import probability as tfd
from vae_tf.errors import InputError
from vae_tf.models import Autoencoder

NONE, STANDARD, NORMAL = "none", "standard", "normal"


def describe_prior(model: Autoencoder) -> str:
    """Return "standard" for N(0, I), "normal" for other independent normal latents, "none", or the class of the prior.

    A prior p(z|u) is never "standard", because it depends on u.
    """
    prior: Any = model.prior(*[tf.zeros((1, model.u_size))] if model.u_size else [])
    if prior is None:
        return NONE
    if not isinstance(prior, tfd.MultivariateNormalDiag):
        return type(prior).__name__
    standard = not model.u_size and np.all(prior.mean() == 0) and np.all(prior.stddev() == 1)
    return STANDARD if standard else NORMAL


def check_prior(card: Mapping[str, Any]) -> None:
    """Raise InputError for the card of a model whose scores would rest on a prior that it does not have."""
    prior = card.get("prior", STANDARD)
    if prior not in (NONE, STANDARD, NORMAL):
        raise InputError(f"model: scores compare the posterior with independent normal latents; the prior of "
                         f"{card['model']} is a {prior}; evaluate.py --codes scores its codes alone")
