"""The user's own files: what is accepted, and the one line about what is not."""

import io
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import batches, npz
from vae_tf.errors import InputError


def save(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return str(folder / "mine.npz")


def archive(folder, members, compression=zipfile.ZIP_STORED):
    """An archive of raw members, {name: bytes}."""
    with zipfile.ZipFile(folder / "mine.npz", "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return str(folder / "mine.npz")


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def header(shape, descr="<f4"):
    """An .npy header that promises anything, and 16 bytes."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n" + bytes(16)


@pytest.mark.parametrize(("members", "message"), [
    ({"data.npy": header((10**12, 3))}, r"data.npy: its header promises 12,000,000,000,000 bytes .* but it has 16"),
    ({"data.npy": header((-1, 3))}, "its header promises"),
    ({"data.npy": header((10**30, 10**30))}, "its header promises"),
    ({"data.npy": header((2, 2), "|O")}, "it holds Python objects, not numbers"),
    ({"data.npy": header((1,), [("a", "<f4")])}, "it holds records, not numbers"),
    ({"data.npy": header("x")}, "damaged or not an array"),
    ({"data.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535}, "damaged or not an array"),
    ({"data.npy": b"\x93NUMPY\x09\x00" + bytes(20)}, "damaged or not an array"),
    ({"data.npy": b"these are words"}, "damaged or not an array"),
    ({"data.npy": b""}, "damaged or not an array"),
    ({"data": b"these are words"}, "got no arrays"),
    ({"data.npy": npy(np.array([{"a": 1}, None], dtype=object))}, "it holds Python objects"),
])
def test_a_bad_member_is_one_line_without_numpys_advice(tmp_path, members, message):
    with pytest.raises(InputError, match=message) as error:
        data.load(archive(tmp_path, members))
    assert "\n" not in str(error.value) and "mine.npz" in str(error.value) and "pickle" not in str(error.value)


def test_damaged_and_encrypted_files_are_one_line(tmp_path):
    path = save(tmp_path, data=np.arange(600.0).reshape(200, 3))
    with open(path, "rb") as file:
        whole = file.read()
    directory = whole.rindex(b"PK\x01\x02")
    encrypted = bytearray(whole)
    encrypted[6] |= 1                               # the flag of the member, and of its entry in the directory
    encrypted[directory + 8] |= 1
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    method = bytearray(whole)
    method[8] = method[directory + 10] = 99
    for content, message in [(encrypted, "data.npy: it is encrypted"), (flipped, "data.npy: Bad CRC-32"),
                             (method, "damaged or not an array: NotImplementedError"), (whole[:-30], "not a zip file"),
                             (b"", "not a zip file"), (npy(np.ones(3)), "not a zip file")]:
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(InputError, match=message) as error:
            data.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="Is a directory"):
        npz.read("dataset", tmp_path)
    packed = archive(tmp_path, {"data.npy": npy(np.arange(3_000.0).reshape(-1, 3))}, zipfile.ZIP_DEFLATED)
    with open(packed, "r+b") as file:
        file.seek(2_000)
        file.write(bytes(64))
    with pytest.raises(InputError, match=r"damaged or not an array: error|CRC"):
        data.load(packed)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_read(tmp_path):
    # 400 MB of zeros in 2 MB; a process that may take 200 MB more than it has reads their header alone.
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file, \
            file.open("data.npy", "w") as member:
        member.write(header((100_000_000, 1))[:-16])
        for _ in range(40):
            member.write(bytes(10**7))
    program = """if True:
        import resource, tracemalloc, psutil
        from vae_tf import data
        limit = psutil.Process().memory_info().vms + 2 * 10**8
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        tracemalloc.start()
        try:
            data.load("bomb.npz")
        except ValueError as error:
            print(error)
        print(tracemalloc.get_traced_memory()[1])
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    said, peak = done.stdout.splitlines()
    assert said.startswith("dataset: bomb.npz takes 0.9 GiB of memory to read, more than the 0.2 GiB that there are")
    assert int(peak) < 50e6
    assert (tmp_path / "bomb.npz").stat().st_size < 4e6


def test_the_memory_limit_counts_every_array(tmp_path):
    path = save(tmp_path, images=np.zeros((10, 8, 8, 1), np.uint8), factors=np.zeros((10, 2)))
    needed = 640 + 20 * (8 + 6)
    assert set(npz.read("dataset", path, memory_limit=needed)) == {"images", "factors"}
    with pytest.raises(InputError, match=r"takes 0\.0 MiB of memory to read, more than the 0\.0 MiB"):
        npz.read("dataset", path, memory_limit=needed - 1)


def test_reading_stays_within_what_was_counted(tmp_path):
    for kind in (np.uint8, np.int64, np.float16, np.float32, np.float64):
        path = save(tmp_path, images=np.ones((2_000, 32, 32, 1), kind))
        counted = 2_000 * 1024 * (1 if kind == np.uint8 else np.dtype(kind).itemsize + 6)
        npz.read("dataset", path, memory_limit=counted)
        tracemalloc.start()
        data.load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < counted + 1_000_000       # zipfile and NumPy pass pieces of 256 KB


def test_any_integers_are_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 1))
    for kind in (np.int64, np.int16, np.uint32):
        ds = data.load(save(tmp_path, images=pixels.astype(kind)))
        np.testing.assert_array_equal(ds.images_at(np.arange(9)), pixels)
    bits = data.load(save(tmp_path, images=pixels > 127))
    np.testing.assert_array_equal(bits.images_at(np.arange(9)), np.where(pixels > 127, 255, 0))
    for wrong, got in [(pixels - 1, "from -1 to 254"), (pixels + 1, "from 1 to 256")]:
        with pytest.raises(InputError, match=f"integers from 0 to 255 or as floats .*, got integers {got}"):
            data.load(save(tmp_path, images=wrong))
    with pytest.raises(InputError, match=r"got floats in \[0, 255\]; divide them by 255"):
        data.load(save(tmp_path, images=pixels.astype(float)))


