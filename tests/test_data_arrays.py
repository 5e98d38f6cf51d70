import warnings

import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import arrays
from vae_tf.errors import InputError


def save(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return str(path)


def test_npz_of_images(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 3), np.uint8)
    ds = data.load(save(tmp_path, images=images, factors=np.array([[0, 10], [1, 30]] * 3 + [[2, 20]]),
                        factor_names=["a", "b"]))
    i = np.array([6, 0])
    np.testing.assert_array_equal(ds.images_at(i), images[i])
    np.testing.assert_array_equal(ds.factors_at(i), [[2, 1], [0, 0]])       # values become 0..size-1, in order
    assert ds.factors == (data.Factor("a", 3, "ordinal"), data.Factor("b", 3, "ordinal"))
    np.testing.assert_array_equal(ds.u_at(i), [[1, 0.5], [0, 0]])


def test_npz_of_vectors_with_u(tmp_path):
    x, u, v = np.ones((4, 3)), np.eye(4), np.linspace(0, 1, 4)
    ds = data.load(save(tmp_path, data=x, u=u, factors=v))
    assert not ds.is_image and ds.u_size == 4 and ds.factors == (data.Factor("v1", None, "continuous"),)
    np.testing.assert_array_equal(ds.u_at(np.array([2])), [[0, 0, 1, 0]])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, ">i2", np.int32, np.int64, np.uint8, np.uint64])
