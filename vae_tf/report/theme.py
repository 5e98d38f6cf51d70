"""Colours and type of all figures, and figures as pictures in a file and within a page."""

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

# Okabe and Ito's colours, darkened for text, which colour-blind readers tell apart: an accent, a second, and grey.
CYCLE = ("#0072b2", "#b8560a", "#6e7781")
SERIES = (*CYCLE[:2], "#00795a", "#a8467f", CYCLE[2])       # of series, which differ in their marks, too
MARKS = "osD^vPXp"
INK, GRID, PAPER = "#24292f", "#d8dee4", "#ffffff"
COLOURS = {"active": "C0", "mixed": "C1", "passive": "C2"}      # of the classes of latents
HATCHES = {"active": "", "mixed": "///", "passive": "xxx"}      # a colour is never the only sign of a class
PIXELS = 1.6            # of a page, for a point of a figure
MAP = "cividis"         # a colour map that rises evenly in lightness, for colour-blind readers, too

# What the colours become within a page, whose style sheet has one value for light and one for dark backgrounds.
VARIABLES = {CYCLE[0]: "var(--c0)", CYCLE[1]: "var(--c1)", CYCLE[2]: "var(--c2)", INK: "currentColor",
             SERIES[2]: "var(--c3)", SERIES[3]: "var(--c4)", GRID: "var(--line)", PAPER: "var(--paper)"}


@contextlib.contextmanager
def use_theme() -> Iterator[None]:
    """Have figures that are made and saved while entered drawn in the colours and the type of this package."""
    import matplotlib
    from cycler import cycler
    with warnings.catch_warnings(), matplotlib.rc_context({
            "axes.prop_cycle": cycler(color=CYCLE), "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK,
            "ytick.color": INK, "axes.edgecolor": INK, "axes.titlecolor": INK, "grid.color": GRID,
            "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
            "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "axes.titleweight": "bold",
            "axes.titlelocation": "left", "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
            "legend.fontsize": 8, "legend.frameon": False, "font.family": "sans-serif", "font.size": 9,
            "hatch.linewidth": 0.6, "text.parse_math": False, "axes.formatter.use_mathtext": False,
            "svg.fonttype": "none"}):
        warnings.simplefilter("ignore", UserWarning)        # of names in scripts that the font lacks
        yield


def shorten(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: a longer one keeps its beginning and its end, around an ellipsis.

    What tells names apart often stands at their end.
    """
    end = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:longest - 1 - end]}…{text[len(text) - end:]}"


def as_png(figure: Any, dpi: int = 100, tight: bool = False) -> bytes:
    """Return a Matplotlib figure on white as the bytes of a PNG; a tight one ends where what is drawn ends."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    buffer = io.BytesIO()
    figure.set(dpi=dpi, facecolor="white")
    if tight:
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", bbox_inches="tight")
    else:
        FigureCanvasAgg(figure).print_png(buffer)       # `savefig` would draw everything twice
    return buffer.getvalue()


def draw_svg(name: str, plot: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Call a function that returns a figure, and return the figure as an SVG element for a page.

    Its text is text, its colours are variables of the page, and its identifiers begin with the name.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    buffer = io.StringIO()
    with use_theme(), matplotlib.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(plot(*args, **options)).print_svg(buffer)       # `savefig` would draw everything twice
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)         # nothing refers to these, and figures share them
    text = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)      # a style of SVG is one of the whole page
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    pixels = round(PIXELS * float(re.search(r'viewBox="0 0 ([\d.]+) ', text)[1]))       # type: ignore[index]
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    style = f"max-width: {pixels}px; min-width: min(30rem, {pixels}px)"         # on a phone it is scrolled
    return text.replace("<svg ", f'<svg aria-hidden="true" style="{style}" ', 1)
