"""Keras' optimizer Adam with updates that take less time."""

import keras
import tensorflow as tf

from vae_tf.typing import Tensor


@keras.saving.register_keras_serializable("vae_tf")
class Adam(keras.optimizers.Adam):
    """Keras' Adam, which makes each variable's update by one operation, in a third of the time on a CPU.

    Keras makes it by a dozen operations, each of which reads and writes as many numbers as there are weights. Up to
    rounding, the weights and the optimizer's variables are the same, and so are their names.
    """

    def update_step(self, gradient: Tensor, variable: tf.Variable, learning_rate: Tensor) -> None:
        """Update a variable from its gradient; Keras calls this for each variable."""
        if self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        index, step = self._get_variable_index(variable), tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=self._momentums[index].value.handle, v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step, beta2_power=self.beta_2**step, lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1, beta2=self.beta_2, epsilon=self.epsilon, grad=tf.cast(gradient, variable.dtype))
