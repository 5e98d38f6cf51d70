"""The datasets: `load(name)` returns a Dataset, and `register` adds one by name."""

from vae_tf import checks
from vae_tf.data import arrays
from vae_tf.data.dataset import SPLITS, Dataset, Factor, from_arrays, sample_evenly
from vae_tf.data.described import describe, describe_examples, has_dark, has_dark_image
from vae_tf.data.registry import DATASETS, choose_settings, register
from vae_tf.errors import InputError

# Each of these modules registers its datasets; the order is that of --help.
from vae_tf.data import dsprites, scenes, synthetic, catalogue  # isort: skip

DEFAULT = "dsprites"        # what train.py trains on unless --dataset says otherwise


def load(name: str, *, data_dir: str | None = None, seed: int = 0) -> Dataset:
    """Return a Dataset by name.

    Args:
        name: a key of DATASETS, or the path of an .npz file.
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR or TFDS's default.
        seed: the seed for data that are drawn at random (synthetic_*, nonstationary_sources, linear_mixture*,
            translated_digit).

    Raises:
        InputError: one line that says what was expected.
    """
    checks.check_whole("seed", seed, 0)
    if str(name).endswith(".npz"):
        return arrays.read_dataset(name)
    if name not in DATASETS:
        raise InputError(f"dataset: expected one of {', '.join(DATASETS)}, or the path of an .npz file; got {name!r}")
    return DATASETS[name].load(data_dir, seed)


__all__ = ["DATASETS", "DEFAULT", "SPLITS", "Dataset", "Factor", "arrays", "catalogue", "choose_settings",
           "describe", "describe_examples", "dsprites", "from_arrays", "has_dark", "has_dark_image",
           "load", "register", "sample_evenly", "scenes", "synthetic"]
