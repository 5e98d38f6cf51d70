"""Options of models: what one model alone takes, which is a flag, a key of configurations and an argument."""

import dataclasses
from typing import Any

from vae_tf import checks
from vae_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of one model: a flag of train.py, a key of the configuration and an argument of `models.build`.

    Attributes:
        name: the name of the flag, the key and the argument. The model keeps the value as an attribute of this name.
        default: the value if none is given.
        help: a sentence for --help.
        kind: type of the value: str, int, float or bool.
        choices: the values that a str may have; empty if any will do.
        low: the least value that a number may have.
        shapes_weights: whether the weights of two models that differ in this option cannot be exchanged.
        in_every_configuration: whether the configurations of other models have the key, too. This is so for the oldest
            options, because runs and results are found by their configurations. New options leave this False.
    """

    name: str
    default: Any
    help: str
    kind: type = str
    choices: tuple[str, ...] = ()
    low: float | None = None
    shapes_weights: bool = False
    in_every_configuration: bool = False

    def check(self, value: Any) -> Any:
        """Return the value; raise InputError, one line that names the option, if the option cannot have this value."""
        if value is None and self.default is None:
            return value
        if self.choices:
            return checks.check_choice(self.name, value, self.choices)
        if self.kind is int:
            least = -checks.LARGEST_INTEGER if self.low is None else self.low
            return checks.check_whole(self.name, value, least, checks.LARGEST_INTEGER)
        if self.kind is float:
            low = -checks.LARGEST_FLOAT if self.low is None else self.low
            return checks.check_number(self.name, value, low, high=checks.LARGEST_FLOAT)
        if not isinstance(value, self.kind):
            raise InputError(f"{self.name}: expected a {self.kind.__name__}; got {value!r}")
        return value
