"""A run's folder: runs/NAME/ with its configuration, history and checkpoints.

    config.json                everything that the run depends on
    history.csv                a row per log interval
    checkpoints/STEP.npz       weights, optimizer and step; the newest two that are whole
    tensorboard/               the history again

Every file appears whole or not at all.
"""

from vae_tf.runs.checkpoints import RUN, find_checkpoints, find_newest, restore, save
from vae_tf.runs.config import compare_config, digest_config, write_config
from vae_tf.runs.history import read_history, write_history

# train.py's flags that say where results go, how often or how many runs there are, not what a run is.
OUTPUT = ("name", "run_root", "export_root", "restart", "log_every", "checkpoint_every", "keep_versions",
          "polarised_every", "data_dir", "epochs", "strategy", "replicas", "sweep_beta", "accept_dark")

__all__ = ["OUTPUT", "RUN", "compare_config", "digest_config", "find_checkpoints", "find_newest", "read_history",
           "restore", "save", "write_config", "write_history"]
