"""Keras' own loops, `compile`, `fit`, `evaluate` and `predict`, for models that have an objective of their own.

A step of `fit` makes the updates that a step of `training.fit` makes on the same examples: the objective is the same,
and so is the noise, which depends on the seed and on the number of the step alone. `training.fit` can also go on
exactly where a run was stopped; `fit` is for short trainings, notebooks and Keras' callbacks.
"""

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks, devices, distributions, graphs, jacobians
from vae_tf.errors import InputError
from vae_tf.models.trainable import Trainable, count_batches, scale_to_unit_range
from vae_tf.typing import Tensor

REFUSED = ("loss", "loss_weights", "metrics", "weighted_metrics")
BATCH_SIZE = 32     # Keras' own default


class KerasLoops(Trainable):
    """The part of `Autoencoder` that Keras' loops call."""

    def compile(self, optimizer: Any = "adam", *refused: Any, seed: int = 0, jit_compile: bool = False,
                **options: Any) -> None:
        """Compile as Keras does, without a loss and metrics: the model's own objective and its terms take their place.

        Args:
            optimizer: a Keras optimizer, or its name.
            refused: what Keras takes for a loss, and for metrics.
            seed: the seed for the noise, and for the order of examples where `fit` is given a data.Dataset.
            jit_compile: whether XLA compiles the steps. Keras would do so by default, which makes convolutional
                networks slower on processors. XLA draws other noise from the seed.
            options: run_eagerly, steps_per_execution and auto_scale_loss of keras.Model.compile.

        Raises:
            InputError: a loss or metrics, or a number that is no seed.
        """
        options.update(zip(REFUSED, refused, strict=False))
        for name in REFUSED:
            if options.get(name):
                raise InputError(f"{name}: {type(self).__name__} has an objective of its own, and its terms are the "
                                 f"metrics; expected none, got {options[name]!r}; call compile(optimizer) alone")
        self.__dict__["_seed"] = checks.check_whole("seed", seed, 0, 2**31 - 1)
        self.note_origin(**self.describe_origin())
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **options)
        self.note_origin(counted=int(keras.ops.convert_to_numpy(count_batches(self.optimizer))))
        # The dictionary is set past Keras, which would take what is in it for parts of the model.
        with self.distribute_strategy.scope():
            names = self._list_terms()
            self.__dict__["_terms"] = {name: keras.metrics.Mean(name) for name in names}
            self.__dict__["_updates"] = self.list_updates(self.optimizer)
            self.__dict__["_trained"] = {id(variable) for variable in self.trainable_variables}
            for update in self._updates:
                update.optimizer.build(update.variables)

    def _list_terms(self) -> list[str]:
        """Return the names of the objective's terms, `loss` first."""
        x, *u = (tf.TensorSpec((2, *each.shape[1:]), tf.float32) for each in self.encoder.inputs)
        noise = tf.TensorSpec((2, self.noise_size), tf.float32)

        def find_terms(noise: Tensor, x: Tensor, u: Tensor = None) -> dict[str, Tensor]:
            return self.compute_terms(x, u, noise=noise)

        terms = graphs.trace(find_terms, [self]).get_concrete_function(noise, x, *u).structured_outputs
        return sorted(terms, key=lambda name: name != "loss")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean of each of the objective's terms; empty before `compile`."""
        return list(self.__dict__.get("_terms", {}).values())

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
            gradient = devices.share_scaled_gradients(gradient, update.optimizer)
            update.optimizer.apply_gradients(zip(gradient, update.variables, strict=True))
        return self._collect(terms)

    def test_step(self, data: Any) -> dict[str, Tensor]:
        """Return the means of the objective's terms so far. The noise is the same whenever the same data are given."""
        x, u = self._unpack(data)
        noise = self._draw_noise(-1 - self._seed, self._terms["loss"].count, x)
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

    def _unpack(self, data: Any) -> tuple[Tensor, Tensor]:
        """Return x, float, and u or None, of what Keras hands to a step."""
        x, *u = self._take_inputs(data)
        # Keras hands on tensors of any precision as they are.
        x, *u = (tf.cast(each, wanted.dtype) for each, wanted in zip((scale_to_unit_range(x), *u), self.encoder.inputs,
                                                                     strict=True))
        return x, u[0] if u else None

    def _take_inputs(self, data: Any) -> list[Any]:
        """Return x and, for a model that sees u, u of what Keras hands to a step.

        What a generator or a keras.utils.PyDataset gives is seen here for the first time.

        Raises:
            InputError: labels, weights of examples, or other shapes and types than the model takes.
        """
        given = keras.utils.unpack_x_y_sample_weight(data)
        self._check_inputs(given)
        return [part for part in keras.tree.flatten(given) if part is not None]

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
        if not self.compiled:
            raise InputError("fit: expected a compiled model; call compile(optimizer) first")
        self._check_trainable()
        if options.get("validation_data") is not None:
            options["validation_data"] = self._accept_validation(options["validation_data"], batch_size)
        given, (x, y, batch_size) = x, self._accept(x, y, batch_size, options, shuffle=True)
        self._note(given)
        return super().fit(x, y, batch_size=batch_size, epochs=epochs, verbose=verbose, **options)

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, **options: Any) -> Any:
        """Return the means of the objective's terms as keras.Model.evaluate does; `fit` has the arguments."""
        if options.pop("_use_cached_eval_dataset", False):     # Keras' `fit` evaluates validation data that it knows
            return super().evaluate(x, y, batch_size=batch_size, _use_cached_eval_dataset=True, **options)
        x, y, batch_size = self._accept(x, y, batch_size, options)
        return super().evaluate(x, y, batch_size=batch_size, **options)

    def predict(self, x: Any, batch_size: int | None = None, **options: Any) -> Any:
        """Return the mean images decoded from posterior means, as keras.Model.predict does; `fit` has the arguments."""
        x, _, batch_size = self._accept(x, None, batch_size, {})
        return super().predict(x, batch_size=batch_size, **options)

    def train_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Make one step on a batch, as keras.Model.train_on_batch does; `fit` has the arguments."""
        x, y, _ = self._accept(x, y, None, options)
        if self.compiled:
            self._check_trainable()
        return super().train_on_batch(x, y, **options)

    def test_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Return the objective's terms of a batch, as keras.Model.test_on_batch does; `fit` has the arguments."""
        x, y, _ = self._accept(x, y, None, options)
        return super().test_on_batch(x, y, **options)

    def _check_trainable(self) -> None:
        """Raise InputError if nothing can be trained, or if layers were frozen or thawed after `compile`."""
        if self._trained != {id(variable) for variable in self.trainable_variables}:
            raise InputError("trainable: expected the layers that were trainable at compile; got others, which "
                             "training would ignore; call compile(optimizer) again")
        if not self._updates:
            raise InputError("trainable: expected some layers that can be trained; got a model that is all frozen")

    def _accept_validation(self, given: Any, batch_size: int | None) -> Any:
        """Return validation data as Keras takes them."""
        if isinstance(given, tuple) and len(given) == 1:
            given = given[0]
        if isinstance(given, tuple | list) and not self.u_size:
            raise InputError(f"validation_data: {type(self).__name__} learns from x alone; expected x, got "
                             f"{len(given)} arrays")
        return self._accept(given, None, batch_size, {})[0]

    def _accept(self, x: Any, y: Any, batch_size: int | None, options: dict[str, Any], shuffle: bool = False
                ) -> tuple[Any, Any, int | None]:
        """Return x, y and the batch size as Keras takes them; raise InputError for what the model cannot take."""
        for name in ("sample_weight", "class_weight"):
            if options.get(name) is not None:
                raise InputError(f"{name}: the objective weighs all examples alike; expected none, got one")
        if y is not None and not self.u_size:
            raise InputError(f"y: {type(self).__name__} learns from x alone; expected none, got "
                             f"{type(y).__name__}; give x alone")
        if hasattr(x, "images_at"):
            size = checks.check_whole("batch_size", BATCH_SIZE if batch_size is None else batch_size, 1)
            return self._read(x, size, options if shuffle else None), None, None
        specs = x.element_spec if isinstance(x, tf.data.Dataset) else x if y is None else [x, y]
        if isinstance(specs, tf.TensorSpec | np.ndarray | tf.Tensor | tuple | list | dict):
            self._check_inputs(specs)
        return x, y, batch_size

    def _read(self, dataset: Any, batch_size: int, options: dict[str, Any] | None) -> Any:
        """Return the batches of a data.Dataset: shuffled and without end if there are options of `fit`, else in order.

        The batches of `fit` are those of `training.fit` from the optimizer's step on.
        """
        from vae_tf.data import keras_batches  # here, because the data are a later room of the house

        if options is None:
            return keras_batches.InOrder(dataset, batch_size, bool(self.u_size))
        options["shuffle"] = False      # they are shuffled already
        options.setdefault("steps_per_epoch", max(1, len(dataset) // batch_size))
        step = int(keras.ops.convert_to_numpy(count_batches(self.optimizer)))
        return keras_batches.shuffle(dataset, batch_size, self._seed, step, bool(self.u_size))

    def _note(self, given: Any) -> None:
        """Record what an export says of the examples that `fit` is given, and whether some of them are dark."""
        from vae_tf import data  # here, because the data are a later room of the house

        x = given[0] if isinstance(given, tuple | list) else given
        shape, dark = tuple(self.encoder.inputs[0].shape[1:]), True
        if hasattr(x, "images_at"):
            described, dark = data.describe(x), x.is_image and data.has_dark(x)
        elif isinstance(x, np.ndarray):
            described, dark = data.describe_examples("arrays", shape, x, self.u_size), data.has_dark_image(x)
        else:
            described = data.describe_examples(f"a {type(x).__name__}", shape, u_size=self.u_size)
        self.note_data(described, self._seed)
        self.note_origin(dark=dark)

    def _check_inputs(self, given: Any) -> None:
        """Raise InputError unless arrays, tensors or their specs are batches of what the encoder takes."""
        first = given[0] if isinstance(given, tuple | list) and given else given
        inputs = self.encoder.inputs
        named = dict(zip(("x", "u"), inputs, strict=False))
        if isinstance(first, dict):
            raise InputError(f"x: expected {' and '.join(named)} without names; got a dict of "
                             f"{', '.join(map(str, first)) or 'nothing'}")
        parts = [part for part in keras.tree.flatten(given) if part is not None]
        if len(parts) != len(inputs):
            raise InputError(f"x: expected {' and '.join(named)} without labels, which is what {type(self).__name__} "
                             f"takes; arrays got: {len(parts)}")
        for (name, wanted), part in zip(named.items(), parts, strict=True):
            if getattr(part.shape, "rank", 0) is None:
                raise InputError(f"{name}: expected batches of shape {tuple(wanted.shape)}; got some of unknown rank; "
                                 "give tf.data.Dataset.from_generator an output_signature")
            shape, dtype = tuple(part.shape), tf.as_dtype(part.dtype)
            if shape[:1] == (0,):
                raise InputError(f"{name}: expected one example at least; got none")
            if not wanted.shape[1:] == shape[1:]:
                raise InputError(f"{name}: expected batches of shape {tuple(wanted.shape)}; got {shape}")
            if not (dtype.is_floating or (dtype == tf.uint8 and name == "x")):
                raise InputError(f"{name}: expected {'uint8 or ' * (name == 'x')}floats; got {dtype.name}")
            self._check_values(name, part)

    def _check_values(self, name: str, part: Any) -> None:
        """Raise InputError for an array of x that holds other numbers than the likelihood can take."""
        if not isinstance(part, np.ndarray) or part.dtype == np.uint8 or not part.size:
            return
        low, high = part.min(), part.max()
        bounded = name == "x" and self.likelihood_layer.kind == "bernoulli"
        if not np.isfinite([low, high]).all() or (bounded and (low < 0 or high > 1)):
            raise InputError(f"{name}: expected {'uint8 images, or floats in [0, 1]' if bounded else 'finite floats'}; "
                             f"got {low:g} to {high:g}")

    def save(self, *args: Any, **options: Any) -> None:
        """Write the model as keras.Model.save does; nothing is written if it has no configuration."""
        self.get_config()
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
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.note_origin(counted=counted)       # what the optimizer will say as soon as its state is there
