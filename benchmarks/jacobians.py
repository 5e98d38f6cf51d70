"""Measure what the geometry costs, as ratios of median times to named alternatives in the same run.

    python benchmarks/jacobians.py            (some minutes; one core or more)
    python benchmarks/jacobians.py orthogonality local_decoder memory jacobian     (or some of these)
"""

import os
import pathlib
import resource
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")     # as train.py and evaluate.py have it
ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import keras
import numpy as np
import reference
import tensorflow as tf

from vae_tf import jacobians, networks
from vae_tf.metrics import dto, local_decoder

tf.config.experimental.enable_tensor_float_32_execution(False)      # as in the programs
tf.get_logger().setLevel("ERROR")      # TensorFlow warns that each call of fit is traced
RNG = np.random.default_rng(0)
D = 10


def seconds(function, *args, repeats=5):
    """Return the median time of a call, after a first call that is not timed."""
    function(*args)
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        function(*args)
        tf.test.experimental.sync_devices()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def decoder(network, shape=(64, 64, 1)):
    keras.utils.set_random_seed(0)
    return networks.build(network, shape, D, (D, D)).decoder


def codes(rows, d=D):
    return tf.constant(RNG.standard_normal((rows, d)), tf.float32)


def jacobian(rows=64, reverse_rows=2):
    """Compare forward mode with GradientTape.batch_jacobian and against d decoder passes, d = 10, n = 4096."""
    for network in ("mlp_dsprites", "conv_locatello"):
        f = decoder(network)
        forward = tf.function(lambda z, f=f: jacobians.jacobian(f, z, mode="forward"))
        reverse = tf.function(lambda z, f=f: jacobians.jacobian(f, z, mode="reverse"))
        passed = tf.function(f)

        def passes(z, passed=passed):
            for _ in range(D):
                passed(z)

        z = codes(rows)
        one = seconds(forward, z) / rows
        print(f"{network}: forward mode {one * 1e3:.2f} ms per example (batches of {rows})")
        tape = seconds(reverse, z[:reverse_rows], repeats=3) / reverse_rows
        print(f"  batch_jacobian {tape * 1e3:.0f} ms (batches of {reverse_rows}): {tape / one:.0f} times as long")
        print(f"  forward mode takes {one / (seconds(passes, z) / rows):.2f} times as long as {D} passes of the same "
              f"batch, {one / (seconds(passed, tf.repeat(z, D, axis=0)) / rows):.2f} times one pass of a batch "
              f"{D} times as large")


def memory(rows=512):
    """Measure how far peak memory grows during `gram` on 64x64x3 images, and the size of the Jacobians not stored."""
    f = decoder("conv_bhowal", (64, 64, 3))
    gram = tf.function(lambda z: jacobians.gram(f, z))
    z = codes(rows)
    gram(z[:jacobians.CHUNK])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gram(z)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"gram of {rows} examples of 64x64x3, after {jacobians.CHUNK}: the peak grows by {grown:.0f} MB; "
          f"their Jacobians take {rows * 64 * 64 * 3 * D * 4 / 2**20:.0f} MB")


def orthogonality(examples=10_000):
    """Compare the DtO of many examples at once with rolinek's integer program (HiGHS) for one at a time."""
    for d, programs in ((10, 20), (30, 2)):
        J = RNG.standard_normal((examples, 2 * d, d))
        gram = np.swapaxes(J, 1, 2) @ J
        ours = seconds(dto, gram, repeats=3) / examples
        some = [np.linalg.svd(M)[2].T for M in J[:programs]]
        started = time.perf_counter()
        distances = [np.linalg.norm(V - reference.nearest_signed_permutation(V)) for V in some]
        theirs = (time.perf_counter() - started) / programs
        np.testing.assert_allclose(dto(gram[:programs]).parts["per_example"], distances, rtol=1e-6)
        print(f"DtO, d = {d}: {ours * examples:.2f} s for {examples:,} examples; the integer program takes "
              f"{theirs / ours:.0f} times as long ({theirs * 1e3:.1f} ms per example, over {programs})")


def local_decoders(alone=2):
    """Compare many local decoders in one program with one x at a time: by the same fit, and by Adam as in the paper."""
    for network, shape, examples in (("mlp_dsprites", (64, 64, 1), 32), ("mlp_synthetic", (6,), 512)):
        f = decoder(network, shape)
        f.set_weights([2 * w for w in f.get_weights()])
        compare_fits(network, (lambda z, f=f: tf.sigmoid(f(z))) if len(shape) == 3 else f, examples, alone)


def compare_fits(name, f, examples, alone):
    draws = local_decoder.DRAWS_PER_WEIGHT * (D + 1)
    means, stddevs = RNG.standard_normal((examples, D)), RNG.uniform(0.1, 0.5, (examples, D))
    pixels = local_decoder.fit_local_decoders(f, means[:1], stddevs[:1]).pixels
    together = seconds(lambda: local_decoder.fit_local_decoders(f, means, stddevs), repeats=3) / examples
    print(f"{name}, n = {pixels}: {together * 1e3:.1f} ms per local decoder, {examples} x in one call")
    one = seconds(lambda: local_decoder.fit_local_decoders(f, means[:1], stddevs[:1]), repeats=3)
    print(f"  one call of the same fit per x: {one / together:.1f} times as long")
    taken, reached = [], []
    for i in range(alone):
        noise = np.random.default_rng([0, i]).standard_normal((2 * draws, D), np.float32)[:draws]
        z = (means[i] + stddevs[i] * noise).astype(np.float32)
        features = tf.constant(np.pad(noise, [(0, 0), (0, 1)], constant_values=1))[tf.newaxis]
        y = tf.reshape(f(z) - f(means[i:i + 1].astype(np.float32)), [1, draws, -1])
        best = local_decoder.levenberg_marquardt(features, y, local_decoder.least_squares(features, y))
        loss = float(tf.reduce_sum((y - tf.tanh(features @ best)) ** 2))
        started = time.perf_counter()
        steps, left = adam(features[0], y[0], 1.01 * loss)
        taken.append(time.perf_counter() - started)
        reached.append(f"{steps} steps to {left / loss:.2f} times the loss")
    print(f"  Adam for one x at a time, until within 1 % of the loss or for 5,000 steps: "
          f"{statistics.median(taken) / together:.0f} times as long ({'; '.join(reached)})")


def adam(features, y, target, learning_rate=1e-3, most=5_000):
    """Fit tanh(features @ weights) for one x by Keras' Adam; return the steps taken and the loss reached."""
    layer = keras.layers.Dense(y.shape[1], activation="tanh", use_bias=False)
    layer.build(features.shape)
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((y - layer(features)) ** 2)
        optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        return loss

    steps, loss = 0, float("inf")
    while steps < most and loss > target:
        steps, loss = steps + 1, float(step())
    return steps, loss


BENCHMARKS = {"memory": memory, "jacobian": jacobian, "orthogonality": orthogonality, "local_decoder": local_decoders}

if __name__ == "__main__":
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()
