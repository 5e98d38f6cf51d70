"""The programs; the two first read from top to bottom.

    train       train a model and export it: `vae-tf train`, or `python train.py` in a clone
    evaluate    score an exported model or many models: `vae-tf evaluate`, or `python evaluate.py`
    introduction    find the models that are to be scored, and say what their cards tell
    codes       score anybody's codes: `vae-tf evaluate --codes=my.npz`
    recipes     list the recipes: `vae-tf recipes`
"""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vae_tf import console

if TYPE_CHECKING:
    from absl.flags import FlagValues

DESCRIPTIONS = {
    "train": "Train a variational autoencoder and export it: `vae-tf train --model=ivae`.",
    "evaluate": "Score an exported model: `vae-tf evaluate` takes the newest in exported/. Or anybody's codes: "
                "--codes=my.npz.",
}


def run(name: str) -> None:
    """Run a program by the flags in sys.argv, in a process of its own that console.start has prepared.

    Args:
        name: train or evaluate.
    """
    from vae_tf import cli  # half a second, which the help of `vae-tf` need not take

    load, define_flags = {"train": (_load_train, cli.define_train_flags),
                          "evaluate": (_load_evaluate, cli.define_evaluate_flags)}[name]
    cli.run(load, define_flags, DESCRIPTIONS[name])


# A program imports TensorFlow, which takes seconds, only after everything is refused that can be refused without it.


def _load_train(flags: "FlagValues") -> Callable[[], Any]:
    from vae_tf import cli, data, export

    cli.check_train_flags(flags)
    data.check_name(flags.dataset)
    if flags.init_from:
        flags["init_from"].value = str(cli.find_export("--init_from", flags.init_from, export.TRAINED_FURTHER)[0])
    known = data.DATASETS.get(flags.dataset)
    network = flags.network or (known.suited.get("network") if known else None)
    choices = cli.choices.find()
    # Several devices share whole batches, and so do replicas and what XLA compiles.
    whole = (flags.replicas or flags.sweep_beta or flags.jit_compile == "true"
             or flags.strategy not in ("auto", "one_device") or "TF_CONFIG" in os.environ or "TPU_NAME" in os.environ)
    console.import_tensorflow(narrow=network in choices.narrow_networks,
                              in_parts=network in choices.split_networks and not whole)
    from vae_tf.programs import train

    return lambda: train.main(flags)


def _load_evaluate(flags: "FlagValues") -> Callable[[], Any]:
    from vae_tf import cli

    asked = cli.read_scoring_request(flags)
    if asked.codes:
        from vae_tf.programs import codes

        return lambda: codes.score_codes(asked)
    from vae_tf import evaluation, workers
    from vae_tf.programs import introduction

    asked = introduction.find_models(asked)
    # Where TensorFlow is imported already, as by extensions, there is nothing to wait for meanwhile.
    waits = "tensorflow" not in sys.modules and not asked.compare
    with workers.warm_up(evaluation.import_libraries, asked.options.jobs if waits else 1):
        console.import_tensorflow(distributions=False)
        from vae_tf.programs import evaluate

    return lambda: evaluate.score(asked)
