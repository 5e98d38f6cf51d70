"""Measure how fast datasets give examples: in batches of 64, in random order, as training asks for them.

    python benchmarks/data.py [--datasets=dsprites,scenes,mine.npz,...] [--batches=100]

It prints a line of a Markdown table per dataset: the seconds until the dataset is loaded and its first batch is there,
the examples per second after that, and the peak memory. The seconds are those of one core (of the process, without
TensorFlow's import). Each dataset is read in a process of its own.
"""

import argparse
import concurrent.futures
import multiprocessing
import resource
import time

import numpy as np

from vae_tf import data

BATCH = 64


def measure(name, batches):
    """Return seconds to the first batch, examples per second after a warm-up, and the peak of memory in MiB."""
    start = time.process_time()
    dataset = data.load(name)
    rng = np.random.default_rng(0)
    dataset.images_at(rng.integers(0, len(dataset), BATCH))
    first = time.process_time() - start
    for _ in range(batches):                    # fills what the dataset remembers, as the first steps of a training do
        dataset.images_at(rng.integers(0, len(dataset), BATCH))
    start = time.process_time()
    for _ in range(batches):
        dataset.images_at(rng.integers(0, len(dataset), BATCH))
    speed = batches * BATCH / (time.process_time() - start)
    return len(dataset), dataset.shape, first, speed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="dsprites,scenes,mnist")
    parser.add_argument("--batches", type=int, default=100)
    given = parser.parse_args()
    print("| dataset | examples | shape | first batch | examples per second | peak memory |")
    print("|---|---|---|---|---|---|")
    for name in given.datasets.split(","):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            examples, shape, first, speed, memory = process.submit(measure, name, given.batches).result()
        print(f"| `{name}` | {examples:,} | {'x'.join(map(str, shape))} | {first:.1f} s | {speed:,.0f} | "
              f"{memory:,.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
