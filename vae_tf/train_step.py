"""The training step: gradients of the objective, and as many updates as asked inside one graph."""

import tensorflow as tf

from vae_tf import models


def make_train_steps(program, batch_spec, *, warmup_steps=0, clip_gradients=0, jit_compile=False):
    """(train_steps, names): a compiled function, and the names of the objective's terms.

    train_steps(iterator, count, totals) -> (steps done, terms of the last, totals with the terms of all added), terms
    and totals {name: [S]}. It makes `count` steps inside one graph, fewer after a loss that is not finite. How many
    calls share the steps makes no difference to any number.

    Args:
        program: replicas.Single or Stacked.
        batch_spec: the iterator's element_spec.
        warmup_steps, clip_gradients, jit_compile: see training.fit_replicas; under a strategy XLA is not used.
    """
    optimizer = program.optimizer
    strategy = tf.distribute.get_strategy()
    device_count = strategy.num_replicas_in_sync

    def train_step(step, x, u=None):
        warmup = tf.minimum(1.0, (tf.cast(step, tf.float32) + 1) / warmup_steps) if warmup_steps else 1.0
        with tf.GradientTape() as tape:
            terms = program.terms(step, models.unit_range(x), u, warmup)
            loss = tf.reduce_sum(terms["loss"]) / device_count
            loss = optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, program.variables)
        if clip_gradients:
            if tf.distribute.has_strategy():      # what is clipped is the gradient of the whole batch
                total = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
                gradients = [gradient / device_count for gradient in total]
            # The optimizer undoes the loss scale, and the sum over all devices the division.
            gradients = program.clip(gradients, optimizer.scale_loss(clip_gradients / device_count))
        # Keras sums the gradients of all devices.
        optimizer.apply_gradients(zip(gradients, program.variables, strict=True))
        return terms

    def everywhere(*batch):
        return {name: strategy.reduce("MEAN", term, axis=None)
                for name, term in strategy.run(train_step, args=batch).items()}

    one_step = (tf.function(everywhere) if tf.distribute.has_strategy()
                else tf.function(train_step, jit_compile=jit_compile))
    names = list(one_step.get_concrete_function(*batch_spec).structured_outputs)

    @tf.function(reduce_retracing=True)
    def train_steps(iterator, count, totals):
        done, terms = tf.constant(0, tf.int64), {name: tf.zeros_like(total) for name, total in totals.items()}
        while done < count and tf.reduce_all(tf.math.is_finite(terms["loss"])):
            terms = one_step(*next(iterator))
            totals = {name: totals[name] + terms[name] for name in totals}
            done += 1
        return done, terms, totals

    return train_steps, names
