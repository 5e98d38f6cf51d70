"""Measure training throughput, as ratios of median times to named alternatives in the same run.

    pip install torch                         (optional; without it the comparison with PyTorch is left out)
    python benchmarks/training.py             (some minutes on an idle machine)
    python benchmarks/training.py networks precision xla pipeline loops replicas processes dataset_size   (some)

As in train.py, convolutional networks that train on parts of batches are measured with threads for that, other wide
networks in another process, and narrow ones in a third one, with the kernels that TensorFlow takes by itself.
"""

import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import keras
import numpy as np
import tensorflow as tf

from vae_tf import data, devices, distributions, models, networks, replicas, train_step, training
from vae_tf.console import environment
from vae_tf.data import batches

# Beside TensorFlow, importing triton crashes, and a plain loop of PyTorch does not need it.
sys.modules["triton"] = None
try:
    import torch
except ImportError:
    torch = None

# As in the programs, float32 is float32. A GPU does ten times as many steps, so that its times can be read.
tf.config.experimental.enable_tensor_float_32_execution(False)
GPU = bool(tf.config.list_physical_devices("GPU"))
IMAGES = 25_600 if GPU else 2_560
REPEATS = 5
LATENTS = 10
DTYPES = ("float32", "mixed_bfloat16")      # in PyTorch, autocast to bfloat16 stands for the second
# On a processor without instructions for bfloat16, a step of PyTorch in it takes a second.
QUICK_DTYPES = DTYPES[:1] if devices.explain_slow_precision(DTYPES[1], tf.distribute.get_strategy()) else DTYPES
KERNELS = "TF_ENABLE_ONEDNN_OPTS"
PART = "BENCHMARK_PART"         # wide, split or narrow: which networks this process measures


def cases(*rows, whole=False):
    """Return the rows whose network this process measures; whole: whether batches are not to be split."""
    kinds = {name: "narrow" if maker.narrow else "split" if maker.split and not whole else "wide"
             for name, maker in networks.NETWORKS.items()}
    return [row for row in rows if os.environ[PART] in map(kinds.get, row)]


def medians(*chunks):
    """Return the median seconds of each function; the functions take turns, so that all see the same machine."""
    for chunk in chunks:
        chunk()
    taken = [[] for _ in chunks]
    for _ in range(REPEATS):
        for times, chunk in zip(taken, chunks, strict=True):
            started = time.perf_counter()
            chunk()
            tf.test.experimental.sync_devices()
            times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in taken]


def ours(dataset, network, batch_size, steps, jit_compile=False, seeds=(0,), same_batch=False, **options):
    """Return a function that trains for some steps, input pipeline included or on one batch already in memory."""
    options = {"likelihood": "bernoulli" if dataset.is_image else "gaussian", "latents": LATENTS, **options}
    built = [models.build("vae", dataset.shape, network=network, seed=seed, **options) for seed in seeds]
    adam = training.make_optimizer("adam", 1e-4)
    program = (replicas.Single(built[0], adam, seeds[0]) if len(seeds) == 1
               else replicas.stack(built, adam, list(seeds), jit_compile))
    every = batches.make_batches(dataset, batch_size, list(seeds), 0, 10**9)
    iterator = iter(every.take(1).cache().repeat() if same_batch else every)
    train_steps, names = train_step.make_train_steps(program, iterator.element_spec, jit_compile=jit_compile)
    totals = {name: tf.zeros(len(seeds)) for name in names}
    return lambda: train_steps(iterator, tf.constant(steps, tf.int64), totals)


