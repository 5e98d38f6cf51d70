"""Train your own networks with an objective of your own, save, export, score and serve them, with no card to write.

    python examples/own_networks.py
    python evaluate.py --export=exported/own_networks --quick
"""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from vae_tf import data, distributions, models, objectives


class CentredVAE(models.VAE):
    """A VAE with an objective of its own: the KL, and the squared distance of the batch's mean code from 0.

    Each argument of __init__ is kept as an attribute of its name, so that the model can be saved.
    """

    def __init__(self, encoder, decoder, likelihood, weight=1.0):
        super().__init__(encoder, decoder, likelihood)
        self.weight = weight

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        """Return the terms, each [B], in nats; `loss` is what is minimised, and all of them are metrics of `fit`."""
        posterior = self.posterior(x, u, training)
        z = distributions.reparameterise(posterior, noise)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl(posterior, self.prior(u))
        centre = tf.reduce_sum(tf.reduce_mean(posterior.mean(), 0) ** 2) + tf.zeros_like(kl)
        return {"loss": reconstruction + kl + self.weight * centre, "reconstruction": reconstruction, "kl": kl,
                "centre": centre}


def make_networks(shape, latents):
    """Return any two Keras models: x to the mean and log-variance of z, and z to the mean of x."""
    x, z = keras.Input(shape), keras.Input((latents,))
    hidden = layers.Dense(32, "gelu")(x)
    encoder = keras.Model(x, [layers.Dense(latents)(hidden), layers.Dense(latents)(hidden)])
    return encoder, keras.Model(z, layers.Dense(shape[0])(layers.Dense(32, "gelu")(z)))


def main(epochs=5, folder="exported/own_networks", examples=40_000):
    """Train for some epochs on so many examples of the training part; returns the path of the export."""
    train, validation = (data.load("synthetic_nonlinear").split("random", part) for part in ("train", "validation"))
    model = CentredVAE(*make_networks(train.shape, 2), distributions.Likelihood("gaussian", 0.02), weight=0.5)
    model.compile(keras.optimizers.Adam(3e-3))
    model.fit(train, batch_size=64, epochs=epochs, steps_per_epoch=examples // 64, validation_data=validation,
              verbose=2)
    model.save("own_networks.keras")
    loaded = keras.models.load_model("own_networks.keras")      # in another program, after the class is defined
    path = loaded.export(folder)

    # What a server does: TensorFlow alone, and neither this class nor vae_tf.
    served = tf.saved_model.load(str(path)).signatures["encode"]
    x = tf.constant(validation.images_at(np.arange(3)))
    print("codes\n", served(x=x)["mean"].numpy(), "\nnext: python evaluate.py --quick --export", path)
    return path


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
