"""Every flag, once; what the programs print; flags turned into objects.

Only this package touches flags: everything else takes arguments.
"""

from vae_tf.cli.building import build_model, fit, scaled_as_init_from, strategy
from vae_tf.cli.cards import card, listed, polarised_line
from vae_tf.cli.configuring import configuration, configurations
from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY, define_evaluate_flags
from vae_tf.cli.folders import run_folder
from vae_tf.cli.program import help_text, read, run
from vae_tf.cli.scoring_request import export_names, scoring
from vae_tf.cli.train_flags import define_train_flags

__all__ = [
    "QUICK_EXAMPLES", "QUICK_GEOMETRY", "build_model", "card", "configuration", "configurations",
    "define_evaluate_flags", "define_train_flags", "export_names", "fit", "help_text", "listed", "polarised_line",
    "read", "run", "run_folder", "scaled_as_init_from", "scoring", "strategy"]
