"""Classes for what a model declares beside its mathematics: its own options, updates, and what theory knows of it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vae_tf import checks
from vae_tf.errors import InputError
from vae_tf.typing import Optimizer

# The terms of an objective that beta may weigh, in words.
KL = "KL term"
TOTAL_CORRELATION = "total correlation"


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
            return checks.check_whole(self.name, value, self.low or 0, checks.LARGEST_INTEGER)
        if self.kind is float:
            low = -checks.LARGEST_FLOAT if self.low is None else self.low
            return checks.check_number(self.name, value, low, high=checks.LARGEST_FLOAT)
        if not isinstance(value, self.kind):
            raise InputError(f"{self.name}: expected a {self.kind.__name__}; got {value!r}")
        return value


class Setting(NamedTuple):
    """The sizes, seed and options for which a model is built.

    latents: d, the number of latents.
    u_size: |u|; 0 if the data have no u.
    examples: number of training examples; None if it is not known.
    seed: the seed for the initial weights.
    options: the value of each of the model's own options, checked.
    """

    latents: int
    u_size: int
    examples: int | None
    seed: int
    options: Mapping[str, Any]


class Update(NamedTuple):
    """One update of a training step: an optimizer moves variables down the gradient of a term of the objective.

    term: the name of the term, whose mean over the batch these variables minimise.
    variables: trainable variables of the model.
    optimizer: a Keras optimizer, which no other update of the model uses.
    """

    term: str
    variables: Sequence[Any]
    optimizer: Optimizer


class LinearTheory(NamedTuple):
    """What theory knows of a model whose encoder and decoder are linear (vae_tf/theory), under a Gaussian likelihood.

    kl_weight: w in the condition that decides which latents collapse: an eigenvalue of the data's covariance is used
        if it is above w s^2 (`theory.critical_betas`). None if w is beta.
    optimum: the posterior's covariance at the optimum that `theory.linear_beta_vae` gives, "diagonal" or "full"; None
        if the optimum is not known.
    """

    kl_weight: float | None = None
    optimum: str | None = None
