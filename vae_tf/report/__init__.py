"""The output for people: a summary and tables on the terminal, one page for each model, and its figures.

    numbers, rows       scores as text, in groups
    convergence         the history of a training, and whether it had converged
    usual               what is usual, from a paper's table
    orthogonality       the decoder's columns beside those of latents that are turned at random
    facts, answers      what is known of a model, and the questions that people ask of it, answered
    table, summary      the terminal, of any width
    first_look          the first numbers, before all scores are there
    progress            how far an evaluation is
    theme, figures      figures of arrays
    pictures, traversals, histograms    pictures of what a model does
    animation           the same, moving
    warned, page        one HTML file that holds everything
    frame               the scores of many models as rows, and their spread over seeds
    compared            many models side by side: tables, figures and one page
"""

from vae_tf.data.drawing import plot_images
from vae_tf.report.animation import FILES as ANIMATION_FILES
from vae_tf.report.animation import plot_latents, write_animations
from vae_tf.report.answers import Answer, answer_all
from vae_tf.report.compared.figures import (
    correlate_ranks,
    plot_rank_correlations,
    plot_scatter,
    plot_sweep,
)
from vae_tf.report.compared.groups import (
    Groups,
    check_columns,
    group_models,
    list_first_scores,
    list_scores,
)
from vae_tf.report.compared.page import FILES as COMPARISON_FILES
from vae_tf.report.compared.page import make_comparison_page, write_comparison
from vae_tf.report.compared.tables import make_compared_table, write_csv, write_latex, write_markdown
from vae_tf.report.compared.traversed import picture_groups
from vae_tf.report.convergence import Convergence, find_history, judge_convergence
from vae_tf.report.facts import Facts, gather_facts
from vae_tf.report.figures import (
    plot_against_chance,
    plot_cosines,
    plot_curves,
    plot_information,
    plot_kl,
    plot_reconstructed_vectors,
    plot_responses,
    plot_variance_norms,
)
from vae_tf.report.first_look import describe_first_look
from vae_tf.report.frame import results_frame, summarise
from vae_tf.report.histograms import draw_polarised, plot_polarised
from vae_tf.report.numbers import format_number
from vae_tf.report.orthogonality import Columns, compare_with_rotations, examine_columns
from vae_tf.report.page import Figure, draw_figures, make_page, write_page
from vae_tf.report.pictures import draw_overview, make_title
from vae_tf.report.progress import Progress
from vae_tf.report.summary import make_summary, show, write_summary
from vae_tf.report.table import make_tables, write_table
from vae_tf.report.theme import use_theme
from vae_tf.report.warned import list_warnings

__all__ = [
    "ANIMATION_FILES",
    "COMPARISON_FILES",
    "Answer",
    "Columns",
    "Convergence",
    "Facts",
    "Figure",
    "Groups",
    "Progress",
    "answer_all",
    "check_columns",
    "compare_with_rotations",
    "correlate_ranks",
    "describe_first_look",
    "draw_figures",
    "draw_overview",
    "draw_polarised",
    "examine_columns",
    "find_history",
    "format_number",
    "gather_facts",
    "group_models",
    "judge_convergence",
    "list_first_scores",
    "list_scores",
    "list_warnings",
    "make_compared_table",
    "make_comparison_page",
    "make_page",
    "make_summary",
    "make_tables",
    "make_title",
    "picture_groups",
    "plot_against_chance",
    "plot_cosines",
    "plot_curves",
    "plot_images",
    "plot_information",
    "plot_kl",
    "plot_latents",
    "plot_polarised",
    "plot_rank_correlations",
    "plot_reconstructed_vectors",
    "plot_responses",
    "plot_scatter",
    "plot_sweep",
    "plot_variance_norms",
    "results_frame",
    "show",
    "summarise",
    "use_theme",
    "write_animations",
    "write_comparison",
    "write_csv",
    "write_latex",
    "write_markdown",
    "write_page",
    "write_summary",
    "write_table",
]