def pytorch(network, batch_size, steps, dtype):
    """Return a plain PyTorch loop that trains the same network on a batch already in memory, in one of DTYPES."""
    nn = torch.nn

    def stack(sizes, activation):
        return [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), activation())]

    if network == "mlp_dsprites":
        encoder = nn.Sequential(nn.Flatten(), *stack([4096, 1200, 1200], nn.ReLU), nn.Linear(1200, 2 * LATENTS))
        decoder = nn.Sequential(*stack([LATENTS, 1200, 1200, 1200], nn.Tanh), nn.Linear(1200, 4096),
                                nn.Unflatten(1, (1, 64, 64)))
    else:
        def conv(a, b):
            return [nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()]

        def deconv(a, b):
            return [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU()]

        encoder = nn.Sequential(*conv(1, 32), *conv(32, 32), *conv(32, 64), *conv(64, 64), nn.Flatten(),
                                nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * LATENTS))
        decoder = nn.Sequential(*stack([LATENTS, 256, 1024], nn.ReLU), nn.Unflatten(1, (64, 4, 4)),
                                *deconv(64, 64), *deconv(64, 32), *deconv(32, 32), nn.ConvTranspose2d(32, 1, 4, 2, 1))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False
    encoder, decoder = encoder.to(device), decoder.to(device)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-4)
    x = torch.rand(batch_size, 1, 64, 64, device=device)

    def train():
        for _ in range(steps):
            with torch.autocast(device, torch.bfloat16, enabled=dtype != "float32"):
                mean, log_variance = (part.float() for part in encoder(x).chunk(2, 1))
                logits = decoder(mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)).float()
            reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
            kl = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum()
            optimizer.zero_grad()
            ((reconstruction + kl) / batch_size).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return train


def multiplications(network):
    """Return the multiply-adds per image of a forward and a backward pass.

    They are three times those of the forward pass, but the first layer needs no gradient of its inputs, the images.
    """
    model = models.build("vae", (64, 64, 1), network=network, latents=LATENTS)
    counts = []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        if isinstance(layer, keras.layers.Dense):
            counts.append(int(np.prod(layer.kernel.shape)))
        elif isinstance(layer, keras.layers.Conv2D):
            counts.append(int(np.prod(layer.kernel.shape)) * int(np.prod(layer.output.shape[1:3])))
        elif isinstance(layer, keras.layers.Conv2DTranspose):
            counts.append(int(np.prod(layer.kernel.shape)) * int(np.prod(layer.input.shape[1:3])))
    return 3 * sum(counts) - counts[0]


def compare_networks():
    """Compare the images/s of train.py's loop, rendering included, with PyTorch on a batch already in memory.

    Both are measured in float32, and in bfloat16 where the processor has instructions for it. The ratios are of ours to
    each of PyTorch's.
    """
    compared = [network for network, in cases(("mlp_dsprites",), ("conv_locatello",))]
    if not compared:
        return
    # Each product has one thread in a process that splits batches.
    at_once = environment.count_processors() if os.environ.get("TF_NUM_INTRAOP_THREADS") == "1" else 1
    factors = [tf.random.normal((2048, 2048)) for _ in range(at_once)]
    product = tf.function(lambda: [tf.matmul(a, a) for a in factors])
    machine = at_once * 2 * 2048**3 / medians(product)[0]
    print(f"matrix products of 2048: {machine / 1e9:.0f} Gflop/s")
    dataset = data.load("dsprites")
    for network in compared:
        for batch_size in (64, 256):
            steps = IMAGES // batch_size
            chunks = {dtype: ours(dataset, network, batch_size, steps, choose_compiled(network), dtype=dtype)
                      for dtype in QUICK_DTYPES}
            if torch:
                chunks |= {f"PyTorch {torch.__version__} in {dtype}": pytorch(network, batch_size, steps, dtype)
                           for dtype in QUICK_DTYPES}
            rates = dict(zip(chunks, (steps * batch_size / taken for taken in medians(*chunks.values())), strict=True))
            share = 2 * multiplications(network) * rates["float32"] / machine
            print(f"{network} batch {batch_size}: {rates['float32']:.0f} images/s, {share:.0%} of the matrix products' "
                  "rate" + ("" if torch else "; PyTorch is not installed"))
            for dtype, other in itertools.product(QUICK_DTYPES, [name for name in rates if name not in QUICK_DTYPES]):
                print(f"  {dtype}: {rates[dtype]:.0f} images/s, {rates[dtype] / rates[other]:.2f} times {other} "
                      f"({rates[other]:.0f})", flush=True)


