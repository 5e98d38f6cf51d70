"""The training step of a program, repeated as often as asked inside one graph."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import tensorflow as tf

from vae_tf import graphs, jacobians, models
from vae_tf.replicas import Program, Terms
from vae_tf.typing import Tensor

Compiled = bool | Literal["updates"]         # what of a step XLA compiles: all, nothing, or the optimizers' updates


def make_train_steps(program: Program, batch_spec: Sequence[Any], *, warmup_steps: int = 0, clip_gradients: float = 0,
                     jit_compile: Compiled = False) -> tuple[Callable[..., Any], list[str]]:
    """Return (train_steps, names): a compiled function, and the names of the objective's terms.

    train_steps(iterator, count, totals, counting) -> (steps done, terms of the last, totals with the terms of all
    added), terms and totals {name: [S]}. It makes `count` steps inside one graph, fewer after a loss that is not finite
    of a replica that counts (bool [S]; by default all do). How many calls share the steps makes no difference to any
    number.

    Args:
        program: replicas.Single or Stacked.
        batch_spec: the iterator's element_spec.
        warmup_steps, clip_gradients, jit_compile: see training.fit_replicas.
    """
    strategy = tf.distribute.get_strategy()

    def update(step: Tensor, noise: Tensor, x: Tensor, u: Tensor | None = None) -> Terms:
        warmup = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1) / warmup_steps) if warmup_steps else 1.0
        return program.train_step(noise, models.scale_to_unit_range(x), u, warmup, clip_gradients,
                                  compile_updates=jit_compile == "updates")

    def train_step(step: Tensor, x: Tensor, *u: Tensor) -> Terms:
        return compiled(step, program.draw_noise(step, x), x, *u)

    def everywhere(*batch: Tensor) -> Terms:
        return {name: strategy.reduce("MEAN", term, axis=None)
                for name, term in strategy.run(train_step, args=batch).items()}

    # The gradient of a convolutional decoder's Jacobian takes less time column by column.
    convolutional = any(len(variable.shape) == 4 for variable in program.models[0].variables)
    columns = jacobians.one_column_at_a_time if convolutional else contextlib.nullcontext
    compiled = update
    if jit_compile is True:
        # XLA draws other noise from a seed, so it does not draw any. It is given a graph that was made without it:
        # otherwise `tf.vectorized_map` would make a function of its own, whose gradient XLA would compile at each step.
        plain = graphs.trace(update, program.models)
        step_spec, x_spec, *u_spec = batch_spec
        noise_spec = tf.TensorSpec((x_spec.shape[0], program.models[0].noise_size))
        with columns():
            plain.get_concrete_function(step_spec, noise_spec, x_spec, *u_spec)
        compiled = tf.function(lambda *given: plain(*given), autograph=False, jit_compile=True)
    one_step = graphs.trace(everywhere if tf.distribute.has_strategy() else train_step, program.models)
    with columns():
        names = list(one_step.get_concrete_function(*batch_spec).structured_outputs)

    @tf.function(reduce_retracing=True)
    def train_steps(iterator: Any, count: Tensor, totals: Terms, counting: Tensor | bool = True
                    ) -> tuple[Tensor, Terms, Terms]:
        done, terms = tf.constant(0, tf.int64), {name: tf.zeros_like(total) for name, total in totals.items()}
        while done < count and tf.reduce_all(tf.math.is_finite(terms["loss"]) | ~tf.convert_to_tensor(counting)):
            terms = one_step(*next(iterator))
            totals = {name: totals[name] + terms[name] for name in totals}
            done += 1
        return done, terms, totals

    return train_steps, names
