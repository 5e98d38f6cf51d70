"""The FactorVAE, which weighs a discriminator's estimate of the total correlation."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from vae_tf import arguments, distributions, networks, objectives
from vae_tf.models.declarations import Setting, Update
from vae_tf.models.registry import register
from vae_tf.models.vae import VAE
from vae_tf.options import Option
from vae_tf.tensors import widen
from vae_tf.typing import Network, Optimizer, Tensor


@register("factor_vae")
class FactorVAE(VAE):
    """objective = reconstruction + KL + gamma TC, where the discriminator D estimates TC (Kim, Mnih 2018, eq. 2).

    D tells z ~ q(z) from z' ~ prod_j q(z_j). Its logit is log q(z) - log prod_j q(z_j) once it is optimal, and so the
    mean of its logits is TC. z' are samples of a batch, of which each column is permuted on its own. Kim takes a second
    batch for z'; here z' are further samples for the same x, so that a step needs no other examples.

    Args:
        encoder, decoder, likelihood: the same as in VAE.
        discriminator: network from z [B, d] to the logit of D [B, 1].
        gamma: the weight of TC.
    """

    options = (Option("gamma", 10.0, "Weight of the discriminator's estimate of the total correlation.",
                      kind=float, low=0.0),
               Option("discriminator_units", 1000, "Units of each of the six hidden layers of the discriminator.",
                      kind=int, low=1, shapes_weights=True))

    @classmethod
    def make_arguments(cls, setting: Setting) -> dict[str, Any]:
        """Return gamma, and a discriminator of the width that was asked for."""
        units = setting.options["discriminator_units"]
        return {"discriminator": make_discriminator(setting.latents, units, setting.seed),
                "gamma": setting.options["gamma"]}

    @classmethod
    def count_further_weights(cls, latents: int, options: Mapping[str, Any]) -> dict[str, int]:
        """Return the number of weights of the discriminator."""
        units = options["discriminator_units"]
        return {"discriminator_units": (latents + 1) * units + 5 * (units + 1) * units + units + 1}

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 discriminator: keras.Model, gamma: arguments.Weight = 10.0) -> None:
        super().__init__(encoder, decoder, likelihood)
        self.discriminator = discriminator
        self.gamma = gamma

    @property
    def discriminator_units(self) -> int:
        """The number of outputs of the discriminator's first layer."""
        return self.discriminator.weights[0].shape[-1]

    @property
    def noise_size(self) -> int:
        """3 d: for z, for z', and for the orders of the columns of z'."""
        return 3 * self.latents

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return the terms of the objective, and `discriminator`, the cross-entropy that D minimises."""
        for_z, for_second, for_order = tf.split(noise, 3, axis=-1)
        posterior = self.posterior(x, u, training)
        z = distributions.reparameterise(posterior, for_z)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl(posterior, self.prior(u))
        total_correlation = widen(self.discriminator(z, training=training)[:, 0])
        second = objectives.permute_columns(distributions.reparameterise(posterior, for_second), for_order)
        discriminator = functools.partial(self.discriminator, training=training)
        beta = self.beta if beta is None else beta
        return {"loss": reconstruction + beta * kl + self.gamma * total_correlation, "reconstruction": reconstruction,
                "kl": kl, "total_correlation": total_correlation,
                "discriminator": objectives.discriminator_loss(discriminator, z, second)}

    def updates(self, optimizer: Optimizer) -> tuple[Update, ...]:
        """Return the VAE's update, of `loss`, and the discriminator's, by an Adam of its own as in Kim, Mnih 2018."""
        opponent = self.discriminator.trainable_variables
        own = [variable for variable in self.trainable_variables if all(variable is not each for each in opponent)]
        return (Update("loss", own, optimizer),
                Update("discriminator", opponent, keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)))


def make_discriminator(latents: int, units: int = 1000, seed: int = 0) -> Network:
    """Make a network from z [B, d] to a logit [B, 1]: six layers of 1,000 units in Kim, Mnih 2018, leaky relu 0.2."""
    layer = networks.make_seeded_layers(seed, first=600)
    z = h = keras.Input((latents,), name="z")
    for _ in range(6):
        h = layer(keras.layers.LeakyReLU, 0.2)(layer(keras.layers.Dense, units)(h))
    return keras.Model(z, layer(keras.layers.Dense, 1)(h), name="discriminator")
