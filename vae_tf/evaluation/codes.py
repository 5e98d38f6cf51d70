"""Codes to score, and what is known of the examples that they belong to."""

import math
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf import arguments, metrics
from vae_tf import kinds as factor_kinds
from vae_tf.data import npz
from vae_tf.errors import InputError, make_printable

LATENTS = ("all", "active")
PER_LATENT = ("mean", "stddev", "prior_mean", "prior_stddev")
PER_EXAMPLE = (*PER_LATENT, "factors", "dependence")
KNOWN = ("codes", "factors", "factor_names", "factor_kinds", "stddev")      # arrays in a file of codes


class Codes(NamedTuple):
    """The codes of N examples, and what is known of these examples.

    mean: the means of q(z|x), or any code, [N, d].
    factors: the factors of the examples, [N, K], or None; NaN for a value that is missing.
    kinds: kinds of the factors, K names, see `vae_tf.kinds.decide`; None to decide by their values.
    stddev: the standard deviations of q(z|x), [N, d], or None.
    prior_mean, prior_stddev: means and standard deviations of the iVAE's p(z|u), [N, d], or None.
    independent: whether latents are independent in q(z|x); False for a full covariance.
    factor_names: the names of the K factors; None for v1, v2, ...
    dependence: the total correlation of q(z|x), [N], nats, of a full covariance (`activity.find_dependence`), or None.
    """

    mean: np.ndarray
    factors: np.ndarray | None = None
    kinds: tuple[str, ...] | None = None
    stddev: np.ndarray | None = None
    prior_mean: np.ndarray | None = None
    prior_stddev: np.ndarray | None = None
    independent: bool = True
    factor_names: tuple[str, ...] | None = None
    dependence: np.ndarray | None = None

    def get_distributions(self) -> tuple:
        """Return mean, stddev, prior mean and prior stddev; p(z) = N(0, I) where there is no other."""
        prior = (0.0, 1.0) if self.prior_mean is None else (self.prior_mean, self.prior_stddev)
        return self.mean, self.stddev, *prior

    def make_context(self, seed: int = 0, samples_per_value: int | None = None, score_alone: bool = False,
                     ) -> metrics.Context:
        """Return the Context in which metrics see these codes."""
        return metrics.Context(self.mean, self.factors, self.kinds, self.stddev, self.independent, self.prior_mean,
                               self.prior_stddev, seed=seed, samples_per_value=samples_per_value,
                               score_alone=score_alone, factor_names=self.name_factors())

    def as_arrays(self) -> "Codes":
        """Return these codes with arrays for all that has a row for each example, which may be lists or other tables.

        Raises:
            InputError: NumPy takes a field for no array, or some of its values are masked.
        """
        arrays: dict[str, Any] = {field: arguments.to_array("codes" if field == "mean" else field, table)
                                  for field in PER_EXAMPLE if (table := getattr(self, field)) is not None}
        named: dict[str, Any] = {field: tuple(map(str, given)) for field in ("kinds", "factor_names")
                 if (given := getattr(self, field)) is not None and not isinstance(given, str)}
        return self._replace(**arrays, **named)

    def take_rows(self, rows: slice | np.ndarray) -> "Codes":
        """Return the codes of some examples alone."""
        return self._replace(**{field: array[rows] for field in PER_EXAMPLE
                                if (array := getattr(self, field)) is not None})

    def take_latents(self, latents: np.ndarray) -> "Codes":
        """Return the codes of some latents alone, given by their indices."""
        return self._replace(**{field: getattr(self, field)[:, latents] for field in PER_LATENT
                                if getattr(self, field) is not None})

    def name_factors(self) -> tuple[str, ...] | None:
        """Return K names of factors, v1, v2, ... if they have no names; None if there are no factors."""
        if self.factors is None:
            return None
        return self.factor_names or tuple(f"v{k + 1}" for k in range(np.shape(self.factors)[1]))


