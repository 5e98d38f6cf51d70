"""The training step of a program, repeated as often as asked inside one graph."""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from vae_tf import graphs, jacobians, models, splitting
from vae_tf.replicas import Program, Terms
from vae_tf.typing import Tensor

# Steps in one call of what XLA has compiled: at most so many, and batches of so many bytes together.
TOGETHER, TOGETHER_BYTES = 16, 2**20
Done = tuple[Tensor, Terms, Terms]           # what train_steps returns
Compiled = bool | Literal["updates"]         # what of a step XLA compiles: all, nothing, or the optimizers' updates


def make_train_steps(program: Program, batch_spec: Sequence[Any], *, warmup_steps: int = 0, clip_gradients: float = 0,
                     jit_compile: Compiled = False) -> tuple[Callable[..., Any], list[str]]:
    """Return (train_steps, names): a compiled function, and the names of the objective's terms.

    train_steps(iterator, count, totals, counting) -> (steps done, terms of the last, totals with the terms of all
    added), terms and totals {name: [S]}. It makes `count` steps inside one graph, fewer after a loss that is not finite
    of a replica that counts (bool [S]; by default all do). How many calls share the steps makes no difference to any
    number.

    Args:
        program: replicas.Single or Stacked, or what replicas.stack returns.
        batch_spec: the iterator's element_spec.
        warmup_steps, clip_gradients, jit_compile: see training.fit_replicas.
    """
    strategy = tf.distribute.get_strategy()

    def update(step: Tensor, noise: Tensor, x: Tensor, u: Tensor | None = None, trained: Program = program) -> Terms:
        warmup = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1) / warmup_steps) if warmup_steps else 1.0
        return trained.train_step(noise, models.scale_to_unit_range(x), u, warmup, clip_gradients,
                                  compile_updates=jit_compile == "updates")

    def train_step(step: Tensor, x: Tensor, *u: Tensor) -> Terms:
        return compiled(step, program.draw_noise(step, x), x, *u)

    def everywhere(*batch: Tensor) -> Terms:
        return {name: strategy.reduce("MEAN", term, axis=None)
                for name, term in strategy.run(train_step, args=batch).items()}

    # The gradient of a convolutional decoder's Jacobian takes less time column by column.
    sizes = {len(variable.shape) for variable in program.models[0].variables}
    columns = jacobians.one_column_at_a_time if 4 in sizes else contextlib.nullcontext
    compiled = update
    if jit_compile is True:
        # XLA draws other noise from a seed, so it does not draw any. It is given a graph that was made without it:
        # otherwise `tf.vectorized_map` would make a function of its own, whose gradient XLA would compile at each step.
        step_spec, x_spec, *u_spec = batch_spec
        specs = [step_spec, tf.TensorSpec((x_spec.shape[0], program.models[0].noise_size)), x_spec, *u_spec]
        loops = max(sizes, default=0) < 3       # convolutions are many times slower in a loop of XLA
        groups = program.groups if loops else [program]
        plain = [graphs.trace(functools.partial(update, trained=group), group.models) for group in groups]
        with columns():
            for group, graph in zip(groups, plain, strict=True):
                rows = x_spec.shape[0] // len(program.models) * len(group.models)
                of_group = [tf.TensorSpec((rows, *spec.shape[1:]), spec.dtype) for spec in specs[1:]]
                names = list(graph.get_concrete_function(step_spec, *of_group).structured_outputs)
        if loops:
            return _make_compiled_steps(program, plain, specs), names
        compiled = tf.function(lambda *given: plain[0](*given), autograph=False, jit_compile=True)
    one_step = graphs.trace(everywhere if tf.distribute.has_strategy() else train_step, program.models)
    with columns(), splitting.in_parts(len(program.models) == 1 and jit_compile is not True):
        names = list(one_step.get_concrete_function(*batch_spec).structured_outputs)

    @tf.function(reduce_retracing=True)
    def train_steps(iterator: Any, count: Tensor, totals: Terms, counting: Tensor | bool = True) -> Done:
        def make_step(_: Tensor) -> Terms:
            return one_step(*next(iterator))

        return _repeat(make_step, count, totals, counting)

    return train_steps, names


