"""The names of commands: of the one that runs, and of one that may be typed next."""

import argparse
import pathlib
import shlex
import sys
import warnings
from typing import Any, NoReturn

from vae_tf.errors import make_printable, shorten

FILES = ("train.py", "evaluate.py")     # programs that a clone has as files, too


def name_program() -> str:
    """Return the name of the program that runs: train.py, vae-tf train, or python -m vae_tf.data."""
    name = pathlib.Path(sys.argv[0]).name
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return f"python -m {spec.parent}" if name == "__main__.py" and spec else name


def name_command(program: str) -> str:
    """Return what to type for a program, in the way in which the one that runs was typed.

    Args:
        program: train, evaluate or another word that `vae-tf` takes.
    """
    running = name_program()
    if running in FILES and f"{program}.py" in FILES:
        return f"python {shlex.quote(str(pathlib.Path(sys.argv[0]).with_name(f'{program}.py')))}"
    return f"python -m vae_tf {program}" if running.startswith(("python -m vae_tf", *FILES)) else f"vae-tf {program}"


def describe_error(program: str, error: object) -> str:
    """Return the line that a program prints of an error."""
    line = " ".join(str(error).removeprefix("ERROR:: ").split())
    return f"{program}: error: {shorten(make_printable(line))}"


def fail(error: object) -> NoReturn:
    """End the process with exit code 2 and one line."""
    print(describe_error(name_program(), error), file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line; it takes no abbreviations."""

    def __init__(self, description: str | None) -> None:
        super().__init__(prog=name_program(), description=(description or "").replace("`", ""), allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        fail(message)


def show_warnings_as_lines(program: str) -> None:
    """Have every warning of this process printed as one line."""
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"{program}: warning: {shorten(make_printable(message))}", file=sys.stderr)

    warnings.showwarning = show
