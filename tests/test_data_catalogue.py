import numpy as np
import pytest
from cases import NEEDS_MNIST
from mixtures import check_posterior

from vae_tf import data
from vae_tf.data import catalogue


def check_what_is_known(loaded):
    """What a list of datasets says of one without loading it is so."""
    known = data.DATASETS[loaded.name].prepared
    assert (known.examples, known.shape, known.factors) == (len(loaded), loaded.shape, loaded.factor_names)


@NEEDS_MNIST
def test_digits_are_mixed_and_moved():
    train = data.load("mnist").split("grid", "train")
    mixed = data.load("linear_mixture_digits")
    A = mixed_columns(train)
    assert mixed.shape == (784,) and len(mixed.factors) == 10
    matrix = check_posterior(mixed, A)
    i = np.arange(20)
    np.testing.assert_allclose(mixed.posterior_at(i)[0], mixed.images_at(i) @ matrix.T, atol=1e-4)
    moved = data.load("translated_digit")
    check_what_is_known(mixed)
    check_what_is_known(moved)
    assert moved.shape == (64, 64, 1) and moved.u_size == 2
    whole = moved.images_at(np.arange(500)).astype(float).sum((1, 2, 3))
    ink = 255 * A[:, 3].sum()
    # Interpolation keeps the sum; rounding moves each of at most 29 x 29 pixels by a half at most.
    assert np.abs(whole - ink).max() < 29 * 29 / 2


def mixed_columns(train):
    labels = train.factors_at(np.arange(1_000))[:, 0]
    first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    return train.images_at(np.array(first)).reshape(10, 784).T / 255


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@NEEDS_MNIST
def test_mnist_through_tfds(name):
    ds = data.load(name)
    check_what_is_known(ds)
    assert len(ds) == 70_000 and ds.shape == (28, 28, 1) and ds.u_size == 10
    train, test = ds.split("grid", "train"), ds.split("grid", "test")
    assert (len(train), len(test)) == (60_000, 10_000)
    labels = test.factors_at(np.arange(10_000))
    per_class = {"mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009], "fashion_mnist": [1000] * 10}
    np.testing.assert_array_equal(np.bincount(labels[:, 0]), per_class[name])
    np.testing.assert_array_equal(test.u_at(np.arange(9)).argmax(1), labels[:9, 0])
    mean = ds.split("grid", "train").images_at(np.arange(60_000)).mean() / 255
    assert mean == pytest.approx({"mnist": 0.1307, "fashion_mnist": 0.2860}[name], abs=5e-5)   # as is widely published


@NEEDS_MNIST
def test_a_process_reads_the_files_of_a_catalogue_once(monkeypatch):
    first = data.load("mnist")
    i = np.arange(100)
    first.images_at(i)[:] = 0       # of a copy
    monkeypatch.setattr(catalogue, "read_split", None)
    again = data.load("mnist")
    assert again.fingerprint == first.fingerprint
    assert first.images_at(i).any()
    np.testing.assert_array_equal(again.images_at(i), first.images_at(i))
