"""What the models are trained on: `load(name)` gives a Dataset."""

from vae_tf import checks
from vae_tf.data import arrays, catalogue, dsprites, synthetic
from vae_tf.data.dataset import SPLITS, Dataset, Factor
from vae_tf.errors import InputError

DATASETS = {
    "dsprites": lambda data_dir, seed: dsprites.load(),
    "synthetic_linear": lambda data_dir, seed: synthetic.synthetic_linear(seed),
    "synthetic_linear_1_0": lambda data_dir, seed: synthetic.synthetic_linear(seed, 1.0, "synthetic_linear_1_0"),
    "synthetic_linear_1_2": lambda data_dir, seed: synthetic.synthetic_linear(seed, 1.2, "synthetic_linear_1_2"),
    "synthetic_linear_1_5": lambda data_dir, seed: synthetic.synthetic_linear(seed, 1.5, "synthetic_linear_1_5"),
    "synthetic_nonlinear": lambda data_dir, seed: synthetic.synthetic_nonlinear(seed),
    "nonstationary_sources": lambda data_dir, seed: synthetic.nonstationary_sources(seed),
    "circles": lambda data_dir, seed: synthetic.circles(),
    "linear_mixture": lambda data_dir, seed: synthetic.linear_mixture(seed),
    "linear_mixture_digits": lambda data_dir, seed: synthetic.linear_mixture(
        seed, A=catalogue.mnist_digits(data_dir).reshape(10, -1).T / 255, examples=1_000,
        name="linear_mixture_digits"),
    "translated_digit": lambda data_dir, seed: synthetic.translated_digit(catalogue.mnist_digits(data_dir)[3], seed,
                                                                              examples=1_000),
    "mnist": lambda data_dir, seed: catalogue.labelled_images("mnist", data_dir),
    "fashion_mnist": lambda data_dir, seed: catalogue.labelled_images("fashion_mnist", data_dir),
}


def load(name, *, data_dir=None, seed=0):
    """A Dataset by name.

    Args:
        name: a key of DATASETS, or the path of an .npz file.
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR or TFDS's default.
        seed: of the data that are drawn at random (synthetic_*, nonstationary_sources, linear_mixture*,
            translated_digit).

    Raises:
        InputError: one line that says what was expected.
    """
    checks.whole("seed", seed, 0)
    if str(name).endswith(".npz"):
        return arrays.from_npz(name)
    if name not in DATASETS:
        raise InputError(f"dataset: expected one of {', '.join(DATASETS)}, or the path of an .npz file; got {name!r}")
    return DATASETS[name](data_dir, seed)


__all__ = ["DATASETS", "SPLITS", "Dataset", "Factor", "load"]
