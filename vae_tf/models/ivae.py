"""The identifiable VAE, whose prior is learned from u."""

from typing import Any

import keras
import tensorflow as tf

from vae_tf import arguments, checks, distributions, networks
from vae_tf.errors import InputError
from vae_tf.models.declarations import Setting
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
        if isinstance(prior_network, keras.Sequential) and not prior_network.built:
            try:
                prior_network.build((None, self.u_size))
            except Exception as error:      # of layers that take no such input, which raise anything
                raise InputError(f"prior_network: expected a network from u [B, {self.u_size}]; got a keras.Sequential "
                                 f"that takes no such input ({str(error).strip().splitlines()[0]})") from None
        if not getattr(prior_network, "inputs", None):
            raise InputError(f"prior_network: expected a keras.Model whose inputs are known; got "
                             f"{checks.describe(prior_network)}; make one by u = keras.Input(({self.u_size},)); "
                             "keras.Model(u, network(u))")
        sizes = [each.shape[-1] for ends in ("inputs", "outputs") for each in getattr(prior_network, ends)]
        if sizes not in ([self.u_size, self.latents], [self.u_size, 2 * self.latents]):
            raise InputError(f"prior_network: expected a network from u [B, {self.u_size}] to {self.latents} "
                             f"log-variances, or to {self.latents} means and as many log-variances; got one whose "
                             f"inputs and outputs have the sizes {sizes}")
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
