"""Read flags/PAPER/NAME.flags, and flags after it, as a dict that is the same for all ways to write the same flags.

This needs no TensorFlow, and knows no flags: values are compared by what they look like, so that 1e-3 and 0.001 are
the same number.
"""

import dataclasses
import functools
import pathlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

import vae_tf
from vae_tf import flagfiles
from vae_tf.configuration import SETTINGS
from vae_tf.errors import InputError

CHECKOUT = pathlib.Path(vae_tf.__file__).parents[1]

Value = int | float | str
# A number as flags write it; names such as 007, 2024_11_05 and infinity are texts.
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A recipe that was read.

    flags: {name: value} of the flags that say what a run is, without its seed and its length. Where steps is 0, it is
        among them.
    epochs, steps: the length, at most one of the two; neither where the dataset's default holds.
    output: {name: value} of flags that do not change the model, such as how often to log.
    seed: the first seed.
    """

    name: str
    flags: Mapping[str, Value]
    epochs: float | None = None
    steps: int | None = None
    output: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    seed: int = 0


@functools.cache
def read(name: str, extra: tuple[str, ...] = ()) -> Recipe:
    """Read the recipe flags/<name>.flags and further flags after it. If a flag is given twice, the last one counts.

    Raises:
        InputError: there is no such recipe, or a line of it is not a flag.
    """
    path = flagfiles.find_recipe(name)
    found: dict[str, Any] = {}
    own = [_parse(path, text) for text in flagfiles.read(path)]
    for flag, value in [*own, *(_parse("flags", text) for text in extra)]:
        if flag in ("steps", "epochs"):         # the one given last counts, as in train.py
            found.pop({"steps": "epochs", "epochs": "steps"}[flag], None)
        found[flag] = value
    # An untrained model is no shorter run of a trained one: its length says what it is.
    epochs, seed = found.pop("epochs", None), found.pop("seed", None)
    steps = found.pop("steps", None) if found.get("steps") != 0 else None
    output = {flag: found.pop(flag) for flag in SETTINGS if flag in found and flag != "export_weights"}
    return Recipe(name, dict(sorted(found.items())), epochs, steps, output, seed or 0)


def _parse(where: str | pathlib.Path, text: str) -> tuple[str, Value]:
    """Return ("beta", 0.001) for "--beta=1e-3"; a flag without a value is true."""
    name, equals, value = text.lstrip("-").partition("=")
    if not text.startswith("-") or not name or " " in name:
        raise InputError(f"{where}: expected a flag such as --beta=4; got {text!r}")
    return name, parse_value(value) if equals else "true"


def parse_value(value: str) -> Value:
    """Return the number that a text stands for, as int if it is whole; or the text itself if it is no number."""
    if not NUMBER.fullmatch(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


def read_flags_if_possible(name: str, extra: tuple[str, ...] = ()) -> Mapping[str, Value] | None:
    """Return the flags of a recipe, or None if it cannot be read."""
    try:
        return read(name, extra).flags
    except InputError:
        return None


def list_arguments(name: str, extra: tuple[str, ...] = (), length: str = "") -> list[str]:
    """Return all flags of a recipe for train.py without its flagfiles, so that they work in any folder.

    length: a flag that says how long to train, "" for the recipe's own length.
    """
    recipe = read(name, extra)
    length = "" if "steps" in recipe.flags else length
    own = {"epochs": recipe.epochs, "steps": recipe.steps} if not length else {}
    own = {flag: value for flag, value in own.items() if value is not None}
    given = {**recipe.flags, **recipe.output, "seed": recipe.seed, **own}
    return [_write(flag, value) for flag, value in given.items()] + [length] * bool(length)


def _write(flag: str, value: Value | None) -> str:
    """Return a flag and its value as train.py takes them; --noaccept_dark takes none."""
    return f"--{flag}" if value == "true" and flag.startswith("no") else f"--{flag}={value}"


def write_command(name: str, extra: tuple[str, ...] = (), *, seed: int, length: str = "") -> str:
    """Return the command that a person types to train one run of a recipe, or to export it untrained."""
    length = "" if "steps" in read(name, extra).flags else length
    others = [flag for flag in extra if not flag.startswith("--seed=")]
    given = [f"--flagfile=flags/{name}.flags", *others, *[length] * bool(length), f"--seed={seed}"]
    return shlex.join(["python", "train.py", *given])
