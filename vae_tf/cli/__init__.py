"""The flags of the programs, the objects that flags become, and how a program runs.

    groups              flags under headings, each checked as it is parsed
    train_flags, evaluate_flags, data_flags
    effects             the flags that have an effect only beside others
    program             a program: its flags parsed, its errors and warnings
    help_page           the page of --help
    training_request    what train.py's flags ask for: devices, configurations, settings
    scoring_request     what evaluate.py's flags ask for: a model, codes or a comparison; data; metrics

Only this package touches flags: everything else takes arguments.
"""

from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY, define_evaluate_flags
from vae_tf.cli.program import describe_error, read_flags, run
from vae_tf.cli.scoring_request import (
    DataRequest,
    ScoringRequest,
    read_data_request,
    read_options,
    read_scoring_request,
)
from vae_tf.cli.train_flags import define_train_flags
from vae_tf.cli.training_request import choose_strategy, configure, configure_all, read_settings

__all__ = ["QUICK_EXAMPLES", "QUICK_GEOMETRY", "DataRequest", "ScoringRequest", "choose_strategy", "configure",
           "configure_all", "define_evaluate_flags", "define_train_flags", "describe_error", "read_data_request",
           "read_flags", "read_options", "read_scoring_request", "read_settings", "run"]
