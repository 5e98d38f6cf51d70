"""What Keras' own loops are given: examples in any of several forms, checked, and as the model takes them."""

import math
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks
from vae_tf.errors import InputError
from vae_tf.models.trainable import Trainable, count_batches, scale_to_unit_range
from vae_tf.typing import Tensor

BATCH_SIZE = 32     # Keras' own default
ROUNDING = 1e-5     # how far rounding may take float images beyond [0, 1]
LARGE = 20          # pixels of floats above this are taken for those of images from 0 to 255
LOOKED_AT = 500     # of how many examples of a data.Dataset the numbers are checked


class Start(keras.callbacks.Callback):
    """Notes the step at which `fit` begins: what callbacks that came before have restored, such as BackupAndRestore.

    Attributes:
        step: the number of steps made before.
    """

    def __init__(self, model: Trainable) -> None:
        super().__init__()
        self.set_model(model)
        self.on_train_begin()

    def on_train_begin(self, logs: Any = None) -> None:
        """Note the step."""
        self.step = int(keras.ops.convert_to_numpy(count_batches(self.model.optimizer)))


class KerasInputs(Trainable):
    """The part of `Autoencoder` that reads and checks what Keras' loops are given."""

    _seed: int

    def _unpack(self, data: Any) -> tuple[Tensor, Tensor]:
        """Return x, float, and u or None, of what Keras hands to a step."""
        x, *u = self._take_inputs(data)
        # Keras hands on tensors of any precision as they are. Networks cast them to their own.
        x, *u = (tf.cast(each, tf.float32) for each in (scale_to_unit_range(x), *u))
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

    def _accept_validation(self, given: Any, batch_size: int | None) -> Any:
        """Return validation data as Keras takes them."""
        if isinstance(given, tuple) and (len(given) == 1 or all(part is None for part in given[1:])):
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
        if x is None:
            raise InputError("x: expected examples; got none")
        if batch_size is not None:
            checks.check_whole("batch_size", batch_size, 1)
        if y is not None and not self.u_size:
            raise InputError(f"y: {type(self).__name__} learns from x alone; expected none, got "
                             f"{type(y).__name__}; give x alone")
        x, y = to_arrays(x), to_arrays(y)
        if hasattr(x, "images_at"):
            self.check_examples("x", x)
            return self._read(x, batch_size or BATCH_SIZE, options if shuffle else None), None, None
        specs = x.element_spec if isinstance(x, tf.data.Dataset) else x if y is None else [x, y]
        if isinstance(specs, tf.TensorSpec | np.ndarray | tf.Tensor | tuple | list | dict):
            self._check_inputs(specs)
        if isinstance(x, keras.utils.PyDataset | tf.data.Dataset) and _holds(first := _find_first(x)):
            # Of a Bernoulli, floats beyond [0, 1] would train to minus infinity.
            self._take_inputs(keras.tree.map_structure(lambda part: part.numpy() if hasattr(part, "numpy") else part,
                                                       first))
        return x, y, batch_size

    def _check_options_of_dataset(self, options: dict[str, Any]) -> None:
        """Raise InputError for options of `fit` that a data.Dataset has no use for."""
        if options.get("validation_split"):
            raise InputError("validation_split: a data.Dataset has parts of its own; expected none, got "
                             f"{options['validation_split']}; give x=dataset.split('random', 'train') and "
                             "validation_data=dataset.split('random', 'validation')")
        if options.get("shuffle") is False:
            raise InputError("shuffle: a data.Dataset is read in the order that the seed decides; expected True, got "
                             "False; give arrays to train in their order")

    def _check_shares(self, name: str, given: Any, batch_size: int | None, part: tuple[float, float] = (0, 1)) -> None:
        """Raise InputError if several devices train or measure the model and cannot share some batch evenly.

        Args:
            name: the argument that gives the examples.
            given: the examples, as Keras' loops take them, or a data.Dataset that is read in order.
            batch_size: the size of batches that are made of them.
            part: where the examples of an array begin and end that count, as shares of their number.
        """
        count = self.distribute_strategy.num_replicas_in_sync
        sizes = _list_batch_sizes(given, batch_size or BATCH_SIZE, part) if count > 1 else []
        for size in sizes:
            if size is None or size % count:
                raise InputError(f"{name}: {count} devices share each batch evenly; expected batches of a multiple of "
                                 f"{count} examples, from arrays, a data.Dataset, or a tf.data.Dataset that is batched "
                                 f"with drop_remainder=True; got one of {size or 'unknown size'}")

    def check_examples(self, name: str, dataset: Any) -> None:
        """Raise InputError for a data.Dataset of float vectors that a Bernoulli likelihood cannot take.

        The numbers of up to 500 examples are checked. Those in [0, 1] are taken.
        """
        if self.likelihood_layer.kind == "bernoulli" and not dataset.is_image:
            size = len(dataset)
            indices = np.linspace(0, size, min(size, LOOKED_AT), endpoint=False, dtype=int)
            self._check_values(name, dataset.images_at(indices))

    def _read(self, dataset: Any, batch_size: int, options: dict[str, Any] | None) -> Any:
        """Return the batches of a data.Dataset: shuffled and without end if there are options of `fit`, else in order.

        The batches of `fit` are those of `training.fit` from the optimizer's step on.
        """
        from vae_tf.data import keras_batches  # here, because the data are a later room of the house

        if options is None:
            return keras_batches.InOrder(dataset, batch_size, bool(self.u_size))
        options["shuffle"] = False      # they are shuffled already
        steps = options["steps_per_epoch"] = options.get("steps_per_epoch") or max(1, len(dataset) // batch_size)
        if steps % self.steps_per_execution:      # Keras would make more steps than an epoch has
            raise InputError(f"steps_per_execution: expected a divisor of the {steps:,} steps of an epoch; got "
                             f"{self.steps_per_execution:,}")
        start, callbacks = Start(self), options.get("callbacks") or []
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.callbacks = [each for each in callbacks.callbacks if not isinstance(each, Start)] + [start]
        else:
            options["callbacks"] = [callbacks, start]       # which Keras flattens
        return keras_batches.shuffle(dataset, batch_size, self._seed, lambda: start.step, bool(self.u_size))

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
            return self._note_batches(f"a {type(x).__name__}", x)
        self.note_data(described, self._seed)
        self.note_origin(dark=dark)

    def _note_batches(self, name: str, given: Any) -> None:
        """Record the same of a stream of batches, of which the first alone is looked at, or of one batch of several."""
        from vae_tf import data  # here, because the data are a later room of the house

        shape = tuple(self.encoder.inputs[0].shape[1:])
        described = data.describe_examples(name, shape, u_size=self.u_size)
        if len(shape) == 3 and self.likelihood_layer.kind != "bernoulli":   # which takes numbers in [0, 1] alone
            described["span"] = _find_span(_find_first(given))
        self.note_data(described, self._seed)
        self.note_origin(dark=True)

    def _check_inputs(self, given: Any) -> None:
        """Raise InputError unless arrays, tensors or their specs are batches of what the encoder takes."""
        first = given[0] if isinstance(given, tuple | list) and given else given
        inputs = self.encoder.inputs
        named = dict(zip(("x", "u"), inputs, strict=False))
        if isinstance(first, dict):
            raise InputError(f"x: expected {' and '.join(named)} without names; got a dict of "
                             f"{', '.join(map(str, first)) or 'nothing'}")
        parts = [part for part in keras.tree.flatten(given) if part is not None]
        if not all(hasattr(part, "shape") for part in parts):
            raise InputError("x: expected arrays or tensors; got a list of numbers; give np.array(x, 'float32')")
        if len(parts) != len(inputs):
            listed = isinstance(given, list) and len(parts) > 3
            advice = ("; u is missing" if len(parts) < len(inputs) else
                      "; np.stack makes one array of a list of examples" if listed else "")
            raise InputError(f"x: expected {' and '.join(named)} without labels, which is what {type(self).__name__} "
                             f"takes; arrays got: {len(parts)}{advice}")
        for (name, wanted), part in zip(named.items(), parts, strict=True):
            if getattr(part.shape, "rank", 0) is None:
                raise InputError(f"{name}: expected batches of shape {tuple(wanted.shape)}; got some of unknown rank; "
                                 "give tf.data.Dataset.from_generator an output_signature")
            shape, dtype = tuple(part.shape), tf.as_dtype(part.dtype)
            if shape[:1] == (0,):
                raise InputError(f"{name}: expected one example at least; got none")
            if not wanted.shape[1:] == shape[1:]:
                raise InputError(f"{name}: expected batches of shape {tuple(wanted.shape)}; got {shape}")
            images = name == "x" and len(wanted.shape) == 4
            if not (dtype.is_floating or (dtype == tf.uint8 and images)):
                masks = isinstance(part, np.ndarray) and part.size and part.max() <= 1
                raise InputError(f"{name}: expected {'uint8 or ' * images}floats; got {dtype.name}; give "
                                 f"{name}.astype('{'uint8' if images and not masks else 'float32'}')")
            self._check_values(name, part, images)

    def _check_values(self, name: str, part: Any, images: bool = False) -> None:
        """Raise InputError for an array or tensor of x that holds other numbers than the likelihood can take.

        Images of floats that seem to go to 255 are warned of.
        """
        if not (isinstance(part, np.ndarray) or hasattr(part, "numpy")) or 0 in part.shape:
            return      # a tensor of a graph has no numbers yet
        low, high = (float(end(part)) for end in (np.min, np.max))
        if part.dtype == np.uint8:
            if high == 1 and isinstance(part, np.ndarray):      # a batch that Keras has made may be of dark images
                raise InputError(f"{name}: expected uint8 images from 0 to 255; got 0 and 1 alone, which is nearly "
                                 f"black; of masks, give 255 * {name}")
            return
        bounded = name != "u" and self.likelihood_layer.kind == "bernoulli"
        if not np.isfinite([low, high]).all() or (bounded and (low < -ROUNDING or high > 1 + ROUNDING)):
            wanted = "uint8 images, or floats in [0, 1]" if bounded and images else "floats in [0, 1]"
            advice = f"; divide {name} by 255, or give it as uint8" if images and high > LARGE else ""
            raise InputError(f"{name}: expected {wanted if bounded else 'finite floats'}; got {low:g} to {high:g}"
                             f"{advice}")
        if images and high > LARGE:
            warnings.warn(f"{name}: these images have floats from {low:g} to {high:g}, of which training may diverge; "
                          "divide them by 255, or give them as uint8", stacklevel=4)


def to_arrays(given: Any) -> Any:
    """Return tables, such as those of pandas, as arrays, also in a tuple or a list; all else as it is."""
    if isinstance(given, tuple | list) and any(hasattr(part, "to_numpy") for part in given):
        return (tuple if isinstance(given, tuple) else list)(map(to_arrays, given))
    return given.to_numpy() if hasattr(given, "to_numpy") else given


def _list_batch_sizes(given: Any, batch_size: int, part: tuple[float, float]) -> list[int | None]:
    """Return the sizes of the batches of examples, see KerasInputs._check_shares; None for one that is not known."""
    first = keras.tree.flatten(given)[0] if isinstance(given, tuple | list) else given
    if isinstance(first, tf.data.Dataset):
        return [keras.tree.flatten(first.element_spec)[0].shape[0]]
    if not (hasattr(first, "images_at") or hasattr(first, "shape")):
        return [None]
    start, end = (math.floor(len(first) * share) for share in part)     # as Keras rounds them
    return [min(batch_size, end - start), (end - start) % batch_size]


def _find_first(given: Any) -> Any:
    """Return the first batch of a stream, or what is no stream; None for what cannot be read again."""
    if isinstance(given, keras.utils.PyDataset):
        return given[0]
    if not isinstance(given, tf.data.Dataset):
        return given
    if _may_be_of_a_generator(given):
        return None
    return next(iter(given.take(1)), None)


def _holds(batch: Any) -> bool:
    """Return whether a batch has examples, rather than none; False for no batch."""
    return batch is not None and 0 not in getattr(keras.tree.flatten(batch)[0], "shape", (0,))[:1]


def _find_span(batch: Any) -> list[float]:
    """Return the least and the largest number of x in a batch of floats; nothing of another batch, or an empty one."""
    x = keras.tree.flatten(batch)[0]
    if not hasattr(x, "dtype") or x.dtype == np.uint8 or 0 in x.shape:
        return []
    return [float(end(x)) for end in (np.min, np.max)]


def _may_be_of_a_generator(dataset: tf.data.Dataset) -> bool:
    """Return whether a look at a dataset may lose examples: a generator need not give them again.

    `from_generator` makes its generator in a function of `flat_map`.
    """
    kind = type(dataset).__name__
    return "FlatMap" in kind or "Generator" in kind or any(map(_may_be_of_a_generator, dataset._inputs()))
