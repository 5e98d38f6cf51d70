"""The transposed convolution that ends a convolutional decoder, computed in a way that is fast for few channels."""

import keras
import tensorflow as tf
from keras import layers

from vae_tf.typing import Tensor


@keras.saving.register_keras_serializable("vae_tf")
class Conv2DTranspose(layers.Conv2DTranspose):
    """Keras' layer with 4x4 kernels, stride 2 and "same" padding, in half the time where it has few filters.

    On processors TensorFlow takes as long to compute one channel as eight. Here one matrix product gives what each
    pixel of the input adds to the 4x4 pixels of the output around it, and four shifted maps are added up. The gradient
    in training is that of Keras' layer, which is faster than that of these sums. Up to rounding all numbers are Keras',
    and weights have Keras' names and shapes.
    """

    def __init__(self, filters: int, *, name: str | None = None, **options: object) -> None:
        fixed = {"kernel_size": 4, "strides": 2, "padding": "same"}
        super().__init__(filters, name=name, **{**options, **fixed})

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Return the layer's outputs [B, 2 H, 2 W, filters] for inputs [B, H, W, C]."""
        kernel = tf.cast(self.kernel, inputs.dtype)
        outputs = (_upsample_for_training if training else _upsample)(inputs, kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, tf.cast(self.bias, inputs.dtype))
        return self.activation(outputs)


def _upsample(x: Tensor, kernel: Tensor) -> Tensor:
    """Return the transposed convolution of x [B, H, W, C] with a kernel [4, 4, filters, C]."""
    (height, width), (filters, channels) = x.shape[1:3], kernel.shape[2:]
    # The output at (2i + a, 2j + b) is the sum over s, t = 0, 1 of x[i - s, j - t] times kernel[2s + a, 2t + b], where
    # rows and columns are counted from the border that is cut off at the end.
    weights = tf.reshape(kernel, (2, 2, 2, 2, filters, channels))                               # s, a, t, b
    weights = tf.reshape(tf.transpose(weights, (5, 0, 2, 1, 3, 4)), (channels, 16 * filters))   # s, t, a, b
    products = tf.reshape(tf.matmul(tf.reshape(x, (-1, channels)), weights), (-1, height, width, 16 * filters))
    parts = zip(tf.split(products, 4, axis=-1), ((s, t) for s in (0, 1) for t in (0, 1)), strict=True)
    blocks = tf.add_n([tf.pad(part, [[0, 0], [s, 1 - s], [t, 1 - t], [0, 0]]) for part, (s, t) in parts])
    return tf.nn.depth_to_space(blocks, 2)[:, 1:-1, 1:-1]


@tf.custom_gradient
def _upsample_for_training(x: Tensor, kernel: Tensor) -> tuple[Tensor, object]:
    """Return what `_upsample` does; its gradient is that of TensorFlow's transposed convolution."""

    def differentiate(gradient: Tensor) -> tuple[Tensor, Tensor]:
        # A transposed convolution is the gradient of a convolution with regard to its inputs.
        of_kernel = tf.raw_ops.Conv2DBackpropFilter(input=gradient, filter_sizes=kernel.shape, out_backprop=x,
                                                    strides=[1, 2, 2, 1], padding="SAME")
        return tf.nn.conv2d(gradient, kernel, 2, "SAME"), of_kernel

    return _upsample(x, kernel), differentiate
