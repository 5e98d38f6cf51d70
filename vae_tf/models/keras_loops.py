"""Keras' own loops, `compile`, `fit`, `evaluate` and `predict`, for models that have an objective of their own.

A step of `fit` makes the updates that a step of `training.fit` makes on the same examples: the objective is the same,
and so is the noise, which depends on the seed and on the number of the step alone. `training.fit` can also go on
exactly where a run was stopped; `fit` is for short trainings, notebooks and Keras' callbacks.
"""

import contextlib
import functools
import numbers
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from vae_tf import adam, checks, devices, distributions, graphs, jacobians
from vae_tf.errors import InputError
from vae_tf.models.keras_inputs import KerasInputs, to_arrays
from vae_tf.models.trainable import count_batches
from vae_tf.typing import Tensor

REFUSED = ("loss", "loss_weights", "metrics", "weighted_metrics")


class KerasLoops(KerasInputs):
    """The part of `Autoencoder` that Keras' loops call."""

    def compile(self, optimizer: Any = "adam", *refused: Any, seed: int = 0, jit_compile: bool = False,
                **options: Any) -> None:
        """Compile as Keras does, without a loss and metrics: the model's own objective and its terms take their place.

        Args:
            optimizer: a Keras optimizer, or its name; "adam" is vae_tf.adam.Adam, which takes less time. If a network
                computes in float16, it is put into a LossScaleOptimizer, unless auto_scale_loss is False.
            refused: what Keras takes for a loss, and for metrics.
            seed: the seed for the noise, and for the order of examples where `fit` is given a data.Dataset.
            jit_compile: whether XLA compiles the steps. Keras would do so by default, which makes convolutional
                networks slower on processors. XLA draws other noise from the seed.
            options: run_eagerly, steps_per_execution and auto_scale_loss of keras.Model.compile.

        Raises:
            InputError: a loss or metrics, a number that is no seed, XLA or an optimizer that several devices cannot
                share, or networks that the objective does not take.
        """
        options.update(zip(REFUSED, refused, strict=False))
        for name in REFUSED:
            if options.get(name):
                raise InputError(f"{name}: {type(self).__name__} has an objective of its own, and its terms are the "
                                 f"metrics; expected none, got {options[name]!r}; call compile(optimizer) alone")
        if devices.count_workers(self.distribute_strategy) > 1:
            raise InputError("strategy: Keras' own loops train on one machine; expected one worker, got several; "
                             "training.fit trains on several")
        if jit_compile is True and self.distribute_strategy.num_replicas_in_sync > 1:
            raise InputError("jit_compile: expected False where several devices share a batch, because XLA compiles "
                             "for one; got True")
        with self.distribute_strategy.scope():
            if isinstance(optimizer, keras.optimizers.Optimizer):
                devices.check_optimizer(optimizer)
            if isinstance(optimizer, str) and optimizer.lower() == "adam":
                optimizer = adam.Adam()
            names = self._list_terms()
            if options.get("auto_scale_loss", True) and self._computes_in_float16():
                optimizer = keras.optimizers.get(optimizer)
                if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
                    optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        self.__dict__["_seed"] = checks.check_whole("seed", seed, 0, 2**31 - 1)
        self.note_origin(**self.describe_origin())
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **options)
        self.compiled = False       # until nothing can fail any more
        self.note_origin(counted=int(keras.ops.convert_to_numpy(count_batches(self.optimizer))))
        # The dictionary is set past Keras, which would take what is in it for parts of the model.
        with self.distribute_strategy.scope():
            self.__dict__["_terms"] = {name: keras.metrics.Mean(name) for name in names}
            self.__dict__["_updates"] = self.list_updates(self.optimizer)
            self.__dict__["_trained"] = {id(variable) for variable in self.trainable_variables}
            for update in self._updates:
                devices.check_optimizer(update.optimizer)
        self.compiled = True

    def _computes_in_float16(self) -> bool:
        """Return whether a layer computes in float16; Keras looks at the policy of the model, which has float32."""
        return any(layer.compute_dtype == "float16" for layer in self._flatten_layers())

    def _build_optimizers(self) -> None:
        """Make the variables of every update's optimizer, some of which are copies of the weights as they are now."""
        with self.distribute_strategy.scope():
            for update in self._updates:
                if not update.optimizer.built:      # a LossScaleOptimizer would make its variables again
                    update.optimizer.build(update.variables)
                    devices.check_optimizer(update.optimizer)       # a MultiOptimizer may know its parts only now

    @contextlib.contextmanager
    def _average_each(self) -> Iterator[None]:
        """Have Keras, while entered, put each optimizer's averages of weights into the variables that it updates.

        By itself, Keras puts those of the model's optimizer into the model's variables, first into first.
        """
        attributes: dict[str, Any] = self.optimizer.__dict__

        def finalise(_: Any) -> None:
            for update in self._updates:
                type(update.optimizer).finalize_variable_values(update.optimizer, update.variables)

        attributes["finalize_variable_values"] = finalise
        try:
            yield
        finally:
            attributes.pop("finalize_variable_values", None)       # `fit` may be within another one, of a callback

    def _list_terms(self) -> list[str]:
        """Return the names of the objective's terms, `loss` first."""
        x, *u = (tf.TensorSpec((2, *each.shape[1:]), tf.float32) for each in self.encoder.inputs)
        noise = tf.TensorSpec((2, self.noise_size), tf.float32)

        def find_terms(noise: Tensor, x: Tensor, u: Tensor = None) -> dict[str, Tensor]:
            return self.compute_terms(x, u, noise=noise)

        terms = graphs.trace(find_terms, [self]).get_concrete_function(noise, x, *u).structured_outputs
        return sorted(terms, key=lambda name: name != "loss")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; beta, or an argument of __init__, takes effect with the next step, also during `fit`.

        Raises:
            InputError: a beta, or another option, that is a keras.Variable.
        """
        if isinstance(value, keras.Variable) and name in ("beta", *(option.name for option in self.options)):
            raise InputError(f"{name}: expected a number or a tf.Variable; got a keras.Variable, which would be one of "
                             "the model's weights")
        before = getattr(self, name, None)
        super().__setattr__(name, value)
        same = isinstance(before, numbers.Real) and isinstance(value, numbers.Real) and before == value
        # An objective may set an attribute while its graph is made, where nothing executes eagerly.
        if (name == "beta" or name in self._list_arguments()) and not same and tf.executing_eagerly():
            self._renew_steps()

    def _renew_steps(self) -> None:
        """Have Keras make its steps anew after `compile`: they are graphs, with numbers that the objective had."""
        known = vars(self).get("_terms")
        if not known:
            return
        with self.distribute_strategy.scope():
            self.__dict__["_terms"] = {name: known[name] if name in known else keras.metrics.Mean(name)
                                       for name in self._list_terms()}
        if self.train_function is not None:
            self.make_train_function(force=True)
        if self.test_function is not None:
            self.make_test_function(force=True)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean of each of the objective's terms, and metrics of a subclass' own; no terms before `compile`."""
        own = [each for each in super().metrics if each is not vars(self).get("_loss_tracker")]
        return [*self.__dict__.get("_terms", {}).values(), *own]

    def train_step(self, data: Any) -> dict[str, Tensor]:
        """Make the updates of one step; returns the means of the objective's terms since the epoch began."""
        x, u = self._unpack(data)
        noise = self._draw_noise(self._seed, count_batches(self.optimizer), x)
        with tf.GradientTape(persistent=len(self._updates) > 1) as tape:
            with jacobians.one_column_at_a_time() if self.jit_compile else contextlib.nullcontext():
                terms = self.compute_terms(x, u, noise=noise, training=True)
            count = tf.distribute.get_strategy().num_replicas_in_sync
            losses = [update.optimizer.scale_loss(tf.reduce_mean(update.find_loss(terms)) / count)
                      for update in self._updates]
        gradients = [tape.gradient(loss, update.variables) for loss, update in zip(losses, self._updates, strict=True)]
        for gradient, update in zip(gradients, self._updates, strict=True):
            gradient = devices.change_known(functools.partial(devices.share_scaled_gradients,
                                                              optimizer=update.optimizer), gradient)
            update.optimizer.apply_gradients(zip(gradient, update.variables, strict=True))
        moves_nothing = all(update.optimizer is not self.optimizer for update in self._updates)
        if moves_nothing or hasattr(self.optimizer, "inner_optimizer"):     # of a LossScaleOptimizer
            count_batches(self.optimizer).assign_add(1)     # which the optimizer does not do by itself
        return self._collect(terms)

    def test_step(self, data: Any) -> dict[str, Tensor]:
        """Return the means of the objective's terms so far. The noise is the same whenever the same data are given."""
        x, u = self._unpack(data)
        seen = self._terms["loss"].count * tf.distribute.get_strategy().num_replicas_in_sync    # each device's share
        noise = self._draw_noise(-1 - self._seed, seen, x)
        return self._collect(self.compute_terms(x, u, noise=noise))

    def predict_step(self, data: Any) -> Tensor:
        """Return the mean image decoded from the posterior mean."""
        parts = self._take_inputs(data)
        return self(parts if self.u_size else parts[0], training=False)

    def _collect(self, terms: dict[str, Tensor]) -> dict[str, Tensor]:
        for name, term in terms.items():
            self._terms[name].update_state(term)
        return {name: mean.result() for name, mean in self._terms.items()}

    def _draw_noise(self, seed: int, step: Any, x: Tensor) -> Tensor:
        pair = tf.stack([seed, tf.cast(tf.convert_to_tensor(step), tf.int32)])
        return distributions.draw_noise(pair, tf.shape(x)[0], self.noise_size)

    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
            **options: Any) -> keras.callbacks.History:
        """Train as keras.Model.fit does, by the model's own objective.

        Args:
            x: arrays [N, ...], uint8 images or floats in [0, 1], or float vectors; for a model that sees u, a list
                [x, u]; a tf.data.Dataset of the same, in batches; or a data.Dataset.
            y: nothing; for a model that sees u, y may hold u.
            batch_size: the size of batches of arrays or of a data.Dataset, 32 by default.
            epochs, verbose: as in keras.Model.fit.
            options: the other arguments of keras.Model.fit. validation_data takes what x does.

        Raises:
            InputError: data that the model cannot take, labels, weights of examples, a model before `compile`, or
                layers that were frozen after it.
        """
        self._check_compiled("fit")
        self._check_trainable()
        x = to_arrays(x)
        if hasattr(x, "images_at"):
            self._check_options_of_dataset(options)
        validation, size = options.get("validation_data"), options.get("validation_batch_size")
        size = batch_size if size is None else checks.check_whole("validation_batch_size", size, 1)
        if validation is not None:
            options.update(validation_data=self._accept_validation(validation, size), validation_batch_size=size)
            self._check_shares("validation_data", validation, size)
        given, (x, y, batch_size) = x, self._accept(x, y, batch_size, options, shuffle=True)
        if validation is None and options.get("validation_split"):
            before = 1 - options["validation_split"]
            self._check_shares("validation_split", x, size, (before, 1))
            self._check_shares("x", x, batch_size, (0, before))
        else:
            self._check_shares("x", x, batch_size)
        self._note(given)
        with self._average_each():
            return super().fit(x, y, batch_size=batch_size, epochs=epochs, verbose=verbose, **options)

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
                 **options: Any) -> Any:
        """Return the means of the objective's terms as keras.Model.evaluate does; `fit` has the arguments."""
        if options.pop("_use_cached_eval_dataset", False):     # Keras' `fit` evaluates validation data that it knows
            return super().evaluate(x, y, batch_size, verbose, _use_cached_eval_dataset=True, **options)
        self._check_compiled("evaluate")
        given, (x, y, batch_size) = x, self._accept(x, y, batch_size, options)
        self._check_shares("x", given, batch_size)
        return super().evaluate(x, y, batch_size, verbose, **options)

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Return the mean images decoded from posterior means, as keras.Model.predict does; `fit` has the arguments."""
        x, _, batch_size = self._accept(x, None, batch_size, {})
        return super().predict(x, batch_size, verbose, **options)

    def train_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Make one step on a batch, as keras.Model.train_on_batch does; `fit` has the arguments."""
        self._check_compiled("train_on_batch")
        self._check_alone("train_on_batch")
        x, y, _ = self._accept(x, y, None, options)
        self._check_trainable()
        if "data" not in self.describe_origin():
            self._note_batches("batches", x)
        return super().train_on_batch(x, y, **options)

    def test_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Return the objective's terms of a batch, as keras.Model.test_on_batch does; `fit` has the arguments."""
        self._check_compiled("test_on_batch")
        self._check_alone("test_on_batch")
        x, y, _ = self._accept(x, y, None, options)
        return super().test_on_batch(x, y, **options)

    def _check_compiled(self, method: str) -> None:
        if not self.compiled:
            raise InputError(f"{method}: expected a compiled model; call compile(optimizer) first")

    def _check_alone(self, method: str) -> None:
        """Raise InputError where several devices would each get the whole batch, and noise for all of their copies."""
        if (count := self.distribute_strategy.num_replicas_in_sync) > 1:
            raise InputError(f"{method}: expected one device, because Keras gives the whole batch to each; got "
                             f"{count}; fit and evaluate share batches")

    def _check_trainable(self) -> None:
        """Raise InputError if nothing can be trained, or if layers were frozen or thawed after `compile`."""
        if self._trained != {id(variable) for variable in self.trainable_variables}:
            raise InputError("trainable: expected the layers that were trainable at compile; got others, which "
                             "training would ignore; call compile(optimizer) again")
        if not self._updates:
            raise InputError("trainable: expected some layers that can be trained; got a model that is all frozen")
        self._build_optimizers()

    def save(self, *args: Any, **options: Any) -> None:
        """Write the model as keras.Model.save does; nothing is written if it has no configuration."""
        self.get_config()
        if self.compiled:
            self._build_optimizers()
        super().save(*args, **options)

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return what `load_model` compiles the model with."""
        config = super().get_compile_config()
        if not self.compiled:
            return config
        # Keras takes the optimizer out of the configuration when it writes a file in its old format, HDF5.
        optimizer = config.get("optimizer") or keras.saving.serialize_keras_object(self.optimizer)
        kept = {name: config[name] for name in ("jit_compile", "run_eagerly", "steps_per_execution") if name in config}
        return {"optimizer": optimizer, "seed": self._seed, **kept}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as the model was that `save` has written."""
        counted = self.describe_origin().get("counted", 0)
        if self.distribute_strategy.num_replicas_in_sync > 1:       # which XLA does not compile for
            config = {**config, "jit_compile": False}
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._build_optimizers()
        self.note_origin(counted=counted)       # what the optimizer will say as soon as its state is there
