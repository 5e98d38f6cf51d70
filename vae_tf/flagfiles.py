"""Files of flags that may name others, and the recipes among them, which are found from any folder."""

import difflib
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence

from vae_tf import console
from vae_tf.errors import InputError, make_printable

PACKAGE = pathlib.Path(__file__).parent
# The recipes lie inside of an installed package, and beside the package in a clone of the repository.
RECIPES = next((folder for folder in (PACKAGE / "flags", PACKAGE.parent / "flags") if folder.is_dir()),
               PACKAGE / "flags")
MOST_FILES, LARGEST = 1_000, 2**20      # files that one command reads, and letters of each


def list_recipes() -> list[str]:
    """Return the names of all recipes, such as rolinek2018/mnist_vae, without the files that recipes share."""
    return [name for name in _list_names() if name != "base" and "/common/" not in name]


def find_recipe(name: str) -> pathlib.Path:
    """Return the file of a recipe.

    Args:
        name: a name of list_recipes, with or without .flags, the name of a file that recipes share, or NAME where the
            current folder has flags/NAME.flags.

    Raises:
        InputError: there is no such recipe.
    """
    bare = name.removesuffix(".flags")
    if bare in _list_names():
        return RECIPES / f"{bare}.flags"
    own = pathlib.Path("flags", f"{bare}.flags")
    if ".." not in own.parts and not own.is_absolute() and os.path.isfile(own):
        return own
    names = list_recipes()
    close = [each for each in names if bare and bare in each][:3] or difflib.get_close_matches(bare, names, 3)
    raise InputError(f"recipe: expected the name of a recipe, or NAME of a file flags/NAME.flags in this folder; got "
                     f"{name!r}{'; close to it: ' * bool(close)}{', '.join(close)}; "
                     f"{console.name_command('recipes')} lists all recipes")


def describe_recipe(name: str) -> tuple[str, str]:
    """Return the title of a recipe, and what it costs to run, from the comments at its top."""
    comments = re.match(r"(#.*\n)*", find_recipe(name).read_text("utf-8"))
    title, *entries = re.sub(r"\n#   +", " ", comments[0] if comments else "").splitlines()
    costs = [entry.removeprefix("# Cost: ") for entry in entries if entry.startswith("# Cost: ")]
    return title.removeprefix("# "), costs[0] if costs else "unknown"


def expand(arguments: Sequence[str], inside: tuple[pathlib.Path, ...] = ()
           ) -> list[tuple[str, tuple[pathlib.Path, ...]]]:
    """Put the flags of files and recipes in the places of --flagfile=FILE and --recipe=NAME.

    A file that is named in a recipe is looked for among the recipes. Any other is looked for from the current folder,
    as absl does, and flags/NAME.flags then among the recipes.

    Args:
        arguments: flags as they are typed; of those on the command line, none after -- is expanded.
        inside: the files that the arguments stand in, outermost first.

    Returns:
        Each argument, with the files that it stands in.

    Raises:
        InputError: there is no such file or recipe, it is no text, or the files name each other too many times.
    """
    expanded: list[tuple[str, tuple[pathlib.Path, ...]]] = []
    files_read = 0
    reading = [(inside, iter(arguments))]       # each file whose flags are not all expanded yet, innermost last
    while reading:
        inside, rest = reading[-1]
        argument = next(rest, None)
        match = None if argument is None else re.fullmatch(r"--?(flagfile|recipe)(?:=(.*))?", argument, re.DOTALL)
        if argument is None:
            reading.pop()
        elif match is None:
            taken = [argument, *rest] if argument == "--" and not inside else [argument]
            expanded += [(each, inside) for each in taken]
        elif (path := _find_named(match, rest, inside)) is not None:
            files_read += 1
            if files_read > MOST_FILES:
                raise InputError(f"--flagfile: expected at most {MOST_FILES:,} files that name each other; got more, "
                                 f"{path} the last")
            reading.append(((*inside, path), iter(_read_lines(path))))
    return expanded


def read(path: pathlib.Path) -> list[str]:
    """Return the flags in a file, those of the files that it names included; raises InputError as `expand`."""
    return [argument for argument, _ in expand(_read_lines(path), (path,))]


def _find_named(match: re.Match, rest: Iterator[str], inside: tuple[pathlib.Path, ...]) -> pathlib.Path | None:
    """Return the file that --flagfile or --recipe names; None for no name, or for a file that names itself again."""
    named = next(rest, None) if match[2] is None else match[2].strip()
    if named is None:
        raise InputError(f"--{match[1]}: expected a value after it; got none")
    if match[1] == "flagfile" and not named:        # absl ignores an empty name
        return None
    path = find_recipe(named) if match[1] == "recipe" else _find_file(named, inside)
    if path in inside:
        print(f"{console.name_program()}: warning: --flagfile={make_printable(path)} names itself, and is left out "
              "there", file=sys.stderr)
        return None
    return path


def _read_lines(path: pathlib.Path) -> list[str]:
    """Return the lines of a file, without comments and empty lines."""
    try:
        with open(path, encoding="utf-8-sig") as file:      # a pipe too, as of --flagfile=<(command)
            text = file.read(LARGEST + 1)
    except (ValueError, OSError) as error:
        raise InputError(f"--flagfile: expected a file with a flag on each line, in UTF-8; got {error}") from None
    if len(text) > LARGEST:
        raise InputError(f"--flagfile: expected a file of at most {LARGEST:,} letters; {path} has more")
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith(("#", "//"))]


def _list_names() -> list[str]:
    """Return the names of all files of flags that lie among the recipes."""
    return sorted(path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.flags"))


def _find_file(name: str, inside: Sequence[pathlib.Path]) -> pathlib.Path:
    """Return the file that --flagfile names, on the command line or in the last of some files."""
    typed = pathlib.Path(os.path.expanduser(name))
    if not name.startswith("flags/"):
        return typed
    recipe = RECIPES / name.removeprefix("flags/")
    in_recipe = bool(inside) and inside[-1].resolve().is_relative_to(RECIPES.resolve())
    places = (recipe, typed) if in_recipe else (typed, recipe)
    return next((path for path in places if os.path.exists(path)), typed)
