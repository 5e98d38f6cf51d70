"""The flags that have an effect only beside others; one that has none is refused, because its user expects something.

A table names every flag of a program: None for a flag that always has an effect, or else an Effect. This is about flags
of the command line. A flagfile may hold flags that the command line makes idle, such as a recipe's --tc_estimator under
another --model; those are ignored, unless their effect says that they are refused there, too: who asks for early
stopping in a flagfile must not get a run without it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl.flags import FlagValues

from vae_tf.errors import InputError


class Effect(NamedTuple):
    """When a flag has an effect: in words, and as a function of a Training, or of evaluate.py's flags."""

    words: str
    holds: Callable[[Any], bool]
    in_flagfiles: bool = False      # whether an idle flag is refused in a flagfile, too


EffectTable = dict[str, Effect | None]


def check_effects(table: Mapping[str, Effect | None], flags: FlagValues, asked: Any) -> None:
    """Raise InputError for a flag that has no effect beside the others, see the table.

    Args:
        table: the effects of all flags.
        flags: the flags, of which those in flagfiles alone count as not present, see program.read_flags.
        asked: what the effects are functions of.
    """
    for name, effect in table.items():
        is_given = flags[name].value != flags[name].default
        if effect and is_given and (flags[name].present or effect.in_flagfiles) and not effect.holds(asked):
            raise InputError(f"--{name}: it has an effect only {effect.words}; leave out this flag, or change the "
                             "others")


def find_idle(table: Mapping[str, Effect | None], asked: Any) -> set[str]:
    """Return the names of the flags that have no effect beside the others; the arguments are those of check_effects."""
    return {name for name, effect in table.items() if effect and not effect.holds(asked)}
