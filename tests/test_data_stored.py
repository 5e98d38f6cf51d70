"""Large arrays stay in their .npz file: what is read of them is what the whole file holds, within flat memory."""

import os
import subprocess
import sys

import numpy as np
import pytest
from commands import run_evaluate, run_train

from vae_tf import data
from vae_tf.data import stored
from vae_tf.errors import InputError

N = 3_000           # of which 1,000 are looked at first
RNG = np.random.default_rng(0)
KINDS = {
    "uint8 images": {"images": RNG.integers(0, 256, (N, 4, 3, 2), np.uint8)},
    "masks without channels": {"images": RNG.integers(0, 2, (N, 4, 4), np.uint8)},
    "truth values": {"images": RNG.integers(0, 2, (N, 4, 4, 1)).astype(bool)},
    "wide integers": {"images": RNG.integers(0, 256, (N, 4, 4, 1), np.int64)},
    "floats": {"images": RNG.random((N, 4, 4, 1))},
    "big-endian vectors": {"data": RNG.standard_normal((N, 5)).astype(">f8")},
}


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(stored, "LARGE", 1)


def save(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return str(folder / "mine.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_what_stays_in_the_file_is_read_as_the_whole_is(tmp_path, monkeypatch, kind):
    path = save(tmp_path, **KINDS[kind], factors=np.arange(N) % 7, factor_names=["v"])
    whole = data.load(path)
    monkeypatch.setattr(stored, "LARGE", 1)
    left = data.load(path)
    i = np.array([N - 1, 0, 17, 17, 5])
    assert (len(left), left.shape, left.factors) == (N, whole.shape, whole.factors)
    for read in ("images_at", "factors_at", "u_at"):
        one, other = getattr(whole, read)(i), getattr(left, read)(i)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(left.images_at(np.arange(N)), whole.images_at(np.arange(N)))


def test_it_is_known_by_content(tmp_path, all_are_large):
    images, v = KINDS["uint8 images"]["images"].copy(), np.arange(N) % 7
    before = data.load(save(tmp_path, images=images, factors=v)).fingerprint
    os.rename(tmp_path / "mine.npz", tmp_path / "moved.npz")
    assert data.load(str(tmp_path / "moved.npz")).fingerprint == before
    images[1, 0, 0, 0] ^= 1             # an example that is not among those that are looked at
    assert data.load(save(tmp_path, images=images, factors=v)).fingerprint != before
    images[1, 0, 0, 0] ^= 1
    assert data.load(save(tmp_path, images=images, factors=v)).fingerprint == before
    assert data.load(save(tmp_path, images=images, factors=v[::-1])).fingerprint != before


@pytest.mark.parametrize(("change", "said"), [
    (lambda x: x.astype(np.uint8) * 7, "expected images of 0 and 1 alone, .* got 7, in example 1$"),
    (lambda x: x.astype(np.int64) * 300, "got integers from 0 to 300, in example 1$"),
    (lambda x: np.where(x, np.nan, 0.5), "expected finite images, .*, in example 1$")])
def test_what_was_not_looked_at_and_is_unfit_is_one_line_with_its_number(tmp_path, all_are_large, change, said):
    odd = np.zeros((N, 2, 2, 1))
    odd[1, 1, 1] = 1
    ds = data.load(save(tmp_path, images=change(odd)))
    assert ds.images_at(np.array([0, 2, 4])).max() <= 255
    with pytest.raises(InputError, match=said) as error:
        ds.images_at(np.array([4, 1, 2]))
    assert "\n" not in str(error.value)


def test_a_number_that_was_not_looked_at_and_is_too_large_is_refused(tmp_path, all_are_large):
    odd = np.ones((N, 40), np.float32)
    odd[1, 3] = 1e20
    ds = data.load(save(tmp_path, data=odd))
    assert ds.images_at(np.array([0, 2])).shape == (2, 40)
    with pytest.raises(InputError, match=r"got at most 1\.\d+e\+20, in example 1, column 3; use other units, or"):
        ds.images_at(np.array([0, 2, 1]))


def test_a_file_that_is_cut_while_it_is_used_is_one_line(tmp_path, all_are_large):
    path = save(tmp_path, images=KINDS["uint8 images"]["images"])
    ds = data.load(path)
    os.truncate(path, 20_000)
    assert ds.images_at(np.array([0])).shape == (1, 4, 3, 2)
    with pytest.raises(InputError, match=r"mine\.npz ends before example 2,999"):
        ds.images_at(np.array([0, N - 1]))


def test_rows_are_read_where_the_system_cannot_read_at_a_position(tmp_path, monkeypatch, all_are_large):
    monkeypatch.delattr(os, "preadv", raising=False)            # as on Windows
    images = KINDS["uint8 images"]["images"]
    ds, i = data.load(save(tmp_path, images=images)), np.array([N - 1, 3])
    np.testing.assert_array_equal(ds.images_at(i), images[i])


def test_compressed_arrays_and_arrays_by_columns_are_read_whole(tmp_path, all_are_large):
    vectors = KINDS["big-endian vectors"]["data"]
    np.savez_compressed(tmp_path / "packed.npz", data=vectors)
    for path in (str(tmp_path / "packed.npz"), save(tmp_path, data=np.asfortranarray(vectors))):
        np.testing.assert_array_equal(data.load(path).images_at(np.arange(N)), vectors.astype(np.float32))


def test_a_large_file_takes_little_memory_and_time(tmp_path):
    images = np.broadcast_to(np.uint8(9), (100_000, 64, 64, 1))         # 400 MB
    path = save(tmp_path, images=images, factors=np.arange(100_000) % 3)
    program = """if True:
        import resource, sys, psutil
        import numpy as np
        from vae_tf import data
        limit = psutil.Process().memory_info().vms + 10**8
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        ds = data.load(sys.argv[1])
        print(len(ds), ds.images_at(np.arange(0, 100_000, 1_000)).sum() == 9 * 64 * 64 * 100, ds.factors[0].size)
    """
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["100000", "True", "3"]


def test_it_is_trained_on_continued_and_scored(tmp_path, monkeypatch, all_are_large):
    monkeypatch.chdir(tmp_path)
    save(tmp_path, images=KINDS["uint8 images"]["images"], factors=np.arange(N) % 7)
    argv = ("--dataset=mine.npz", "--model=vae", "--network=linear", "--latents=2", "--batch_size=4",
            "--polarised_every=0")
    for steps in (1, 2):
        run_train(*argv, f"--steps={steps}")
    run_evaluate("--metrics=active_units", "--geometry=", "--theory=", "--jobs=1", "--examples=50")
    assert (tmp_path / "exported/vae_mine/2/metrics.json").exists()
