"""Checks of a function's arguments by its annotations, so that what a function takes is declared where it is named.

    @arguments.check
    def kl_saving(jacobian: Annotated[ArrayLike, Sizes("... n d")]) -> Floats: ...

`check` refuses what an annotation does not allow with one line: the argument, what was expected, what came. It checks
plain `int`, `float`, `bool`, `str` and classes such as NamedTuples, `X | None`, sequences of these, whether mappings
and functions are such, and the declarations `Whole`, `Number`, `Choice`, `Path` and `Sizes` within typing.Annotated
(`vae_tf.tensors` has more). An argument that is an np.ndarray may be anything that NumPy takes for an array of numbers.
Arguments with another annotation, or with none, are left to the function.
"""

import dataclasses
import functools
import inspect
import math
import pathlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import numpy as np

from vae_tf import checks
from vae_tf.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

# Fourth powers of numbers of this size, and of their rounding errors, stay within the range of float64.
LARGEST = 1e60

# Sizes that a call has given so far: {letter: (size, name of the argument)}; the leading sizes are those of "...".
Known = dict[str, tuple[Any, str]]


@dataclasses.dataclass(frozen=True)
class Whole:
    """A whole number from low to high."""

    low: float = -math.inf
    high: float = math.inf

    def check(self, name: str, value: Any, known: Known) -> Any:
        """Return the value if it is such a number."""
        return checks.check_whole(name, value, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class Number:
    """A finite number that is at least `low`, more than `above` and at most `high`."""

    low: float = -math.inf
    above: float = -math.inf
    high: float = math.inf

    def check(self, name: str, value: Any, known: Known) -> Any:
        """Return the value if it is such a number."""
        return float(checks.check_number(name, value, self.low, self.above, self.high))


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of some names."""

    names: tuple[str, ...]

    def check(self, name: str, value: Any, known: Known) -> Any:
        """Return the value if it is one of the names."""
        return checks.check_choice(name, value, self.names)


@dataclasses.dataclass(frozen=True)
class Path:
    """The name or path of a file or folder."""

    def check(self, name: str, value: Any, known: Known) -> Any:
        """Return the value if it is such a path."""
        return checks.check_path(name, value)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """An array of real numbers of at most `largest` in size, not empty, whose sizes are letters: "N d" or "... n d".

    A letter stands for one size in all arguments of a call, and "..." for any others. The numbers are more than
    `above` and at least `low`. An array that `broadcasts` may have fewer sizes, or 1 in place of any, as numbers do.
    """

    letters: str = "..."
    above: float = -math.inf
    low: float = -math.inf
    integers: bool = False
    broadcasts: bool = False
    largest: float = LARGEST

    def check(self, name: str, value: Any, known: Known) -> Any:
        """Return the value as an array if it is such an array."""
        array = _as_array(name, value)
        self._check_numbers(name, array)
        array = array.astype(np.int64) if array.dtype == bool else array
        leading, letters = "..." in self.letters, self.letters.replace("...", "").split()
        sizes = f"[{', '.join(self.letters.split())}]"
        count = array.ndim - len(letters)
        if (count < 0 and not self.broadcasts) or (count > 0 and not leading):
            raise InputError(f"{name}: expected an array {sizes}; got shape {array.shape}")
        own = array.shape[max(count, 0):]
        for letter, size in zip(letters[-len(own):] if own else (), own, strict=True):
            wanted, of = known.setdefault(letter, (size, name)) if size > 1 or not self.broadcasts else (size, name)
            if size != wanted:
                raise InputError(f"{name}: expected an array {sizes}"
                                 + (f" where {letter} is {wanted}, as in {of}" if of != name else "")
                                 + f"; got shape {array.shape}")
        if leading and (count >= 0 or "..." in known):
            _check_leading(name, array.shape[:max(count, 0)], known, self.broadcasts)
        return array

    def _check_numbers(self, name: str, array: np.ndarray) -> None:
        """Raise InputError unless the array holds such numbers."""
        if array.dtype.kind not in ("iu" if self.integers else "fiub") or not array.size:
            raise InputError(f"{name}: expected {'whole' if self.integers else 'real'} numbers, one at least; "
                             f"got {array.dtype} of shape {array.shape}")
        size = np.abs(array.astype(np.float64))
        wrong = array[~((size <= self.largest) & (array > self.above) & (array >= self.low))]
        if wrong.size:
            bound = (f" above {self.above:g}" if self.above > -math.inf else f", {self.low:g} or more"
                     if self.low > -math.inf else "")
            limit = f", {self.largest:g} at most in size" if self.largest < size.max() < math.inf else ""
            raise InputError(f"{name}: expected finite numbers{bound}{limit}; got {wrong.flat[0]}")


# What many functions take.
Count = Annotated[int, Whole(1, 10_000_000)]
Bins = Annotated[int, Whole(1, 1_000)]
Seed = Annotated[int, Whole(0, 2**32 - 1)]
Positive = Annotated[float, Number(above=0)]
NotNegative = Annotated[float, Number(low=0)]
Share = Annotated[float, Number(low=0, high=1)]

# What functions take that compute with TensorFlow, in int32 and float32.
Size = Annotated[int, Whole(1, checks.LARGEST_INTEGER)]
Width = Annotated[int, Whole(1, 2**53)]     # of layers whose weights are only counted, to estimate their memory
FromZero = Annotated[int, Whole(0, checks.LARGEST_INTEGER)]
LARGEST_SEED = 2_000_000        # of what takes a thousand seeds each, such as a network's layers, which int32 holds
SeedOfWeights = Annotated[int, Whole(0, LARGEST_SEED)]
Variance = Annotated[float, Number(low=checks.SMALLEST_FLOAT, high=checks.LARGEST_FLOAT)]
Weight = Annotated[float, Number(low=0, high=checks.LARGEST_FLOAT)]
PathLike = Annotated[str | pathlib.Path, Path()]


def check_arguments(function: Function) -> Function:
    """Have every call of a function checked by the annotations of its arguments; a decorator. Defaults are not checked.

    Raises (from the calls):
        InputError: an argument that its annotation does not allow.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        given = _check_all(signature, args, options)
        return function(*given.args, **given.kwargs)

    return typing.cast(Function, checked)


def check(function: Function) -> Function:
    """Have every call of a function of numbers checked as `check_arguments` does, and its result, too; a decorator.

    A call whose result is not finite is refused, because it would pass for a number later on; the score of a metric may
    be infinite, but not NaN.

    Raises (from the calls):
        InputError: an argument that its annotation does not allow, or a result that is not finite.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        given = _check_all(signature, args, options)
        try:
            with np.errstate(all="ignore"):       # what comes of it is looked at below
                result = function(*given.args, **given.kwargs)
        except np.linalg.LinAlgError as error:
            raise InputError(f"{_list_arrays(given.arguments)}: expected matrices that can be inverted; "
                             f"got {str(error).lower()}") from None
        except MemoryError as error:
            raise InputError(f"{', '.join(given.arguments)}: expected what there is memory for; got {error}") from None
        if _is_undefined(result):
            raise InputError(f"{_list_arrays(given.arguments)}: expected numbers of which {function.__name__} makes "
                             "finite ones in float64; got others, such as too large ones")
        return result

    return typing.cast(Function, checked)


def _check_all(signature: inspect.Signature, args: Sequence[Any], options: Mapping[str, Any]
               ) -> inspect.BoundArguments:
    """Return the arguments of a call, each as its annotation allows it."""
    given = signature.bind(*args, **options)
    known: Known = {}
    for name, value in given.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            given.arguments[name] = _check(name, value, parameter.annotation, known)
    return given


# Tells TensorFlow's AutoGraph to call the function as it is: rewriting it would make tracing a graph slower.
_check_all.autograph_info__ = {}        # type: ignore[attr-defined]


def _check(name: str, value: Any, annotation: Any, known: Known) -> Any:
    """Return the value if the annotation allows it."""
    choices = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    if value is None and type(None) in choices:
        return value
    choices = tuple(choice for choice in choices if choice is not type(None))
    if len(choices) > 1:
        return value if _is_any(value, choices) else _check(name, value, choices[0], known)
    annotation = choices[0]
    if annotation in (inspect.Parameter.empty, Any):
        return value
    if typing.get_origin(annotation) is Annotated:
        return functools.reduce(lambda value, each: each.check(name, value, known), annotation.__metadata__, value)
    if annotation is int:
        return checks.check_whole(name, value, -math.inf)
    if annotation is float:
        return float(checks.check_number(name, value))
    if annotation is np.ndarray:
        return _as_array(name, value)
    origin = typing.get_origin(annotation)
    if origin is Sequence:
        if not isinstance(value, list | tuple | range) and not (isinstance(value, np.ndarray) and value.ndim):
            raise InputError(f"{name}: expected a sequence; got {checks.describe(value)}")
        for item in value:
            _check(name, item, typing.get_args(annotation)[0], known)
    if origin is Callable:
        checks.check_function(name, value, typing.get_args(annotation)[0])
    if origin in (list, dict, Mapping):
        annotation = origin
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        kinds: Any = (bool, np.bool_) if annotation is bool else annotation
        if not isinstance(value, kinds):
            raise InputError(f"{name}: expected {_name_kind(annotation)}; got {checks.describe(value)}")
    return value


def to_array(name: str, value: Any) -> np.ndarray:
    """Return what NumPy takes for an array as one.

    Raises:
        InputError: NumPy takes it for none, or some of its values are masked: the array would not have the mask.
    """
    if np.ma.is_masked(value) or (isinstance(value, list | tuple) and any(map(np.ma.is_masked, value))):
        raise InputError(f"{name}: expected an array without masked values; got some that are masked"
                         + "; give NaN for missing factors" * (name == "factors"))
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError, NotImplementedError):      # the last of a tensor of a tf.function
        raise InputError(f"{name}: expected an array of numbers; got {checks.describe(value)}") from None


def _as_array(name: str, value: Any) -> np.ndarray:
    """Return a value as an array of numbers or booleans, of which the function checks the rest."""
    array = to_array(name, value)
    if array.dtype.kind not in "biufc":
        raise InputError(f"{name}: expected an array of numbers; got {array.dtype} of shape {array.shape}")
    return array


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _is_any(value: Any, choices: Iterable[Any]) -> bool:
    """Return whether a value is of one of some classes; of an annotation that is no class nothing is known."""
    return any(not isinstance(choice, type) or isinstance(choice, types.GenericAlias) or isinstance(value, choice)
               for choice in choices)


def _check_leading(name: str, shape: tuple[int, ...], known: Known, broadcasts: bool) -> None:
    """Have the sizes that "..." stands for broadcast in all arguments of a call; those that broadcast add none."""
    wanted, of = known.get("...", (shape, name))
    try:
        together = np.broadcast_shapes(wanted, shape)
    except ValueError:
        together = None
    if together is None or (broadcasts and together != wanted):
        raise InputError(f"{name}: expected leading sizes that broadcast to {wanted}, those of {of}; got {shape}")
    known["..."] = together, of if together == wanted else name


def _name_kind(kind: type) -> str:
    called = {bool: "True or False", str: "a text", Mapping: "a dict"}
    return called.get(kind, f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")


def _list_arrays(given: Mapping[str, Any]) -> str:
    """Return the names of the arguments that are arrays; of all arguments, if none is."""
    return ", ".join([name for name, value in given.items() if isinstance(value, np.ndarray)] or given)


def _is_undefined(result: Any) -> bool:
    """Return whether a number, an array or one of a tuple of them is not finite, or the score of a Result is NaN."""
    if hasattr(result, "score"):
        return isinstance(result.score, float | np.floating) and math.isnan(result.score)
    if isinstance(result, tuple):
        return any(_is_undefined(part) for part in result)
    return isinstance(result, float | np.ndarray) and np.asarray(result).dtype.kind == "f" and not bool(
        np.isfinite(result).all())
