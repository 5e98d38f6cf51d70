"""The command `vae-tf`, which is also `python -m vae_tf`: its first word names what to do.

It imports nothing slow before it knows what that is.
"""

import difflib
import importlib
import sys

import vae_tf
from vae_tf import console, programs

# What the first word may be: the module of the program, and what it does.
COMMANDS = {
    "train": ("vae_tf.programs.train", "train a model and export it"),
    "evaluate": ("vae_tf.programs.evaluate", "score an exported model or anybody's codes, or compare models"),
    "recipes": ("vae_tf.programs.recipes", "list the recipes that --recipe names, by paper"),
    "data": ("vae_tf.data.__main__", "list, show, check and prepare data"),
    "experiments": ("vae_tf.experiments.__main__", "reproduce the papers' tables and figures"),
    "metrics": ("vae_tf.metrics.__main__", "print what all metrics declare"),
    "push": ("vae_tf.programs.push", "send an exported model to the Hugging Face Hub"),
    "pull": ("vae_tf.programs.pull", "fetch an exported model from the Hugging Face Hub"),
}


def main() -> None:
    """Run the program that the first argument names, as if it had been called by that name."""
    console.start()     # before the slow imports
    command = "python -m vae_tf" if console.name_program() == "python -m vae_tf" else "vae-tf"
    word, *rest = sys.argv[1:] or ["--help"]
    if word in ("--help", "-h"):
        print(write_help(command))
    elif word == "--version":
        print(f"{command} {vae_tf.__version__}")
    else:
        sys.argv = [command, *rest]
        if word not in COMMANDS:
            close = "".join(f"; did you mean {name}?" for name in difflib.get_close_matches(word, COMMANDS, 1))
            console.fail(f"expected one of {', '.join(COMMANDS)}; got {word!r}{close}")
        sys.argv[0] = f"{command} {word}"
        run(word)


def run(word: str) -> None:
    """Run a program with the arguments in sys.argv."""
    if word in ("train", "evaluate"):
        programs.run(word)
    else:
        console.run(console.name_program(), importlib.import_module(COMMANDS[word][0]).main)


def write_help(command: str) -> str:
    """Return what the command prints when it is called alone."""
    return "\n".join([f"{command} COMMAND [ARGUMENTS ...]", "", (vae_tf.__doc__ or "").splitlines()[0], "",
                      *(f"  {word:<12} {text}" for word, (_, text) in COMMANDS.items()), "",
                      f"{command} COMMAND --help says what a command takes."])


if __name__ == "__main__":
    main()
