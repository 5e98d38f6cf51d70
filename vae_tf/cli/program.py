"""A program: its flags parsed, its help page, its errors and warnings as one line each."""

import pathlib
import sys
import textwrap
import warnings

from absl import app, flags, logging

from vae_tf import console, extensions, models, training
from vae_tf.errors import InputError, printable


def run(main, define_flags, description):
    """Run a program: `main(FLAGS)` with its flags parsed; bad input is one line on stderr and exit code 2."""
    program = pathlib.Path(sys.argv[0]).name
    try:
        extensions.load()
        groups = define_flags()
    except InputError as error:
        _fail(program, error)

    def parse(argv):
        if {"--help", "-h", "-help"} & set(argv[1:]):
            print(help_text(program, description, groups))
            sys.exit(0)
        try:
            rest = read(flags.FLAGS, argv)
        except flags.Error as error:
            _fail(program, error)
        return rest

    def guarded(argv):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)      # TensorFlow tells its own progress at INFO
        warnings.showwarning = lambda message, *_: print(f"{program}: warning: {printable(message)}", file=sys.stderr)
        try:
            console.run(program, lambda: main(flags.FLAGS))
        except (InputError, OSError, training.NonFiniteError, training.DataError) as error:
            _fail(program, error)

    app.run(guarded, flags_parser=parse)


def read(values, argv):
    """Parse argv into values, flagfiles included; of --steps and --epochs the one given last counts.

    A flagfile's beta is left out if a --model outside of the file names a model without one.

    Raises:
        flags.Error: an unknown flag, a value that does not fit, or something that is no flag.
    """
    outside = {arg.lstrip("-").partition("=")[0] for arg in argv}
    argv = values.read_flags_from_files(argv)
    rest = values(argv)
    if rest[1:]:
        raise flags.Error(f"expected flags alone, such as --model=vae; got {' '.join(rest[1:])!r}")
    given = [arg.lstrip("-").partition("=")[0] for arg in argv if arg.startswith("-")]
    lengths = [name for name in given if name in ("steps", "epochs")]
    if len(set(lengths)) > 1:
        values[{"steps": "epochs", "epochs": "steps"}[lengths[-1]]].value = None
    if "model" in outside and "beta" not in outside and values.model not in models.with_beta():
        values["beta"].value = None
    return rest


def _fail(program, error):
    line = " ".join(str(error).removeprefix("ERROR:: ").split())
    print(f"{program}: error: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def help_text(program, description, groups, values=flags.FLAGS):
    """The --help page: what the program does, then every flag under its heading."""
    lines = [f"python {program} [--flag=value ...] [--flagfile=FILE]", "", description]
    for heading, names in groups.items():
        lines += ["", heading]
        for name in names:
            flag = values[name]
            choices = getattr(flag.parser, "enum_values", None)
            default = "" if flag.default is None else f" [{flag.default_as_str}]".replace("'", "")
            text = flag.help.split(">: ")[-1] + (f" One of {', '.join(choices)}." if choices else "") + default
            lines += textwrap.wrap(text, 110, initial_indent=f"  --{name:<20} ", subsequent_indent=" " * 25)
    lines += ["", "  --flagfile=FILE      Read flags from FILE; flags after it override it. Recipes: flags/*/*.flags"]
    return "\n".join(lines)
