"""How long a program trains, and after how many steps what happens."""

import dataclasses
import itertools
import math
from typing import Any

from vae_tf import checks, data, replicas
from vae_tf.errors import InputError
from vae_tf.train_step import Compiled


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long a program trains, and how often what happens.

    Args:
        steps: the updates in all.
        batch_size: examples per update and model.
        warmup_steps: steps over which beta grows linearly from 0.
        clip_gradients: the largest norm of each model's whole gradient; 0 for no limit.
        jit_compile: whether XLA compiles the step; "updates" compiles what the optimizers do with gradients alone.
            Under a strategy of several devices or machines it must be False.
        log_every: steps from one row of history to the next. A row also ends at multiples of checkpoint_every, of
            watch_every if there is a watch, and of validate_every if there is a validation part.
        checkpoint_every: steps per checkpoint.
        watch: called once as watch(model, x, u) to make a graph, which runs every watch_every steps. x and u are 500
            training examples at most, chosen by seed and the same all through a run. It returns scalars by name, which
            join the step's row.
        watch_every: steps from one call of `watch` to the next.
        images_every: steps from one picture of reconstructions and traversals in the TensorBoard logs to the next; 0
            for none. It changes no number of a run, and needs images.
        validation: examples that are not trained on, of which 5,000 are drawn if there are more; None validates
            nothing. The objective's terms over them join the rows of history as validation_loss and so on, and the
            weights with the lowest validation_loss are kept in checkpoints.
        validate_every: steps from one validation to the next.
        early_stopping: how many validations without improvement end training; 0 for any number. Each of several
            replicas stops on its own: it gets no more rows, and the others go on.
        restore_best: whether models end with their best weights instead of their last ones, as they always do with
            early_stopping. The models of a run that was asked to stop keep their last weights.

    Raises:
        InputError: a number that is none of these, or early_stopping or restore_best without validation.
    """

    steps: int
    batch_size: int
    warmup_steps: int = 0
    clip_gradients: float = 0
    jit_compile: Compiled = False
    log_every: int = 50
    checkpoint_every: int = 1000
    watch: replicas.Watch | None = None
    watch_every: int = 500
    images_every: int = 0
    validation: data.Dataset | None = None
    validate_every: int = 1000
    early_stopping: int = 0
    restore_best: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "warmup_steps", "early_stopping", "images_every"):
            checks.check_whole(name, getattr(self, name), 0, checks.LARGEST_INTEGER)
        for name in ("batch_size", "log_every", "checkpoint_every", "watch_every", "validate_every"):
            checks.check_whole(name, getattr(self, name), 1, checks.LARGEST_INTEGER)
        checks.check_number("clip_gradients", self.clip_gradients, 0, high=checks.LARGEST_FLOAT)
        if not isinstance(self.jit_compile, bool | str) or self.jit_compile not in (True, False, "updates"):
            raise InputError(f"jit_compile: expected True, False or 'updates'; got {checks.describe(self.jit_compile)}")
        if not isinstance(self.restore_best, bool):
            raise InputError(f"restore_best: expected True or False; got {checks.describe(self.restore_best)}")
        if not (self.watch is None or callable(self.watch)):
            raise InputError(f"watch: expected a function or None; got {checks.describe(self.watch)}")
        if not (self.validation is None or isinstance(self.validation, data.Dataset)):
            raise InputError(f"validation: expected a Dataset or None; got {checks.describe(self.validation)}")
        for name in ("early_stopping", "restore_best"):
            if getattr(self, name) and self.validation is None:
                raise InputError(f"{name}: it needs validation, a dataset that is not trained on; got none")

    def list_numbers(self) -> list[Any]:
        """List what decides which steps are made, and when something is done between them."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)
                if field.name not in ("watch", "validation")] + [self.watch is None, self.validation is None]

    def find_row_end(self, step: int) -> int:
        """Return the step at which the row that `step` belongs to ends.

        Rows end at multiples, so that they and checkpoints do not depend on where a run was resumed.
        """
        return min(self.steps, *((step // every + 1) * every for every in self._list_row_lengths()))

    def count_rows(self) -> int:
        """Return the number of rows of a whole run."""
        lengths, before_last = self._list_row_lengths(), max(self.steps - 1, 0)
        # Rows of several lengths may end at the same step, which counts once.
        return 1 + sum((-1)**(size + 1) * (before_last // math.lcm(*some)) for size in range(1, len(lengths) + 1)
                       for some in itertools.combinations(lengths, size))

    def _list_row_lengths(self) -> list[int]:
        return [self.log_every, self.checkpoint_every, *([self.watch_every] if self.watch else []),
                *([self.validate_every] if self.validation is not None else [])]

    def count_until_images(self, step: int) -> int:
        """Return the number of steps from `step` to the next picture, or to the end where there is none."""
        return self.images_every - step % self.images_every if self.images_every else self.steps - step
