"""Measure how fast data give examples, what that costs a training, and whether it grows with their number.

    python benchmarks/data.py [--kinds=dsprites,scenes,mnist,folder,npz,records] [--batches=100] [--training]
    python benchmarks/data.py --sizes=100000,1000000 --kinds=npz,records

The kinds `folder` (10,000 PNGs of 64x64 pixels), `npz` and `records` (a builder of TensorFlow Datasets, as ArrayRecord)
are made in a temporary folder first, with so many examples as --sizes says; all others are names of datasets. A line of
a Markdown table is printed for each: the seconds until the dataset is loaded and its first batch of 64 is there, the
examples per second after that in random order, and the peak memory of the process. Seconds and speeds are of the clock,
without imports. With --training, the last column is the time of a training step (conv_locatello, batch 64) over that of
a step on a batch that is in memory already. Each dataset is read in a process of its own.
"""

import argparse
import concurrent.futures
import multiprocessing
import pathlib
import resource
import tempfile
import time

import numpy as np
from PIL import Image

from vae_tf import data

BATCH = 64
OF_A_FOLDER = 10_000
SIDES = {"npz": 64, "records": 8}           # pixels of made images: npz files of this size stay on disk
STEPS = 20


def make_folder(folder, size):
    """Write PNGs of scenes, and return the folder's path."""
    scenes = data.load("scenes")
    for number, index in enumerate(np.linspace(0, len(scenes) - 1, size).astype(int)):
        Image.fromarray(scenes.images_at(np.array([index]))[0]).save(folder / f"{number}.png")
    return str(folder)


def draw_noise(size, side, start=0):
    """Images of noise, which no compression makes small, uint8 [size, side, side, 1]."""
    return np.random.default_rng(start).integers(0, 256, (size, side, side, 1), np.uint8)


def make_npz(folder, size):
    """Write an .npz file of noise and two factors, a part at a time, and return its path."""
    side, path = SIDES["npz"], folder / "noise.npz"
    images = np.lib.format.open_memmap(folder / "images.npy", "w+", np.uint8, (size, side, side, 1))
    for start in range(0, size, 10_000):
        images[start:start + 10_000] = draw_noise(len(images[start:start + 10_000]), side, start)
    np.savez(path, images=images, factors=np.stack([np.arange(size) % 7, np.arange(size) % 11], -1))
    (folder / "images.npy").unlink()
    return str(path)


def make_records(folder, size):
    """Prepare a builder of noise and two factors, and return its name."""
    define_builder(size)(data_dir=folder).download_and_prepare(file_format="array_record")
    data.load("tfds:noise", data_dir=str(folder))       # keeps the factors beside the shards, as the first load does
    return "tfds:noise"


def define_builder(size):
    """Define the builder `noise`, which TensorFlow Datasets then knows by name."""
    import tensorflow_datasets as tfds

    class Noise(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            side = SIDES["records"]
            return tfds.core.DatasetInfo(builder=self, disable_shuffling=True, features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(shape=(side, side, 1)), "label_a": tfds.features.ClassLabel(num_classes=7),
                "label_b": tfds.features.ClassLabel(num_classes=11)}))

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for start in range(0, size, 10_000):
                for k, image in enumerate(draw_noise(min(10_000, size - start), SIDES["records"], start), start):
                    yield k, {"image": image, "label_a": k % 7, "label_b": k % 11}

    return Noise


MADE = {"folder": make_folder, "npz": make_npz, "records": make_records}


def measure(name, data_dir, size, batches, training):
    """Return the cells of a row but the first: examples, shape, seconds, speed, memory, and the cost of a step."""
    if name == "tfds:noise":
        define_builder(size)
    start = time.perf_counter()
    dataset = data.load(name, data_dir=data_dir)
    rng = np.random.default_rng(0)
    dataset.images_at(rng.integers(0, len(dataset), BATCH))
    first = time.perf_counter() - start
    for _ in range(batches):                    # fills what the dataset remembers, as the first steps of a training do
        dataset.images_at(rng.integers(0, len(dataset), BATCH))
    start = time.perf_counter()
    for _ in range(batches):
        dataset.images_at(rng.integers(0, len(dataset), BATCH))
    speed = batches * BATCH / (time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = [f"{len(dataset):,}", "x".join(map(str, dataset.shape)), f"{first:.1f} s", f"{speed:,.0f}",
             f"{peak:,.0f} MiB"]
    if training:
        from training import medians, ours  # the script beside this one

        fed, waiting = medians(*(ours(dataset, "conv_locatello", BATCH, STEPS, same_batch=same)
                                 for same in (False, True)))
        cells.append(f"{fed / waiting:.2f} times")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="dsprites,scenes,mnist,folder,npz,records")
    parser.add_argument("--sizes", default="100000")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--training", action="store_true")
    given = parser.parse_args()
    headings = ["dataset", "examples", "shape", "first batch", "examples per second", "peak memory",
                *["a step of training"] * given.training]
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)
    for kind in given.kinds.split(","):
        sizes = [OF_A_FOLDER] if kind == "folder" else map(int, given.sizes.split(",")) if kind in MADE else [0]
        for size in sizes:
            with tempfile.TemporaryDirectory() as made:
                folder, data_dir = pathlib.Path(made), made if kind == "records" else None
                context = multiprocessing.get_context("spawn")
                with concurrent.futures.ProcessPoolExecutor(1, context) as process:
                    name = process.submit(MADE[kind], folder, size).result() if kind in MADE else kind
                with concurrent.futures.ProcessPoolExecutor(1, context) as process:
                    cells = process.submit(measure, name, data_dir, size, given.batches, given.training).result()
            print(f"| `{kind}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
