"""Measure what share of the machine's rates each kernel of a training step reaches.

    python benchmarks/roofline.py [--batch_size=64] [--repeats=9]          (two minutes on an idle machine)

It first measures the machine: how fast it multiplies large matrices, in float32 and in bfloat16, and how fast it adds
arrays that no cache holds. A kernel cannot end before its arithmetic is done at the first rate, nor before its
smallest possible traffic with memory is done at the second: the later of the two is its bound. The table has the time
of each kernel, its bound, and the bound as a share of the time; "limited by" says which of the two it is. Traffic that
a cache holds is faster than memory, so that a share can be above 100 %. All times are medians.
"""

import argparse
import functools
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")     # as train.py and evaluate.py have it
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import keras
import numpy as np
import tensorflow as tf

from vae_tf import adam, biases, networks, upsampling, wide

LARGE = 2048                # rows and columns of the matrices whose product measures the machine
MEMORY = 2**26              # numbers in each of the two arrays whose sum measures memory: 256 MiB
LATENTS = 10


def take(function, repeats):
    """Return the median seconds of a call, after one that is not timed."""
    function()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        tf.test.experimental.sync_devices()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def measure_machine(repeats):
    """Return the multiply-adds per second of large products, by dtype, and the bytes per second of a copy."""
    rates = {}
    for dtype in ("float32", "bfloat16"):
        a = tf.cast(tf.random.normal((LARGE, LARGE)), dtype)
        product = tf.function(lambda a=a: tf.matmul(a, a))
        rates[dtype] = LARGE**3 / take(product, repeats)
    ones, sums = tf.ones(MEMORY), tf.Variable(tf.zeros(MEMORY))
    add = tf.function(lambda: sums.assign_add(ones))        # reads two arrays and writes one
    return rates, 3 * count_bytes((MEMORY,)) / take(add, repeats)


def count_bytes(*shapes):
    """Return the bytes of float32 arrays."""
    return sum(4 * int(np.prod(shape)) for shape in shapes)


def list_products(network, batch_size):
    """Yield (name, function, multiply-adds, bytes) of the forward and backward products of each large layer."""
    pair = networks.build(network, (64, 64, 1), LATENTS, (LATENTS, LATENTS))
    for net in pair:
        for layer in net.layers:
            kinds = keras.layers.Dense, keras.layers.Conv2D, keras.layers.Conv2DTranspose
            if isinstance(layer, kinds) and LATENTS not in (layer.input.shape[-1], layer.output.shape[-1]):
                yield from _list_passes(f"{net.name}, {layer.name.rstrip('_0123456789')}", layer, batch_size)


def _list_passes(name, layer, batch_size):
    x = tf.random.normal((batch_size, *layer.input.shape[1:]))
    gradient = tf.random.normal((batch_size, *layer.output.shape[1:]))
    shapes = x.shape, layer.kernel.shape, gradient.shape
    # In every output (of a transposed convolution: input) each kernel's weight is used once.
    places = layer.input if isinstance(layer, keras.layers.Conv2DTranspose) else layer.output
    work = batch_size * int(np.prod(layer.kernel.shape)) * int(np.prod(places.shape[1:-1]))

    def forward(x, kernel):
        with keras.StatelessScope(state_mapping=[(weights, kernel)]):
            return layer(x, training=True) if ours else layer(x)

    def backward(x, kernel, gradient, of):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel)[of])
            y = forward(x, kernel)
        return tape.gradient(y, (x, kernel)[of], gradient)

    weights = layer.trainable_variables[0]
    ours = isinstance(layer, upsampling.Conv2DTranspose | wide.Dense)       # whose gradients in training are other ones
    kernel = tf.convert_to_tensor(weights)
    layer.activation = keras.activations.linear     # the gradients of linear maps need no outputs
    size = "x".join(str(n) for n in layer.kernel.shape)
    graph = tf.function(forward)
    yield f"{name} {size}: forward", lambda: graph(x, kernel), work, count_bytes(*shapes)
    images = int(np.prod(layer.input.shape[1:])) == 64 * 64
    for of, what in ((0, "gradient of inputs"), (1, "gradient of weights"))[images:]:       # images need no gradient
        graph_of = tf.function(lambda x, kernel, gradient, of=of: backward(x, kernel, gradient, of))
        yield f"{name} {size}: {what}", lambda g=graph_of: g(x, kernel, gradient), work, count_bytes(*shapes)


