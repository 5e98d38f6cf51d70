"""A model's functions with fixed signatures: what they compute, what they refuse, and how much one request may ask.

Inputs are what a client has, uint8 images or float32 vectors; preprocessing is inside. The functions check what comes
in. The signatures, which a server offers to anybody, also bound how much is asked and check what comes out.
"""

import inspect
import math

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import distributions, jacobians, models

tfd = tfp.distributions

SIGNATURES = ("encode", "encode_floats", "encode_factors", "decode", "reconstruct", "sample", "traverse", "jacobian")

# Bytes that a request may take, as the outputs of all layers count; and the bounds on rows whatever a row takes.
# evaluate.py sends 500 rows at a time.
BUDGET, FEWEST_ROWS, MOST_ROWS = 2**30, 512, 65_536

# Training examples that are looked at to see whether an image may be dark.
LOOKED_AT = 1_000

# A factor may be this share of its range's largest number outside of it, which float32 rounding explains.
ROUNDING = 1e-6


def limits(model):
    """How many rows one request may ask, by name: jacobian_rows of `jacobian`, rows of all other signatures."""
    tensors = [tensor for network in (model.encoder, model.decoder) for layer in network.layers
               for tensor in keras.tree.flatten(layer.output)]
    rows = BUDGET // (4 * sum(math.prod(tensor.shape[1:]) for tensor in tensors))
    return {"rows": min(max(rows, FEWEST_ROWS), MOST_ROWS),
            "jacobian_rows": min(max(rows // (1 + model.latents), 1), MOST_ROWS)}


def has_dark(dataset):
    """Whether some of the training images, of up to 1,000 looked at, has no pixel above 1."""
    looked_at = np.unique(np.linspace(0, len(dataset) - 1, LOOKED_AT).astype(int))
    return bool((dataset.images_at(looked_at).reshape(len(looked_at), -1).max(1) <= 1).any())


def _required(value, condition, *message):
    """value, or an error of these words and numbers before anything is computed from it."""
    words = [tf.convert_to_tensor(part) for part in message]
    with tf.control_dependencies([tf.raw_ops.Assert(condition=condition, data=words)]):     # vectorized_map takes it
        return tf.identity(value)


def _checked(spec, value):
    """value, or an error that names it: it has another shape than the TensorSpec, no rows, or NaN or infinity."""
    value = tf.ensure_shape(value, spec.shape, name=f"expected_shape_of_{spec.name}")
    value = _required(value, tf.shape(value)[0] > 0, f"{spec.name}: expected at least one row; got none")
    if value.dtype.is_floating:      # not check_numerics: that checks gradients too
        finite = tf.math.is_finite(value)
        value = _required(value, tf.reduce_all(finite), f"{spec.name}: expected finite numbers; got NaN or infinity in",
                          tf.math.count_nonzero(~finite), "places")
    return value


class Functions(tf.Module):
    """A model's functions with fixed signatures, and the variables they read.

    refuse_dark: whether a batch of images of which no pixel is above 1 is refused. TensorFlow casts a NumPy array of
        floats in [0, 1] to such a batch without a word.
    """

    def __init__(self, model, dataset, refuse_dark):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        x_spec = tf.TensorSpec((None, *dataset.shape), tf.uint8 if dataset.is_image else tf.float32, name="x")
        floats_spec = tf.TensorSpec((None, *dataset.shape), tf.float32, name="x")
        z_spec = tf.TensorSpec((None, model.latents), tf.float32, name="z")
        u_spec = tf.TensorSpec((None, model.u_size), tf.float32, name="u")
        u_specs = [u_spec] if model.u_size else []
        factors_spec = tf.TensorSpec((None, model.u_size), tf.float64, name="factors")
        values_spec = tf.TensorSpec((None,), tf.float32, name="values")
        n, seed, latent = (tf.TensorSpec((), tf.int32, name=name) for name in ("n", "seed", "latent"))

        def with_rows(spec, value, x):
            """u or factors, checked, one row per example."""
            rows, expected = tf.shape(value)[0], tf.shape(x)[0]
            return _required(_checked(spec, value), rows == expected,
                             f"{spec.name}: expected as many rows as x has,", expected, "; got", rows)

        def ready(x, u):
            """x, and u where there is one, as the model takes them."""
            x = _checked(x_spec, x)
            if refuse_dark:
                x = _required(x, tf.reduce_any(x > 1), "x: expected uint8 pixels from 0 to 255; got none above 1, as "
                              "when floats in [0, 1] or masks of 0 and 1 are sent, which encode_floats takes")
            return [models.unit_range(x), *([] if u is None else [with_rows(u_spec, u, x)])]

        # Distributions' loc and scale: their mean() and stddev() broadcast, which other runtimes cannot convert.
        @tf.function(input_signature=[floats_spec, *u_specs])        # traced once for all signatures that encode
        def encoded(x, u=None):
            posterior, prior = model.posterior(x, u), model.prior(u)
            outputs = {"mean": posterior.loc}
            if isinstance(posterior, tfd.MultivariateNormalTriL):
                outputs["scale_tril"] = posterior.scale_tril
            elif prior is not None:
                outputs["stddev"] = posterior.scale.diag_part()
            if model.u_size:
                outputs.update(prior_mean=prior.loc, prior_stddev=prior.scale.diag_part())
            return outputs

        def encode(x, u=None):
            return encoded(*ready(x, u))

        def encode_floats(x, u=None):
            x = _checked(floats_spec, x)
            low, high = tf.reduce_min(x), tf.reduce_max(x)
            x = _required(x, (low >= 0) & (high <= 1), "x: expected floats in [0, 1]; got", low, "to", high)
            return encoded(x, *([] if u is None else [with_rows(u_spec, u, x)]))

        def encode_factors(x, factors):
            low, high = (tf.constant(end, tf.float64) for end in dataset.u_range)
            slack = ROUNDING * tf.maximum(abs(low), abs(high))
            factors = with_rows(factors_spec, factors, x)
            factors = _required(factors, tf.reduce_all((factors >= low - slack) & (factors <= high + slack)),
                                "factors: expected", ", ".join(
                                    f"{factor.name} in [{start:g}, {end:g}]" for factor, start, end in
                                    zip(dataset.factors, *dataset.u_range, strict=True)),
                                "as in training; got from", tf.reduce_min(factors, 0), "to", tf.reduce_max(factors, 0))
            span = tf.where(high == low, tf.ones_like(low), high - low)
            return encode(x, tf.cast((factors - low) / span, tf.float32))

        def decode(z):
            likelihood = model.likelihood(_checked(z_spec, z))
            outputs = {"mean": likelihood.mean()}
            if model.likelihood_layer.kind == "bernoulli":
                outputs["logits"] = likelihood.distribution.logits
            return outputs

        def reconstruct(x, u=None):
            return {"mean": model.likelihood(model.posterior(*ready(x, u)).loc).mean()}

        def sample(n, seed, u=None):
            n = _required(n, n > 0, "n: expected at least 1; got", n)
            if u is None:
                z = model.prior().sample(n, seed=tf.stack([seed, 0]))
            else:
                rows = tf.shape(u)[0]
                u = _required(_checked(u_spec, u), (rows == 1) | (rows == n), "u: expected 1 row or", n, "; got", rows)
                z = model.prior(tf.broadcast_to(u, [n, model.u_size])).sample(seed=tf.stack([seed, 0]))
            return {"images": model.likelihood(z).mean(), "z": z}

        def traverse(x, latent, values, u=None):
            latent = _required(latent, (latent >= 0) & (latent < model.latents),
                               f"latent: expected 0 to {model.latents - 1}; got", latent)
            z = model.posterior(*ready(x, u)).loc[:, tf.newaxis]                                            # [B, 1, d]
            moved = tf.where(tf.range(model.latents) == latent, _checked(values_spec, values)[:, tf.newaxis], z)
            images = model.likelihood(tf.reshape(moved, [-1, model.latents])).mean()                       # [B T, ...]
            return {"images": tf.reshape(images, tf.concat([tf.shape(moved)[:2], dataset.shape], 0))}

        def jacobian(z):
            return {"jacobian": jacobians.jacobian(model.likelihood, _checked(z_spec, z))}

        def objective(x, seed, u=None):
            noise = distributions.noise(tf.stack([seed, 0]), tf.shape(x)[0], model.noise_size)
            return model.objective(*ready(x, u), noise=noise)

        self.encode = tf.function(encode, input_signature=[x_spec, *u_specs])
        self.decode = tf.function(decode, input_signature=[z_spec])
        self.reconstruct = tf.function(reconstruct, input_signature=[x_spec, *u_specs])
        self.traverse = tf.function(traverse, input_signature=[x_spec, latent, values_spec, *u_specs])
        self.jacobian = tf.function(jacobian, input_signature=[z_spec])
        self.objective = tf.function(objective, input_signature=[x_spec, seed, *u_specs])
        if dataset.is_image:
            self.encode_floats = tf.function(encode_floats, input_signature=[floats_spec, *u_specs])
        if model.u_size and dataset.u_range is not None:
            self.encode_factors = tf.function(encode_factors, input_signature=[x_spec, factors_spec])
        if model.prior(tf.zeros((1, model.u_size))) is not None:
            self.sample = tf.function(sample, input_signature=[n, seed, *u_specs])


def served(functions, most):
    """The signatures by name: the functions with bounds on how much is asked, and with outputs that are finite.

    most: limits(model).
    """
    named = {name: _served(name, getattr(functions, name), most) for name in SIGNATURES if hasattr(functions, name)}
    return {"serving_default": named["encode"], **named}


def _served(name, function, most):
    specs = {spec.name: spec for spec in function.input_signature}

    def signature(*values):
        inputs = dict(zip(specs, values, strict=True))
        bounded = _bounded(name, inputs, most)
        outputs = function(*(bounded[key] for key in specs))
        floats = [part for key in specs if inputs[key].dtype.is_floating
                  for part in (f"{key} up to", tf.reduce_max(abs(inputs[key])))]
        return {key: _required(value, _usable(key, value), f"{key} came out NaN, infinite, or 0 where it must be "
                               "positive; the inputs are too large:", *floats)
                for key, value in outputs.items()}

    # Not a concrete function: `save` traces in a context of its own, and would trace all that this one calls again.
    parameters = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD) for key in specs]
    signature.__signature__ = inspect.Signature(parameters)         # type: ignore[attr-defined]
    return tf.function(signature, input_signature=[*specs.values()])


def _bounded(name, inputs, most):
    """The inputs in the function's order, or an error that names the one that asks too much and the limit."""
    which = "jacobian_rows" if name == "jacobian" else "rows"
    limit = most[which]
    bounded = dict(inputs)
    for key, value in inputs.items():
        if key in ("x", "z", "u", "factors", "values"):
            rows = tf.shape(value)[0]
            bounded[key] = _required(value, rows <= limit, f"{key}: expected at most {limit} rows; got", rows)
        elif key == "n":
            bounded[key] = _required(value, value <= limit, f"n: expected at most {limit}; got", value)
    if name == "traverse":
        asked = tf.shape(inputs["x"], tf.int64)[0] * tf.shape(inputs["values"], tf.int64)[0]
        bounded["values"] = _required(bounded["values"], asked <= limit, "values: expected at most "
                                      f"{limit} images, rows of x times values; got", asked)
    return bounded


def _usable(key, value):
    finite = tf.math.is_finite(value)
    return tf.reduce_all(finite & (value > 0) if key.endswith("stddev") else finite)
