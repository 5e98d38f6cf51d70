"""Figures show the arrays that they were given."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from vae_tf import report
from vae_tf.report.theme import as_png, shorten

pytestmark = pytest.mark.usefixtures("theme")


@pytest.fixture
def theme():
    with report.use_theme():
        yield


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def labels_of(ticks):
    return [tick.get_text() for tick in ticks]


@pytest.mark.parametrize("tight", [False, True])
def test_pictures_have_the_dots_per_inch_asked_for(tight):
    image = Image.open(io.BytesIO(as_png(Figure((4, 3)), 110, tight)))
    assert image.info["dpi"] == pytest.approx((110, 110), abs=0.01)         # a PNG has whole dots per metre
    assert tight or image.size == (440, 330)


def test_curves_have_a_panel_per_term_and_leave_out_what_is_missing():
    figure = report.plot_curves([10, 20, 30], {"loss": [3.0, 2.0, 1.0], "kl": [np.nan, 5.0, 4.0]})
    loss, kl = figure.axes
    assert (loss.get_title(loc="left"), kl.get_title(loc="left")) == ("loss", "kl") and loss.get_xlabel() == "step"
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[10, 3], [20, 2], [30, 1]])
    np.testing.assert_array_equal(kl.lines[0].get_xydata(), [[20, 5], [30, 4]])


def test_curves_of_the_validation_part_stand_beside_those_of_training():
    figure = report.plot_curves([10, 20], {"loss": [3.0, 2.0], "validation_loss": [np.nan, 9.0], "kl": [5.0, 4.0]})
    loss, kl = figure.axes
    assert [line.get_linestyle() for line in loss.lines] == ["-", "--"] and loss.get_ylim()[1] > 9
    assert [line.get_marker() for line in loss.lines] == ["", "o"]          # a single point has no line
    assert labels_of(loss.get_legend().get_texts()) == ["training", "validation"] and kl.get_legend() is None


def test_bars_of_kl_fall_and_are_told_apart_without_colours():
    axis, = report.plot_kl([0.5, 2.0, 0.0], ["mixed", "active", "passive"], [4, 7, 9]).axes
    assert [bar.get_height() for bar in axis.patches] == [2, 0.5, 0]
    assert labels_of(axis.get_xticklabels()) == ["z7", "z4", "z9"] and "nats" in axis.get_ylabel()
    assert [bar.get_hatch() for bar in axis.patches] == ["", "///", "xxx"]
    assert len({bar.get_facecolor() for bar in axis.patches}) == 3
    assert labels_of(axis.get_legend().get_texts()) == ["active", "mixed", "passive"]
    assert axis.lines[0].get_ydata()[0] == 0.01         # from which a latent carries information


def test_information_is_a_matrix_of_latents_and_factors_with_its_numbers():
    shares = np.array([[0.9, 0.1], [0.0, 0.25], [0.3, 1.0]])
    axis, bar = report.plot_information(shares, ["x", "$scale$"], [2, 0, 1]).axes
    np.testing.assert_array_equal(axis.images[0].get_array(), shares)
    assert axis.images[0].get_clim() == (0, 1) and axis.images[0].get_cmap().name == "cividis"
    assert labels_of(axis.get_xticklabels()) == ["x", "$scale$"]
    assert labels_of(axis.get_yticklabels()) == ["z2", "z0", "z1"]
    assert texts_of(axis) == ["0.90", "0.10", "0.00", "0.25", "0.30", "1.00"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("factor", "latent") and "entropy" in bar.get_ylabel()


def test_cosines_are_put_in_the_order_asked_for():
    cosines = np.array([[1, 0.2, 0.3], [0.2, 1, 0.6], [0.3, 0.6, 1]])
    axis, _ = report.plot_cosines(cosines, [2, 0]).axes
    np.testing.assert_array_equal(axis.images[0].get_array(), [[1, 0.3], [0.3, 1]])
    assert labels_of(axis.get_xticklabels()) == labels_of(axis.get_yticklabels()) == ["z2", "z0"]


def test_a_number_stands_beside_what_chance_gives():
    axis, = report.plot_against_chance(0.1, [0.4, 0.5, 0.5], "cosine", "turned").axes
    assert axis.get_xlabel() == "cosine" and list(axis.lines[0].get_xdata()) == [0.1, 0.1]
    assert sum(bar.get_height() for bar in axis.patches) == 3
    assert labels_of(axis.get_legend().get_texts()) == ["turned", "this model: 0.1"]
    low, high = axis.get_xlim()
    assert low <= 0 and high > 0.5


def test_theory_is_a_line_of_slope_minus_1_through_the_active_latents():
    norms = np.array([[1.0, 10.0], [2.0, 20.0]])
    axis, = report.plot_variance_norms(0.5 / norms, norms, ["active", "active"]).axes
    np.testing.assert_allclose(axis.collections[0].get_offsets().T[0] * axis.collections[0].get_offsets().T[1], 0.5)
    x, y = axis.lines[0].get_data()
    np.testing.assert_allclose(x * y, 0.5)
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log") and "variance" in axis.get_ylabel()


@pytest.mark.parametrize(("low", "high"), [(0.021, 0.029), (0.3, 0.7), (0.8, 1.3), (0.21, 1.9), (0.6, 11), (2, 900)])
def test_logarithmic_axes_have_numbers_however_short_they_are(low, high):
    ends = np.array([[low], [high]])
    axis, = report.plot_variance_norms(1 / ends, ends, ["active"]).axes
    for side in (axis.xaxis, axis.yaxis):
        least, most = side.get_view_interval()
        shown = [side.get_major_formatter()(place) for place in side.get_majorticklocs() if least <= place <= most]
        assert 2 <= len(shown) == len(set(shown)) <= 10 and all(shown)


def test_vectors_and_responses():
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    axis, = report.plot_reconstructed_vectors(x, x + 1).axes
    np.testing.assert_array_equal(axis.collections[0].get_offsets(), np.c_[x.ravel(), x.ravel() + 1])
    np.testing.assert_array_equal(axis.lines[0].get_xdata(), axis.lines[0].get_ydata())
    outputs = np.arange(18.0).reshape(3, 3, 2)
    figure = report.plot_responses([-1, 0, 1], outputs, ["z1", "z0", "z2"])
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["z1", "z0", "z2"]
    for axis, moved in zip(figure.axes, outputs, strict=True):
        np.testing.assert_array_equal([line.get_ydata() for line in axis.lines], moved.T)
    assert figure.get_supylabel() == "entries of x"
    figure = report.plot_responses([-1, 0, 1], np.zeros((4, 3, 2)), ["z0  KL 1.2\norientation 64%"] * 4)
    assert figure.axes[0].get_title(loc="left") == "z0  KL 1.2\norientation 64%"       # each line has room of its own
    many = np.zeros((2, 3, 50))
    many[0, :, :34] = [[-2], [0], [2]]
    many[1, :, 35:] = [[-1], [0], [1]]
    figure = report.plot_responses([-1, 0, 1], many, ["z1", "z0"])
    assert [len(axis.lines) for axis in figure.axes] == [30, 30]
    assert sum(np.ptp(line.get_ydata()) > 0 for line in figure.axes[1].lines) == 15
    assert figure.get_supylabel() == "the 30 of 50 entries of x that each latent moves most"


@pytest.mark.parametrize(("text", "longest", "shown"), [
    ("shape", 5, "shape"), ("petal_length", 11, "petal…ength"), ("petal_length", 6, "pet…th"), ("abc", 2, "a…")])
def test_long_names_keep_both_ends(text, longest, shown):
    assert shorten(text, longest) == shown and len(shown) <= longest


def test_long_names_of_factors_are_turned_and_rows_of_flat_images_have_one_line():
    for names, turned in ((["shape", "x"], 0), (["petal_length_of_the_flower", "sepal_width_of_the_flower"], 60)):
        axis, *_ = report.plot_information(np.zeros((2, 2)), names).axes
        assert {label.get_rotation() for label in axis.get_xticklabels()} == {turned}
    for height, label in ((8, "z0\nshape"), (2, "z0  shape")):
        axis, = report.plot_images([np.zeros((2, height, 8, 1))], ["z0\nshape"]).axes
        assert texts_of(axis) == [label]


def test_colours_beyond_0_and_1_are_clipped_without_a_warning(caplog):
    """A Gaussian likelihood has such means."""
    images = np.array([-0.5, 0.5, 1.5], np.float32) * np.ones((1, 4, 4, 3), np.float32)
    for figure in (report.plot_images([images], ["data"]), report.plot_latents(images, ["z0"], 0.0)):
        np.testing.assert_array_equal(figure.axes[0].images[0].get_array()[0, 0], [0, 0.5, 1])
    assert not caplog.records


def test_images_stand_in_rows_with_labels():
    rows = [np.full((2, 4, 4, 1), 0.25), np.zeros((2, 4, 4, 1))]
    figure = report.plot_images(rows, ["data", "z0"], "a title")
    axis, = figure.axes
    assert texts_of(axis) == ["data", "z0"] and figure.get_suptitle() == "a title"
    assert len(axis.images) == 4 and axis.images[0].get_clim() == (0, 1)
    np.testing.assert_array_equal(axis.images[1].get_array(), rows[0][1].squeeze(-1))
    boxes = [image.get_window_extent() for image in axis.images]
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])
    first, right, below, _ = boxes
    assert right.x0 > first.x1 and right.y0 == first.y0 and below.y1 < first.y0 and below.x0 == first.x0
