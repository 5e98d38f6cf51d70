"""The output for people: the table of scores, the picture of a model, the histograms of its latents."""

from vae_tf.report.histograms import polarised_page
from vae_tf.report.pictures import picture, title_of
from vae_tf.report.table import number, progress, table

__all__ = ["number", "picture", "polarised_page", "progress", "table", "title_of"]
