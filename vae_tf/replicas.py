"""Several models of one kind as one program: their weights stacked [S, ...], their batches [S, B, ...].

Replica i computes what it would compute alone with its seed and its beta. One matrix product over a stack of small
networks keeps the processor busier than S small ones.
"""

import keras
import numpy as np
import tensorflow as tf

from vae_tf import distributions
from vae_tf.errors import InputError


class Single:
    """One model: the program of one replica, on one device or on the share of a batch of one of several.

    `variables` are what an optimizer updates; `terms` gives the objective's terms {name: [S]}, means over the
    batch; `clip` limits their gradients; `state` gives what a checkpoint of each replica holds.
    """

    def __init__(self, model, optimizer, seed):
        self.models = [model]
        self.optimizer = optimizer
        self.seeds = [seed]
        self.variables = model.trainable_variables
        optimizer.build(self.variables)

    def terms(self, step, x, u, warmup):
        """Means over this device's examples x [B, ...], u [B, |u|] at a step; warmup, 0 to 1, scales beta."""
        model, = self.models
        noise = distributions.noise(_seed(self.seeds[0], step), tf.shape(x)[0], model.latents)
        terms = model.objective(x, u, noise=noise, beta=warmup * model.beta, training=True)
        return {name: tf.reduce_mean(term)[tf.newaxis] for name, term in terms.items()}

    def clip(self, gradients, limit):
        """The gradients scaled down, where their global norm is above the limit, to that norm."""
        return tf.clip_by_global_norm(gradients, limit)[0]

    def publish(self):
        """Bring the models up to date."""

    def state(self):
        """[{name: array}] of every variable by its place; Keras's own names count up with every layer made."""
        return [{name: variable.numpy() for name, variable in self._named().items()}]

    def assign(self, states):
        for name, variable in self._named().items():
            variable.assign(states[0][name])

    def _named(self):
        return _by_place(model=self.models[0].variables, optimizer=self.optimizer.variables)


class Stacked:
    """S models with the weights of each in row i of stacked variables; see Single for its members."""

    def __init__(self, models, optimizer, seeds):
        self.models = models
        self.optimizer = optimizer
        self.seeds = seeds
        if len({_kind(model) for model in models}) > 1:
            raise InputError("models: expected models that differ in weights and beta alone; got "
                             + ", ".join(type(model).__name__ for model in models) + " of different make")
        columns = zip(*(model.variables for model in models), strict=True)
        self.stacks = [keras.Variable(np.stack([variable.numpy() for variable in column]),
                                      trainable=column[0].trainable) for column in columns]
        self.variables = [stack for stack in self.stacks if stack.trainable]
        self.betas = [float(model.beta) for model in models]
        # A stack of convolutions is no single operation: they stand side by side in one graph instead.
        self.map = _side_by_side if any(len(v.shape) == 4 for v in models[0].variables) else tf.vectorized_map
        optimizer.build(self.variables)

    def terms(self, step, x, u, warmup):
        count = len(self.models)
        model = self.models[0]
        x = tf.reshape(x, (count, -1, *x.shape[1:]))
        noise = tf.stack([distributions.noise(_seed(seed, step), x.shape[1], model.latents) for seed in self.seeds])
        given = {"x": x, "noise": noise, "beta": warmup * tf.constant(self.betas),
                 "weights": [tf.convert_to_tensor(stack) for stack in self.stacks]}
        if u is not None:
            given["u"] = tf.reshape(u, (count, -1, u.shape[1]))

        def one(given):
            values = list(zip(model.variables, given.pop("weights"), strict=True))
            with keras.StatelessScope(state_mapping=values) as scope:
                terms = model.objective(**given, training=True)
            return terms, [scope.get_current_value(variable) for variable in model.non_trainable_variables]

        terms, statistics = self.map(one, given)
        for stack, value in zip((stack for stack in self.stacks if not stack.trainable), statistics, strict=True):
            stack.assign(value)
        return {name: tf.reduce_mean(term, 1) for name, term in terms.items()}

    def clip(self, gradients, limit):
        """Each replica has a norm of its own."""
        count = len(self.models)
        rows = tf.concat([tf.reshape(gradient, (count, -1)) for gradient in gradients], 1)
        scale = limit / tf.maximum(tf.norm(rows, axis=1), limit)                       # [S]
        return [gradient * tf.reshape(scale, (count, *[1] * (len(gradient.shape) - 1))) for gradient in gradients]

    def publish(self):
        arrays = [stack.numpy() for stack in self.stacks]
        for i, model in enumerate(self.models):
            for variable, array in zip(model.variables, arrays, strict=True):
                variable.assign(array[i])

    def state(self):
        arrays = {name: variable.numpy() for name, variable in self._named().items()}
        # What is no stack is the optimizer's own: how many steps it has made, its learning rate.
        return [{name: array[i] if array.ndim else array for name, array in arrays.items()}
                for i in range(len(self.models))]

    def assign(self, states):
        for name, variable in self._named().items():
            variable.assign(np.stack([state[name] for state in states]) if len(variable.shape) else states[0][name])

    def _named(self):
        return _by_place(model=self.stacks, optimizer=self.optimizer.variables)


def _kind(model):
    """What models must share to be trained as one."""
    likelihood = model.likelihood_layer
    variance = None if likelihood.trainable_variables else float(likelihood.log_variance)
    return (type(model), likelihood.kind, variance, getattr(model, "tc_estimator", None),
            tuple(tuple(variable.shape) for variable in model.variables))


def _seed(seed, step):
    return tf.stack([seed, tf.cast(step, tf.int32)])


def _by_place(**owned):
    return {f"{owner} {i}": variable for owner, variables in owned.items() for i, variable in enumerate(variables)}


def _side_by_side(function, given):
    count = tf.nest.flatten(given)[0].shape[0]
    outputs = [function(tf.nest.map_structure(lambda value, i=i: value[i], given)) for i in range(count)]
    return tf.nest.map_structure(lambda *values: tf.stack(values), *outputs)
