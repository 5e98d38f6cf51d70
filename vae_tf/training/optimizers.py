"""Optimizers and schedules of the learning rate, by name."""

from collections.abc import Callable
from typing import Any

import keras

from vae_tf import adam, checks, networks
from vae_tf.errors import InputError

OPTIMIZERS = {"adam": adam.Adam, "adagrad": keras.optimizers.Adagrad,
              "rmsprop": keras.optimizers.RMSprop, "sgd": keras.optimizers.SGD}

LearningRate = Any      # a number, or a schedule of Keras, whose classes have no annotations


def _make_constant(rate: float, steps: int, warmup_steps: int) -> LearningRate:
    # From its last step on, a polynomial decay stays at its last value; that of a warm-up is the learning rate.
    return keras.optimizers.schedules.PolynomialDecay(0.0, warmup_steps, rate) if warmup_steps else rate


def _make_cosine(rate: float, steps: int, warmup_steps: int) -> LearningRate:
    if not warmup_steps:
        return keras.optimizers.schedules.CosineDecay(rate, steps)
    return keras.optimizers.schedules.CosineDecay(0.0, steps - warmup_steps, warmup_target=rate,
                                                  warmup_steps=warmup_steps)


def _make_linear(rate: float, steps: int, warmup_steps: int) -> LearningRate:
    return keras.optimizers.schedules.PolynomialDecay(rate, steps, 0.0)


def _make_exponential(rate: float, steps: int, warmup_steps: int) -> LearningRate:
    return keras.optimizers.schedules.ExponentialDecay(rate, steps, 0.01)


# Functions of the learning rate, the steps in all and the steps of the warm-up.
SCHEDULES: dict[str, Callable[[float, int, int], LearningRate]] = {
    "constant": _make_constant,
    "cosine": _make_cosine,                 # to 0 along half a cosine
    "linear": _make_linear,                 # to 0 along a line
    "exponential": _make_exponential,       # to a hundredth, by the same factor in every step
}
WARMED_UP = ("constant", "cosine")          # the schedules that Keras can begin with a warm-up


def depends_on_length(schedule: str) -> bool:
    """Return whether a schedule gives each step a learning rate that depends on the number of steps in all."""
    return schedule != "constant"


def schedule_learning_rate(name: str, rate: float, steps: int, warmup_steps: int = 0) -> LearningRate:
    """Return a learning rate for `make_optimizer`: a number, or a schedule of Keras.

    Args:
        name: a key of SCHEDULES.
        rate: the largest learning rate.
        steps: the number of steps after which the schedule ends.
        warmup_steps: the number of steps in which the learning rate grows linearly from 0, for the schedules WARMED_UP.

    Raises:
        InputError: an argument that is none of these.
    """
    checks.check_choice("learning_rate_schedule", name, SCHEDULES)
    checks.check_number("learning_rate", rate, above=0)
    checks.check_whole("steps", steps, 0)
    checks.check_whole("learning_rate_warmup_steps", warmup_steps, 0)
    if warmup_steps and name not in WARMED_UP:
        raise InputError(f"learning_rate_warmup_steps: {name} has no warm-up; expected 0, got {warmup_steps:,}; "
                         f"schedules with it: {', '.join(WARMED_UP)}")
    if warmup_steps and warmup_steps >= max(steps, 1):
        raise InputError(f"learning_rate_warmup_steps: expected fewer than the {steps:,} steps of training; got "
                         f"{warmup_steps:,}")
    return SCHEDULES[name](rate, max(steps, 1), warmup_steps)


def make_optimizer(name: str, learning_rate: LearningRate, precision: str = "float32",
                   epsilon: float | None = None) -> keras.optimizers.Optimizer:
    """Return a Keras optimizer; float16 gets one that scales the loss, so that small gradients do not vanish.

    Args:
        name: a key of OPTIMIZERS.
        learning_rate: step size of the optimizer; a number, or a schedule of Keras.
        precision: one of networks.DTYPES.
        epsilon: the number that is added to what a step is divided by; None for Keras' 1e-7.

    Raises:
        InputError: an argument that is none of these, or an epsilon for sgd, which divides by nothing.
    """
    checks.check_choice("optimizer", name, OPTIMIZERS)
    if not isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        learning_rate = float(checks.check_number("learning_rate", learning_rate, above=0))     # Keras takes no integer
    checks.check_choice("precision", precision, networks.DTYPES)
    if epsilon is not None:
        checks.check_number("optimizer_epsilon", epsilon, above=0)
    if epsilon is not None and name == "sgd":
        raise InputError(f"optimizer_epsilon: sgd divides by nothing; got {epsilon}; optimizers with it: "
                         f"{', '.join(kind for kind in OPTIMIZERS if kind != 'sgd')}")
    made = OPTIMIZERS[name](learning_rate, **({} if epsilon is None else {"epsilon": epsilon}))
    return keras.optimizers.LossScaleOptimizer(made) if precision == "mixed_float16" else made