def precision():
    """Compare steps in bfloat16 with float32, as --jit_compile=auto compiles both."""
    dataset = data.load("dsprites")
    for network, batch_size in cases(("mlp_dsprites", 64), ("mlp_dsprites", 256), ("mlp_dsprites", 2048),
                                     ("conv_locatello", 64), ("conv_locatello", 256)):
        compiled = choose_compiled(network)
        steps = max(IMAGES // batch_size, 2)
        chunks = [ours(dataset, network, batch_size, steps, compiled, same_batch=True, dtype=dtype)
                  for dtype in DTYPES]
        if GPU:
            chunks.append(in_tf32(ours(dataset, network, batch_size, steps, compiled, same_batch=True)))
        base, half, *rounded = medians(*chunks)
        print(f"{network} batch {batch_size}: bfloat16 {base / half:.2f} times as fast as float32 "
              f"({steps * batch_size / half:.0f} and {steps * batch_size / base:.0f} images/s)" + "".join(
                  f", TF32 {base / taken:.2f} times" for taken in rounded), flush=True)


def choose_compiled(network):
    """Return whether --jit_compile=auto has XLA compile the steps of a network of images, trained by adam."""
    return GPU and networks.NETWORKS[network].wide


def in_tf32(chunk):
    """Return a function that does the same while TensorFlow may round factors of products to TF32."""
    def rounded():
        tf.config.experimental.enable_tensor_float_32_execution(True)
        chunk()
        tf.config.experimental.enable_tensor_float_32_execution(False)

    return rounded


def xla():
    """Measure what --jit_compile=auto rests on: the time of a step without XLA over that with XLA."""
    for name, network, steps in cases(("dsprites", "mlp_dsprites", 20), ("dsprites", "conv_locatello", 20),
                                      ("dsprites", "mlp_mnist", 100), ("linear_mixture_digits", "mlp_mixture", 100),
                                      ("synthetic_linear", "mlp_synthetic", 1_000),
                                      ("synthetic_linear", "linear", 1_000), ("synthetic_linear", "mlp_tcl", 1_000),
                                      whole=True):
        dataset = data.load(name)
        plain, compiled = medians(*(ours(dataset, network, 64, steps, jit) for jit in (False, True)))
        print(f"{network} batch 64 on {name}: XLA {plain / compiled:.2f} times as fast", flush=True)


def pipeline():
    """Measure what waiting for data costs: the time of a step over that of a step on a batch already in memory."""
    for name, network, jit_compile, steps in cases(("dsprites", "mlp_dsprites", True, 40),
                                                   ("dsprites", "conv_locatello", False, 40),
                                                   ("synthetic_linear", "mlp_synthetic", False, 1_000)):
        dataset = data.load(name)
        fed, waiting = medians(*(ours(dataset, network, 64, steps, jit_compile, same_batch=same)
                                 for same in (False, True)))
        print(f"{network} batch 64 on {name}: {fed / waiting:.2f} times the time of a step on one batch", flush=True)


def loops():
    """Compare the steps/s of a loop in the graph with one call per step and with keras.Model.fit."""
    for name, network, steps in cases(("synthetic_linear", "mlp_synthetic", 500), ("dsprites", "conv_locatello", 20),
                                      whole=True):
        dataset = data.load(name)
        in_graph = ours(dataset, network, 64, steps)
        one = ours(dataset, network, 64, 1)

        def by_call(one=one, steps=steps):
            for _ in range(steps):
                one()

        fits = [_keras_fit(dataset, network, steps, per_call) for per_call in (1, steps)]
        base, *others = medians(in_graph, by_call, *fits)
        names = ("one call per step", "keras fit", f"keras fit, steps_per_execution={steps}")
        print(f"{network} batch 64: {steps / base:.0f} steps/s in the graph; " + ", ".join(
            f"{taken / base:.2f} times {other}" for taken, other in zip(others, names, strict=True)), flush=True)


def _keras_fit(dataset, network, steps, steps_per_execution):
    vae = models.build("vae", dataset.shape, network=network, latents=LATENTS,
                       likelihood="bernoulli" if dataset.is_image else "gaussian")

    class Fitted(keras.Model):
        def train_step(self, batch):
            step, x = batch
            noise = distributions.draw_noise(tf.stack([0, tf.cast(step, tf.int32)]), tf.shape(x)[0], LATENTS)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(vae.objective(models.scale_to_unit_range(x), noise=noise, training=True)["loss"])
            self.optimizer.apply(tape.gradient(loss, vae.trainable_variables), vae.trainable_variables)
            return {"loss": loss}

    fitted = Fitted()
    fitted.built = True
    fitted.compile(optimizer=keras.optimizers.Adam(1e-4), steps_per_execution=steps_per_execution)
    fitted.optimizer.build(vae.trainable_variables)
    every = batches.make_batches(dataset, 64, [0], 0, 10**9)
    return lambda: fitted.fit(every, steps_per_epoch=steps, epochs=1, verbose=0)


def replicas_of(count=20, steps=320):
    """Compare replicas trained as one program with models trained one after another in one process."""
    for name, network, number, done, ways in cases(
            ("synthetic_linear", "mlp_synthetic", count, steps, (False, True)),
            ("synthetic_linear", "linear", count, steps, (False, True)),
            ("dsprites", "conv_locatello", 3, 10, (False,)), whole=True):
        dataset = data.load(name)
        programs = {(models, compiled): ours(dataset, network, 64, done, compiled, seeds=range(models))
                    for models in (1, number) for compiled in ways}
        times = dict(zip(programs, medians(*programs.values()), strict=True))
        for compiled in ways:
            one, together = times[1, compiled], times[number, compiled]
            print(f"{number} replicas of {network}{' with XLA' * compiled}: {together / one:.1f} times the time of one "
                  "run" + f", {together / times[1, False]:.1f} times that of one without XLA" * compiled
                  + f"; {number * one / together:.1f} times as fast as one after another", flush=True)


def processes(count=20, steps=2_000):
    """Compare train.py --replicas with a train.py per seed, from the command line (3 of the seeds are timed)."""
    if not cases(("mlp_synthetic",)):
        return
    with tempfile.TemporaryDirectory() as folder:
        def train(*flags):
            started = time.perf_counter()
            subprocess.run([sys.executable, "train.py", "--model=vae", "--dataset=synthetic_linear",
                            "--network=mlp_synthetic", f"--steps={steps}", f"--run_root={folder}/runs",
                            f"--export_root={folder}/exported", *flags], cwd=ROOT, check=True, capture_output=True)
            return time.perf_counter() - started

        together = train("--name=all", f"--replicas={count}")
        alone = statistics.median(train(f"--name=one{seed}", f"--seed={seed}") for seed in range(3))
    print(f"train.py --replicas={count} --steps={steps}: {together:.0f} s with {count} exports, "
          f"{count * alone / together:.1f} times {count} runs of {alone:.0f} s", flush=True)


def dataset_size():
    """Measure the time per step as the dataset grows."""
    if not cases(("mlp_synthetic",)):
        return
    chunks, sizes = [], (1_000, 100_000, 10_000_000)
    for size in sizes:
        rows = np.zeros((1_000, 3), np.float32)
        dataset = data.dataset.Dataset("zeros", size, (3,), lambda indices, rows=rows: rows[indices % 1_000])
        chunks.append(ours(dataset, "mlp_synthetic", 64, 500))
    base, *others = medians(*chunks)
    print(f"time per step, {sizes[0]:,} examples: {base / 500 * 1e3:.2f} ms; " + ", ".join(
        f"{size:,}: {taken / base:.2f} times" for size, taken in zip(sizes[1:], others, strict=True)), flush=True)


BENCHMARKS = {"networks": compare_networks, "precision": precision, "xla": xla, "pipeline": pipeline, "loops": loops,
              "replicas": replicas_of, "processes": processes, "dataset_size": dataset_size}

if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    if unknown := {*sys.argv[1:]} - {*BENCHMARKS}:
        sys.exit(f"parts: expected names of {', '.join(BENCHMARKS)}; got {', '.join(sorted(unknown))}")
    if PART in os.environ:
        BENCHMARKS[sys.argv[1]]()
    else:
        for name in sys.argv[1:] or BENCHMARKS:
            for part, chosen in (("wide", {KERNELS: "1"}), ("split", {KERNELS: "1"}), ("narrow", {})):
                given = {**os.environ, **chosen, PART: part}
                if part == "split":
                    environment.choose_threads(given)
                subprocess.run([sys.executable, __file__, name], check=True, env=given)