@pytest.mark.parametrize("shape", [(9, 1, 28, 28), (9, 3, 16, 24)])
def test_channels_before_rows_are_refused_with_the_way_out(tmp_path, shape):
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    with pytest.raises(InputError, match=r"looks like \[N, C, H, W\]; store images.transpose\(0, 2, 3, 1\)"):
        data.load(save(tmp_path, images=images))
    assert data.load(save(tmp_path, images=images.transpose(0, 2, 3, 1))).shape == (*shape[2:], shape[1])


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
def test_any_number_of_channels_may_train(tmp_path, channels):
    assert data.load(save(tmp_path, images=np.zeros((9, 8, 8, channels), np.uint8))).shape == (8, 8, channels)


@pytest.mark.parametrize(("arrays", "message"), [
    ({"data": np.array([[1.0, 2.0], [3.0, 1e300]])},
     r"expected finite data, got 1 values beyond float32, .*, such as 1e\+300, in column 1 first, in row 1"),
    ({"data": np.array([[1.0, np.nan]] * 7)}, r"got 7 NaN or infinite values, in column 1 first, in 7 rows \(0, 1, "),
    ({"data": np.ones((9, 2)), "u": np.full((9, 1), -1e40)}, "expected finite u, got 9 values beyond float32"),
    ({"data": np.ones((9, 2)), "factors": np.array([1.0, np.inf] * 4 + [2.0])}, "finite factors, got 4 .* in 4 rows"),
    ({"images": np.zeros((9, 0, 8, 1), np.uint8)}, r"expected images \[N, H, W, C\], got shape"),
    ({"data": np.ones((9, 0))}, r"at least one example of one value, got shape \(9, 0\)"),
])
def test_values_that_training_cannot_take_are_named_where_they_enter(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message) as error:
        data.load(save(tmp_path, **arrays))
    assert "\n" not in str(error.value)


def test_a_factor_with_missing_values_keeps_its_others_and_is_no_part_of_u(tmp_path):
    values = np.stack([np.arange(9) % 2, np.arange(9) / 9, np.arange(9) / 7], -1)
    values[[2, 5], 1] = np.nan
    path = save(tmp_path, data=np.ones((9, 2)), factors=values, factor_names=["a", "weight", "c"])
    with (pytest.warns(UserWarning, match=r"factor weight has no value \(NaN\) in 2 rows \(2, 5\), which scores "
                                          "leave out, and it is no part of u"),
          pytest.warns(UserWarning, match="whole numbers that recur, stored as floats: a. They")):
        ds = data.load(path)
    assert ds.factor_names == ("a", "weight", "c") and [factor.incomplete for factor in ds.factors] == [0, 1, 0]
    assert ds.factors_of_u == ("a", "c") and ds.u_size == 2
    np.testing.assert_allclose(ds.factors_at(np.arange(9)), values, rtol=1e-6)
    np.testing.assert_allclose(ds.u_at(np.arange(9)), values[:, [0, 2]] / [1, 8 / 7], rtol=1e-6)

    texts = np.array([[2, np.nan, np.nan], [np.nan, 5, np.nan], [7, 5, np.nan], [2, 4, np.nan]])
    with (pytest.warns(UserWarning, match="factor v3 is left out: it has no value"),
          pytest.warns(UserWarning, match=r"factor v1 has no value \(NaN\) in row 1, which scores leave")):
        alone = data.load(save(tmp_path, data=np.ones((4, 2)), factors=texts, factor_kinds=["categorical"] * 3))
    assert alone.factor_sizes == (2, 2) and alone.u_size == 0 and alone.u_at is None
    np.testing.assert_array_equal(alone.factors_at(np.arange(4)), [[0, np.nan], [np.nan, 1], [1, 1], [0, 0]])
    with pytest.warns(UserWarning, match="factor v1 is left out: it has no value"):
        rest = data.load(save(tmp_path, data=np.ones((3, 2)), factors=np.stack([np.full(3, np.nan), np.arange(3)], -1)))
    assert rest.factor_names == ("v2",)
    with pytest.warns(UserWarning, match="is left out: it has no value"):
        none = data.load(save(tmp_path, data=np.ones((3, 2)), factors=np.full(3, np.nan)))
    assert none.factors == () and none.u_size == 0


def test_a_batch_of_many_times_the_data_takes_time_in_proportion():
    calls = []

    def counted(n, seed, epoch):
        calls.append(epoch)
        return Counted(np.random.default_rng([seed, epoch]).permutation(n))

    class Counted(np.ndarray):
        def __new__(cls, array):
            return array.view(cls)

        def __getitem__(self, key):
            assert isinstance(key, slice)           # not a mask as long as the batch
            return np.asarray(self)[key]

    drawn = batches.draw_indices(3, 3_000, 0, 2, counted)
    assert calls == list(range(2_000, 3_000)) and np.bincount(drawn).tolist() == [1_000] * 3
    # Against the definition: position p of a run is example p % n of epoch p // n.
    for n, size, step in [(3, 8, 0), (3, 8, 5), (10, 4, 7), (10, 10, 3), (7, 3, 2)]:
        expected = [batches.draw_permutation(n, 1, p // n)[p % n] for p in range(step * size, (step + 1) * size)]
        np.testing.assert_array_equal(batches.draw_indices(n, size, 1, step), expected)
