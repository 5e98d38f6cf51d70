"""Write the page of --help."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence

from absl import flags

NARROWEST, WIDEST = 60, 110     # characters of a line, between which the page fits into the terminal


def write_help(program: str, description: str, groups: Mapping[str, Sequence[str]]) -> str:
    """Return the page of --help: what the program does, then every flag under its heading.

    Args:
        program: its name, such as train.py or vae-tf train.
        description: what it does.
        groups: {heading: names of flags}.
    """
    lines = [f"{'python ' * program.endswith('.py')}{program} [--flag=value ...] [--flagfile=FILE]", "", description]
    for heading, names in groups.items():
        lines += ["", heading]
        for name in names:
            lines += _describe(name, flags.FLAGS[name])
    lines += ["", *_wrap("recipe=NAME", "Read the flags of a recipe, see vae-tf recipes; flags after it override it."),
              *_wrap("flagfile=FILE", "Read flags from FILE; flags after it override it.")]
    return "\n".join(lines)


def _describe(name: str, flag: flags.Flag) -> list[str]:
    """Return the lines of one flag."""
    choices = getattr(flag.parser, "enum_values", None)
    default = "" if flag.default is None else f" [{flag.default_as_str}]".replace("'", "")
    text = flag.help.split(">: ")[-1] + (f" One of {', '.join(choices)}." if choices else "") + default
    return _wrap(name, text)


def _wrap(name: str, text: str) -> list[str]:
    """Return the lines of a flag and its text, as wide as the terminal or WIDEST."""
    width = min(WIDEST, max(NARROWEST, shutil.get_terminal_size((WIDEST, 0)).columns))
    return textwrap.wrap(text, width, initial_indent=f"  --{name:<20} ", subsequent_indent=" " * 25)
