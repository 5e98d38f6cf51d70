"""An extension of vae_tf in one file: a dataset, a network, a model with an option of its own, and a metric.

    export PYTHONPATH=examples VAE_TF_EXTENSIONS=extension
    python train.py --dataset=bars --network=profiles --model=adversarial_vae --tc_weight=5 --steps=500
    python evaluate.py --metrics=default,latent_range

A package that others install names such a module as an entry point instead, in its pyproject.toml:

    [project.entry-points."vae_tf.extensions"]
    bars = "my_package.extension"
"""

import math

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from vae_tf import data, distributions, metrics, models, networks, objectives

SIZE = 16       # of an image


def bars(data_dir, seed):
    """Images of a horizontal and a vertical bar, at every row and column: a complete grid of two factors."""
    def factors_at(indices):
        return np.stack(np.unravel_index(indices, (SIZE, SIZE)), -1)

    def images_at(indices):
        row, column = np.asarray(factors_at(indices)).T[:, :, np.newaxis]
        images = np.zeros((len(indices), SIZE, SIZE), np.uint8)
        images[np.arange(SIZE) == row] = 255                                    # whole rows
        images.swapaxes(1, 2)[np.arange(SIZE) == column] = 255                  # whole columns
        return images[..., np.newaxis]

    indices = np.arange(SIZE**2)
    factors = [data.Factor(name, SIZE, "ordinal") for name in ("row", "column")]
    return data.from_arrays("bars", images_at(indices), factors_at(indices), factors, complete_grid=True)


# What flags leave open when this dataset is named: these, and for all else what suits any images.
data.register("bars", bars, suited={"network": "mlp_mnist", "latents": 4, "steps": 1_000})


class Profiles(networks.Maker):
    """The encoder sees the mean of each row and of each column alone; the decoder is fully connected."""

    images_only = True

    def make(self, shape, latents, heads, u_size, layer):
        """The two networks; `layer` makes layers whose initial weights depend on the seed alone."""
        x, u = keras.Input(shape, name="x"), keras.Input((u_size,), name="u") if u_size else None
        seen = [layers.Flatten()(keras.ops.mean(x, axis)) for axis in (1, 2)]
        h = layer(layers.Dense, 64, activation="tanh")(keras.ops.concatenate(seen if u is None else [*seen, u], -1))
        encoder = keras.Model(x if u is None else [x, u], [networks.add_head(layer, size, h) for size in heads])

        z = keras.Input((latents,), name="z")
        h = layer(layers.Dense, 64, activation="tanh")(z)
        pixels = networks.add_head(layer, math.prod(shape), h)
        return networks.Pair(encoder, keras.Model(z, layers.Reshape(shape, dtype="float32")(pixels)))


networks.register("profiles", Profiles())


@models.register("adversarial_vae")
class AdversarialVAE(models.VAE):
    """objective = reconstruction + KL + tc_weight TC, where a discriminator D estimates the total correlation TC.

    D tells z ~ q(z) from z whose columns are shuffled over the batch, so its logit is log q(z) - log prod_j q(z_j)
    once it is optimal (Kim, Mnih 2018, on one batch and with a smaller D).
    """

    options = (models.Option("tc_weight", 10.0, "Weight of the discriminator's estimate of the total correlation.",
                             kind=float, low=0.0),)

    @classmethod
    def make_arguments(cls, setting):
        """The discriminator, with weights that depend on the seed alone, and tc_weight."""
        layer = networks.make_seeded_layers(setting.seed, first=600)
        discriminator = keras.Sequential([keras.Input((setting.latents,)),
                                          layer(layers.Dense, 50, activation="leaky_relu"), layer(layers.Dense, 1)])
        return {"discriminator": discriminator, **setting.options}

    def __init__(self, encoder, decoder, likelihood, discriminator, tc_weight):
        super().__init__(encoder, decoder, likelihood)
        self.discriminator = discriminator
        self.tc_weight = tc_weight

    @property
    def noise_size(self):
        """The first d numbers make z, the other d shuffle its columns."""
        return 2 * self.latents

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        """The terms of the objective, and `discriminator`, the cross-entropy that D minimises; each [B], in nats."""
        for_z, for_order = tf.split(noise, 2, axis=-1)
        posterior = self.posterior(x, u, training)
        z = distributions.reparameterise(posterior, for_z)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl(posterior, self.prior(u))
        total_correlation = self.discriminator(z)[:, 0]

        order = tf.argsort(for_order, axis=0)
        shuffled = tf.stack([tf.gather(z[:, j], order[:, j]) for j in range(self.latents)], -1)
        joint, product = (self.discriminator(tf.stop_gradient(each))[:, 0] for each in (z, shuffled))
        return {"loss": reconstruction + kl + self.tc_weight * total_correlation, "reconstruction": reconstruction,
                "kl": kl, "total_correlation": total_correlation,
                "discriminator": tf.nn.softplus(-joint) + tf.nn.softplus(product)}

    def updates(self, optimizer):
        """The VAE minimises `loss` by the optimizer of the flags, D minimises `discriminator` by one of its own."""
        opponent = self.discriminator.trainable_variables
        own = [variable for variable in self.trainable_variables if all(variable is not each for each in opponent)]
        return (models.Update("loss", own, optimizer),
                models.Update("discriminator", opponent, keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)))


@metrics.register(needs=("codes",), extremes=True, range=(0, np.inf),
                  unchanged_by=("permutation", "sign", "relabelling"),
                  meaning="mean distance between the largest and the smallest value of a latent")
def latent_range(codes):
    """The mean over latents of the distance between the largest and the smallest value.

    Args:
        codes: [N, d].

    Returns:
        Result in [0, inf); parts: per_latent [d].

    Raises:
        InputError: codes that are not finite numbers [N, d].
    """
    codes, _ = metrics.check_arrays(codes)
    per_latent = np.ptp(codes, axis=0)
    return metrics.Result("latent_range", float(per_latent.mean()), {"per_latent": per_latent},
                          "units of z; 0: the codes are all the same")
