"""The two programs, which read from top to bottom.

    train       train a model and export it: `vae-tf train`, or `python train.py` in a clone
    evaluate    score an exported model, anybody's codes, or many models: `vae-tf evaluate`, or `python evaluate.py`
"""

import importlib

from vae_tf import console


def run(name: str) -> None:
    """Run a program by the flags in sys.argv, in a process of its own that console.start has prepared.

    Args:
        name: train or evaluate.
    """
    console.import_tensorflow()
    from vae_tf import cli

    program = importlib.import_module(f"vae_tf.programs.{name}")
    define_flags = {"train": cli.define_train_flags, "evaluate": cli.define_evaluate_flags}[name]
    cli.run(program.main, define_flags, program.__doc__)
