"""The datasets: `load(name)` returns a Dataset, and `register` adds one by name."""

import os

from vae_tf import checks
from vae_tf.data import arrays, folders, hugging_face
from vae_tf.data.dataset import SPLITS, Dataset, Factor, check_split, replace
from vae_tf.data.described import describe, describe_examples, has_dark, has_dark_image
from vae_tf.data.functions import from_function
from vae_tf.data.in_memory import from_arrays
from vae_tf.data.registry import DATASETS, choose_settings, is_path, register
from vae_tf.data.spreading import sample_evenly
from vae_tf.errors import InputError

# Each of these modules registers its datasets; the order is that of --help.
from vae_tf.data import dsprites, scenes, synthetic, conformal, catalogue, builders, factor_sets  # isort: skip

DEFAULT = "dsprites"        # what train.py trains on unless --dataset says otherwise


def load(name: str, *, data_dir: str | None = None, seed: int = 0) -> Dataset:
    """Return a Dataset by name.

    Args:
        name: a key of DATASETS, or the path of an .npz file or of a folder of images, or "tfds:NAME", or
            "tfds:NAME[key,key]" to name the features that are factors.
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR or TFDS's default.
        seed: the seed for data that are drawn at random (synthetic_*, nonstationary_sources, linear_mixture*,
            conformal_mixture, translated_digit).

    Raises:
        InputError: one line that says what was expected.
    """
    seed = checks.check_whole("seed", seed, 0)
    if name in DATASETS:
        dataset = DATASETS[name].load(data_dir, seed)
        if not isinstance(dataset, Dataset):
            raise InputError(f"dataset: expected the loader of {name} to return a data.Dataset; "
                             f"got {checks.describe(dataset)}")
        return dataset if dataset.name == name else replace(dataset, name=name)
    if str(name).startswith(builders.PREFIX):
        return builders.read_dataset(name, data_dir)
    if not is_path(str(name)):
        raise InputError(f"dataset: expected one of {', '.join(DATASETS)}, or the path of an .npz file or of a folder "
                         f"of images, or {builders.PREFIX}NAME; got {name!r}")
    checks.check_path("dataset", name)
    if str(name).endswith(".npz"):
        return arrays.read_dataset(name)
    return (hugging_face if hugging_face.is_saved(str(name)) else folders).read_dataset(str(name))


def check_name(name: str) -> None:
    """Raise the InputError of `load` for a name of nothing that is there; nothing is read that is."""
    if name not in DATASETS and not name.startswith(builders.PREFIX) and not os.path.exists(name):
        load(name)


__all__ = ["DATASETS", "DEFAULT", "SPLITS", "Dataset", "Factor", "arrays", "builders", "catalogue", "check_name",
           "check_split", "choose_settings", "conformal", "describe", "describe_examples", "dsprites",
           "factor_sets", "folders", "from_arrays", "from_function", "has_dark", "has_dark_image",
           "hugging_face", "is_path", "load", "register", "sample_evenly", "scenes", "synthetic"]
