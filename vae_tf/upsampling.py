"""The transposed convolution that ends a convolutional decoder, computed in a way that is fast for few channels."""

import keras
import tensorflow as tf
from keras import layers

from vae_tf.typing import Tensor


@keras.saving.register_keras_serializable("vae_tf")
class Conv2DTranspose(layers.Conv2DTranspose):
    """Keras' layer with 4x4 kernels, stride 2 and "same" padding, in half the time where it has few filters.

    On processors TensorFlow takes as long to compute one channel as eight. Here each block of 2x2 pixels of the output
    is computed as so many channels of one pixel, and the blocks are then laid out as an image. In training, a
    convolution computes them, and gradients are those of Keras' layer, which are faster than those of that convolution,
    but for the bias, whose gradient TensorFlow is slow to compute for one channel. Otherwise one matrix product gives
    what each pixel of the input adds to four blocks, because TensorFlow can vectorise all derivatives of that. Up to
    rounding all numbers are Keras', and weights have Keras' names and shapes.
    """

    def __init__(self, filters: int, *, name: str | None = None, **options: object) -> None:
        fixed = {"kernel_size": 4, "strides": 2, "padding": "same"}
        super().__init__(filters, name=name, **{**options, **fixed})

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Return the layer's outputs [B, 2 H, 2 W, filters] for inputs [B, H, W, C]."""
        bias = self.bias if self.use_bias else tf.zeros(self.filters)
        kernel, bias = tf.cast(self.kernel, inputs.dtype), tf.cast(bias, inputs.dtype)
        return self.activation((_upsample_for_training if training else _upsample)(inputs, kernel, bias))


def _upsample(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return the transposed convolution of x [B, H, W, C] with a kernel [4, 4, filters, C], and a bias [filters]."""
    (height, width), channels = x.shape[1:3], kernel.shape[3]
    weights = tf.reshape(_arrange(kernel), (channels, -1))
    products = tf.reshape(tf.matmul(tf.reshape(x, (-1, channels)), weights), (-1, height, width, weights.shape[1]))
    parts = zip(tf.split(products, 4, axis=-1), ((s, t) for s in (0, 1) for t in (0, 1)), strict=True)
    blocks = tf.add_n([tf.pad(part, [[0, 0], [s, 1 - s], [t, 1 - t], [0, 0]]) for part, (s, t) in parts])
    return _lay_out(blocks, bias)


@tf.custom_gradient
def _upsample_for_training(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, object]:
    """Return what `_upsample` does; its gradients are those of TensorFlow's transposed convolution, and a sum."""

    def differentiate(gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # A transposed convolution is the gradient of a convolution with regard to its inputs.
        of_kernel = tf.raw_ops.Conv2DBackpropFilter(input=gradient, filter_sizes=kernel.shape, out_backprop=x,
                                                    strides=[1, 2, 2, 1], padding="SAME")
        return tf.nn.conv2d(gradient, kernel, 2, "SAME"), of_kernel, tf.reduce_sum(gradient, (0, 1, 2))

    weights = tf.transpose(_arrange(kernel), (1, 2, 0, 3))
    weights = tf.reverse(weights, (0, 1))           # a convolution adds up x[i + s, j + t]
    blocks = tf.nn.conv2d(x, weights, 1, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return _lay_out(blocks, bias), differentiate


def _arrange(kernel: Tensor) -> Tensor:
    """Return weights [C, 2, 2, 4 filters], with which x[i - s, j - t] is multiplied for the block at (i, j).

    The output at (2i + a, 2j + b) is the sum over s, t = 0, 1 of x[i - s, j - t] times kernel[2s + a, 2t + b], where
    rows and columns are counted from the border that is cut off at the end.
    """
    filters, channels = kernel.shape[2:]
    weights = tf.transpose(tf.reshape(kernel, (2, 2, 2, 2, filters, channels)), (5, 0, 2, 1, 3, 4))     # C, s, t, a, b
    return tf.reshape(weights, (channels, 2, 2, 4 * filters))


def _lay_out(blocks: Tensor, bias: Tensor) -> Tensor:
    """Return an image [B, 2 H, 2 W, filters] of blocks [B, H + 1, W + 1, 4 filters], and the bias, without a border."""
    blocks = tf.nn.bias_add(blocks, tf.tile(bias, [4]))
    (rows, columns), (filters,) = blocks.shape[1:3], bias.shape
    # This is what tf.nn.depth_to_space does, which takes two to five times as long.
    image = tf.transpose(tf.reshape(blocks, (-1, rows, columns, 2, 2 * filters)), (0, 1, 3, 2, 4))
    return tf.reshape(image, (-1, 2 * rows, 2 * columns, filters))[:, 1:-1, 1:-1]
