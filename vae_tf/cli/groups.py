"""Define flags under headings; each flag is checked as it is parsed."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from absl import flags

from vae_tf.errors import InputError
from vae_tf.models import Option


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
        """Define a flag that takes a whole number; bounds are lower_bound and upper_bound."""
        self._define(flags.DEFINE_integer, name, default, text, **bounds)

    def add_float(self, name: str, default: float | None, text: str, positive: bool = True) -> None:
        """Define a flag that takes a finite number, above 0 or, unless positive, 0 too."""
        def check(value: float | None) -> bool:
            if value is None or (math.isfinite(value) and (value > 0 or (value == 0 and not positive))):
                return True
            raise flags.ValidationError(f"expected a finite number {'above' if positive else 'not below'} 0")

        self._define(flags.DEFINE_float, name, default, text)
        flags.register_validator(name, check, flag_values=self.values)

    def add_path(self, name: str, default: str | None, text: str) -> None:
        """Define a flag that takes text.

        An empty path is refused: it is an unset variable of a shell, and would mean the root.
        """
        self._define(flags.DEFINE_string, name, default, text)
        self._refuse_empty(name)

    def add_paths(self, name: str, default: str | None, text: str) -> None:
        """Define a flag that takes comma-separated texts of which none is empty."""
        self._define(flags.DEFINE_list, name, default, text)
        self._refuse_empty(name)

    def add_boolean(self, name: str, default: bool, text: str) -> None:
        """Define a flag that is set or not."""
        self._define(flags.DEFINE_boolean, name, default, text)

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
                                        bool: flags.DEFINE_boolean, str: flags.DEFINE_string}
        self._define(definitions[option.kind], option.name, option.default, option.help)
        flags.register_validator(option.name, check, flag_values=self.values)

    def _define(self, define: Callable[..., Any], name: str, *args: Any, **options: Any) -> None:
        define(name, *args, flag_values=self.values, module_name=self.heading, **options)
        self.names[self.heading].append(name)

    def _refuse_empty(self, name: str) -> None:
        def check(value: str | list[str] | None) -> bool:
            given = value if isinstance(value, list) else [value]
            if value is None or (given and all(part and part.strip() for part in given)):
                return True
            raise flags.ValidationError("expected a name or path; got an empty one")

        flags.register_validator(name, check, flag_values=self.values)
