"""Measure how fast data give examples, what that costs a training, and whether it grows with their number.

    python benchmarks/data.py --training                                        # the table of docs/data.md
    python benchmarks/data.py --kinds=npz,small_records --sizes=100000,1000000  # what grows with their number

The kinds `folder` (PNGs of 64x64 pixels), `records` (the same as ArrayRecord, by a builder of TensorFlow Datasets),
`npz` (noise of 64x64 pixels) and `small_records` (noise of 8x8) are made in a temporary folder first: 10,000 examples
of the first two, and so many as --sizes says of the others. All other kinds are names of datasets.

A line of a Markdown table is printed for each: the seconds until the dataset is loaded and its first batch of 64 is
there, the examples per second after that in random order, and the peak memory of the process. Seconds and speeds are of
the clock, without imports. With --training, two more columns tell how many examples a training of conv_locatello (of
images of other sizes than 64x64, mlp_mnist) consumes per second on a batch that is in memory, and how much longer its
step takes on these data. The two are measured in turns, and medians are compared. Each dataset is read in a process of
its own.
"""

import argparse
import concurrent.futures
import contextlib
import io
import multiprocessing
import os
import pathlib
import resource
import sys
import tempfile
import time

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")     # as train.py has it

import numpy as np
from PIL import Image

from vae_tf import data

BATCH = 64
FEW = 10_000                                # examples of a kind that is not made in several sizes
SIDES = {"npz": 64, "small_records": 8}     # pixels of the images that are made in several sizes
STEPS = 20


def write_scenes(size):
    """Yield so many scenes as the bytes of PNGs."""
    scenes = data.load("scenes")
    for index in np.linspace(0, len(scenes) - 1, size).astype(int):
        yield write_png(scenes.images_at(np.array([index]))[0])


def write_png(image):
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "png")
    return file.getvalue()


def make_folder(folder, size):
    """Write PNGs of scenes, and return the folder's path."""
    for number, content in enumerate(write_scenes(size)):
        (folder / f"{number}.png").write_bytes(content)
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
    """Prepare a builder of scenes, and return its name."""
    return prepare(folder, "scene_records", size)


def make_small_records(folder, size):
    """Prepare a builder of noise, and return its name."""
    return prepare(folder, "noise_records", size)


def prepare(folder, name, size):
    with contextlib.redirect_stdout(sys.stderr):
        define_builders(size)[name](data_dir=folder).download_and_prepare(file_format="array_record")
    data.load(f"tfds:{name}", data_dir=str(folder))     # keeps the factors beside the shards, as the first load does
    return f"tfds:{name}"


def define_builders(size):
    """Define builders of scenes and of noise with two factors, which TensorFlow Datasets then knows by name."""
    import tensorflow_datasets as tfds

    class SceneRecords(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        SHAPE = (64, 64, 3)

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, disable_shuffling=True, features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(shape=self.SHAPE), "label_a": tfds.features.ClassLabel(num_classes=7),
                "label_b": tfds.features.ClassLabel(num_classes=11)}))

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for k, content in enumerate(self.write_images()):
                yield k, {"image": io.BytesIO(content), "label_a": k % 7, "label_b": k % 11}

        def write_images(self):
            return write_scenes(size)

    class NoiseRecords(SceneRecords):
        SHAPE = (SIDES["small_records"], SIDES["small_records"], 1)

        def write_images(self):
            for start in range(0, size, 10_000):
                yield from map(write_png, draw_noise(min(10_000, size - start), self.SHAPE[0], start))

    return {"scene_records": SceneRecords, "noise_records": NoiseRecords}


MADE = {"folder": make_folder, "npz": make_npz, "records": make_records, "small_records": make_small_records}


def measure(name, data_dir, size, batches, training):
    """Return the cells of a row but the first: examples, shape, seconds, speed, memory, and what training is like."""
    if name.startswith("tfds:"):
        define_builders(size)
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

        network = "conv_locatello" if dataset.shape[:2] == (64, 64) else "mlp_mnist"
        fed, waiting = medians(*(ours(dataset, network, BATCH, STEPS, same_batch=same) for same in (False, True)))
        cells += [f"{BATCH * STEPS / waiting:,.0f}", f"{100 * (fed / waiting - 1):.0f} %"]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="dsprites,scenes,mnist,folder,npz,records,small_records")
    parser.add_argument("--sizes", default="100000")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--training", action="store_true")
    given = parser.parse_args()
    headings = ["dataset", "examples", "shape", "first batch", "examples per second", "peak memory",
                *["training consumes, per second", "slows training by"] * given.training]
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)
    for kind in given.kinds.split(","):
        sizes = map(int, given.sizes.split(",")) if kind in SIDES else [FEW]
        for size in sizes:
            with tempfile.TemporaryDirectory() as made:
                folder, data_dir = pathlib.Path(made), made if "records" in kind else None
                context = multiprocessing.get_context("spawn")
                with concurrent.futures.ProcessPoolExecutor(1, context) as process:
                    name = process.submit(MADE[kind], folder, size).result() if kind in MADE else kind
                with concurrent.futures.ProcessPoolExecutor(1, context) as process:
                    cells = process.submit(measure, name, data_dir, size, given.batches, given.training).result()
            print(f"| `{kind}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
