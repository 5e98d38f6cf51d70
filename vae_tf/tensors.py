"""What a function takes that is a tensor or a pair of distributions: declarations for `arguments.check`.

Shapes and dtypes are checked as far as they are known, and no number is looked at. Inside a graph that happens once,
while the graph is traced, so that a step costs no more.
"""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import tensorflow as tf

from vae_tf import checks
from vae_tf import probability as tfd
from vae_tf.errors import InputError
from vae_tf.typing import Distribution

BOLD = re.compile(r"\x1b\[\d*m")       # what terminals take for bold letters, with which Keras prints errors


@contextlib.contextmanager
def refuse_rows(taker: str, z: tf.Tensor) -> Iterator[None]:
    """Turn an error of Keras or TensorFlow inside the block into an InputError: `taker` does not take rows like z."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, tf.errors.OpError) as error:
        lines = [line for line in BOLD.sub("", str(error)).splitlines() if line.strip()] or [""]
        # Keras says what is wrong below a line that only says which layer was called.
        reason = lines[1 if lines[0].startswith("Exception encountered when calling") and lines[1:] else 0]
        raise InputError(f"z: expected rows that {taker} takes; got {checks.describe(z)}, for which it raises "
                         f"{type(error).__name__}: {reason}") from error


@dataclasses.dataclass(frozen=True)
class Tensors:
    """A tensor of floats whose sizes are letters, "B d" or "... d"; a letter stands for one size in a whole call.

    empty: whether the first of the sizes that have letters may be 0.
    """

    letters: str = "..."
    empty: bool = False

    def check(self, name: str, value: Any, known: dict[str, tuple[Any, str]]) -> tf.Tensor:
        """Return the value as a tensor if it is such a tensor."""
        shape = f"[{', '.join(self.letters.split())}]"
        try:
            tensor = tf.convert_to_tensor(value)
        except (ValueError, TypeError, OverflowError, AttributeError, tf.errors.OpError):
            raise InputError(f"{name}: expected floats of shape {shape}; got {checks.describe(value)}") from None
        letters = self.letters.replace("...", "").split()
        sizes = None if tensor.shape.rank is None else tensor.shape.as_list()
        wrong = sizes is not None and (len(sizes) < len(letters) or 0 in sizes[len(sizes) - len(letters) + self.empty:]
                                       or ("..." not in self.letters and len(sizes) > len(letters)))
        if not tensor.dtype.is_floating or wrong:
            raise InputError(f"{name}: expected floats of shape {shape}; got {tensor.dtype.name} of shape "
                             f"{tensor.shape}")
        if "..." in self.letters and letters and sizes is not None:
            self._check_leading(name, tensor.shape[:len(sizes) - len(letters)], known)
        dtype, of = known.setdefault("dtype", (tensor.dtype, name))
        if tensor.dtype != dtype:
            raise InputError(f"{name}: expected {dtype.name}, as in {of}; got {tensor.dtype.name}")
        for letter, size in zip(letters, sizes[len(sizes) - len(letters):] if sizes is not None else (), strict=False):
            wanted, of = known.setdefault(letter, (size, name)) if size is not None else (None, name)
            if wanted != size:
                raise InputError(f"{name}: expected floats of shape {shape} where {letter} is {wanted}, as in {of}; "
                                 f"got shape {tensor.shape}")
        return tensor


    def _check_leading(self, name: str, shape: tf.TensorShape, known: dict[str, tuple[Any, str]]) -> None:
        """Have the sizes that "..." stands for broadcast in all tensors of a call."""
        wanted, of = known.setdefault("...", (shape, name))
        try:
            known["..."] = tf.broadcast_static_shape(wanted, shape), of
        except ValueError:
            raise InputError(f"{name}: expected leading sizes that broadcast to {wanted}, those of {of}; got {shape}"
                             ) from None


@dataclasses.dataclass(frozen=True)
class Counts:
    """A whole number from 1 to what int32 holds, or a tensor of one, which a graph may not know yet."""

    def check(self, name: str, value: Any, known: dict[str, tuple[Any, str]]) -> Any:
        """Return the value if it is such a number."""
        if not tf.is_tensor(value):
            return checks.check_whole(name, value, 1, checks.LARGEST_INTEGER)
        if not value.dtype.is_integer or value.shape.rank not in (0, None):
            raise InputError(f"{name}: expected a whole number; got {value.dtype.name} of shape {value.shape}")
        return value


@dataclasses.dataclass(frozen=True)
class Seeds:
    """Two whole numbers that int32 holds, or a tensor of two."""

    def check(self, name: str, value: Any, known: dict[str, tuple[Any, str]]) -> Any:
        """Return the value if it is such a pair."""
        if tf.is_tensor(value) and value.dtype.is_integer and value.shape.is_compatible_with([2]):
            return value
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise InputError(f"{name}: expected two whole numbers; got {checks.describe(value)}")
        for number in value:
            if not (tf.is_tensor(number) and number.dtype.is_integer and number.shape.rank == 0):
                checks.check_whole(name, number, -checks.LARGEST_INTEGER, checks.LARGEST_INTEGER)
        return value


@dataclasses.dataclass(frozen=True)
class Distributions:
    """A distribution of TensorFlow Probability."""

    def check(self, name: str, value: Any, known: dict[str, tuple[Any, str]]) -> Any:
        """Return the value if it is one."""
        if not isinstance(value, tfd.Distribution):
            raise InputError(f"{name}: expected a Distribution; got {checks.describe(value)}")
        return value


# What many functions take.
Rows = Annotated[tf.Tensor, Tensors("B d")]
Vectors = Annotated[tf.Tensor, Tensors("... d")]
AnyFloats = Annotated[tf.Tensor, Tensors()]
Count = Annotated[int | tf.Tensor, Counts()]
Seed = Annotated[Sequence[int] | tf.Tensor, Seeds()]
AnyDistribution = Annotated[Any, Distributions()]


def widen(floats: tf.Tensor) -> tf.Tensor:
    """Return floats of 16 bits, which networks in mixed precision return, in float32; others stay as they are."""
    return tf.cast(floats, tf.float32) if floats.dtype.size < tf.float32.size else floats


def check_pair(posterior: Distribution, prior: Distribution) -> None:
    """Raise InputError unless two distributions are over the same latents, and their batches broadcast."""
    try:
        tf.broadcast_static_shape(posterior.batch_shape, prior.batch_shape)
        fit = posterior.event_shape.is_compatible_with(prior.event_shape)
    except ValueError:
        fit = False
    if posterior.dtype != prior.dtype or not fit:
        of_posterior, of_prior = (f"{each.dtype.name} of batch shape {each.batch_shape} and event shape "
                                  f"{each.event_shape}" for each in (posterior, prior))
        raise InputError(f"prior: expected a distribution that suits the posterior, {of_posterior}; got {of_prior}")
