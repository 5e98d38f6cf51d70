"""Define flags under headings; each flag is checked as it is parsed."""

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

from absl import flags

from vae_tf import checks
from vae_tf.checks import LARGEST_FLOAT, LARGEST_INTEGER, SMALLEST_FLOAT
from vae_tf.errors import InputError
from vae_tf.options import Option


class PathParser(flags.ArgumentParser):
    """Parses a path; ~ is the home folder, which a shell does not put in its place in --flag=~/folder."""

    def parse(self, argument: str) -> str:
        return os.path.expanduser(str(super().parse(argument)))


class BooleanParser(flags.BooleanParser):
    """Parses true and false as absl does, and says what it expects."""

    def parse(self, argument: str | int | bool) -> bool:
        try:
            return super().parse(argument)
        except ValueError:
            raise ValueError("expected true or false") from None


def _define_boolean(name: str, default: bool, text: str, *, flag_values: flags.FlagValues, module_name: str) -> None:
    """Define a flag as flags.DEFINE_boolean does, with a parser of our own."""
    flag = flags.BooleanFlag(name, default, text)
    flag.parser = BooleanParser()
    flags.DEFINE_flag(flag, flag_values, module_name)


class PathsParser(flags.ListParser):
    """Parses comma-separated paths as `PathParser` does."""

    def parse(self, argument: str | list[str]) -> list[str]:
        return [os.path.expanduser(path) for path in super().parse(argument)]


class FlagGroups:
    """Defines flags under headings.

    Attributes:
        values: where flags are defined.
        names: {heading: names of its flags}, in the order in which they were defined.
    """

    def __init__(self, values: flags.FlagValues) -> None:
        self.values = values
        self.names: dict[str, list[str]] = {}
        self.heading = ""

    def start(self, heading: str) -> None:
        """Put the flags that follow under a heading."""
        self.heading = heading
        self.names.setdefault(heading, [])

    def add_enum(self, name: str, default: str | None, choices: Iterable[str], text: str) -> None:
        """Define a flag that takes one of some words."""
        self._define(flags.DEFINE_enum, name, default, list(choices), text)

    def add_integer(self, name: str, default: int | None, text: str, **bounds: int) -> None:
        """Define a flag that takes a whole number; bounds are lower_bound and upper_bound, by default int32's."""
        self._define(flags.DEFINE_integer, name, default, text, **{"upper_bound": LARGEST_INTEGER, **bounds})

    def add_float(self, name: str, default: float | None, text: str, positive: bool = True) -> None:
        """Define a flag that takes a number above 0 that float32 holds or, unless positive, 0 too."""
        def check(value: float | None) -> bool:
            if value is None or is_float32(value) or (value == 0 and not positive):
                return True
            raise flags.ValidationError(f"expected {'0, or ' * (not positive)}a finite number above 0, from "
                                        f"{SMALLEST_FLOAT:g} to {LARGEST_FLOAT:g}")

        self._define(flags.DEFINE_float, name, default, text)
        flags.register_validator(name, check, flag_values=self.values)

    def add_text(self, name: str, default: str | None, check: Callable[[str], Any], text: str) -> None:
        """Define a flag that takes text for which `check` raises no InputError."""
        def is_fit(value: str | None) -> bool:
            try:
                if value is not None:
                    check(value)
            except InputError as error:
                raise flags.ValidationError(str(error).partition(": ")[2]) from None
            return True

        self._define(flags.DEFINE_string, name, default, text)
        flags.register_validator(name, is_fit, flag_values=self.values)

    def add_path(self, name: str, default: str | None, text: str) -> None:
        """Define a flag that takes text that a file's name may hold."""
        self._define(functools.partial(flags.DEFINE, PathParser()), name, default, text,
                     serializer=flags.ArgumentSerializer())
        self._check_paths(name)

    def add_paths(self, name: str, default: str | None, text: str) -> None:
        """Define a flag that takes comma-separated texts that files' names may hold."""
        self._define(functools.partial(flags.DEFINE, PathsParser()), name, default, text,
                     serializer=flags.CsvListSerializer(","))
        self._check_paths(name)

    def add_memory_limit(self) -> None:
        """Define --memory_limit."""
        self.add_float("memory_limit", None, "Memory in GiB that data, models and computations may take. What is "
                       "estimated to take more is refused before it starts. By default the limit is what the machine, "
                       "its control groups and ulimit leave.")

    def add_boolean(self, name: str, default: bool, text: str) -> None:
        """Define a flag that is set or not."""
        self._define(_define_boolean, name, default, text)

    def add_list(self, name: str, default: str | None, text: str) -> None:
        """Define a flag that takes comma-separated texts."""
        self._define(flags.DEFINE_list, name, default, text)

    def add_option(self, option: Option) -> None:
        """Define the flag of a model's own option."""
        def check(value: Any) -> bool:
            try:
                option.check(value)
            except InputError as error:
                raise flags.ValidationError(str(error).partition(": ")[2]) from None
            return True

        if option.choices:
            self.add_enum(option.name, option.default, option.choices, option.help)
            return
        definitions: dict[type, Any] = {int: flags.DEFINE_integer, float: flags.DEFINE_float,
                                        bool: _define_boolean, str: flags.DEFINE_string}
        self._define(definitions[option.kind], option.name, option.default, option.help)
        flags.register_validator(option.name, check, flag_values=self.values)

    def _define(self, define: Callable[..., Any], name: str, *args: Any, **options: Any) -> None:
        define(name, *args, flag_values=self.values, module_name=self.heading, **options)
        self.names[self.heading].append(name)

    def _check_paths(self, name: str) -> None:
        def check(value: str | list[str] | None) -> bool:
            given = [] if value is None else value or [""] if isinstance(value, list) else [value]
            try:
                for part in given:
                    checks.check_path(name, part)
            except InputError as error:
                raise flags.ValidationError(str(error).partition(": ")[2]) from None
            return True

        flags.register_validator(name, check, flag_values=self.values)


def is_float32(value: float) -> bool:
    """Return whether float32 holds a positive number, neither as 0 nor as infinity."""
    return SMALLEST_FLOAT <= value <= LARGEST_FLOAT
