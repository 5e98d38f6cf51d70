"""What every loop needs of a model: an objective, the noise that it takes, and the updates of a step."""

import inspect
import types
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from vae_tf import checks, distributions
from vae_tf.errors import InputError
from vae_tf.models.declarations import Update
from vae_tf.options import Option
from vae_tf.typing import Network, Optimizer, Tensor


def scale_to_unit_range(x: Tensor) -> Tensor:
    """Convert a user's data into a model's: uint8 images into floats in [0, 1]; float vectors stay unchanged."""
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


def check_terms(terms: Any, x: Tensor) -> dict[str, Tensor]:
    """Return what an objective returned for x [B, ...].

    Raises:
        InputError: it is no dict of terms, each [B], with `loss` among them.
    """
    shapes = {name: tf.TensorShape(getattr(term, "shape", ())) for name, term in terms.items()
              } if isinstance(terms, Mapping) else {}
    if "loss" not in shapes or not all(shape.is_compatible_with(x.shape[:1]) for shape in shapes.values()):
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items()) or checks.describe(terms)
        raise InputError(f"objective: expected a dict of terms, each [B], with `loss` among them; got {got} for "
                         f"x of shape {x.shape}")
    return terms


class Trainable(keras.Model):
    """A Keras model with an objective of its own, and with a record of where its weights come from."""

    options: ClassVar[tuple[Option, ...]]
    encoder: Network
    decoder: Network
    likelihood_layer: distributions.Likelihood
    latents: int
    u_size: int

    @property
    def noise_size(self) -> int:
        """How many standard normal numbers per example `objective` takes as noise: d, one for each latent.

        A model that draws something else besides z asks for more, and so stays a function of seed and step.
        """
        return self.latents

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return the objective's terms for one z per example, and their weighted sum `loss`, each [B], in nats.

        Args:
            x: data, float, [B, ...].
            u: [B, |u|], if the model is conditional.
            noise: eps [B, noise_size], whose first d columns make z = mu + L eps, see distributions.draw_noise.
            beta: None stands for the model's own.
            training: whether layers behave as in training.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no objective")

    @classmethod
    def _list_arguments(cls) -> list[str]:
        """Return the names of the arguments of __init__, and of those to which it hands on **kwargs."""
        names: dict[str, None] = {}
        for kind in cls.__mro__:
            if "__init__" in vars(kind):
                parameters = list(inspect.signature(vars(kind)["__init__"]).parameters.values())[1:]
                names |= {each.name: None for each in parameters
                          if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
                if not any(each.kind == each.VAR_KEYWORD for each in parameters):
                    break
        return [*names]

    def list_settings(self) -> dict[str, Any]:
        """Return what the graph of a step takes for constants, by name.

        These are beta, the options, the other arguments of __init__ and the penalty on the Jacobian. Arrays come as
        lists of their numbers. None stands for networks, layers and variables, which a graph reads whenever it runs.
        """
        names = ("beta", *(option.name for option in self.options), *self._list_arguments())
        settings = {name: keras.tree.map_structure(_copy_setting, getattr(self, name, None)) for name in names
                    if name != "likelihood"}        # a method; the argument of this name is a layer
        return {**settings, "jacobian_penalty": vars(self).get("_penalty")}

    def compute_terms(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                      training: bool = False) -> dict[str, Tensor]:
        """Return what training minimises: the terms of `objective`, whose arguments these are, with further ones."""
        return self.objective(x, u, noise=noise, beta=beta, training=training)

    def updates(self, optimizer: Optimizer) -> tuple[Update, ...]:
        """Return the updates of a training step, all from gradients at the same weights.

        By default the optimizer moves all trainable weights down the gradient of `loss`. A model with a second network
        that minimises something else adds a term to its objective and an Update with an optimizer of its own.
        """
        return (Update("loss", self.trainable_variables, optimizer),)

    def list_updates(self, optimizer: Optimizer) -> tuple[Update, ...]:
        """Return those of `updates` that move weights: a network that is frozen (trainable=False) has none."""
        return tuple(update for update in self.updates(optimizer) if update.variables)

    def note_origin(self, **known: Any) -> None:
        """Record where the model's weights come from, for the card of its export; `save` keeps it.

        Args:
            known: network, the name of its networks; data, what data.describe says of the examples that it was trained
                on; before, what export.list_trainings says of the weights that it began with; dark, whether an image of
                the data has no pixel above 1; seed, of order and noise; steps, how many were made; counted, what its
                optimizer then said of that.
        """
        # The dictionary is set past Keras, which would take what is in it for parts of the model.
        self.__dict__.setdefault("_origin", {}).update(known)

    def note_steps(self, steps: int) -> None:
        """Record that the model has made this number of steps in all."""
        optimizer = vars(self).get("optimizer")
        self.note_origin(steps=steps, counted=0 if optimizer is None else
                         int(keras.ops.convert_to_numpy(count_batches(optimizer))))

    def describe_origin(self) -> dict[str, Any]:
        """Return what `note_origin` has recorded, with the steps up to now; values are as JSON has them."""
        known: Mapping[str, Any] = vars(self).get("_origin", {})
        steps, optimizer = known.get("steps", 0), vars(self).get("optimizer")
        if optimizer is None:
            return {**known, "steps": steps}
        counted = int(keras.ops.convert_to_numpy(count_batches(optimizer)))
        return {**known, "steps": steps + counted - known.get("counted", 0), "counted": counted}

    def note_data(self, described: Mapping[str, Any], seed: int) -> None:
        """Record what a training sees: what data.describe says of its examples, and the seed of order and noise.

        What earlier trainings saw is kept; an empty text stands for what is not known of it.
        """
        origin = self.describe_origin()
        earlier = origin.get("data", {}) if origin["steps"] else described
        if earlier != described:
            seen = {"dataset": earlier.get("dataset", ""), "data_seed": earlier.get("data_seed", 0),
                    "split": earlier.get("split", ""), "data_fingerprint": earlier.get("fingerprint", "")}
            self.note_origin(before=[seen, *(each for each in origin.get("before", []) if each != seen)])
        self.note_origin(data=dict(described), seed=seed)

    def export(self, filepath: str, format: str = "tf_saved_model", *, data: Any = None) -> Any:
        """Write the model as train.py does: the next version of a folder, with the signatures that servers offer.

        Args:
            filepath: the folder, exported/NAME; TensorFlow Serving watches such folders for versions.
            format: "tf_saved_model", which docs/serving.md converts into others.
            data: the data.Dataset that the model was trained on; None for what its last training was given.

        Returns:
            The path of the version, exported/NAME/VERSION, which tf.saved_model.load takes.

        Raises:
            InputError: another format, or data that the model does not take.
            OSError: the folder cannot be written, or the disk is full.
        """
        from vae_tf.export import from_keras  # here, because exports are a later room of the house

        if format != "tf_saved_model":
            raise InputError(f"format: expected 'tf_saved_model', which docs/serving.md converts into others; got "
                             f"{format!r}")
        return from_keras.export_model(filepath, self, data)


def count_batches(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the number of batches that an optimizer has seen, of which it may accumulate several for one update.

    A LossScaleOptimizer leaves the count to others, because it passes over batches whose gradients overflow.
    """
    return optimizer._iterations        # `iterations` counts updates


def _copy_setting(part: Any) -> Any:
    """Return a part of a setting as `Trainable.list_settings` has it, which can be compared by ==.

    NaN equals itself. Objects that cannot be compared are told apart by their type alone.
    """
    if isinstance(part, keras.Layer | keras.Variable | tf.Variable | types.MethodType):
        return None
    if hasattr(part, "get_config") and not isinstance(part, type):
        return {"kind": type(part), **part.get_config()}
    if isinstance(part, float) or (hasattr(part, "__array__") and not tf.is_symbolic_tensor(part)):
        numbers = np.asarray(part)
        return str(numbers.tolist()) if numbers.dtype.kind == "f" and np.isnan(numbers).any() else numbers.tolist()
    return type(part) if type(part).__eq__ is object.__eq__ else part
