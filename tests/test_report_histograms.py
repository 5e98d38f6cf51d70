"""The page of histograms."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from polarised_codes import of_latents, some_codes

from vae_tf import report


@pytest.mark.parametrize("d", [1, 7, 30])
def test_the_page_of_histograms_has_every_latent_and_no_label_on_another(d):
    title = "a model of a name that is rather long/1, 3 latents: posterior and prior, 5,000 examples"
    codes = of_latents(some_codes(), np.arange(d) % 7)
    picture = report.draw_polarised(title, codes)
    with report.use_theme():
        figure = report.plot_polarised(title, codes)
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
    shown = [text for axis in figure.axes for text in [*axis.texts, axis.title, *axis.get_xticklabels()]
             if text.get_text() and axis_shows(axis, text)] + figure.texts
    boxes = [text.get_window_extent(renderer) for text in [*shown, *figure.legends]]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])
    said = {text.get_text() for text in shown}
    assert title == figure.get_suptitle().replace("\n", " ")
    assert {f"z{j}" for j in range(d)} <= said and {"posterior mean", "variance", "samples"} <= said
    assert min(text.get_fontsize() for text in shown) >= 7
    assert len(picture) < 260_000


def axis_shows(axis, text):
    """Matplotlib keeps labels of ticks beyond the ends of an axis, and does not draw them."""
    if text not in axis.get_xticklabels():
        return True
    low, high = axis.get_xlim()
    return axis.axison and low <= text.get_position()[0] <= high
