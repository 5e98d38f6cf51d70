"""Train, export and score every model on every kind of data that people bring, and print a table of the outcomes.

    python benchmarks/models_on_data.py [--models=vae,ivae] [--kinds=folder,function]

The kinds are made in a temporary folder, with 60 images of 8x8 pixels and two factors. A model is linear, has 2 latents
and trains for 2 steps of 4 examples; its SavedModel is loaded again and scored by `mig` and `mcc`. A cell has the
seconds that this took, or the error; the program ends with 1 if there is one.
"""

import argparse
import contextlib
import functools
import io
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np
from PIL import Image

from vae_tf import data
from vae_tf.data import stored

GRID = np.indices((5, 12)).reshape(2, -1).T            # the factors: where a bright square is, and how bright
FACTORS = [data.Factor("place", 5, "ordinal"), data.Factor("light", 12, "ordinal")]


def draw(indices):
    """Draw the images of some rows of GRID, uint8 [B, 8, 8, 1], with some noise of their own."""
    images = np.zeros((len(indices), 8, 8, 1), np.uint8)
    for image, index in zip(images, indices, strict=True):
        place, light = GRID[index]
        image[:] = np.random.default_rng(index).integers(0, 20, (8, 8, 1))
        image[2:6, place:place + 4] = 100 + 10 * light
    return images


IMAGES = draw(np.arange(len(GRID)))


def write_images(folder):
    folder.mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image[..., 0]).save(folder / f"{number}.png")


def make_folder(made):
    write_images(made / "folder")
    rows = [f"{k}.png,{place},{light}" for k, (place, light) in enumerate(GRID)]
    (made / "folder/metadata.csv").write_text("\n".join(["file_name,place,light", *rows]))
    return data.load(str(made / "folder"))


def make_parquet(made):
    import pyarrow as pa
    import pyarrow.parquet

    write_images(made / "parquet")
    columns = {"file_name": [f"{k}.png" for k in range(len(GRID))], "place": GRID[:, 0], "light": GRID[:, 1]}
    pa.parquet.write_table(pa.table(columns), made / "parquet/metadata.parquet")
    return data.load(str(made / "parquet"))


def make_hugging_face(made):
    import datasets

    images = [Image.fromarray(image[..., 0]) for image in IMAGES]
    columns = {"image": images, "place": GRID[:, 0].tolist(), "light": GRID[:, 1].tolist()}
    features = datasets.Features({"image": datasets.Image(), "place": datasets.Value("int64"),
                                  "light": datasets.Value("int64")})
    datasets.Dataset.from_dict(columns, features).save_to_disk(str(made / "hugging_face"))
    return data.load(str(made / "hugging_face"))


def make_stored(made):
    """Make an .npz file whose images stay in it, as those of large files do."""
    np.savez(made / "mine.npz", images=IMAGES, factors=GRID)
    stored.LARGE = 1
    return data.load(str(made / "mine.npz"))


def make_function(made):
    return data.from_function("drawn", draw, len(GRID), GRID, FACTORS, made_by=("drawn", 1))


@functools.cache
def define_builder():
    """Define a builder of the images, which TensorFlow Datasets then knows by name."""
    import tensorflow_datasets as tfds

    class Squares(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
                "image": tfds.features.Image(shape=(8, 8, 1)), "place": tfds.features.ClassLabel(num_classes=5),
                "light": tfds.features.ClassLabel(num_classes=12)}))

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for k, image in enumerate(IMAGES):
                file = io.BytesIO()
                Image.fromarray(image[..., 0]).save(file, "png")
                yield k, {"image": io.BytesIO(file.getvalue()), "place": GRID[k, 0], "light": GRID[k, 1]}

    return Squares


def prepare(made, file_format):
    """Have TensorFlow Datasets prepare the images in a format."""
    folder = made / file_format
    with contextlib.redirect_stdout(sys.stderr):
        define_builder()(data_dir=folder).download_and_prepare(file_format=file_format)
    return data.load("tfds:squares", data_dir=str(folder))


def make_incomplete(made):
    """Make a grid that lacks a corner: what is trained on and scored are the other combinations."""
    return data.from_arrays("mine", IMAGES, GRID, FACTORS).split("hold_out:place>3,light>8", "train")


def make_missing(made):
    """Make factors of which the first lacks every fifth value."""
    factors = GRID.astype(float)
    factors[::5, 0] = np.nan
    np.savez(made / "missing.npz", images=IMAGES, factors=factors)
    return data.load(str(made / "missing.npz"))


KINDS = {"folder": make_folder, "parquet": make_parquet, "hugging_face": make_hugging_face, "stored_npz": make_stored,
         "function": make_function, "tfds": lambda made: prepare(made, "tfrecord"),
         "sharded": lambda made: prepare(made, "array_record"), "incomplete_grid": make_incomplete,
         "missing_values": make_missing}


def work(name, dataset, folder):
    """Train, export, load and score a model; raises what goes wrong."""
    from vae_tf import evaluation, export, models, training

    kind = models.MODELS[name]
    model = models.build(name, dataset.shape, network="linear", latents=2, u_size=dataset.u_size * kind.conditional,
                         examples=len(dataset))
    training.fit(model, dataset, training.make_optimizer("adam", 1e-3), steps=2, batch_size=4)
    model.export(str(folder), data=dataset)
    scored = evaluation.evaluate(export.load(folder), dataset, ("mig", "mcc"), examples=60, quick=True)
    if {"mig", "mcc"} - {*scored.results}:
        raise ValueError(f"no score: {scored.skipped}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    from vae_tf import models

    names, failed = given.models.split(",") if given.models else list(models.MODELS), False
    print(f"| data | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}", flush=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        for kind in given.kinds.split(","):
            dataset, cells = KINDS[kind](pathlib.Path(folder)), []
            for name in names:
                started = time.perf_counter()
                try:
                    work(name, dataset, pathlib.Path(folder, "exported", f"{name}_{kind}"))
                    cells.append(f"{time.perf_counter() - started:.1f} s")
                except Exception as error:
                    failed = True
                    cells.append(f"{type(error).__name__}: {error}")
            print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
