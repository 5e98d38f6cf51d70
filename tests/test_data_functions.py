"""A function that gives examples by index as a dataset."""

import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import batches
from vae_tf.errors import InputError

GRID = np.indices((6, 5)).reshape(2, -1).T


def draw(indices):
    """Images of one white pixel."""
    images = np.zeros((len(indices), 6, 5, 1), np.uint8)
    images[(np.arange(len(indices)), *GRID[indices].T, 0)] = 255
    return images


FACTORS = [data.Factor("row", 6, "ordinal"), data.Factor("column", 5, "ordinal")]


def test_a_function_gives_what_the_array_gives():
    made = data.from_function("dots", draw, 30, GRID, FACTORS, complete_grid=True)
    whole = data.from_arrays("dots", draw(np.arange(30)), GRID, FACTORS, complete_grid=True)
    i = np.array([29, 3, 3])
    for read in ("images_at", "factors_at", "u_at"):
        np.testing.assert_array_equal(getattr(made, read)(i), getattr(whole, read)(i))
    for entry in ("name", "size", "shape", "factors", "u_size", "complete_grid", "parts"):
        assert getattr(made, entry) == getattr(whole, entry)
    _, x, u = next(iter(batches.make_batches(made, 4, [0], 0, 1, with_u=True)))
    assert x.shape == (4, 6, 5, 1) and u.shape == (4, 2) and int(x.numpy().sum()) == 4 * 255


def test_images_of_more_bits_later_on_are_refused():
    made = data.from_function("dots", lambda i: draw(i).astype(np.uint16 if len(i) == 1 else np.uint8), 30)
    with pytest.raises(InputError, match=r"examples_at: expected uint8 of shape \(1, 6, 5, 1\); got uint16"):
        made.images_at(np.array([3]))


def test_a_run_recognises_a_function_by_its_examples_or_by_what_is_given():
    make = {"as it is": draw, "the same": lambda i: draw(i), "other": lambda i: 255 - draw(i)}
    known = {name: data.from_function("dots", function, 30).fingerprint for name, function in make.items()}
    assert known["as it is"] == known["the same"] != known["other"]
    given = [data.from_function("dots", draw, 30, made_by=("dots", version)).fingerprint for version in (1, 1, 2)]
    assert given[0] == given[1] != given[2]


@pytest.mark.parametrize(("function", "size", "more", "said"), [
    (draw, 0, {}, "size: "), (lambda i: draw(i)[:-1], 30, {}, r"expected uint8 images \[30, H, W, C\]"),
    (lambda i: draw(i) / 255, 30, {}, r"x: expected uint8 images \[N, H, W, C\] or float32 data"),
    (lambda i: np.full((len(i), 2), np.nan), 30, {}, "expected finite numbers"),
    (lambda i: 3, 30, {}, "examples_at: expected uint8 images"),
    (draw, 30, {"values": GRID[:7], "factors": FACTORS}, "values: expected 30 rows")])
def test_a_function_that_gives_something_else_is_one_line(function, size, more, said):
    with pytest.raises(InputError, match=said) as error:
        data.from_function("dots", function, size, **more)
    assert "\n" not in str(error.value)


def test_a_function_that_changes_its_mind_is_one_line():
    odd = data.from_function("odd", lambda i: np.zeros((len(i), 2 if len(i) > 9 else 3), np.float32), 30)
    with pytest.raises(InputError, match=r"examples_at: expected float32 of shape \(4, 2\); got float32 of shape"):
        odd.images_at(np.arange(4))
