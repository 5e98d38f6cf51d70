"""Encoders and decoders, one pair per paper table.

`build(name, ...)` gives two Keras models. The encoder takes x (and u for conditional models) and returns one tensor per
head, such as mean and log-variance; the decoder takes z and returns a tensor of the data's shape. Heads and outputs are
linear: bhowal Table 3 prints a relu on both, which would forbid negative means; its code has none.
"""

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers

from vae_tf import arguments, checks, upsampling
from vae_tf.errors import InputError
from vae_tf.typing import Tensor

Shape = tuple[int, ...]                             # the shape of one example
Activation = str | Callable[[Tensor], Tensor] | None
LayerMaker = Callable[..., Any]                     # (kind, *args, **options) -> a Keras layer
# Settings of Keras that the networks depend on. A user's keras.json may have other values.
KERAS = {"floatx": "float32", "image_data_format": "channels_last", "epsilon": 1e-7}
NARROW = 100                # units of the widest hidden layer of a narrow network
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


class Pair(NamedTuple):
    """An encoder, x (and u) to a list of heads, and a decoder, z to the data's shape."""

    encoder: keras.Model
    decoder: keras.Model


class Maker(abc.ABC):
    """How a pair of networks is made, and what else is known of it.

    images_only: whether it takes images alone, and not vectors.
    faster_compiled: whether XLA makes its training steps on images faster.
    linear: whether encoder and decoder are affine maps, so that theory of linear models applies.
    narrow: whether its layers are so narrow that a training step is calls of kernels more than arithmetic.
    """

    images_only: bool = False
    faster_compiled: bool = False
    linear: bool = False
    narrow: bool = False

    @abc.abstractmethod
    def make(self, shape: Shape, latents: int, heads: Sequence[int], u_size: int, layer: LayerMaker) -> Pair:
        """Return the two networks.

        Args:
            shape, latents, heads, u_size: see `build`.
            layer: `layer(kind, *args, **options)` makes a Keras layer whose initial weights depend on the seed.
        """


@dataclasses.dataclass(frozen=True)
class Dense(Maker):
    """A fully connected pair, where u joins x at the input.

    Args:
        encoder, decoder: widths of the hidden layers, front to back.
        encoder_activation, decoder_activation: the activations of these layers.
        net_per_head: whether each head has hidden layers of its own.
        faster_compiled: see Maker.
    """

    encoder: Sequence[int] = ()
    encoder_activation: Activation = None
    decoder: Sequence[int] = ()
    decoder_activation: Activation = None
    net_per_head: bool = False
    faster_compiled: bool = False

    @property
    def linear(self) -> bool:       # type: ignore[override]
        """Whether there is no hidden layer."""
        return not self.encoder and not self.decoder

    @property
    def narrow(self) -> bool:       # type: ignore[override]
        """Whether no hidden layer has more than 100 units."""
        return max((*self.encoder, *self.decoder), default=0) <= NARROW

    def make(self, shape: Shape, latents: int, heads: Sequence[int], u_size: int, layer: LayerMaker) -> Pair:
        """Return the two networks, for data of any shape."""
        inputs, u = _make_inputs(shape, u_size)
        features = _join(layer, layer(layers.Flatten)(inputs), u)

        def hidden(h: Tensor) -> Tensor:
            for width in self.encoder:
                h = layer(layers.Dense, width, activation=self.encoder_activation)(h)
            return h

        trunks = [hidden(features) for _ in heads] if self.net_per_head else [hidden(features)] * len(heads)
        outputs = [_add_head(layer, size, trunk) for size, trunk in zip(heads, trunks, strict=True)]

        z = h = keras.Input((latents,), name="z")
        for width in self.decoder:
            h = layer(layers.Dense, width, activation=self.decoder_activation)(h)
        # The layer of an image's pixels is the largest, so it computes in 16 bits, too, where these are asked for.
        # Vectors may have a Gaussian likelihood of small variance, which would tell their means from rounded ones.
        size = math.prod(shape)
        h = layer(layers.Dense, size)(h) if len(shape) == 3 else _add_head(layer, size, h)
        decoded = layer(layers.Reshape, shape, dtype="float32")(h)
        return Pair(keras.Model(_pair(inputs, u), outputs, name="encoder"), keras.Model(z, decoded, name="decoder"))


