"""A model's functions with fixed signatures: what they compute and what they refuse.

Inputs are what a client has, uint8 images or float32 vectors; preprocessing is inside.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from vae_tf import distributions, graphs, jacobians, models
from vae_tf import probability as tfd
from vae_tf.data import Dataset
from vae_tf.export.checking import check, require
from vae_tf.export.priors import NORMAL, describe_prior
from vae_tf.models import Autoencoder
from vae_tf.typing import Tensor

# Tolerance for factors outside of their range, for float32 rounding: a share of the range's largest number.
ROUNDING = 1e-6

POSTERIOR = "posterior/"      # what the names of what `objective` returns of q(z|x) begin with

Outputs = dict[str, Tensor]


class Functions(tf.Module):
    """A model's functions with fixed signatures, and the variables they read.

    Args:
        model: gives the functions.
        dataset: what the model was trained on, for the shapes and dtypes of inputs and the scale of factors.
        refuse_dark: whether a batch of images of which no pixel is above 1 is refused. TensorFlow casts a NumPy array
            of floats in [0, 1] to such a batch without a word.
    """

    def __init__(self, model: Autoencoder, dataset: Dataset, refuse_dark: bool) -> None:
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        self.others: list[tf.Variable] = []
        inputs = _Inputs(model, dataset, refuse_dark)
        for define in (_define_encoding, _define_decoding, _define_sampling, _define_traversal, _define_objective):
            for name, function in define(model, dataset, inputs).items():
                setattr(self, name, function)

    def hold_what_is_read(self) -> None:
        """Hold all variables that the functions read, so that TensorFlow saves them.

        Keras knows nothing of some, such as a beta that is a tf.Variable, or one in a list of a layer.
        """
        functions = [each for each in vars(self).values() if hasattr(each, "get_concrete_function")]
        self.others = [each for function in functions for each in function.get_concrete_function().variables]


class _Inputs:
    """What the functions of a model take, checked."""

    def __init__(self, model: Autoencoder, dataset: Dataset, refuse_dark: bool) -> None:
        self.refuse_dark = refuse_dark
        self.x = tf.TensorSpec((None, *dataset.shape), tf.uint8 if dataset.is_image else tf.float32, name="x")
        self.floats = tf.TensorSpec((None, *dataset.shape), tf.float32, name="x")
        self.z = tf.TensorSpec((None, model.latents), tf.float32, name="z")
        self.u = tf.TensorSpec((None, model.u_size), tf.float32, name="u")
        self.with_u = [self.u] if model.u_size else []
        self.factors = tf.TensorSpec((None, model.u_size), tf.float64, name="factors")
        self.values = tf.TensorSpec((None,), tf.float32, name="values")
        self.n, self.seed, self.latent = (tf.TensorSpec((), tf.int32, name=name) for name in ("n", "seed", "latent"))

    def check_rows(self, spec: tf.TensorSpec, value: Tensor, x: Tensor) -> Tensor:
        """Return u or factors after checking that each example has a row."""
        rows, expected = tf.shape(value)[0], tf.shape(x)[0]
        return require(check(spec, value), rows == expected, f"{spec.name}: expected as many rows as x has,", expected,
                       "; got", rows)

    def prepare(self, x: Tensor, u: Tensor | None) -> list[Tensor]:
        """Return x, and u where there is one, as the model takes them."""
        x = check(self.x, x)
        if self.refuse_dark:
            x = require(x, tf.reduce_any(x > 1), "x: expected uint8 pixels from 0 to 255; got none above 1, as "
                        "when floats in [0, 1] or masks of 0 and 1 are sent, which encode_floats takes")
        return [models.scale_to_unit_range(x), *([] if u is None else [self.check_rows(self.u, u, x)])]


def _define_encoding(model: Autoencoder, dataset: Dataset, inputs: _Inputs) -> dict[str, Any]:
    gives_prior = describe_prior(model) == NORMAL

    def compute_posterior(x: Tensor, u: Tensor | None = None) -> Outputs:
        return _compute_posterior(model, gives_prior, x, u)

    # Traced once for all signatures that encode.
    posterior_of = graphs.trace(compute_posterior, [model], input_signature=[inputs.floats, *inputs.with_u])

    def encode(x: Tensor, u: Tensor | None = None) -> Outputs:
        return posterior_of(*inputs.prepare(x, u))

    def encode_floats(x: Tensor, u: Tensor | None = None) -> Outputs:
        x = check(inputs.floats, x)
        low, high = tf.reduce_min(x), tf.reduce_max(x)
        x = require(x, (low >= 0) & (high <= 1), "x: expected floats in [0, 1]; got", low, "to", high)
        return posterior_of(x, *([] if u is None else [inputs.check_rows(inputs.u, u, x)]))

    def encode_factors(x: Tensor, factors: Tensor) -> Outputs:
        return encode(x, _scale_factors(dataset, inputs.check_rows(inputs.factors, factors, x)))

    defined = {"encode": graphs.trace(encode, [model], input_signature=[inputs.x, *inputs.with_u])}
    if dataset.is_image:
        defined["encode_floats"] = graphs.trace(encode_floats, [model], input_signature=[inputs.floats, *inputs.with_u])
    if model.u_size and dataset.u_range is not None:
        defined["encode_factors"] = graphs.trace(encode_factors, [model], input_signature=[inputs.x, inputs.factors])
    return defined


def _compute_posterior(model: Autoencoder, gives_prior: bool, x: Tensor, u: Tensor | None = None) -> Outputs:
    """Return what q(z|x), and if asked for the prior, consist of, by name."""
    # Uses loc and scale: mean() and stddev() broadcast, which other runtimes cannot convert.
    posterior: Any = model.posterior(x, u)
    prior: Any = model.prior(u)
    outputs = {"mean": posterior.loc}
    if isinstance(posterior, tfd.MultivariateNormalTriL):
        outputs["scale_tril"] = posterior.scale_tril
    elif prior is not None:
        outputs["stddev"] = posterior.scale.diag_part()
    if gives_prior:     # with a row for each example, also if there is one prior for all
        zeros = tf.zeros_like(posterior.loc)
        outputs.update(prior_mean=prior.loc + zeros, prior_stddev=prior.scale.diag_part() + zeros)
    return outputs


def _scale_factors(dataset: Dataset, factors: Tensor) -> Tensor:
    """Return u of factors [B, K]; raise an error for factors outside of their range in the data."""
    assert dataset.u_range is not None
    low, high = (tf.constant(end, tf.float64) for end in dataset.u_range)
    slack = ROUNDING * tf.maximum(abs(low), abs(high))
    factors = require(factors, tf.reduce_all((factors >= low - slack) & (factors <= high + slack)),
                      "factors: expected", ", ".join(
                          f"{name} in [{start:g}, {end:g}]" for name, start, end in
                          zip(dataset.factors_of_u, *dataset.u_range, strict=True)),
                      "as in the data; got from", tf.reduce_min(factors, 0), "to", tf.reduce_max(factors, 0))
    span = tf.where(high == low, tf.ones_like(low), high - low)
    return tf.cast((factors - low) / span, tf.float32)


def _define_decoding(model: Autoencoder, dataset: Dataset, inputs: _Inputs) -> dict[str, Any]:
    def decode(z: Tensor) -> Outputs:
        likelihood = model.likelihood(check(inputs.z, z))
        outputs = {"mean": likelihood.mean()}
        if model.likelihood_layer.kind == "bernoulli":
            outputs["logits"] = likelihood.distribution.logits
        return outputs

    def reconstruct(x: Tensor, u: Tensor | None = None) -> Outputs:
        return {"mean": model.likelihood(model.posterior(*inputs.prepare(x, u)).loc).mean()}

    def jacobian(z: Tensor) -> Outputs:
        return {"jacobian": jacobians.jacobian(model.likelihood, check(inputs.z, z))}

    return {"decode": graphs.trace(decode, [model], input_signature=[inputs.z]),
            "reconstruct": graphs.trace(reconstruct, [model], input_signature=[inputs.x, *inputs.with_u]),
            "jacobian": graphs.trace(jacobian, [model], input_signature=[inputs.z])}


def _define_sampling(model: Autoencoder, dataset: Dataset, inputs: _Inputs) -> dict[str, Any]:
    def sample(n: Tensor, seed: Tensor, u: Tensor | None = None) -> Outputs:
        n = require(n, n > 0, "n: expected at least 1; got", n)
        if u is None:
            prior: Any = model.prior()
            z = prior.sample(n, seed=tf.stack([seed, 0]))
        else:
            rows = tf.shape(u)[0]
            u = require(check(inputs.u, u), (rows == 1) | (rows == n), "u: expected 1 row or", n, "; got", rows)
            prior = model.prior(tf.broadcast_to(u, [n, model.u_size]))
            z = prior.sample(seed=tf.stack([seed, 0]))
        return {"images": model.likelihood(z).mean(), "z": z}

    if not model.has_prior:
        return {}
    return {"sample": graphs.trace(sample, [model], input_signature=[inputs.n, inputs.seed, *inputs.with_u])}


def _define_traversal(model: Autoencoder, dataset: Dataset, inputs: _Inputs) -> dict[str, Any]:
    def traverse(x: Tensor, latent: Tensor, values: Tensor, u: Tensor | None = None) -> Outputs:
        latent = require(latent, (latent >= 0) & (latent < model.latents),
                         f"latent: expected 0 to {model.latents - 1}; got", latent)
        z = model.posterior(*inputs.prepare(x, u)).loc[:, tf.newaxis]                                   # [B, 1, d]
        moved = tf.where(tf.range(model.latents) == latent, check(inputs.values, values)[:, tf.newaxis], z)
        images = model.likelihood(tf.reshape(moved, [-1, model.latents])).mean()                        # [B T, ...]
        return {"images": tf.reshape(images, tf.concat([tf.shape(moved)[:2], dataset.shape], 0))}

    return {"traverse": graphs.trace(traverse, [model],
                                    input_signature=[inputs.x, inputs.latent, inputs.values, *inputs.with_u])}


def _define_objective(model: Autoencoder, dataset: Dataset, inputs: _Inputs) -> dict[str, Any]:
    gives_prior = describe_prior(model) == NORMAL

    def objective(x: Tensor, seed: Tensor, u: Tensor | None = None) -> Outputs:
        noise = distributions.draw_noise(tf.stack([seed, 0]), tf.shape(x)[0], model.noise_size)
        prepared = inputs.prepare(x, u)
        with _encode_once(model):
            posterior = _compute_posterior(model, gives_prior, *prepared)
            terms = models.check_terms(model.objective(*prepared, noise=noise), prepared[0])
        return {**terms, **{POSTERIOR + name: value for name, value in posterior.items()}}

    return {"objective": graphs.trace(objective, [model], input_signature=[inputs.x, inputs.seed, *inputs.with_u])}


@contextlib.contextmanager
def _encode_once(model: Autoencoder) -> Iterator[None]:
    """While entered, let a model encode the same tensors once alone, whoever asks for their heads.

    It has no effect on models that others wrote: they may differentiate their encoder, or let it draw anew each time.
    """
    attributes: Any = vars(model)       # set past Keras, which would track them
    if not graphs.is_own(model) or "encode" in attributes:
        yield
        return
    own, known = model.encode, {}

    def encode(x: Tensor, u: Tensor | None = None, training: bool = False) -> list[Tensor]:
        key = (id(x), id(u), training)
        if key not in known:        # The inputs are kept beside the heads, so that nothing else gets their ids.
            known[key] = own(x, u, training), (x, u)
        return list(known[key][0])

    attributes["encode"] = encode
    try:
        yield
    finally:
        del attributes["encode"]
