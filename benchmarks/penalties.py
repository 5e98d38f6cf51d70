"""Measure what a penalty on the decoder's Jacobian costs: the time of a training step with it over that without.

    python benchmarks/penalties.py [--steps=40] [--repeats=5] [--datasets=synthetic_linear,dsprites]

It prints a line of a Markdown table per network, number of penalised examples and penalty: the median seconds of a
step, and the ratio to the step without a penalty. All steps of a network take turns, so that they see the same machine.
Every batch has 64 examples, and is in memory already.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")     # as train.py and evaluate.py have it
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import tensorflow as tf

from vae_tf import data, models, penalties, replicas, train_step, training
from vae_tf.data import batches

BATCH = 64
EXAMPLES = (16, 64)         # penalised examples of a batch
# Of each dataset, the network and the number of latents.
SETTINGS = {"synthetic_linear": ("mlp_synthetic", 2), "nonstationary_sources": ("mlp_tcl", 5),
            "dsprites": ("conv_locatello", 10)}


def make_steps(dataset, network, latents, penalty=None, examples=0):
    """Return a function of a number of steps, which trains a VAE for as many."""
    model = models.build("vae", dataset.shape, network=network, latents=latents,
                         likelihood="bernoulli" if dataset.is_image else "gaussian")
    if penalty:
        model.penalise_jacobian(penalty, 1.0, examples)
    program = replicas.Single(model, training.make_optimizer("adam", 1e-4), 0)
    iterator = iter(batches.make_batches(dataset, BATCH, [0], 0, 10**9).take(1).cache().repeat())
    train_steps, names = train_step.make_train_steps(program, iterator.element_spec, jit_compile=False)
    totals = {name: tf.zeros(1) for name in names}
    return lambda steps: train_steps(iterator, tf.constant(steps, tf.int64), totals)


def measure(programs, steps, repeats):
    """Return the median seconds of a step of each program; the programs take turns."""
    for program in programs:
        program(2)                                  # trace, and run once
    taken = [[] for _ in programs]
    for _ in range(repeats):
        for times, program in zip(taken, programs, strict=True):
            started = time.perf_counter()
            program(steps)
            times.append((time.perf_counter() - started) / steps)
    return [statistics.median(times) for times in taken]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--datasets", default=",".join(SETTINGS))
    given = parser.parse_args()
    print("| network | latents | penalised examples of 64 | penalty | ms a step | times the step without |")
    print("|---|---|---|---|---|---|")
    for name in given.datasets.split(","):
        dataset, (network, latents) = data.load(name), SETTINGS[name]
        cases = [("none", 0), *((penalty, examples) for examples in EXAMPLES for penalty in penalties.PENALTIES)]
        programs = [make_steps(dataset, network, latents, None if penalty == "none" else penalty, examples)
                    for penalty, examples in cases]
        seconds = measure(programs, given.steps, given.repeats)
        for (penalty, examples), taken in zip(cases, seconds, strict=True):
            print(f"| `{network}` | {latents} | {examples} | `{penalty}` | {1e3 * taken:.3g} | "
                  f"{taken / seconds[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
