"""Encoders and decoders, one pair per paper table.

`build(name, ...)` gives two Keras models. The encoder takes x (and u for conditional models) and returns one tensor per
head, such as mean and log-variance; the decoder takes z and returns a tensor of the data's shape. Heads and outputs are
linear: bhowal Table 3 prints a relu on both, which would forbid negative means; its code has none.
"""

from collections.abc import Sequence

import keras
from keras import layers

from vae_tf import arguments, checks
from vae_tf.errors import InputError
from vae_tf.networks.makers import Conv, Dense, LayerMaker, Maker, Pair, Shape, add_head, make_seeded_layers
from vae_tf.typing import Tensor

# Settings of Keras that the networks depend on. A user's keras.json may have other values.
KERAS = {"floatx": "float32", "image_data_format": "channels_last", "epsilon": 1e-7}
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


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
    "mlp_mnist": Dense((400,), "relu", (500, 500), "tanh", wide=True),
    # rolinek Table S3 "dSprites"; Higgins 2017 Table 1.
    "mlp_dsprites": Dense((1200, 1200), "relu", (1200, 1200, 1200), "tanh", wide=True),
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
    if NETWORKS[name].images_only and len(shape) != 3:
        others = ", ".join(other for other, maker in NETWORKS.items() if not maker.images_only)
        raise InputError(f"network: {name} needs images [H, W, C]; got shape {shape}; for any shape: {others}")
    for setting, value in KERAS.items():
        getattr(keras.config, f"set_{setting}")(value)
    try:
        return NETWORKS[name].make(shape, latents, heads, u_size, make_seeded_layers(seed, dtype))
    except InputError as error:
        raise InputError(f"network: {name} {error}") from None


def build_prior_network(u_size: int, outputs: int, seed: int = 0) -> keras.Model:
    """Make the network from u [B, |u|] to p(z|u)'s parameters: three layers of 50, leaky relu (bonheme Table 1)."""
    layer = make_seeded_layers(seed, "float32", first=500)
    u = h = keras.Input((u_size,), name="u")
    for _ in range(3):
        h = layer(layers.LeakyReLU, 0.1)(layer(layers.Dense, 50)(h))
    return keras.Model(u, add_head(layer, outputs, h), name="prior_network")


__all__ = ["DTYPES", "KERAS", "NETWORKS", "Conv", "Dense", "LayerMaker", "Maker", "Pair", "Shape", "build",
           "build_prior_network", "is_linear", "make_seeded_layers", "register", "xtanh"]
