"""Optimizers by name."""

import keras

from vae_tf import checks, networks
from vae_tf.errors import InputError

OPTIMIZERS = {"adam": keras.optimizers.Adam, "adagrad": keras.optimizers.Adagrad,
              "rmsprop": keras.optimizers.RMSprop, "sgd": keras.optimizers.SGD}


def make_optimizer(name: str, learning_rate: float, precision: str = "float32",
                   epsilon: float | None = None) -> keras.optimizers.Optimizer:
    """Return a Keras optimizer; float16 gets one that scales the loss, so that small gradients do not vanish.

    Args:
        name: a key of OPTIMIZERS.
        learning_rate: step size of the optimizer.
        precision: a key of networks.DTYPES.
        epsilon: the number that is added to what a step is divided by; None for Keras' 1e-7.

    Raises:
        InputError: an argument that is none of these, or an epsilon for sgd, which divides by nothing.
    """
    checks.check_choice("optimizer", name, OPTIMIZERS)
    checks.check_number("learning_rate", learning_rate, above=0)
    checks.check_choice("precision", precision, networks.DTYPES)
    if epsilon is not None and name == "sgd":
        raise InputError(f"optimizer_epsilon: sgd divides by nothing; got {epsilon}; optimizers with it: "
                         f"{', '.join(kind for kind in OPTIMIZERS if kind != 'sgd')}")
    made = OPTIMIZERS[name](learning_rate, **({} if epsilon is None else {"epsilon": epsilon}))
    return keras.optimizers.LossScaleOptimizer(made) if precision == "mixed_float16" else made
