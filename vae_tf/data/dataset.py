"""What every dataset is: N examples by index, their factors, and u."""

import dataclasses
import typing
from collections.abc import Callable

import numpy as np


class Factor(typing.NamedTuple):
    """A ground-truth factor v_k.

    size is its number of values, None for a continuous one; kind is "categorical", "ordinal", "cyclic"
    or "continuous".
    """

    name: str
    size: int | None
    kind: str


@dataclasses.dataclass(frozen=True)
class Dataset:
    """N examples that are made or fetched by index, so that no dataset need fit in memory.

    Attributes:
        name: as given to `load`.
        size: N, also len(dataset).
        shape: of one example: (H, W, C), uint8, or (n,), float32.
        factors: a Factor per column of factors_at; empty when the ground truth is unknown.
        images_at: indices [B] -> examples [B, *shape].
        factors_at: indices [B] -> factor values [B, K]: integers 0..size-1, or floats.
        u_at: indices [B] -> auxiliary variables of the iVAE, float32 [B, |u|].
        u_size: |u|; 0 when there is none.
        parts: "train" and "test" as published, as ranges of indices; empty when there are none.
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
    parts: dict[str, range] = dataclasses.field(default_factory=dict)
    posterior_at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None

    def __len__(self):
        return self.size

    @property
    def is_image(self):
        """Whether examples are uint8 images rather than float vectors."""
        return len(self.shape) == 3

    @property
    def factor_names(self):
        return tuple(factor.name for factor in self.factors)

    @property
    def factor_sizes(self):
        return tuple(factor.size for factor in self.factors)

    def take(self, indices):
        """The dataset of these examples alone, renumbered 0..len(indices)-1."""
        indices = np.asarray(indices)

        def within(at):
            return at and (lambda i: at(indices[i]))

        return dataclasses.replace(self, size=len(indices), images_at=within(self.images_at),
                                   factors_at=within(self.factors_at), u_at=within(self.u_at), parts={},
                                   posterior_at=within(self.posterior_at))

    def split(self, how, part, seed=0):
        """The "train", "validation" or "test" part.

        how = "grid": the published train and test parts where there are such, else every part is the whole
        grid, as is usual for factors of variation. how = "random": 80/10/10 % at random (rolinek 8.4).
        """
        if how == "random":
            order = np.random.default_rng(seed).permutation(self.size)
            train, test = round(0.8 * self.size), round(0.9 * self.size)
            return self.take({"train": order[:train], "validation": order[train:test], "test": order[test:]}[part])
        if self.parts:
            return self.take(self.parts["train" if part == "train" else "test"])
        return self


def scaled(factors, low, high):
    """u of the iVAE: factors [B, K] scaled to [0, 1] by their global range; a constant factor gives 0.

    The public code of bonheme scales per batch, and divides by zero when a factor is constant in one.
    """
    span = np.asarray(high, np.float64) - low
    return ((factors - low) / np.where(span == 0, 1, span)).astype(np.float32)


def one_hot(classes, size):
    """Integers [B] to float32 [B, size]."""
    return np.eye(size, dtype=np.float32)[classes]


def from_arrays(name, x, values=None, factors=(), u=None, parts=None):
    """A Dataset from arrays in memory.

    Args:
        name: of the dataset.
        x: uint8 images [N, H, W, C] or float32 data [N, n].
        values: factor values [N, K], or None.
        factors: a Factor per column of values.
        u: [N, |u|], or None for the factors scaled to [0, 1].
        parts: published "train" and "test" ranges.
    """
    if u is None and values is not None:
        u = scaled(values, values.min(0), values.max(0))
    return Dataset(name, len(x), x.shape[1:], x.__getitem__, tuple(factors),
                   None if values is None else values.__getitem__,
                   None if u is None else u.__getitem__, 0 if u is None else u.shape[1], parts or {})
