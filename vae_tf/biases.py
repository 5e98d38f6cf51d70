"""Keras' layers, with gradients of biases that are not rounded while they are added up, and that take less time.

The gradient of `tf.nn.bias_add`, by which Keras adds a bias, adds up numbers of bfloat16 in bfloat16 on a CPU, where
256 ones and another one are 256. The sum of thousands of gradients is then wrong by most of its value. The gradient of
`tf.add` adds them up in float32. In float32 both are right, but with the first one oneDNN takes up to three times as
long for the gradients of a convolution of images (benchmarks/roofline.py).
"""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from vae_tf import wide
from vae_tf.typing import Tensor


@keras.saving.register_keras_serializable("vae_tf", "BiasedDense")
class Dense(layers.Dense):
    """Keras' layer; see the module."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return the layer's outputs [..., units] for inputs [..., features]."""
        return _finish(self, keras.ops.matmul(inputs, self.kernel))


@keras.saving.register_keras_serializable("vae_tf", "BiasedConv2D")
class Conv2D(layers.Conv2D):
    """Keras' layer; see the module."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return the layer's outputs, a batch of maps, for a batch of maps."""
        return _finish(self, self.convolution_op(inputs, self.kernel))


@keras.saving.register_keras_serializable("vae_tf", "BiasedConv2DTranspose")
class Conv2DTranspose(layers.Conv2DTranspose):
    """Keras' layer; see the module."""

    def call(self, inputs: Tensor) -> Tensor:
        """Return the layer's outputs, a batch of maps, for a batch of maps."""
        return _finish(self, keras.ops.conv_transpose(
            inputs, self.kernel, strides=list(self.strides), padding=self.padding, output_padding=self.output_padding,
            dilation_rate=self.dilation_rate, data_format=self.data_format))


CONVOLUTIONS: dict[type, type] = {layers.Conv2D: Conv2D, layers.Conv2DTranspose: Conv2DTranspose}
IN_BFLOAT16 = {layers.Dense: Dense, wide.Dense: Dense, **CONVOLUTIONS}


def choose_layer(kind: type, dtype: str) -> type:
    """Return the layer to take for a kind of Keras', or of `wide`, that computes in a format; others are kept."""
    return (IN_BFLOAT16 if dtype == "bfloat16" else CONVOLUTIONS).get(kind, kind)


def _finish(layer: Any, outputs: Tensor) -> Tensor:
    """Return outputs with the layer's bias and activation."""
    if layer.use_bias:
        bias = tf.cast(layer.bias, outputs.dtype)
        if getattr(layer, "data_format", "channels_last") == "channels_first":
            bias = tf.reshape(bias, (-1, 1, 1))
        outputs = tf.add(outputs, bias)
    return outputs if layer.activation is None else layer.activation(outputs)
