"""The training step: gradients of the objective, and as many updates as asked inside one graph."""

import tensorflow as tf

from vae_tf import models


def make_train_steps(program, strategy, *, warmup_steps=0, jit_compile=False):
    """A compiled function (iterator, count) -> (steps done, terms of the last, mean terms), terms {name: [S]}.

    It runs `count` steps inside one graph and stops early at a loss that is not finite.
    """
    optimizer = program.optimizer
    one_device = strategy.num_replicas_in_sync == 1

    def train_step(step, x, u=None):
        warmup = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1) / warmup_steps) if warmup_steps else 1.0
        with tf.GradientTape() as tape:
            terms = program.terms(step, models.unit_range(x), u, warmup)
            loss = tf.reduce_sum(terms["loss"]) / strategy.num_replicas_in_sync
            loss = optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, program.variables)
        # Keras sums the gradients of all devices.
        optimizer.apply_gradients(zip(gradients, program.variables, strict=True))
        return terms

    if one_device:
        everywhere = tf.function(train_step, jit_compile=jit_compile)
    else:
        def everywhere(*batch):
            return {name: strategy.reduce("MEAN", term, axis=None)
                    for name, term in strategy.run(train_step, args=batch).items()}

    def finite(terms):
        return tf.reduce_all(tf.math.is_finite(terms["loss"]))

    @tf.function(reduce_retracing=True)
    def train_steps(iterator, count):
        terms = everywhere(*next(iterator))
        totals, done = terms, tf.constant(1, tf.int64)
        while done < count and finite(terms):
            terms = everywhere(*next(iterator))
            totals = {name: totals[name] + terms[name] for name in totals}
            done += 1
        return done, terms, {name: total / tf.cast(done, tf.float32) for name, total in totals.items()}

    return train_steps
