"""Whether the parts of a model fit together."""

from typing import Any

import keras
import tensorflow as tf

from vae_tf import checks, distributions
from vae_tf.errors import InputError

# Layers that do in training something else than after it.
OTHERWISE = (keras.layers.BatchNormalization, keras.layers.Dropout, keras.layers.AlphaDropout,
             keras.layers.GaussianDropout, keras.layers.GaussianNoise, keras.layers.SpectralNormalization)


# What makes probabilities of logits, as an activation of a layer or as an operation by itself.
SQUASHING = (keras.activations.sigmoid, keras.activations.softmax, keras.activations.hard_sigmoid, keras.ops.sigmoid,
             keras.ops.softmax, keras.ops.hard_sigmoid, tf.sigmoid, tf.nn.sigmoid, tf.nn.softmax)
OPERATIONS = {"Sigmoid", "Softmax", "HardSigmoid"}
# What brings outputs into another shape, and leaves each number as it is.
SHAPING = (keras.layers.Reshape, keras.layers.Flatten, keras.layers.InputLayer, keras.layers.Permute,
           keras.layers.Cropping1D, keras.layers.Cropping2D, keras.layers.Cropping3D)
SHAPING_OPERATIONS = {"Reshape", "GetItem", "Transpose", "Squeeze", "ExpandDims"}


def check_networks(kind: Any, encoder: Any, decoder: Any, likelihood: Any) -> None:
    """Raise InputError unless a model of a kind, a subclass of Autoencoder, can be made of these networks."""
    for name, network in (("encoder", encoder), ("decoder", decoder)):
        if not isinstance(network, keras.Model) or not getattr(network, "inputs", None):
            raise InputError(f"{name}: expected a keras.Model whose inputs are known; got "
                             f"{checks.describe(network)}" + "; make one by x = keras.Input(shape); "
                             f"{name} = keras.Model(x, {name}(x))" * isinstance(network, keras.Model))
        if any(tf.as_dtype(each.dtype) == tf.float64 for each in network.outputs):
            raise InputError(f"{name}: expected outputs of float32, or of 16 bits; got float64; give its layers "
                             "dtype='float32'")
    if not isinstance(likelihood, distributions.Likelihood):
        raise InputError(f"likelihood: expected a distributions.Likelihood; got {checks.describe(likelihood)}")
    z, *others = decoder.inputs
    if others or len(z.shape) != 2 or not z.shape[1]:
        raise InputError(f"decoder: expected a network that takes z [B, d] alone; got inputs of the shapes "
                         f"{', '.join(str(each.shape) for each in decoder.inputs)}")
    if len(decoder.outputs) != 1:
        raise InputError(f"decoder: expected a network with one output; got {len(decoder.outputs)}")
    if len(encoder.inputs) > 2:
        raise InputError(f"encoder: expected a network of x, or of x and u; got {len(encoder.inputs)} inputs")
    for name, network in (("encoder", encoder), ("decoder", decoder)):
        for ends in ("inputs", "outputs"):
            if isinstance(named := getattr(network, f"_{ends}_struct", None), dict):
                raise InputError(f"{name}: expected {ends} without names; got a dict of "
                                 f"{', '.join(map(str, named))}, whose order is that of the names")
    if not tf.as_dtype(encoder.inputs[0].dtype).is_floating:
        raise InputError("encoder: expected an input x of floats, which images are scaled to before they are "
                         f"encoded; got {encoder.inputs[0].dtype}")
    if kind.conditional and len(encoder.inputs) < 2:
        raise InputError(f"encoder: expected a network of x and u, which {kind.__name__} sees; got one of x alone")
    heads = [each.shape[1] if len(each.shape) == 2 else tuple(each.shape[1:]) for each in encoder.outputs]
    expected = list(kind.list_heads(z.shape[1]))
    if heads != expected:
        raise InputError(f"encoder: expected outputs of the sizes {expected}, for the decoder's {z.shape[1]} "
                         f"latents; got {heads}")
    if likelihood.kind == "bernoulli" and (last := _find_last(decoder)) is not None and (name := _name_squashing(last)):
        raise InputError(f"decoder: expected logits for a bernoulli likelihood; got a last layer, {last.name}, with "
                         f"the activation {name}; leave it out, because the likelihood applies it")
    if decoder.outputs[0].shape[1:] != encoder.inputs[0].shape[1:]:
        raise InputError(f"decoder: expected a network to examples of shape {encoder.inputs[0].shape[1:]}, as the "
                         f"encoder takes them; got {decoder.outputs[0].shape[1:]}")


def _find_last(network: Any) -> Any:
    """Return the last layer of a network that does more than bring its outputs into a shape, or None."""
    for layer in reversed(getattr(network, "operations", network.layers)):
        if isinstance(layer, keras.Model):
            return _find_last(layer)
        is_linear = isinstance(layer, keras.layers.Activation) and layer.activation is keras.activations.linear
        if not (isinstance(layer, SHAPING) or type(layer).__name__ in SHAPING_OPERATIONS or is_linear):
            return layer
    return None


def _name_squashing(layer: Any) -> str:
    """Return the name of the function by which a layer or operation makes probabilities of logits, or ""."""
    function = getattr(layer, "activation", None) or getattr(layer, "function", None)
    if function in SQUASHING:
        return getattr(function, "__name__", "sigmoid")
    kind = type(layer).__name__
    return kind.lower() if kind in OPERATIONS else ""


def check_statistics(model: keras.Model) -> None:
    """Raise InputError for a model whose layers would normalise by the statistics of each device's share of a batch."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized:
            raise InputError(f"strategy: expected one device, or layers of BatchNormalization(synchronized=True); got "
                             f"several devices, and a layer {layer.name} that normalises the share of each alone")


def check_prior_network(prior_network: keras.Model, u_size: int, latents: int) -> None:
    """Raise InputError unless a network takes u [B, |u|] to the prior of an IVAE; a Sequential is built for that."""
    if isinstance(prior_network, keras.Sequential) and not prior_network.built:
        try:
            prior_network.build((None, u_size))
        except Exception as error:      # of layers that take no such input, which raise anything
            raise InputError(f"prior_network: expected a network from u [B, {u_size}]; got a keras.Sequential "
                             f"that takes no such input ({str(error).strip().splitlines()[0]})") from None
    if not getattr(prior_network, "inputs", None):
        raise InputError(f"prior_network: expected a keras.Model whose inputs are known; got "
                         f"{checks.describe(prior_network)}; make one by u = keras.Input(({u_size},)); "
                         "keras.Model(u, network(u))")
    sizes = [each.shape[-1] for ends in ("inputs", "outputs") for each in getattr(prior_network, ends)]
    if sizes not in ([u_size, latents], [u_size, 2 * latents]):
        raise InputError(f"prior_network: expected a network from u [B, {u_size}] to {latents} "
                         f"log-variances, or to {latents} means and as many log-variances; got one whose "
                         f"inputs and outputs have the sizes {sizes}")
    for layer in prior_network._flatten_layers():
        if isinstance(layer, OTHERWISE):
            raise InputError("prior_network: expected layers that do in training what they do after it; got a "
                             f"{type(layer).__name__}")
