"""The output for people: the table of scores, the picture of a model, the histograms of its latents."""

from vae_tf.report.histograms import draw_polarised
from vae_tf.report.pictures import draw_overview, make_title
from vae_tf.report.table import format_number, show_progress, write_table

__all__ = ["draw_overview", "draw_polarised", "format_number", "make_title", "show_progress", "write_table"]
