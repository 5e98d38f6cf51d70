"""Flags, and what they ask for; the programs that read them.

    groups              flags under headings, each checked as it is parsed
    train_flags, evaluate_flags, data_flags
    program             a program: its flags parsed, its help page, its errors and warnings
    training_request    what train.py's flags ask for: devices, configurations, settings
    scoring_request     what evaluate.py's flags ask for

Only this package touches flags: everything else takes arguments.
"""

from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY, define_evaluate_flags
from vae_tf.cli.program import help_text, read, run
from vae_tf.cli.scoring_request import export_names, scoring
from vae_tf.cli.train_flags import define_train_flags
from vae_tf.cli.training_request import choose_strategy, configure, configure_all, read_settings

__all__ = ["QUICK_EXAMPLES", "QUICK_GEOMETRY", "choose_strategy", "configure", "configure_all",
           "define_evaluate_flags", "define_train_flags", "export_names", "help_text", "read", "read_settings", "run",
           "scoring"]
