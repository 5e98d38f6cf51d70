"""Encoders and decoders, one pair per paper table.

`build(name, ...)` gives two Keras models. The encoder takes x (and u for conditional models) and returns
one tensor per head, such as mean and log-variance; the decoder takes z and returns one tensor of the
data's shape. Heads and outputs are always linear: bhowal Table 3 prints a relu on both, which would
forbid negative means; its code has none.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
from keras import layers

from vae_tf import checks
from vae_tf.errors import InputError

# What the networks depend on. A user's keras.json may say otherwise, and would change what they are.
KERAS = {"floatx": "float32", "image_data_format": "channels_last", "epsilon": 1e-7}
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


class Pair(NamedTuple):
    """An encoder, x (and u) to a list of heads, and a decoder, z to the data's shape."""

    encoder: keras.Model
    decoder: keras.Model


class Maker(NamedTuple):
    """How a pair of networks is made, and what else is known of it.

    make: (shape, latents, heads, u_size, layer) -> Pair; see `build` for the first four. `layer(kind, *args,
        **options)` makes a Keras layer whose initial weights depend on the seed.
    images_only: whether it takes images alone, and not vectors.
    faster_compiled: whether XLA makes its training steps on images faster.
    """

    make: Callable[..., Pair]
    images_only: bool = False
    faster_compiled: bool = False


def xtanh(x):
    """tanh(x) + 0.1 x, the activation of Khemakhem 2020."""
    return keras.ops.tanh(x) + 0.1 * x


def dense(encoder=(), encoder_activation=None, decoder=(), decoder_activation=None, net_per_head=False,
          faster_compiled=False):
    """A fully connected pair: widths of the hidden layers, front to back. u joins x at the input."""
    def pair(shape, latents, heads, u_size, layer):
        inputs, u = _inputs(shape, u_size)
        features = _join(layer, layer(layers.Flatten)(inputs), u)

        def hidden(h):
            for width in encoder:
                h = layer(layers.Dense, width, activation=encoder_activation)(h)
            return h

        trunks = [hidden(features) for _ in heads] if net_per_head else [hidden(features)] * len(heads)
        outputs = [_head(layer, size, trunk) for size, trunk in zip(heads, trunks, strict=True)]

        z = h = keras.Input((latents,), name="z")
        for width in decoder:
            h = layer(layers.Dense, width, activation=decoder_activation)(h)
        decoded = layers.Reshape(shape)(_head(layer, math.prod(shape), h))
        return Pair(keras.Model(_given(inputs, u), outputs, name="encoder"), keras.Model(z, decoded, name="decoder"))

    return Maker(pair, faster_compiled=faster_compiled)