@arguments.check_arguments
def read_codes(path: str | pathlib.Path, examples: arguments.Count | None = None, seed: arguments.Seed = 0) -> Codes:
    """Read Codes from an .npz file.

    It holds `codes` [N, d], and optional `factors` [N, K], `factor_names` [K], `factor_kinds` [K] and `stddev` [N, d].
    A factor that is NaN is missing, and metrics do without its example as `metrics.missing` says.
    `factor_kinds` are names from vae_tf.kinds.KINDS, or one text for all factors; without them the values of a factor
    decide. If there are more than 1.5 `examples` rows, that many are drawn at random; None for `examples` takes all.

    Raises:
        InputError: an array is wrong; the line names it, what was expected and what was given.
    """
    found = npz.read("codes", path)
    if "codes" not in found:
        raise InputError(f"codes: {path}: expected an array `codes` [N, d], and `factors` [N, K] to score them "
                         f"against; got {', '.join(found) or 'no arrays'}")
    if unknown := [make_printable(name) for name in found if name not in KNOWN]:
        warnings.warn(f"codes: {path}: arrays that are not used: {', '.join(unknown)}; known names are "
                      f"{', '.join(KNOWN)}", stacklevel=3)
    mean, _ = metrics.check_arrays(found["codes"])
    factors = _check_values(mean, found.get("factors"))
    stddev = found.get("stddev")
    if stddev is not None and stddev.shape != mean.shape:
        raise InputError(f"codes: {path}: expected stddev of shape {mean.shape}, as codes; got {stddev.shape}")
    stddev = None if stddev is None else _check_stddev("stddev", stddev)
    names = found.get("factor_names")
    if names is not None and (factors is None or names.shape != factors.shape[1:]):
        raise InputError(f"codes: {path}: expected factor_names to have an entry per factor; got {names.shape}")
    told = None if names is None else tuple(npz.read_names(f"codes: {path}", "factor_names", names))
    codes = Codes(mean, factors, None, stddev, factor_names=told)
    if factors is not None:
        with factor_kinds.name_factors(codes.name_factors()):
            kinds = npz.decide_kinds(f"codes: {path}", factors, found.get("factor_kinds"))
        codes = codes._replace(kinds=kinds)
    return codes if examples is None else draw_rows(codes, examples, seed)


def draw_rows(codes: Codes, examples: int, seed: int = 0) -> Codes:
    """Return the codes of 1.5 `examples` rows drawn at random, as many as metrics use; of all if there are fewer."""
    return codes.take_rows(np.random.default_rng(seed).permutation(len(codes.mean))[:math.ceil(1.5 * examples)])


def select_factors(codes: Codes, names: Sequence[str] | None) -> Codes:
    """Leave Codes the factors of these names alone, in this order; None keeps all.

    Raises:
        InputError: a name that no factor has, or that comes twice.
    """
    if names is None:
        return codes
    known = codes.name_factors() or ()
    check_factors(names, known)
    columns = [known.index(name) for name in names]
    return codes._replace(factors=codes.factors[:, columns], factor_names=tuple(names),     # type: ignore[index]
                          kinds=None if codes.kinds is None else tuple(codes.kinds[k] for k in columns))


def check_factors(names: Sequence[str] | None, known: tuple[str, ...] | None) -> None:
    """Raise InputError for names of factors that are not among those known, or come twice; None asks for all."""
    if names is None:
        return
    choices = f"names of {', '.join(known)}" if known else "none, because there are no factors"
    if not names:
        raise InputError(f"factors: expected {choices}; got none")
    for name in names:
        if name not in (known or ()):
            raise InputError(f"factors: expected {choices}; got {name!r}")
    if len(set(names)) < len(names):
        raise InputError(f"factors: expected each name once; got {', '.join(names)}")


def check_codes(codes: Codes) -> None:
    """Raise InputError for Codes whose arrays do not go together."""
    metrics.check_arrays(codes.mean)
    _check_values(codes.mean, codes.factors)
    columns = 0 if codes.factors is None else np.shape(codes.factors)[1]
    for name in ("kinds", "factor_names"):
        given = getattr(codes, name)
        if given is not None and len(given) != columns:
            raise InputError(f"{name}: expected one per factor, {columns}; got {len(given)}")
    for name in ("stddev", "prior_mean", "prior_stddev"):
        array = getattr(codes, name)
        if array is not None and np.shape(array) != np.shape(codes.mean):
            raise InputError(f"{name}: expected the shape of the codes, {np.shape(codes.mean)}; got {np.shape(array)}")
        if array is not None and name != "prior_mean":
            _check_stddev(name, array)
    if codes.dependence is not None and np.shape(codes.dependence) != np.shape(codes.mean)[:1]:
        raise InputError(f"dependence: expected a number per example, of shape {np.shape(codes.mean)[:1]}; got "
                         f"{np.shape(codes.dependence)}")
    if (codes.prior_mean is None) != (codes.prior_stddev is None):
        raise InputError("prior_mean: expected prior_mean and prior_stddev together, or neither; got one")


def _check_values(mean: np.ndarray, factors: np.ndarray | None) -> np.ndarray | None:
    """Return factors [N, K] as metrics take them, NaN standing for a missing value, or raise InputError."""
    missing = metrics.find_missing(factors)
    if missing is None:
        return metrics.check_arrays(mean, factors)[1]
    _, checked = metrics.check_arrays(mean, np.where(missing, 0, factors))      # type: ignore[arg-type]
    return np.where(missing, np.nan, checked)


def _check_stddev(name: str, array: np.ndarray) -> np.ndarray:
    """Return standard deviations as float64; raise InputError, with the first row that is wrong, if they are none."""
    stddev, _ = metrics.check_arrays(array, name=name)
    wrong = np.argwhere(stddev <= 0)
    if len(wrong):
        row, column = wrong[0]
        raise InputError(f"{name}: expected numbers above 0; got {stddev[row, column]:g} in row {row}, "
                         f"column {column}" + "; leave it out for codes without a posterior" * (name == "stddev"))
    return stddev
