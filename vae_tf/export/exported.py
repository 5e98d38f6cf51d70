"""A SavedModel as functions of NumPy arrays, which raise a one-line error for inputs that do not fit."""

import functools
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from vae_tf import arguments, graphs
from vae_tf.data import Dataset
from vae_tf.errors import InputError, make_printable
from vae_tf.export import operations
from vae_tf.export.card import CARD, read_card, scale_as_trained
from vae_tf.export.checksums import check_files
from vae_tf.export.functions import POSTERIOR
from vae_tf.export.hub import find_newest
from vae_tf.export.signatures import is_usable
from vae_tf.export.versions import is_pattern
from vae_tf.typing import Array, ArrayLike, Floats, Integers, Tensor

Outputs = dict[str, Array]

# The inputs that have a row per example.
BY_ROW = ("x", "z", "u", "factors")


class Exported:
    """A SavedModel and its card; methods take and give NumPy arrays.

    encode(x, u), encode_floats(x, u), encode_factors(x, factors), decode(z), reconstruct(x, u), sample(n, seed, u),
    traverse(x, latent, values, u), jacobian(z) and objective(x, seed, u) do what the signatures of the same names do;
    u is for the iVAE alone. Rows of x, z, u and factors beyond the limit of one request go into further requests, but
    `objective` takes all rows as one batch, on which some of its terms depend, and `sample` takes no more than the
    limit. All methods raise InputError for inputs that do not fit.
    """

    @arguments.check_arguments
    def __init__(self, path: arguments.PathLike, trust: bool = False) -> None:
        self.path = pathlib.Path(path)
        self.card = read_card(self.path)
        check_files(self.path, self.card)
        if not trust:
            operations.check_operations(self.path)
        try:
            self._loaded = tf.saved_model.load(str(self.path))
        except Exception as error:      # a damaged file may make TensorFlow raise anything
            if is_pattern(self.path):
                raise InputError(f"{self.path}: TensorFlow cannot load a model from a path with [...] or \\; move the "
                                 "folder") from None
            raise InputError(f"{self.path} is damaged, and TensorFlow cannot load it ({_explain(error)}); "
                             "export the model again") from None
        self._specs = {"seed": tf.TensorSpec((), tf.int32)}          # `objective` takes a seed, and is no signature
        for name, signature in self._loaded.signatures.items():
            if name != "encode_floats":        # the x of this signature is floats
                self._specs.update(signature.structured_input_signature[1])
        self._check_card()

    def _check_card(self) -> None:
        """Raise InputError if the SavedModel takes arrays of other shapes than its card describes."""
        latents, shape = self.card.get("latents"), self.card.get("data", {}).get("shape")
        described = {"x": tuple(shape or ()), "z": (latents,) if latents else (), "u": (self.card["u_size"],)}
        for name, expected in described.items():
            missing = tf.TensorShape((None, 0) if name == "u" else None)     # the calls say that x or z is missing
            shape = self._specs[name].shape if name in self._specs else missing
            got = tuple(shape[1:]) if shape.rank else ()
            if expected and shape.rank is not None and got != expected:
                raise InputError(f"{self.path} takes {name} of shape {got}, and {CARD} says {expected}: it is another "
                                 "model's; restore the card, or export the model again")

    def _find_function(self, name: str) -> Callable[..., dict[str, Tensor]]:
        """Return a function of the SavedModel that is no signature, or raise InputError."""
        function = getattr(self._loaded, name, None)
        if function is None:
            raise InputError(f"{self.path} has no function {name}; expected a model that train.py exported")
        return function

    def _call(self, name: str, **inputs: Any) -> Outputs:
        """Return a signature's outputs for arrays by name, from as many requests as their rows need."""
        function = self._loaded.signatures.get(name)
        if function is None:
            raise InputError(f"{name}: {self.path} has no such signature, but "
                             f"{make_printable(', '.join(self._loaded.signatures))}")
        specs = {**self._specs, **function.structured_input_signature[1]}
        tensors = {key: _convert(key, value, self._find_spec(name, key, specs)) for key, value in inputs.items()}
        rows = max((len(value) for key, value in tensors.items() if key in ("x", "z")), default=0)
        parts = [_run(name, function, {key: value[start:start + step] if key in BY_ROW else value
                                       for key, value in tensors.items()})
                 for step in [_share_evenly(rows, self._count_rows(name, tensors))]
                 for start in range(0, max(rows, 1), step)]
        return {key: np.concatenate([part[key] for part in parts]) if len(parts) > 1 else parts[0][key]
                for key in parts[0]}

    def _find_spec(self, name: str, key: str, specs: Mapping[str, tf.TensorSpec]) -> tf.TensorSpec:
        """Return the spec of an input of a function, or raise InputError if the model has none of that name."""
        if key not in specs:
            raise InputError(f"{name}: expected a model with an input {key}; {self.path} has none of that name, but "
                             f"{make_printable(', '.join(specs))}")
        return specs[key]

    def _count_rows(self, name: str, tensors: Mapping[str, Array]) -> int:
        """Return the number of rows of x or z that go into one request."""
        most = self.card.get("limits", {}).get("jacobian_rows" if name == "jacobian" else "rows")
        if most is None or name == "sample" or len({len(tensors[key]) for key in tensors if key in BY_ROW}) > 1:
            return 2**31        # all rows go into one request, which the model may refuse
        return max(1, most // max(1, len(tensors["values"])) if name == "traverse" else most)

    def _call_with(self, name: str, u: ArrayLike | None, **inputs: Any) -> Outputs:
        """Return the outputs of a signature, which takes u too if the model is an iVAE."""
        return self._call(name, **inputs, **self._name_u(u))

    def _name_u(self, u: ArrayLike | None) -> dict[str, ArrayLike]:
        """Return {"u": u}, or an empty dict for a model that takes none."""
        if (u is not None) != bool(self.card["u_size"]):
            expected = f"[B, {self.card['u_size']}]" if self.card["u_size"] else "none"
            raise InputError(f"u: a model of kind {self.card['model']} takes {expected}; "
                             f"got {'none' if u is None else _describe(u)}")
        return {} if u is None else {"u": u}

    def u_at(self, dataset: Dataset, indices: Integers) -> Floats | None:
        """Return u [B, |u|] of a dataset's examples on the scale of the model's training; None if the model takes no u.

        Raises:
            InputError: the model's u cannot be made of this dataset's factors.
        """
        if not self.card["u_size"]:
            return None
        u_at = scale_as_trained(dataset, self.card).u_at
        return u_at(indices) if u_at else None

    def encode(self, x: ArrayLike, u: ArrayLike | None = None) -> Outputs:
        """Return q(z|x): mean [B, d], and stddev [B, d] or scale_tril [B, d, d].

        If the prior is normal but not N(0, I), as the iVAE's, prior_mean and prior_stddev [B, d] are there too.
        """
        return self._call_with("encode", u, x=x)

    def encode_floats(self, x: ArrayLike, u: ArrayLike | None = None) -> Outputs:
        """Do as `encode` does, for images given as floats in [0, 1]."""
        return self._call_with("encode_floats", u, x=x)

    def encode_factors(self, x: ArrayLike, factors: ArrayLike) -> Outputs:
        """Do as `encode` does, with factors [B, K] instead of u; card["u"] has their names and ranges."""
        return self._call("encode_factors", x=x, factors=factors)

    def decode(self, z: ArrayLike) -> Outputs:
        """Return the mean [B, ...] of p(x|z), and its logits if p(x|z) is Bernoulli."""
        return self._call("decode", z=z)

    @property
    def decoder(self) -> Callable[[Tensor], dict[str, Tensor]]:
        """`decode` as a function of tensors, of any number of rows, which gradients and `jacobians` go through."""
        return self._find_function("decode")

    @functools.cached_property
    def inlined_decoder(self) -> Callable[[Tensor], dict[str, Tensor]]:
        """`decoder` as a function whose operations become those of the graph that calls it, see `graphs.inline`."""
        return graphs.inline(self._find_function("decode"), z=self._find_spec("decode", "z", self._specs))

    def reconstruct(self, x: ArrayLike, u: ArrayLike | None = None) -> Outputs:
        """Return the mean [B, ...] decoded from the posterior mean."""
        return self._call_with("reconstruct", u, x=x)

    def sample(self, n: int, seed: int = 0, u: ArrayLike | None = None) -> Outputs:
        """Return n draws from the prior: images [n, ...], z [n, d]; u is [n, |u|] or [1, |u|]."""
        return self._call_with("sample", u, n=n, seed=seed)

    def traverse(self, x: ArrayLike, latent: int, values: ArrayLike, u: ArrayLike | None = None) -> Outputs:
        """Return images [B, T, ...] decoded from the posterior mean with one latent set to each of `values` [T]."""
        return self._call_with("traverse", u, x=x, latent=latent, values=values)

    def jacobian(self, z: ArrayLike) -> Outputs:
        """Return the Jacobian [B, n, d] of decode's mean, in data units per latent unit; see jacobians.jacobian."""
        return self._call("jacobian", z=z)

    @property
    def jacobian_function(self) -> Callable[[Tensor], dict[str, Tensor]]:
        """`jacobian` as a function of tensors, of any number of rows, whose outputs need not be finite."""
        return self._find_function("jacobian")

    def objective(self, x: ArrayLike, seed: int = 0, u: ArrayLike | None = None) -> Outputs:
        """Return the terms of the training objective per example [B], in nats, for one z per example."""
        found = self._call_objective(x, seed, u)
        return {name: value for name, value in found.items() if not name.startswith(POSTERIOR)}

    def encode_with_terms(self, x: ArrayLike, seed: int = 0, u: ArrayLike | None = None) -> tuple[Outputs, Outputs]:
        """Return what `encode` and `objective` do, of which the encoder is run once alone."""
        found = self._call_objective(x, seed, u)
        terms = {name: value for name, value in found.items() if not name.startswith(POSTERIOR)}
        posterior = {name.removeprefix(POSTERIOR): value for name, value in found.items() if name not in terms}
        if not posterior or not all(map(is_usable, posterior, posterior.values())):
            posterior = self.encode(x, u)       # Earlier versions exported the terms alone. It says what is not usable.
        return posterior, terms

    def _call_objective(self, x: ArrayLike, seed: int, u: ArrayLike | None) -> Outputs:
        inputs = {"x": x, "seed": seed, **self._name_u(u)}
        return _run("objective", self._find_function("objective"),
                    {key: _convert(key, value, self._find_spec("objective", key, self._specs))
                     for key, value in inputs.items()})


def _share_evenly(rows: int, most: int) -> int:
    """Return how many rows go into each request, of which none has more than `most` and the last is no small rest.

    A rest might be refused that the whole array is not: a few dark images, for example.
    """
    return -(-rows // -(-rows // most)) if rows else most


def _run(name: str, function: Callable[..., Any], arrays: Mapping[str, Array]) -> Outputs:
    try:
        return {key: value.numpy() for key, value in
                function(**{key: tf.constant(value) for key, value in arrays.items()}).items()}
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"{name}: {_explain(error)}") from None


def _convert(name: str, value: Any, spec: tf.TensorSpec) -> Array:
    """Return a value in the shape and dtype of a TensorSpec, or raise an InputError."""
    dtype, hint = spec.dtype.as_numpy_dtype, ""
    array = _make_array(value)
    if np.ma.is_masked(value):
        raise InputError(f"{name}: expected an array without masked values; got some that are masked")
    if spec.dtype == tf.uint8:
        fits = array.dtype == np.uint8
        hint = "; floats in [0, 1] go to encode_floats" if array.dtype.kind == "f" else ""
    else:
        fits = array.dtype.kind in "uif" and np.can_cast(array.dtype, dtype, "same_kind")
    if not (fits and spec.shape.is_compatible_with(array.shape)):
        raise InputError(f"{name}: expected {spec.dtype.name} of shape {spec.shape}; "
                         f"got {_describe(value)}{hint}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite numbers; got {np.sum(~np.isfinite(array))} NaN or infinite")
    holds = np.iinfo(dtype) if spec.dtype.is_integer else np.finfo(dtype)
    if array.size and (array.min() < holds.min or array.max() > holds.max):
        raise InputError(f"{name}: expected numbers from {holds.min} to {holds.max}, as {spec.dtype.name} holds them; "
                         f"got {array.min()} to {array.max()}")
    return array.astype(dtype, copy=False)


def _make_array(value: Any) -> Any:
    """Return a value as an array; of Python objects where it is none, such as rows of several lengths."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return np.array(None)


def _describe(value: Any) -> str:
    """Return the dtype and shape of what was given, in words."""
    array = _make_array(value)
    return (f"a {type(value).__name__} that is no array of numbers" if array.dtype.kind == "O"
            else f"{array.dtype} of shape {array.shape}")


def _explain(error: Exception) -> str:
    """Return TensorFlow's message as one line, without the node, the trace, brackets and backslashes."""
    text = getattr(error, "message", None) or str(error)
    found = re.search(r"assertion failed: \[(.*)\]", text)
    lines = text.strip().splitlines() or [type(error).__name__]
    reason = re.sub(r"\\(['\"])", r"\1", found[1]).replace("] [; ", "; ").replace("] [", " ") if found else lines[0]
    return make_printable(reason)


@arguments.check_arguments
def load(root: arguments.PathLike, trust: bool = False) -> Exported:
    """Return the newest model in `root` as an Exported; see `find_newest`.

    A SavedModel is a program. One whose graph reads or writes files, or runs Python, is refused unless `trust` says
    that its source is trusted.

    Raises:
        InputError: there is no such model, it is damaged, or its graph is refused.
    """
    try:
        path = find_newest(root)
    except InputError as error:
        raise InputError(f"root: {error}") from None
    return Exported(path, trust)
