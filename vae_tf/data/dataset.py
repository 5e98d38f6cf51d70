"""The class of all datasets: N examples by index, their factors, and u."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vae_tf import checks
from vae_tf.data import conditions
from vae_tf.data.columns import scale
from vae_tf.errors import InputError
from vae_tf.typing import Array, ArrayLike, Floats, Integers

SPLITS = ("auto", "grid", "random", "random_90_10")
PARTS = ("train", "validation", "test")
FEWEST_TO_SPLIT = 8         # least number of examples: with fewer, one of the random parts would be empty


class Factor(NamedTuple):
    """A ground-truth factor v_k.

    size is its number of values, None for a continuous one; kind is "categorical", "ordinal", "cyclic"
    or "continuous". incomplete says whether some examples lack its value, which is then NaN.
    """

    name: str
    size: int | None
    kind: str
    incomplete: bool = False


class Part(NamedTuple):
    """The part of a whole dataset that another dataset holds.

    name is one of PARTS; how is one of SPLITS but "auto", or conditions, see Dataset.find_indices; whole is the number
    of examples of which the part has `indices`; seed is that of random parts.
    """

    name: str
    how: str
    whole: int
    indices: np.ndarray | range
    seed: int


@dataclasses.dataclass(frozen=True)
class Dataset:
    """N examples that are made or fetched by index, so that no dataset need fit in memory.

    Attributes:
        name: the name, as given to `load`.
        size: N, also len(dataset).
        shape: the shape of one example: (H, W, C), uint8, or (n,), float32.
        factors: a Factor per column of factors_at; empty when the ground truth is unknown.
        images_at: indices [B] -> examples [B, *shape].
        factors_at: indices [B] -> factor values [B, K]: integers 0..size-1, or floats; NaN for a value that is missing.
        u_at: indices [B] -> auxiliary variables of the iVAE, float32 [B, |u|].
        u_size: |u|; 0 when there is none.
        u_range: (low, high), each [|u|]: the values that became 0 and 1 in u of the factors that no example lacks; None
            where u is not made of factors.
        parts: "train" and "test" as published, as ranges of indices; empty when there are none.
        complete_grid: whether the examples are every combination of the factors, so that none can be held out as new.
        fingerprint: identifies the examples by content, see `fingerprint`; a part keeps that of the whole.
        part: which part of another dataset this is; None for one that `split` did not make.
        posterior_at: indices [B] -> mean [B, K] and covariance [K, K] of the true posterior p(v|x), a Gaussian; None
            where it is not known.
    """

    name: str
    size: int
    shape: tuple[int, ...]
    images_at: Callable[[np.ndarray], np.ndarray]
    factors: tuple[Factor, ...] = ()
    factors_at: Callable[[np.ndarray], np.ndarray] | None = None
    u_at: Callable[[np.ndarray], np.ndarray] | None = None
    u_size: int = 0
    u_range: tuple[np.ndarray, np.ndarray] | None = None
    parts: dict[str, range] = dataclasses.field(default_factory=dict)
    complete_grid: bool = False
    fingerprint: str = ""
    part: Part | None = None
    posterior_at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None

    def __len__(self) -> int:
        return self.size

    @property
    def is_image(self) -> bool:
        """Whether examples are uint8 images rather than float vectors."""
        return len(self.shape) == 3

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(factor.name for factor in self.factors)

    @property
    def factor_sizes(self) -> tuple[int | None, ...]:
        """How many values each factor has; None for a continuous one."""
        return tuple(factor.size for factor in self.factors)

    @property
    def factors_of_u(self) -> tuple[str, ...]:
        """The names of the factors that u is made of, where it is: those that no example lacks."""
        return tuple(factor.name for factor in self.factors if not factor.incomplete)

    def take(self, indices: ArrayLike) -> "Dataset":
        """Return the dataset of these examples alone, renumbered 0..len(indices)-1.

        Raises:
            InputError: an index that no example has.
        """
        taken = np.asarray(indices, None if np.size(indices) else np.int64)
        if taken.ndim != 1:
            raise InputError(f"indices: expected a list of whole numbers; got an array of shape {taken.shape}")
        known = (taken >= 0) & (taken < self.size) & np.issubdtype(taken.dtype, np.integer)
        if not known.all():
            raise InputError(f"indices: expected whole numbers from 0 to {self.size - 1}; got {taken[~known][0]}")

        def within(function: Any) -> Any:
            """Return the function of the whole dataset, for the new numbers."""
            return function and (lambda i: function(taken[i]))

        complete = self.complete_grid and len(np.unique(taken)) == self.size
        return replace(self, size=len(taken), complete_grid=complete, images_at=within(self.images_at),
                       factors_at=within(self.factors_at), u_at=within(self.u_at), parts={}, part=None,
                       posterior_at=within(self.posterior_at))

    def rescale_u(self, low: ArrayLike, high: ArrayLike) -> "Dataset":
        """Return the dataset with u scaled by other bounds, each [|u|], such as those of the training data."""
        if self.u_range is None or self.u_at is None:
            return self
        u_at, (was_low, was_high) = self.u_at, (np.asarray(end, np.float64) for end in self.u_range)
        if np.array_equal(was_low, low) and np.array_equal(was_high, high):
            return self

        def rescaled(indices: Array) -> Floats:
            return scale(was_low + (was_high - was_low) * u_at(indices), low, high)

        return replace(self, u_at=rescaled, u_range=(np.asarray(low), np.asarray(high)))

    def choose_split(self, how: str = "auto") -> str:
        """Return how the parts are made: "auto" is "grid" for published parts or a complete grid, else "random".

        Raises:
            InputError: no such split.
        """
        how = check_split(how)
        return ("grid" if self.complete_grid or self.parts else "random") if how == "auto" else how

    def find_indices(self, part: str, how: str = "auto", seed: int = 0) -> Integers | range:
        """Return the indices of the "train", "validation" or "test" part, in the order that the part numbers them.

        Args:
            part: one of PARTS.
            how: "grid": the published train and test parts (test is validation too), or else the whole for every
                part, as is usual for factors of variation. "random": 80, 10 and 10 % at random (rolinek 8.4).
                "random_90_10": 90 % for training and 10 % for test, which is validation too (bonheme Table 2).
                "auto": "grid" for a complete grid and where there are published parts, else "random".
                "hold_out:" and conditions, such as "hold_out:shape=2,x>16": the examples that meet all conditions are
                for test, which is validation too, and all others for training.
            seed: the seed for the random parts.

        Raises:
            InputError: no such part or split, or too few examples for three parts.
        """
        checks.check_choice("part", part, PARTS)
        checks.check_whole("seed", seed, 0)
        chosen = self.choose_split(how)
        if chosen.startswith(conditions.PREFIX):
            values = None if self.factors_at is None else self.factors_at(np.arange(self.size))
            held_out = conditions.find_matches(conditions.read(chosen), self.factor_names, values)
            return np.flatnonzero(held_out != (part == "train"))
        if chosen == "grid":
            return self.parts["train" if part == "train" else "test"] if self.parts else range(self.size)
        if self.size < FEWEST_TO_SPLIT:
            raise InputError(f"split: random parts of 80, 10 and 10 % need {FEWEST_TO_SPLIT} examples or more; "
                             f"{self.name} has {self.size}; --split=grid trains and scores on all of them")
        order = np.random.default_rng(seed).permutation(self.size)
        train, test = round(0.8 * self.size), round(0.9 * self.size)
        if chosen == "random_90_10":
            return order[:test] if part == "train" else order[test:]
        return {"train": order[:train], "validation": order[train:test], "test": order[test:]}[part]

    def split(self, how: str, part: str, seed: int = 0) -> "Dataset":
        """Return the dataset of one part; `find_indices` has the arguments and the errors."""
        indices = self.find_indices(part, how, seed)
        taken = self if isinstance(indices, range) and len(indices) == self.size else self.take(indices)
        return replace(taken, part=Part(part, self.choose_split(how), self.size, indices, seed))


def replace(dataset: Dataset, **changes: Any) -> Dataset:
    """Return a copy with other values of some fields, also of a subclass with an __init__ of its own."""
    copied = copy.copy(dataset)
    for name, value in changes.items():
        object.__setattr__(copied, name, value)
    return copied


def check_split(how: Any) -> str:
    """Return a split, see `Dataset.find_indices`, with its conditions, if it has any, in one form.

    Raises:
        InputError: no such split.
    """
    if isinstance(how, str) and how.startswith(conditions.PREFIX):
        return conditions.write(conditions.read(how))
    checks.check_choice("split", how, (*SPLITS, conditions.FORM))
    return str(how)