def test_u_of_factors_of_any_type_of_integers_is_in_0_to_1(tmp_path, dtype):
    """The difference of two integers may be beyond their type, as 100 - (-100) in int8."""
    info = np.iinfo(dtype)
    low, high = max(info.min, -10**12), min(info.max, 10**12)
    given = np.array([low, high, (low + high) // 2] * 4).astype(dtype)
    ds = data.load(save(tmp_path, data=np.ones((12, 2)), factors=given))
    np.testing.assert_allclose(ds.u_at(np.arange(3)), [[0], [1], [0.5]], atol=0.004)
    np.testing.assert_array_equal(ds.factors_at(np.arange(3)), [[0], [2], [1]])


def test_names_may_be_bytes_and_differ(tmp_path):
    arrays = {"data": np.ones((4, 2)), "factors": np.eye(4)[:, :2].astype(int)}
    ds = data.load(save(tmp_path, **arrays, factor_names=np.array([b"form", "gr\u00f6\u00dfe".encode()]),
                        factor_kinds=np.array([b"cyclic", b"ordinal"])))
    assert ds.factors == (data.Factor("form", 2, "cyclic"), data.Factor("gr\u00f6\u00dfe", 2, "ordinal"))
    with pytest.raises(InputError, match=r"mine\.npz: expected factor_names that differ; got a, a"):
        data.load(save(tmp_path, **arrays, factor_names=["a", "a"]))
    with pytest.raises(InputError, match="factors: expected names that differ; got a, a"):
        data.from_arrays("mine", np.ones((4, 2), np.float32), np.ones((4, 2)),
                         [data.Factor("a", None, "continuous")] * 2)
    with pytest.raises(InputError, match=r"mine\.npz: factor_kinds: expected one of categorical, .*; got x, cyclic"):
        data.load(save(tmp_path, **arrays, factor_kinds=["x", "cyclic"]))


@pytest.mark.parametrize("factors", [np.eye(4)[:, :2], np.c_[np.eye(4)[:, :2], np.full(4, np.nan)]])
def test_a_text_is_the_kind_of_all_factors(tmp_path, factors):
    path = save(tmp_path, data=np.ones((4, 2)), factors=factors, factor_kinds="cyclic")
    with warnings.catch_warnings(action="ignore", category=UserWarning):       # of the factor without a value
        assert data.load(path).factors == (data.Factor("v1", 2, "cyclic"), data.Factor("v2", 2, "cyclic"))


@pytest.mark.parametrize("values", [np.arange(20_240_101, 20_240_121), 1_700_000_000 + np.arange(4) * 30.0,
                                    np.array([1, 1 + 1e-9])])
def test_classes_stay_apart_that_float32_would_merge(values):
    given = np.repeat(values.astype(np.float64), 3)
    x = np.zeros((len(given), 2), np.float32)
    for factors in (given, np.r_[np.nan, given[1:]]):
        with warnings.catch_warnings(action="ignore", category=UserWarning):       # of the missing value
            made = arrays.make_dataset("mine", {"data": x, "factors": factors[:, np.newaxis],
                                                "factor_kinds": np.array(["ordinal"])})
        assert made.factors[0].size == len(values)
        np.testing.assert_array_equal(made.factors_at(np.arange(1, len(x)))[:, 0],
                                      np.repeat(np.arange(len(values)), 3)[1:])


def test_npz_images_come_as_bits_floats_or_without_channel(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (5, 4, 4), np.uint8)
    for images in (bits, bits[..., np.newaxis], bits.astype(np.float32)):
        ds = data.load(save(tmp_path, images=images))
        np.testing.assert_array_equal(ds.images_at(np.arange(5))[..., 0], 255 * bits)
        assert ds.factors == () and ds.u_size == 0


@pytest.mark.parametrize(("arrays", "message"), [
    ({"labels": np.ones(3)}, "expected one array `images` .*got labels"),
    ({"images": np.ones((3, 4, 4, 1), np.uint8), "data": np.ones((3, 2))}, "got images, data"),
    ({"images": np.full((3, 4, 4, 1), np.nan)}, "expected finite images, got 48 NaN"),
    ({"images": np.full((3, 4, 4, 1), 2.0)}, r"floats in \[0, 1\], got floats in \[2, 2\]"),
    ({"images": np.ones((3, 4), np.uint8)}, r"expected images \[N, H, W, C\], got shape \(3, 4\)"),
    ({"data": np.array([[1.0, np.inf]])}, "expected finite data, got 1"),
    ({"data": np.ones((3, 2)), "factors": np.ones((2, 1))}, "expected 3 rows of factors, .*got 2"),
    ({"data": np.ones((3, 2)), "u": np.ones((4, 1))}, "expected 3 rows of u, .*got 4"),
    ({"data": np.ones((3, 2)), "u": 1.0}, r"expected u as real numbers of rank 2, got float64 of shape \(\)"),
    ({"data": np.ones((3, 2)), "factors": 3}, r"expected factors as .* of rank 2, got int64 of shape \(\)"),
    ({"data": np.ones((3, 2)), "factors": np.ones((3, 2)), "factor_names": ["a"]}, "expected 2 factor_names, got 1"),
    ({"data": np.ones((0, 2))}, "at least one example"),
    ({"data": np.array([["a"]])}, "real numbers"),
    ({"data": np.array([[None]])}, "plain arrays"),
])
def test_bad_npz(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message) as error:
        data.load(save(tmp_path, **arrays))
    assert "\n" not in str(error.value) and "mine.npz" in str(error.value)


def test_unreadable_npz(tmp_path):
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 not a zip")
    for path, message in [("torn.npz", "not a readable .npz"), ("none.npz", "no file")]:
        with pytest.raises(InputError, match=message):
            data.load(tmp_path / path)
    with pytest.raises(InputError, match=r"expected one of dsprites, .*got 'cifar'"):
        data.load("cifar")
    with pytest.raises(InputError, match=r"^dataset: expected a name or path in UTF-8, .*; got '.*0.npz'"):
        data.load("\x000.npz")


@pytest.mark.parametrize("beyond", [1 + 1e-7, 1.0019, -0.0019])
def test_floats_that_rounding_took_beyond_0_and_1_are_images(tmp_path, beyond):
    images = np.full((4, 2, 2, 1), 0.5, np.float32)
    images[1, 1, 1] = beyond
    read = data.load(save(tmp_path, images=images)).images_at(np.arange(4))
    assert read[1, 1, 1, 0] == (255 if beyond > 1 else 0) and read[0, 0, 0, 0] == 128


@pytest.mark.parametrize(("beyond", "hint"), [
    (1.02, "clip them to"), (-0.4, "clip them to"), (200, "divide them by 255"),
    (-1.0, r"got floats in \[-1, 0.5\]$"), (300, r"got .* 300\]$")])
def test_advice_on_floats_beyond_0_and_1_keeps_the_images(tmp_path, beyond, hint):
    images = np.full((4, 2, 2, 1), 0.5, np.float32)
    images[1, 1, 1] = beyond
    with pytest.raises(InputError, match=hint):
        data.load(save(tmp_path, images=images))


def test_a_continuous_factor_far_from_0_keeps_its_values(tmp_path):
    time = 1.7e9 + np.linspace(0, 60, 64)
    ds = data.load(save(tmp_path, data=np.ones((64, 3)), factors=np.stack([time, np.linspace(0, 1, 64)], -1)))
    np.testing.assert_array_equal(ds.factors_at(np.arange(64))[:, 0], time)
    np.testing.assert_allclose(ds.u_at(np.arange(64))[:, 0], np.linspace(0, 1, 64), atol=1e-6)


def test_arrays_that_are_not_used_are_named(tmp_path):
    with pytest.warns(UserWarning, match="arrays that are not used: labels; known names are images, data, factors"):
        assert not data.load(save(tmp_path, data=np.ones((4, 2)), labels=np.arange(4))).factors


def test_a_constant_factor_needs_no_float64(tmp_path):
    factors = np.stack([np.full(20, 0.1), np.linspace(0, 1, 20)], -1)
    made = [data.load(save(tmp_path, data=np.ones((20, 3)), factors=factors.astype(kind)))
            for kind in (np.float32, np.float64)]
    assert made[0].fingerprint == made[1].fingerprint and made[1].factors_at(np.arange(2)).dtype == np.float32


def test_times_that_float32_would_merge_are_kept_in_float64(tmp_path):
    minute = 1.7e9 + np.linspace(0, 60, 64)
    for name, times in (("minute", minute), ("year", np.append(minute, 1.73e9))):     # an outlier widens the range
        np.savez(tmp_path / f"{name}.npz", data=np.zeros((len(times), 2)), factors=times[:, np.newaxis])
        loaded = data.load(str(tmp_path / f"{name}.npz"))
        assert len(np.unique(loaded.factors_at(np.arange(64)))) == 64, name


def test_a_seed_of_numpy_gives_the_same_data():
    plain, numpy = (data.load("synthetic_linear", seed=seed) for seed in (0, np.int64(0)))
    assert plain.fingerprint == numpy.fingerprint


def test_parts_are_ranges_of_the_examples():
    x = np.zeros((6, 2), np.float32)
    for parts in ({"train": range(5)}, {"train": range(4), "test": range(4, 7)}, {"train": range(0), "test": range(3)}):
        with pytest.raises(InputError, match="parts: expected ranges of the 6 examples for train and test"):
            data.from_arrays("mine", x, parts=parts)
