"""Measure how far from the fastest program that we know the training of 20 small networks is.

    python benchmarks/by_hand.py      (a minute on an idle machine)

The program by hand trains the stacked weights of `mlp_synthetic` with nothing but products, tanh and Adam, on one batch
and with the same noise at each step. XLA compiles its whole loop, or a single step, which a loop of TensorFlow calls.
`train.py` has XLA compile a loop over some steps, and draws batches and noise besides.
"""

import itertools
import os

import training as benchmark

os.environ.setdefault(benchmark.PART, "narrow")

import numpy as np
import tensorflow as tf

from vae_tf import data, networks

BATCH, LATENTS, STEPS = 64, 10, 300
RATE, MOMENTUM, SECOND, EPSILON = 1e-4, 0.9, 0.999, 1e-7


def make_by_hand(count, dataset, whole_loop):
    """Return a function that trains `count` networks by hand for STEPS steps."""
    hidden = networks.NETWORKS["mlp_synthetic"]
    size, = dataset.shape
    encoder = make_layers(count, [size, *hidden.encoder])
    heads = [make_layers(count, [hidden.encoder[-1], LATENTS])[0] for _ in range(2)]
    decoder = make_layers(count, [LATENTS, *hidden.decoder, size])
    weights = [weight for layer in (*encoder, *heads, *decoder) for weight in layer]
    averages = [[tf.Variable(tf.zeros_like(weight)) for weight in weights] for _ in range(2)]
    x = tf.reshape(tf.constant(dataset.images_at(np.arange(BATCH * count)), tf.float32), (count, BATCH, size))
    noise = tf.random.stateless_normal((count, BATCH, LATENTS), (0, 0))

    def find_loss():
        h = x
        for layer in encoder:
            h = tf.tanh(apply(layer, h))
        mean, log_variance = (apply(head, h) for head in heads)
        h = mean + tf.exp(log_variance / 2) * noise
        for layer in decoder[:-1]:
            h = tf.tanh(apply(layer, h))
        reconstruction = tf.reduce_sum((x - apply(decoder[-1], h))**2, (1, 2)) / 2
        kl = tf.reduce_sum(mean**2 + tf.exp(log_variance) - log_variance - 1, (1, 2)) / 2
        return (reconstruction + kl) / BATCH

    def train_step():
        with tf.GradientTape() as tape:
            loss = find_loss()
        for weight, first, second, gradient in zip(weights, *averages, tape.gradient(loss, weights), strict=True):
            first.assign(MOMENTUM * first + (1 - MOMENTUM) * gradient)
            second.assign(SECOND * second + (1 - SECOND) * gradient**2)
            weight.assign_sub(RATE * first / (tf.sqrt(second) + EPSILON))
        return loss

    step = train_step if whole_loop else tf.function(train_step, jit_compile=True)

    @tf.function(jit_compile=whole_loop)
    def train():
        total = tf.zeros(count)
        for _ in tf.range(STEPS):
            total += step()
        return total

    return lambda: train().numpy()


def make_layers(count, sizes):
    """Return the weights [count, a, b] and biases [count, 1, b] of layers from each size to the next."""
    return [(tf.Variable(tf.random.stateless_normal((count, a, b), (a, b)) / a**0.5),
             tf.Variable(tf.zeros((count, 1, b)))) for a, b in itertools.pairwise(sizes)]


def apply(layer, h):
    """Return what a layer makes of [count, B, a]."""
    weight, bias = layer
    return h @ weight + bias


def main():
    """Print the time of a step of each program."""
    dataset = data.load("synthetic_linear")
    alone = benchmark.ours(dataset, "mlp_synthetic", BATCH, STEPS)
    for count in (1, 20):
        ours = benchmark.ours(dataset, "mlp_synthetic", BATCH, STEPS, True, seeds=range(count))
        times = benchmark.medians(alone, ours, *(make_by_hand(count, dataset, whole) for whole in (False, True)))
        print(f"{count} mlp_synthetic: " + ", ".join(
            f"{name} {taken / STEPS * 1e3:.2f} ms a step ({taken / times[0]:.1f} times)" for name, taken in zip(
                ("one run in a graph", "train.py with XLA", "by hand, step by step", "by hand, the whole loop in XLA"),
                times, strict=True)), flush=True)


if __name__ == "__main__":
    main()
