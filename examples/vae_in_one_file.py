"""A variational autoencoder on dSprites in one file, made from the package's parts, without its programs.

    python examples/vae_in_one_file.py

It takes about two and a half minutes of processor time, downloads nothing, and prints the terms of the objective.
At the end it scores the codes against the factors that made the images, and says how far from orthogonal the columns
of the decoder's Jacobian are. `python train.py --model=vae` does the same with checkpoints, an export and much else.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

from vae_tf import data, distributions, jacobians, metrics, networks, objectives

LATENTS = 10
BATCH = 64

# Images x [64, 64, 1] are rendered when they are asked for; v are the five factors that made them.
dataset = data.load("dsprites")

# Networks return tensors: the encoder a mean and a log-variance [B, d] each, the decoder logits [B, 64, 64, 1].
encoder, decoder = networks.build("conv_locatello", dataset.shape, LATENTS, heads=(LATENTS, LATENTS))


def posterior(x):
    """q(z|x) = N(mean(x), diag exp(log_variance(x)))."""
    return distributions.diagonal_normal(*encoder(x))


def likelihood(z):
    """p(x|z): one Bernoulli per pixel."""
    return distributions.Likelihood("bernoulli").make_distribution(decoder(z))


prior = distributions.standard_normal(LATENTS)                                  # p(z) = N(0, I)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(x, step):
    """One step down the gradient of -ELBO = -log p(x|z) + KL(q(z|x) || p(z)), the mean over the batch, in nats."""
    weights = encoder.trainable_variables + decoder.trainable_variables
    with tf.GradientTape() as tape:
        q = posterior(x)
        z = distributions.reparameterise(q, distributions.draw_noise([0, step], BATCH, LATENTS))
        reconstruction = tf.reduce_mean(objectives.reconstruction(likelihood(z), x))
        kl = tf.reduce_mean(objectives.kl(q, prior))
        loss = reconstruction + kl
    optimizer.apply(tape.gradient(loss, weights), weights)
    return reconstruction, kl


def images(indices):
    """Images [B, 64, 64, 1] as the networks take them: floats from 0 to 1."""
    return tf.constant(dataset.images_at(indices) / np.float32(255))


def main(steps):
    random = np.random.default_rng(0)
    for step in range(1, steps + 1):
        reconstruction, kl = train_step(images(random.integers(0, len(dataset), BATCH)), tf.constant(step))
        if step % 100 == 0 or step == steps:
            print(f"step {step:>5}: reconstruction {reconstruction:7.2f}, kl {kl:5.2f} nats", flush=True)

    indices = random.integers(0, len(dataset), 2000)
    codes = np.concatenate([posterior(images(part)).mean() for part in np.array_split(indices, 20)])    # [2000, d]
    print(f"mig {metrics.METRICS['mig'](codes, dataset.factors_at(indices)).score:.3f}")
    gram = jacobians.gram(likelihood, codes[:200])                              # J^T J [200, d, d]
    print(f"distance to orthogonality {metrics.dto(gram).score:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500, help="Number of training steps.")
    main(parser.parse_args().steps)