def _repeat(make_step: Callable[[Tensor], Terms], count: Tensor, totals: Terms, counting: Tensor | bool) -> Done:
    """Return (steps done, terms of the last, totals with the terms of all added); see `make_train_steps`.

    Args:
        make_step: make_step(number of the step, from 0) -> terms.
        count, totals, counting: those of train_steps.
    """
    done, terms = tf.zeros_like(count), {name: tf.zeros_like(total) for name, total in totals.items()}
    while _go_on(done, count, terms, counting):
        terms = make_step(done)
        totals = {name: totals[name] + terms[name] for name in totals}
        done += 1
    return done, terms, totals


def _go_on(done: Tensor, count: Tensor, terms: Terms, counting: Tensor | bool) -> Tensor:
    """Return whether there are steps left, and the last loss of every replica that counts was finite."""
    finite = tf.math.is_finite(terms["loss"]) | ~tf.convert_to_tensor(counting)
    return (done < count) & tf.reduce_all(finite)


def _make_compiled_steps(program: Program, updates: Sequence[Callable[..., Terms]], specs: Sequence[tf.TensorSpec]
                         ) -> Callable[..., Any]:
    """Return train_steps of `make_train_steps`, of which XLA compiles a loop over several steps.

    A call of what XLA has compiled takes longer than a step of a small network, and within the loop XLA updates weights
    in place. The number of steps is an argument of the loop, so that it is the same program for any number. Each group
    of models has a loop of its own, and TensorFlow runs these side by side.

    Args:
        program: see `make_train_steps`.
        updates: the graph of a step of each group, update(step, noise, x[, u]).
        specs: those of its arguments for all groups together.
    """
    step_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in specs)
    most = int(np.clip(TOGETHER_BYTES // step_bytes, 1, TOGETHER))
    draw_noise = tf.autograph.experimental.do_not_convert(program.draw_noise)
    loops = [_compile_loop(update) for update in updates]

    @tf.autograph.experimental.do_not_convert
    def make_several(count: Tensor, steps: Tensor, rows: Sequence[Tensor], totals: Terms, counting: Tensor) -> Done:
        of_groups = zip(loops, program.split(rows, axis=1), program.split((totals, counting)), strict=True)
        results = [loop(count, (steps, *given), *others) for loop, given, others in of_groups]
        done = tf.reduce_min([made for made, _, _ in results])
        # A group that went on says nothing about the step at which another one stopped.
        terms = [{name: tf.where(made == done, term, 0) for name, term in last.items()} for made, last, _ in results]
        return done, program.join(terms), program.join([added for _, _, added in results])

    @tf.function(reduce_retracing=True)
    def train_steps(iterator: Any, count: Tensor, totals: Terms, counting: Tensor | bool = True) -> Done:
        done, terms = tf.constant(0, tf.int64), {name: tf.zeros_like(total) for name, total in totals.items()}
        counting = tf.broadcast_to(counting, tf.shape(terms["loss"]))
        while _go_on(done, count, terms, counting):
            number = tf.cast(tf.minimum(count - done, most), tf.int32)
            with tf.device("CPU:0"):        # where batches are, of types that arrays on a GPU cannot have
                arrays = [tf.TensorArray(spec.dtype, most, element_shape=spec.shape) for spec in specs]
                for i in tf.range(number):
                    step, x, *u = next(iterator)
                    given = (step, draw_noise(step, x), x, *u)
                    arrays = [array.write(i, each) for array, each in zip(arrays, given, strict=True)]
                steps, *rows = [array.stack() for array in arrays]
            made, terms, totals = make_several(number, steps, rows, totals, counting)
            done += tf.cast(made, tf.int64)
        return done, terms, totals

    return train_steps


def _compile_loop(update: Callable[..., Terms]) -> Callable[..., Done]:
    """Return a loop over the steps of a group that XLA compiles: loop(count, arguments of all steps, totals, counting).

    Args:
        update: the graph of a step of the group.
    """

    @tf.function(jit_compile=True)
    def loop(count: Tensor, given: Sequence[Tensor], totals: Terms, counting: Tensor) -> Done:
        def make_step(i: Tensor) -> Terms:
            return update(*[each[i] for each in given])

        return _repeat(make_step, count, totals, counting)

    return loop