@dataclasses.dataclass(frozen=True)
class Conv(Maker):
    """A convolutional pair. Kernels are 4x4, strides are 2, and padding is "same".

    It takes images of any height and width. Where these are no multiples of 2^(number of convolutions), the encoder
    first adds a border of zeros up to the next multiple, and the decoder's output is cut back to the image.

    Args:
        encoder: filters of the encoder's convolutions; each halves height and width.
        encoder_dense: width of the dense layer after flattening, where u joins. (A 4x4 convolution without padding on
            a 4x4 map is the same as this dense layer.)
        decoder_dense: width of the decoder's first, dense layer.
        decoder: filters of the transposed convolutions; the last one is left out, as its filters are the channels.
        widen_by_u: whether the encoder's dense layer is encoder_dense + |u| wide (bonheme Table 1: 261).
        dense_map: whether a dense layer makes the first H/16 x W/16 map; otherwise it is a transposed convolution from
            1x1.
        batch_norm: whether there is a batch normalisation before each relu.
    """

    encoder: Sequence[int]
    encoder_dense: int
    decoder_dense: int
    decoder: Sequence[int]
    widen_by_u: bool = False
    dense_map: bool = False
    batch_norm: bool = False
    images_only = True

    def make(self, shape: Shape, latents: int, heads: Sequence[int], u_size: int, layer: LayerMaker) -> Pair:
        """Return the two networks.

        Raises:
            InputError: the data are no images.
        """
        if len(shape) != 3:
            others = ", ".join(name for name, maker in NETWORKS.items() if not maker.images_only)
            raise InputError(f"needs images [H, W, C]; got shape {shape}; for any shape: {others}")
        return Pair(self._build_encoder(shape, heads, u_size, layer), self._build_decoder(shape, latents, layer))

    def _build_encoder(self, shape: Shape, heads: Sequence[int], u_size: int, layer: LayerMaker) -> keras.Model:
        inputs, u = _make_inputs(shape, u_size)
        border = self._compute_border(shape)
        h = layer(layers.ZeroPadding2D, border)(inputs) if np.any(border) else inputs
        for filters in self.encoder:
            h = self._add_block(layer, layers.Conv2D, h, filters, 4, strides=2, padding="same")
        features = _join(layer, layer(layers.Flatten)(h), u)
        h = self._add_block(layer, layers.Dense, features, self.encoder_dense + (u_size if self.widen_by_u else 0))
        return keras.Model(_pair(inputs, u), [_add_head(layer, size, h) for size in heads], name="encoder")

    def _build_decoder(self, shape: Shape, latents: int, layer: LayerMaker) -> keras.Model:
        z = keras.Input((latents,), name="z")
        h = self._add_block(layer, layers.Dense, z, self.decoder_dense)
        scale = 2 ** len(self.encoder)
        *size, filters = first_map = -(-shape[0] // scale), -(-shape[1] // scale), self.encoder[-1]
        if self.dense_map:
            h = layer(layers.Reshape, first_map)(self._add_block(layer, layers.Dense, h, math.prod(first_map)))
        else:
            h = self._add_block(layer, layers.Conv2DTranspose, layer(layers.Reshape, (1, 1, self.decoder_dense))(h),
                                filters, size)
        for filters in self.decoder:
            h = self._add_block(layer, layers.Conv2DTranspose, h, filters, 4, strides=2, padding="same")
        decoded = layer(upsampling.Conv2DTranspose, shape[2], dtype="float32")(h)
        border = self._compute_border(shape)
        if np.any(border):
            decoded = layer(layers.Cropping2D, border, dtype="float32")(decoded)
        return keras.Model(z, decoded, name="decoder")

    def _compute_border(self, shape: Shape) -> list[tuple[int, int]]:
        """Return rows (above, below) and columns (left, right) to make an image's sizes multiples of 2^convolutions."""
        scale = 2 ** len(self.encoder)
        return [(missing // 2, missing - missing // 2) for missing in (-shape[0] % scale, -shape[1] % scale)]

    def _add_block(self, layer: LayerMaker, kind: Any, h: Tensor, *size: Any, **options: Any) -> Tensor:
        """Return a layer, batch normalisation if there is any, and a relu."""
        h = layer(kind, *size, **options)(h)
        if self.batch_norm:
            # The statistics are of the whole batch, even if several devices share it.
            h = layer(layers.BatchNormalization, synchronized=True)(h)
        return layer(layers.Activation, "relu")(h)


@keras.saving.register_keras_serializable("vae_tf")
def xtanh(x: Tensor) -> Tensor:
    """Return tanh(x) + 0.1 x, the activation of Khemakhem 2020."""
    return keras.ops.tanh(x) + 0.1 * x


NETWORKS: dict[str, Maker] = {
    # rolinek Table S3 "Synth. Lin."; sikka IV.B: affine maps both ways.
    "linear": Dense(),
    # rolinek Table S3 "Synth. Non-Lin.".
    "mlp_synthetic": Dense((60, 40, 20), "tanh", (60, 40, 20), "tanh"),
    # rolinek Table S3 "MNIST" and "fMNIST".
    "mlp_mnist": Dense((400,), "relu", (500, 500), "tanh", faster_compiled=True),
    # rolinek Table S3 "dSprites"; Higgins 2017 Table 1.
    "mlp_dsprites": Dense((1200, 1200), "relu", (1200, 1200, 1200), "tanh", faster_compiled=True),
    # sikka appendix C.
    "mlp_mixture": Dense((256, 200, 200), "tanh", (200, 200, 256), "tanh"),
    # bonheme Table 1, completed from its code: the 1024 layer is missing from the print, and the last layer is linear.
    "conv_locatello": Conv((32, 32, 64, 64), 256, 256, (64, 32, 32), widen_by_u=True, dense_map=True),
    # bhowal Table 3 "3D shape" and "MPI 3D complex". The encoder is that of Higgins 2017 in the reference code of
    # Burgess 2018. The printed decoder doubles once too often, to 128x128: one stride-2 layer of 32 is taken away. The
    # print has batch norm on two layers of the encoder, the authors' code has none, and none is here.
    "conv_bhowal": Conv((32, 32, 64, 64), 256, 64, (64, 64, 32)),
    # bhowal Table 3 "3DFaces", with Chen 2018's decoder, as the printed one ends at 16x16.
    "conv_faces": Conv((32, 32, 64, 64), 512, 512, (64, 32, 32), batch_norm=True),
    # Khemakhem 2020, reference code: three layers, the last one linear; mean and log-variance share no layer.
    "mlp_tcl": Dense((100, 100), xtanh, (100, 100), xtanh, net_per_head=True),
}


def register(name: str, maker: Maker) -> None:
    """Add a pair of networks to NETWORKS; --network and `build` then know it by this name.

    Args:
        name: the name of the pair.
        maker: a Maker, such as `Dense(...)` or `Conv(...)`.

    Raises:
        InputError: the name is taken, or the maker is none.
    """
    if not isinstance(maker, Maker):
        raise InputError(f"network: expected a networks.Maker for {name}, such as networks.Dense((400,), 'relu', "
                         f"(400,), 'relu'); got {checks.describe(maker)}")
    if name in NETWORKS:
        raise InputError(f"network: {name!r} is taken; expected another name")
    NETWORKS[name] = maker


def is_linear(name: str) -> bool:
    """Return whether the networks of a name are affine maps; False for names that are not registered."""
    return name in NETWORKS and NETWORKS[name].linear


@arguments.check_arguments
def build(name: str, shape: Sequence[arguments.Size], latents: arguments.Size, heads: Sequence[arguments.Width],
          u_size: arguments.FromZero = 0, seed: arguments.SeedOfWeights = 0, dtype: str = "float32") -> Pair:
    """Return the encoder and decoder of one row of NETWORKS, as a Pair of Keras models.

    Args:
        name: a key of NETWORKS.
        shape: the shape of one example, (H, W, C) or (n,).
        latents: d, the size of z.
        heads: sizes of the encoder's outputs, such as (d, d).
        u_size: size of u; 0 builds an encoder of x alone.
        seed: the seed for the initial weights (Glorot uniform).
        dtype: "float32", "mixed_bfloat16" or "mixed_float16". Heads, and the outputs of decoders of vectors, are
            computed in float32 in any case. The pixels of a dense decoder are computed in 16 bits and returned as
            float32.

    Raises:
        InputError: unknown name, or a shape the network cannot take; the line says which would do.
    """
    checks.check_choice("network", name, NETWORKS)
    shape, heads = checks.check_shape("shape", shape), tuple(map(int, heads))
    checks.check_choice("dtype", dtype, DTYPES)
    if not heads:
        raise InputError("heads: expected the size of one output at least; got none")
    for setting, value in KERAS.items():
        getattr(keras.config, f"set_{setting}")(value)
    try:
        return NETWORKS[name].make(shape, latents, heads, u_size, make_seeded_layers(seed, dtype))
    except InputError as error:
        raise InputError(f"network: {name} {error}") from None


def build_prior_network(u_size: int, outputs: int, seed: int = 0) -> keras.Model:
    """Make the network from u [B, |u|] to p(z|u)'s parameters: three layers of 50, leaky relu 0.1 (bonheme Table 1)."""
    layer = make_seeded_layers(seed, "float32", first=500)
    u = h = keras.Input((u_size,), name="u")
    for _ in range(3):
        h = layer(layers.LeakyReLU, 0.1)(layer(layers.Dense, 50)(h))
    return keras.Model(u, _add_head(layer, outputs, h), name="prior_network")


def make_seeded_layers(seed: int, dtype: str = "float32", first: int = 0) -> LayerMaker:
    """Return a maker of layers, (kind, *args, **options) -> layer; weights depend on the seed and the order alone.

    first: number of the first layer; networks of one model whose numbers differ start with other weights. Encoder and
        decoder count from 0 and the iVAE's prior from 500.
    """
    seeds = itertools.count(1_000 * seed + first)

    def layer(kind: Any, *args: Any, **options: Any) -> Any:
        if issubclass(kind, (layers.Dense, layers.Conv2D, layers.Conv2DTranspose)):
            options["kernel_initializer"] = keras.initializers.GlorotUniform(seed=next(seeds))
        return kind(*args, **{"dtype": dtype, **options})

    return layer


def _add_head(layer: LayerMaker, size: int, h: Tensor) -> Tensor:
    return layer(layers.Dense, size, dtype="float32")(h)


def _make_inputs(shape: Shape, u_size: int) -> tuple[Tensor, Tensor | None]:
    return keras.Input(shape, name="x"), keras.Input((u_size,), name="u") if u_size else None


def _pair(x: Tensor, u: Tensor | None) -> Any:
    return x if u is None else [x, u]


def _join(layer: LayerMaker, features: Tensor, u: Tensor | None) -> Tensor:
    return features if u is None else layer(layers.Concatenate)([features, u])
