"""The VAEs of two public tutorials on MNIST, rewritten with vae_tf's parts: `python benchmarks/public_examples.py`.

    python benchmarks/public_examples.py --example=keras --epochs=30
    python benchmarks/public_examples.py --example=tfp --epochs=15

The tutorials are keras.io/examples/generative/vae and tensorflow.org/probability/examples/Probabilistic_Layers_VAE.
Networks, data, batches, optimizer and epochs are theirs. The printed losses of their own pages stand beside ours.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from vae_tf import data, distributions, models

# Nats after epochs 1, 2, ... on the tutorials' pages: the mean loss of training, and the loss of test images. An
# earlier version of keras.io's page, which ran on Keras 2, begins with 209.12, 171.74, 163.09 and ends with 146.94.
KERAS_IO = [213.84, 172.53, 165.35, 162.23, 160.27, 158.89, 157.83, 156.84, 156.05, 155.49, 154.95, 154.36, 153.87,
            153.64, 153.21, 152.93, 152.59, 152.28, 152.10, 151.86, 151.61, 151.45, 151.27, 151.14, 151.01, 150.88,
            150.72, 150.61, 150.48, 150.40]
TFP = [163.19, 143.67, 137.92, 133.27, 131.83, 127.19, 123.68, 122.51, 121.95, 120.87, 120.13, 121.36, 119.24, 118.21,
       119.48]


def make_keras_io(seed):
    """Return the model of keras.io: 3x3 convolutions, 2 latents, a Bernoulli of grey pixels."""
    keras.utils.set_random_seed(seed)
    x = h = keras.Input((28, 28, 1))
    for filters in (32, 64):
        h = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.Dense(16, "relu")(layers.Flatten()(h))
    encoder = keras.Model(x, [layers.Dense(2)(h), layers.Dense(2)(h)])
    z = keras.Input((2,))
    h = layers.Reshape((7, 7, 64))(layers.Dense(7 * 7 * 64, "relu")(z))
    for filters in (64, 32):
        h = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(h)
    decoder = keras.Model(z, layers.Conv2DTranspose(1, 3, padding="same")(h))
    return models.VAE(encoder, decoder, distributions.Likelihood("bernoulli"))


def make_tfp(seed):
    """Return the model of TFP: 5x5 convolutions, 16 latents with a full covariance, a Bernoulli of binary pixels."""
    keras.utils.set_random_seed(seed)
    d, activation = 16, "leaky_relu"
    x = keras.Input((28, 28, 1))
    h = layers.Rescaling(1.0, offset=-0.5)(x)
    for filters, strides in ((32, 1), (32, 2), (64, 1), (64, 2)):
        h = layers.Conv2D(filters, 5, strides=strides, padding="same", activation=activation)(h)
    h = layers.Flatten()(layers.Conv2D(4 * d, 7, activation=activation)(h))
    encoder = keras.Model(x, [layers.Dense(size)(h) for size in models.FullCovarianceVAE.list_heads(d)])
    z = keras.Input((d,))
    h = layers.Conv2DTranspose(64, 7, activation=activation)(layers.Reshape((1, 1, d))(z))
    for filters, strides in ((64, 1), (64, 2), (32, 1), (32, 2), (32, 1)):
        h = layers.Conv2DTranspose(filters, 5, strides=strides, padding="same", activation=activation)(h)
    decoder = keras.Model(z, layers.Conv2D(1, 5, padding="same")(h))
    return models.FullCovarianceVAE(encoder, decoder, distributions.Likelihood("bernoulli"), beta=1.0)


def draw_binary(x, batch_size):
    """Return batches of images whose pixels are drawn anew in each epoch, as 1 with the probability of their grey."""
    def draw(x):
        x = tf.cast(x, tf.float32) / 255
        return tf.cast(x > tf.random.uniform(tf.shape(x)), tf.float32)

    return tf.data.Dataset.from_tensor_slices(x).shuffle(len(x)).batch(batch_size).map(draw).prefetch(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", choices=("keras", "tfp"), default="keras")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--examples", type=int, default=70_000, help="the first so many examples alone")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    dataset = data.load("mnist")
    train, test = (dataset.split("grid", part) for part in ("train", "test"))
    x, more = (part.images_at(np.arange(min(len(part), flags.examples))) for part in (train, test))
    if flags.example == "keras":        # keras.io trains on the published training and test parts together
        model = make_keras_io(flags.seed)
        model.compile(keras.optimizers.Adam(1e-3), seed=flags.seed)
        history = model.fit(np.concatenate([x, more]), batch_size=128, epochs=flags.epochs, verbose=2).history
        ours, theirs = history["loss"], KERAS_IO
    else:
        model = make_tfp(flags.seed)
        model.compile(keras.optimizers.Adam(1e-3), seed=flags.seed)
        history = model.fit(draw_binary(x, 256), validation_data=draw_binary(more, 256), epochs=flags.epochs,
                            verbose=2).history
        ours, theirs = history["val_loss"], TFP
    print("| epoch | ours | the tutorial's page |\n|---|---|---|")
    for epoch, loss in enumerate(ours):
        print(f"| {epoch + 1} | {loss:.2f} | {f'{theirs[epoch]:.2f}' if epoch < len(theirs) else ''} |")


if __name__ == "__main__":
    main()
