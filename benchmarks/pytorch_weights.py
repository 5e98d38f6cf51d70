"""Networks of vae_tf that start with PyTorch's initial weights, for comparisons with code that is written in PyTorch.

It is an extension: `PYTHONPATH=benchmarks VAE_TF_EXTENSIONS=pytorch_weights` adds a network `NAME_pytorch` for each
network NAME that has dense layers only. Extensions whose networks it shall take stand before it in the variable.

`torch.nn.Linear` draws weights and biases from a uniform distribution between -1/sqrt(inputs) and 1/sqrt(inputs). Those
of vae_tf are Glorot's: weights between -sqrt(6/(inputs + outputs)) and sqrt(6/(inputs + outputs)), and biases of 0. The
weights from ten latents to 1,200 units differ most: PyTorch's are 4.5 times as large.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from vae_tf import networks
from vae_tf.typing import Tensor

BIASES = 1_000_000          # what is added to the seed of a layer's weights for its biases


@dataclasses.dataclass(frozen=True)
class PyTorchWeights(networks.Dense):
    """Dense networks with PyTorch's initial weights."""

    def make(self, shape: networks.Shape, latents: int, heads: Sequence[int], u_size: int,
             layer: networks.LayerMaker) -> networks.Pair:
        """Return the two networks."""
        def make_layer(kind: Any, *args: Any, **options: Any) -> Any:
            made = layer(kind, *args, **options)
            if not issubclass(kind, keras.layers.Dense):
                return made

            def connect(inputs: Tensor) -> Tensor:
                bound, seed = inputs.shape[-1] ** -0.5, made.kernel_initializer.seed
                made.kernel_initializer = keras.initializers.RandomUniform(-bound, bound, seed=seed)
                made.bias_initializer = keras.initializers.RandomUniform(-bound, bound, seed=seed + BIASES)
                return made(inputs)
            return connect

        return super().make(shape, latents, heads, u_size, make_layer)


for name, maker in list(networks.NETWORKS.items()):
    if isinstance(maker, networks.Dense):
        networks.register(f"{name}_pytorch", PyTorchWeights(**vars(maker)))
