"""Makers of pairs of networks, fully connected and convolutional ones, and the layers that all of them share."""

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers

from vae_tf import biases, upsampling, wide
from vae_tf.typing import Tensor

Shape = tuple[int, ...]                             # the shape of one example
Activation = str | Callable[[Tensor], Tensor] | None
LayerMaker = Callable[..., Any]                     # (kind, *args, **options) -> a Keras layer
NARROW = 100                # units of the widest hidden layer of a narrow network


class Pair(NamedTuple):
    """An encoder, x (and u) to a list of heads, and a decoder, z to the data's shape."""

    encoder: keras.Model
    decoder: keras.Model


class Maker(abc.ABC):
    """How a pair of networks is made, and what else is known of it.

    images_only: whether it takes images alone; `networks.build` refuses vectors for it.
    wide: whether its layers are so wide that a training step on images is products of large matrices.
    linear: whether encoder and decoder are affine maps, so that theory of linear models applies.
    narrow: whether its layers are so narrow that a training step is calls of kernels more than arithmetic.
    split: whether it trains on parts of batches where threads suit it, see vae_tf.splitting.
    """

    images_only: bool = False
    wide: bool = False
    linear: bool = False
    narrow: bool = False
    split: bool = False

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
        wide: see Maker; its layers are then those of vae_tf.wide.
    """

    encoder: Sequence[int] = ()
    encoder_activation: Activation = None
    decoder: Sequence[int] = ()
    decoder_activation: Activation = None
    net_per_head: bool = False
    wide: bool = False

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
        dense = wide.Dense if self.wide else layers.Dense

        def hidden(h: Tensor) -> Tensor:
            for width in self.encoder:
                h = layer(dense, width, activation=self.encoder_activation)(h)
            return h

        trunks = [hidden(features) for _ in heads] if self.net_per_head else [hidden(features)] * len(heads)
        outputs = [add_head(layer, size, trunk) for size, trunk in zip(heads, trunks, strict=True)]

        z = h = keras.Input((latents,), name="z")
        for width in self.decoder:
            h = layer(dense, width, activation=self.decoder_activation)(h)
        # The layer of an image's pixels is the largest, so it computes in 16 bits, too, where these are asked for.
        # Vectors may have a Gaussian likelihood of small variance, which would tell their means from rounded ones.
        size = math.prod(shape)
        h = layer(dense, size)(h) if len(shape) == 3 else add_head(layer, size, h)
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

    @property
    def split(self) -> bool:        # type: ignore[override]
        """Whether there is no batch normalisation, whose statistics are those of the whole batch."""
        return not self.batch_norm

    def make(self, shape: Shape, latents: int, heads: Sequence[int], u_size: int, layer: LayerMaker) -> Pair:
        """Return the two networks, for images of any size."""
        return Pair(self._build_encoder(shape, heads, u_size, layer), self._build_decoder(shape, latents, layer))

    def _build_encoder(self, shape: Shape, heads: Sequence[int], u_size: int, layer: LayerMaker) -> keras.Model:
        inputs, u = _make_inputs(shape, u_size)
        border = self._compute_border(shape)
        h = layer(layers.ZeroPadding2D, border)(inputs) if np.any(border) else inputs
        for filters in self.encoder:
            h = self._add_block(layer, layers.Conv2D, h, filters, 4, strides=2, padding="same")
        features = _join(layer, layer(layers.Flatten)(h), u)
        h = self._add_block(layer, layers.Dense, features, self.encoder_dense + (u_size if self.widen_by_u else 0))
        return keras.Model(_pair(inputs, u), [add_head(layer, size, h) for size in heads], name="encoder")

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


def make_seeded_layers(seed: int, dtype: str = "float32", first: int = 0) -> LayerMaker:
    """Return a maker of layers, (kind, *args, **options) -> layer; weights depend on the seed and the order alone.

    first: number of the first layer; networks of one model whose numbers differ start with other weights. Encoder and
        decoder count from 0 and the iVAE's prior from 500.
    """
    seeds = itertools.count(1_000 * seed + first)

    def layer(kind: Any, *args: Any, **options: Any) -> Any:
        if issubclass(kind, (layers.Dense, layers.Conv2D, layers.Conv2DTranspose)):
            options["kernel_initializer"] = keras.initializers.GlorotUniform(seed=next(seeds))
        options = {"dtype": dtype, **options}
        kind = biases.choose_layer(kind, keras.dtype_policies.get(options["dtype"]).compute_dtype)
        return kind(*args, **options)

    return layer


def add_head(layer: LayerMaker, size: int, h: Tensor) -> Tensor:
    """Return a linear layer on h, which computes in float32."""
    return layer(layers.Dense, size, dtype="float32")(h)


def _make_inputs(shape: Shape, u_size: int) -> tuple[Tensor, Tensor | None]:
    return keras.Input(shape, name="x"), keras.Input((u_size,), name="u") if u_size else None


def _pair(x: Tensor, u: Tensor | None) -> Any:
    return x if u is None else [x, u]


def _join(layer: LayerMaker, features: Tensor, u: Tensor | None) -> Tensor:
    return features if u is None else layer(layers.Concatenate)([features, u])
