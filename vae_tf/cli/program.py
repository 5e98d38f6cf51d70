"""Run a program: parse its flags, and print each error and warning as one line."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import app, flags, logging

from vae_tf import console, extensions, flagfiles, memory
from vae_tf.cli import choices
from vae_tf.cli.help_page import write_help
from vae_tf.errors import DataError, InputError, NonFiniteError, WorkerError

# A program ends with one line and exit code 2 for these; any other error is a bug and shows where.
ONE_LINE = (InputError, OSError, NonFiniteError, DataError, WorkerError)


def run(load: Callable[[flags.FlagValues], Callable[[], Any]], define_flags: Callable[[], Mapping[str, Sequence[str]]],
        description: str) -> None:
    """Run a program with its flags parsed; bad input is one line on stderr and exit code 2.

    Args:
        load: called with the flags; imports what the program needs, which may take seconds, and returns the program.
            Ctrl-C ends the process at once until then.
        define_flags: defines its flags, and returns {heading: names of flags}.
        description: what the program does, for --help.
    """
    program = console.name_program()
    try:
        if extensions.are_named():
            console.import_tensorflow()     # before they do, with what its native code prints
        extensions.load()
        groups = define_flags()
    except InputError as error:
        console.fail(error)

    def parse(argv: list[str]) -> list[str]:
        if {"--help", "-h", "-help"} & set(argv[1:]):
            print(write_help(program, description, groups))
            sys.exit(0)
        try:
            return read_flags(flags.FLAGS, argv)
        except flags.Error as error:
            console.fail(error)

    def run_main(argv: list[str]) -> None:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)      # TensorFlow logs its own progress at level INFO
        console.show_warnings_as_lines(program)
        if flags.FLAGS.memory_limit is not None:
            memory.set_limit(flags.FLAGS.memory_limit * 2**30)
        try:
            console.run(program, load(flags.FLAGS))
        except ONE_LINE as error:
            console.fail(error)
        except MemoryError as error:
            console.fail(f"memory: expected enough for this command; {str(error) or 'there was not'}. Ask for "
                         "less at a time, or close other programs")

    app.run(run_main, flags_parser=parse)


def read_flags(values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Parse argv into values, the flags of flagfiles and recipes included.

    If both --steps and --epochs are given, the last one counts.
    A flagfile's beta is left out if a --model outside of the file names a model without one. Flags that stand in
    flagfiles alone count as not present, so that effects.check_effects is about the command line.

    Raises:
        flags.Error: an unknown flag, a value that does not fit, or something that is no flag.
    """
    outside = {_name(arg) for arg in argv if arg.startswith("-")}
    try:
        expanded = flagfiles.expand(argv)
    except InputError as error:
        raise flags.Error(str(error)) from None
    argv = [argument for argument, _ in expanded]
    try:
        rest = values(argv)
    except (ValueError, OverflowError) as error:        # from flags of absl's own, such as --logger_levels
        named = str(error).startswith("--")         # of --noNAME=VALUE
        raise flags.Error(str(error) if named else f"{' '.join(argv[1:])}: {error}") from None
    if rest[1:]:
        raise flags.Error(f"expected flags alone, such as --model=vae; got {' '.join(rest[1:])!r}")
    last = {_name(arg): place for place, arg in enumerate(argv) if arg.startswith("-")}
    if {"steps", "epochs"} <= last.keys():
        values[min("steps", "epochs", key=last.__getitem__)].value = None
    for name in values:
        of_absl = str(values.find_module_defining_flag(name)).startswith("absl")
        if not of_absl and name not in outside and f"no{name}" not in outside:
            values[name].present = 0
    if "model" in last and "beta" in last and choices.find().models[values.model].default_beta is None:
        of_model, of_beta = (expanded[last[name]][1] for name in ("model", "beta"))        # the files they stand in
        if of_model[:len(of_beta)] != of_beta:
            values["beta"].value = None
    return rest


def _name(argument: str) -> str:
    """Return the flag's name in an argument such as --beta=4."""
    return argument.lstrip("-").partition("=")[0]
