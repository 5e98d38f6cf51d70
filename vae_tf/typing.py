"""Names for arrays in annotations. An annotation says what holds the numbers; the docstring says their shape."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]                # an array of any type
Floats = npt.NDArray[np.floating]       # array of float32 or float64
Integers = npt.NDArray[np.integer]
Booleans = npt.NDArray[np.bool_]
ArrayLike = npt.ArrayLike               # what np.asarray takes: numbers, nested lists of numbers, arrays

# TensorFlow, TensorFlow Probability and Keras have no types of their own that a checker could use.
Tensor: TypeAlias = Any                 # a tf.Tensor, or what TensorFlow takes for one
Distribution: TypeAlias = Any           # a tensorflow_probability Distribution
Network: TypeAlias = Any                # a keras.Model
Optimizer: TypeAlias = Any              # a keras Optimizer
