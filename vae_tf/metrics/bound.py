"""The evidence lower bound of an exported model, term by term."""

import numpy as np

from vae_tf.errors import InputError
from vae_tf.metrics.result import Result, estimate_error

MEANING = {
    "elbo": "lower bound of log p(x), nats per example: -(reconstruction + kl), whatever beta was; higher is better",
    "reconstruction": "-log p(x|z), nats per example: how badly x comes back from z",
    "kl": "nats per example, no less than what z tells about x (beyond u, for the iVAE)",
}


def elbo_terms(terms: dict[str, np.ndarray]) -> dict[str, Result]:
    """Average the reconstruction and the KL of the objective over examples, and the ELBO that they make.

    Args:
        terms: per example [N], by name, in nats: reconstruction and, but for an autoencoder, kl. Others are left out.

    Returns:
        {name: Result}; parts: standard_error.

    Raises:
        InputError: there is a kl and no reconstruction.
    """
    if "kl" in terms and "reconstruction" not in terms:
        raise InputError(f"terms: expected a reconstruction beside kl; got {', '.join(terms)}")
    terms = {name: np.asarray(value, np.float64) for name, value in terms.items() if name in MEANING}
    if "kl" in terms:
        terms = {"elbo": -(terms["reconstruction"] + terms["kl"]), **terms}
    return {name: Result(name, float(value.mean()), {"standard_error": estimate_error(value)}, meaning)
            for name, meaning in MEANING.items() if name in terms for value in [terms[name]]}