def list_others(batch_size):
    """Yield the same of what is limited by memory: Adam, a tanh, and the Bernoulli likelihood with its gradient."""
    variables = [keras.Variable(np.zeros(shape, np.float32)) for shape in ((4096, 1200), (1200, 1200), (1200, 4096))]
    gradients = [tf.random.normal(variable.shape) for variable in variables]
    for name, kind, compiled in (("Adam", adam.Adam, False), ("Keras' Adam", keras.optimizers.Adam, False),
                                 ("Keras' Adam, with XLA", keras.optimizers.Adam, True)):
        optimizer = kind(1e-4)
        optimizer.build(variables)
        step = tf.function(functools.partial(optimizer.apply, gradients, variables), jit_compile=compiled)
        # weights and two averages are read and written, the gradient is read
        yield f"{name}, 11 million weights", step, 0, 7 * sum(count_bytes(g.shape) for g in gradients)
    logits = tf.random.normal((batch_size, 64, 64, 32))
    for name, compiled in (("tanh", False), ("tanh, with XLA", True)):
        yield (f"{name}, {logits.shape[1:]}", tf.function(lambda: tf.tanh(logits), jit_compile=compiled), 0,
               2 * count_bytes(logits.shape))


def list_biases(batch_size):
    """Yield the same of the gradients of weights and biases of a convolution of images, of our layer and of Keras'."""
    x, gradient = (tf.random.normal((batch_size, *shape)) for shape in ((64, 64, 1), (32, 32, 32)))
    for name, kind in (("a convolution", biases.Conv2D), ("Keras' convolution", keras.layers.Conv2D)):
        layer = kind(32, 4, 2, "same")
        layer.build(x.shape)
        weights = [variable.value for variable in layer.trainable_variables]

        @tf.function
        def differentiate(layer=layer, weights=weights):
            with tf.GradientTape() as tape:
                y = layer(x)
            return tape.gradient(y, weights, gradient)

        yield (f"{name} of images, 4x4x1x32: gradients of weights and biases", differentiate,
               batch_size * 32 * 32 * 16 * 32, count_bytes(x.shape, gradient.shape))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    rates, memory = measure_machine(given.repeats)
    print(f"Products of {LARGE}x{LARGE}: " + ", ".join(f"{2e-9 * rate:.0f} Gflop/s in {dtype}" for dtype, rate
          in rates.items()) + f"; memory: {1e-9 * memory:.1f} GB/s", flush=True)
    print("\n| kernel | ms | bound, ms | share | limited by |\n|---|---|---|---|---|")
    for network in ("mlp_dsprites", "conv_locatello"):
        for row in list_products(network, given.batch_size):
            _print_row(f"`{network}` {row[0]}", *row[1:], rates["float32"], memory, given.repeats)
    for row in (*list_biases(given.batch_size), *list_others(given.batch_size)):
        _print_row(*row, rates["float32"], memory, given.repeats)


def _print_row(name, function, work, traffic, rate, memory, repeats):
    taken = take(function, repeats)
    bounds = {"arithmetic": work / rate, "memory": traffic / memory}
    limit = max(bounds, key=bounds.get)
    print(f"| {name} | {1e3 * taken:.2f} | {1e3 * bounds[limit]:.2f} | {bounds[limit] / taken:.0%} | {limit} |",
          flush=True)


if __name__ == "__main__":
    main()