def conv(encoder, encoder_dense, decoder_dense, decoder, widen_by_u=False, dense_map=False, batch_norm=False):
    """A convolutional pair; kernels are 4x4, strides 2, padding same.

    It takes images of any height and width. Where these are no multiples of 2^(number of convolutions), the encoder
    first adds a border of zeros up to the next multiple, and the decoder's output is cut back to the image.

    Args:
        encoder: filters of the encoder's convolutions; each halves height and width.
        encoder_dense: width of the dense layer after flattening, where u joins. (A 4x4 convolution without
            padding on a 4x4 map is the same as this dense layer.)
        decoder_dense: width of the decoder's first, dense layer.
        decoder: filters of the transposed convolutions, but for the last one's, which are the channels.
        widen_by_u: the encoder's dense layer is encoder_dense + |u| wide (bonheme Table 1: 261).
        dense_map: a dense layer makes the first H/16 x W/16 map; otherwise a transposed convolution from 1x1.
        batch_norm: batch normalisation before each relu.
    """
    def pair(shape, latents, heads, u_size, layer):
        def block(kind, h, *size, **options):
            h = layer(kind, *size, **options)(h)
            if batch_norm:
                # Statistics of the whole batch, however many devices share it.
                h = layer(layers.BatchNormalization, synchronized=True)(h)
            return layer(layers.Activation, "relu")(h)

        if len(shape) != 3:
            others = ", ".join(name for name, maker in NETWORKS.items() if not maker.images_only)
            raise InputError(f"needs images [H, W, C]; got shape {shape}; for any shape: {others}")
        scale = 2 ** len(encoder)
        border = [(missing // 2, missing - missing // 2) for missing in (-shape[0] % scale, -shape[1] % scale)]
        fits = not np.any(border)
        inputs, u = _inputs(shape, u_size)
        h = inputs if fits else layer(layers.ZeroPadding2D, border)(inputs)
        for filters in encoder:
            h = block(layers.Conv2D, h, filters, 4, strides=2, padding="same")
        features = _join(layer, layer(layers.Flatten)(h), u)
        h = block(layers.Dense, features, encoder_dense + (u_size if widen_by_u else 0))
        outputs = [_head(layer, size, h) for size in heads]

        z = h = keras.Input((latents,), name="z")
        h = block(layers.Dense, h, decoder_dense)
        *size, filters = first_map = -(-shape[0] // scale), -(-shape[1] // scale), encoder[-1]
        if dense_map:
            h = layer(layers.Reshape, first_map)(block(layers.Dense, h, math.prod(first_map)))
        else:
            h = block(layers.Conv2DTranspose, layer(layers.Reshape, (1, 1, decoder_dense))(h), filters, size)
        for filters in decoder:
            h = block(layers.Conv2DTranspose, h, filters, 4, strides=2, padding="same")
        decoded = layer(layers.Conv2DTranspose, shape[2], 4, strides=2, padding="same", dtype="float32")(h)
        if not fits:
            decoded = layer(layers.Cropping2D, border, dtype="float32")(decoded)
        return Pair(keras.Model(_given(inputs, u), outputs, name="encoder"), keras.Model(z, decoded, name="decoder"))

    return Maker(pair, images_only=True)


NETWORKS: dict[str, Maker] = {
    # rolinek Table S3 "Synth. Lin."; sikka IV.B: affine maps both ways.
    "linear": dense(),
    # rolinek Table S3 "Synth. Non-Lin.".
    "mlp_synthetic": dense((60, 40, 20), "tanh", (60, 40, 20), "tanh"),
    # rolinek Table S3 "MNIST" and "fMNIST".
    "mlp_mnist": dense((400,), "relu", (500, 500), "tanh", faster_compiled=True),
    # rolinek Table S3 "dSprites"; Higgins 2017 Table 1.
    "mlp_dsprites": dense((1200, 1200), "relu", (1200, 1200, 1200), "tanh", faster_compiled=True),
    # sikka appendix C.
    "mlp_mixture": dense((256, 200, 200), "tanh", (200, 200, 256), "tanh"),
    # bonheme Table 1, completed from its code: the 1024 layer is missing from the print, the last layer is linear.
    "conv_locatello": conv((32, 32, 64, 64), 256, 256, (64, 32, 32), widen_by_u=True, dense_map=True),
    # bhowal Table 3 "3D shape" and "MPI 3D complex". The encoder is that of Higgins 2017 in the reference code of
    # Burgess 2018. The printed decoder doubles once too often, to 128x128: one stride-2 layer of 32 is taken away. The
    # print has batch norm on two layers of the encoder, the authors' code has none, and none is here.
    "conv_bhowal": conv((32, 32, 64, 64), 256, 64, (64, 64, 32)),
    # bhowal Table 3 "3DFaces", with Chen 2018's decoder: the printed one ends at 16x16.
    "conv_faces": conv((32, 32, 64, 64), 512, 512, (64, 32, 32), batch_norm=True),
    # Khemakhem 2020, reference code: three layers, the last one linear; mean and log-variance do not share.
    "mlp_tcl": dense((100, 100), xtanh, (100, 100), xtanh, net_per_head=True),
}


def register(name, maker):
    """Add a pair of networks to NETWORKS; --network and `build` then know it by this name.

    Args:
        name: of the pair.
        maker: a Maker, such as `dense(...)` and `conv(...)` return.

    Raises:
        InputError: the name is taken.
    """
    if name in NETWORKS:
        raise InputError(f"network: {name!r} is taken; expected another name")
    NETWORKS[name] = maker


def build(name, shape, latents, heads, u_size=0, seed=0, dtype="float32"):
    """The encoder and decoder of one row of NETWORKS, as a Pair of Keras models.

    Args:
        name: a key of NETWORKS.
        shape: of one example, (H, W, C) or (n,).
        latents: d, the size of z.
        heads: sizes of the encoder's outputs, such as (d, d).
        u_size: size of u; 0 builds an encoder of x alone.
        seed: of the initial weights (Glorot uniform), the same for the same seed.
        dtype: "float32", "mixed_bfloat16" or "mixed_float16"; heads and outputs are float32 in any case.

    Raises:
        InputError: unknown name, or a shape the network cannot take; the line says which would do.
    """
    checks.choice("network", name, NETWORKS)
    checks.whole("latents", latents, 1)
    checks.whole("seed", seed, 0)
    checks.choice("dtype", dtype, DTYPES)
    for setting, value in KERAS.items():
        getattr(keras.config, f"set_{setting}")(value)
    try:
        return NETWORKS[name].make(tuple(shape), latents, tuple(heads), u_size, _layers(seed, dtype))
    except InputError as error:
        raise InputError(f"network: {name} {error}") from None


def prior_network(u_size, outputs, seed=0):
    """u [B, |u|] to the parameters [B, outputs] of p(z|u): three layers of 50, leaky relu 0.1 (bonheme Table 1)."""
    layer = _layers(seed, "float32", first=500)
    u = h = keras.Input((u_size,), name="u")
    for _ in range(3):
        h = layer(layers.LeakyReLU, 0.1)(layer(layers.Dense, 50)(h))
    return keras.Model(u, _head(layer, outputs, h), name="prior_network")


def _layers(seed, dtype, first=0):
    """A maker of layers whose initial weights depend on the seed and on the order of making alone."""
    seeds = itertools.count(1_000 * seed + first)

    def layer(kind, *args, **options):
        if kind in (layers.Dense, layers.Conv2D, layers.Conv2DTranspose):
            options["kernel_initializer"] = keras.initializers.GlorotUniform(seed=next(seeds))
        return kind(*args, **{"dtype": dtype, **options})

    return layer


def _head(layer, size, h):
    return layer(layers.Dense, size, dtype="float32")(h)


def _inputs(shape, u_size):
    return keras.Input(shape, name="x"), keras.Input((u_size,), name="u") if u_size else None


def _given(x, u):
    return x if u is None else [x, u]


def _join(layer, features, u):
    return features if u is None else layer(layers.Concatenate)([features, u])
