"""A run's folder: runs/NAME/ with its configuration, history and checkpoints.

    config.json                everything that the run depends on
    history.csv                a row for each stretch of steps
    checkpoints/STEP.npz       weights, optimizer and step; the newest two that are whole
    tensorboard/               the history again

Every file appears whole or not at all, and is checked when it is read back. A process that trains holds the folder.
"""

from vae_tf.runs.checkpoints import BEST, RUN, find_checkpoints, find_newest, restore, save
from vae_tf.runs.config import compare_config, digest_config, list_first_to_last, read_config, write_config
from vae_tf.runs.folders import check_folder
from vae_tf.runs.history import read_history, write_history
from vae_tf.runs.holding import hold

__all__ = ["BEST", "RUN", "check_folder", "compare_config", "digest_config", "find_checkpoints", "find_newest", "hold",
           "list_first_to_last", "read_config", "read_history", "restore", "save", "write_config", "write_history"]
