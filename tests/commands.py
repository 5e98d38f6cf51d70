"""train.py and evaluate.py as a test calls them: in this process, or in one of their own."""

import pathlib
import subprocess
import sys

from absl import flags

from vae_tf import cli
from vae_tf.programs import evaluate, train

ROOT = pathlib.Path(__file__).parents[1]
QUICK = ("--steps=3", "--batch_size=4", "--log_every=1")


def parse(define, *argv):
    values = flags.FlagValues()
    define(values)
    flags.DEFINE_string("flagfile", "", "", flag_values=values)
    cli.read_flags(values, ["program", *argv])
    return values


def run_train(*argv):
    train.main(parse(cli.define_train_flags, *argv))


def run_evaluate(*argv):
    """In this process alone, unless --jobs says otherwise: each worker takes seconds to import TensorFlow."""
    evaluate.main(parse(cli.define_evaluate_flags, "--jobs=1", *argv))


def run_program(name, *argv, folder):
    return subprocess.run([sys.executable, ROOT / name, *argv], cwd=folder, capture_output=True, text=True, timeout=300)
