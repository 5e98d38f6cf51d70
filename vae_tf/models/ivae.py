"""The identifiable VAE, whose prior is learned from u."""

from typing import Any

import keras
import tensorflow as tf

from vae_tf import arguments, distributions, networks
from vae_tf.models.declarations import Setting
from vae_tf.models.parts import check_prior_network
from vae_tf.models.registry import register
from vae_tf.models.vae import BetaVAE
from vae_tf.options import Option
from vae_tf.typing import Distribution, Network, Tensor


@register("ivae")
class IVAE(BetaVAE):
    """p(z|u) = N(m(u), diag s_p^2(u)), learned; the encoder sees u too (Khemakhem 2020; bonheme (5)).

    Args:
        encoder, decoder, likelihood, beta: the same as in BetaVAE.
        prior_network: takes u to the log-variances, and before them the means if these are learned, too.

    Raises:
        InputError: a prior network of other sizes.
    """

    conditional = True
    learned_prior = True
    minimises_elbo = True
    default_beta = 1.0
    options = (Option("prior_mean", "zero", "Mean of the prior p(z|u): fixed at zero, or learned from u.",
                      choices=("zero", "learned"), shapes_weights=True, in_every_configuration=True),)

    @classmethod
    def make_arguments(cls, setting: Setting) -> dict[str, Any]:
        """Return the network from u to the prior."""
        outputs = setting.latents * (2 if setting.options["prior_mean"] == "learned" else 1)
        return {"prior_network": networks.build_prior_network(setting.u_size, outputs, setting.seed)}

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 prior_network: keras.Model, beta: arguments.Weight | None = None) -> None:
        super().__init__(encoder, decoder, likelihood, beta)
        check_prior_network(prior_network, self.u_size, self.latents)
        self.prior_network = prior_network

    @property
    def prior_mean(self) -> str:
        """Whether the mean of the prior is "zero" or "learned"."""
        return "learned" if self.prior_network.output_shape[-1] > self.latents else "zero"

    def prior(self, u: Tensor = None) -> Distribution:
        """Return p(z|u), diagonal, batch shape [B]; raise InputError if there is no u."""
        outputs = self.prior_network(self.require_u(u))
        *mean, log_variance = tf.split(outputs, outputs.shape[-1] // self.latents, -1)
        return distributions.diagonal_normal(mean[0] if mean else tf.zeros_like(log_variance), log_variance)
