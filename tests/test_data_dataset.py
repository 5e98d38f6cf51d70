import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import synthetic
from vae_tf.errors import InputError


def test_u_is_scaled_by_the_global_range():
    values = np.array([[0, 5], [4, 5], [2, 5]])
    factors = [data.Factor(name, 6, "ordinal") for name in "ab"]
    ds = data.from_arrays("x", np.zeros((3, 2), np.float32), values, factors)
    np.testing.assert_array_equal(ds.u_at(np.arange(3)), [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_array_equal(ds.u_at(np.array([1, 1])), [[1, 0], [1, 0]])     # constant in this batch


@pytest.mark.parametrize(("factors", "said"), [
    (["a", "b"], r"factors: expected data.Factor\(name, size, kind\), size None or whole; got 'a'"),
    ([("a", "6", "ordinal")], r"factors: expected data.Factor\(name, size, kind\), .*; got Factor\(name='a', size='6'"),
    ([("a", 6, "continuous")], "factors: expected size None of the continuous factor a; got 6"),
    ([], "factors: expected one for each of the 2 columns of values; got 0"),
    ([("a", 6, "ordinal")], "factors: expected one for each of the 2 columns of values; got 1"),
    ([("a", 6, "ordinal"), ("b", None, "nominal")], "kind of factor b: expected one of categorical, .*; got 'nominal'"),
    ([("a", 4, "ordinal"), ("b", 6, "ordinal")], "values: expected whole numbers from 0 to 3 of factor a, .*; got 4"),
    ([("a", 5, "ordinal"), ("b", 6, "ordinal")], "values: expected whole numbers from 0 to 5 of factor b, .*; got 0.5"),
])
def test_factors_and_their_values_belong_together(factors, said):
    x, values, factors = np.zeros((3, 2), np.float32), np.array([[0, 5], [4, 0.5], [np.nan, 5]]), [
        each if isinstance(each, str) else data.Factor(*each) for each in factors]
    for make in (lambda: data.from_arrays("x", x, values, factors),
                 lambda: data.from_function("x", x.__getitem__, 3, values, factors)):
        with pytest.raises(InputError, match=said):
            make()


def test_no_examples_may_be_taken():
    assert data.from_arrays("x", np.zeros((3, 2), np.float32)).take([]).images_at(np.arange(0)).shape == (0, 2)


@pytest.mark.parametrize("name", ["dsprites", "synthetic_linear", "synthetic_nonlinear", "nonstationary_sources",
                                  "linear_mixture", "conformal_mixture"])
def test_datasets_agree_with_what_they_say(name):
    ds = data.load(name)
    i = np.array([5, 0, len(ds) - 1])
    x, v, u = ds.images_at(i), ds.factors_at(i), ds.u_at(i)
    assert x.shape == (3, *ds.shape) and x.dtype == (np.uint8 if ds.is_image else np.float32)
    assert v.shape == (3, len(ds.factors)) and u.shape == (3, ds.u_size) and u.dtype == np.float32
    assert u.min() >= 0 and u.max() <= 1
    np.testing.assert_array_equal(x[1:2], ds.images_at(np.array([0])))
    again, other = data.load(name), data.load(name, seed=1)
    np.testing.assert_array_equal(again.images_at(i), x)
    assert name == "dsprites" or not np.array_equal(other.images_at(i), x)


@pytest.mark.parametrize("how", ["grid", "random"])
def test_split(how):
    ds = data.load("synthetic_linear")
    parts = {part: ds.split(how, part, seed=3) for part in ("train", "validation", "test")}
    sizes = [len(part) for part in parts.values()]
    assert sizes == ([50_000] * 3 if how == "grid" else [40_000, 5_000, 5_000])
    if how == "random":
        rows = np.concatenate([part.images_at(np.arange(len(part))) for part in parts.values()])
        assert len(np.unique(rows, axis=0)) == len(np.unique(ds.images_at(np.arange(50_000)), axis=0))
        part = parts["test"]
        i = np.array([3, 1])
        np.testing.assert_allclose(part.images_at(i) @ synthetic.make_rotation([1, -1, 1], np.pi / 4)[:, :2] / [2, 1],
                                   part.factors_at(i), atol=1e-6)     # factors go with their images


def test_masks_of_0_and_1_are_no_images():
    masks = np.ones((3, 4, 4, 1), np.uint8)
    with pytest.raises(InputError, match=r"x: expected uint8 images from 0 to 255; got 0 and 1 alone.*give 255 \* x"):
        data.from_arrays("masks", masks)
    assert len(data.from_arrays("masks", 255 * masks)) == len(data.from_arrays("black", 0 * masks)) == 3


def test_a_matrix_of_indices_is_refused():
    dataset = data.from_arrays("dots", np.zeros((6, 2), np.float32))
    with pytest.raises(InputError, match=r"indices: expected a list of whole numbers; got an array of shape \(2, 2\)"):
        dataset.take([[0, 1], [2, 3]])
