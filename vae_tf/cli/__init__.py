"""The flags of the programs, the objects that flags become, and how a program runs.

    groups              flags under headings, each checked as it is parsed
    choices             what train.py's flags choose from, known without TensorFlow
    train_flags, evaluate_flags, data_flags
    effects             the flags that have an effect only beside others
    training_effects, scoring_effects
    contradictions      flags of train.py that contradict each other
    program             a program: its flags parsed, its errors and warnings
    help_page           the page of --help
    exports             the exported models that flags name
    training_request    what train.py's flags ask for: devices, configurations, settings
    scoring_request     what evaluate.py's flags ask for: a model, codes or a comparison; data; metrics

Only this package touches flags: everything else takes arguments. Importing it does not load TensorFlow, so that flags
are refused at once; what the flags of training ask for needs TensorFlow, and is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from vae_tf.cli.contradictions import check_train_flags
from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY, define_evaluate_flags
from vae_tf.cli.exports import find_export, find_exports
from vae_tf.cli.program import read_flags, run
from vae_tf.cli.scoring_request import (
    DataRequest,
    ScoringRequest,
    read_data_request,
    read_options,
    read_scoring_request,
)
from vae_tf.cli.train_flags import define_train_flags

if TYPE_CHECKING:
    from vae_tf.cli.training_request import choose_strategy, configure, configure_all, read_settings

__all__ = ["QUICK_EXAMPLES", "QUICK_GEOMETRY", "DataRequest", "ScoringRequest", "check_train_flags", "choose_strategy",
           "configure", "configure_all", "define_evaluate_flags", "define_train_flags", "find_export", "find_exports",
           "read_data_request", "read_flags", "read_options", "read_scoring_request", "read_settings", "run"]


def __getattr__(name: str) -> Any:
    """Import what needs TensorFlow when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vae_tf.cli import training_request

    return getattr(training_request, name)
