"""The base class of all models: an encoder, a decoder, a likelihood, and declarations about the model."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from vae_tf import arguments, devices, distributions, penalties, splitting
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError
from vae_tf.models.declarations import KL, LinearTheory, Setting
from vae_tf.models.keras_loops import KerasLoops
from vae_tf.models.parts import check_networks, check_statistics
from vae_tf.models.trainable import check_terms, scale_to_unit_range
from vae_tf.options import Option
from vae_tf.typing import Distribution, Network, Tensor

MODULES: dict[str, set[str]] = {}       # "package>Class" -> the modules that have such a class


class Autoencoder(KerasLoops):
    """An encoder from x to z and a decoder from z to p(x|z). Models override `posterior`, `prior` and `objective`.

    Args:
        encoder: Keras model from x (and u) to a list of heads, sized as `list_heads` says.
        decoder: Keras model from z [B, d] to the data's shape.
        likelihood: distributions.Likelihood.

    A class also declares these properties; no other module makes decisions by a model's name:

        key             its name, which `models.register` sets
        has_prior       whether there is a p(z), and so a KL
        learned_prior   whether p(z|u) is learned, so that nothing is known of it before training
        conditional     whether the encoder and the prior see u
        default_beta    the value of beta unless one is given; None if the model takes no beta
        beta_term       what beta weighs, in words
        options         options of its own
        linear_theory   what theory knows of it where its networks are linear
        minimises_elbo  whether, for a given decoder, its best posterior is that of a VAE, with a KL that beta weighs;
                        `theory.optimal_precision` is its precision

    A subclass may have another objective, and inherits neither of the last two.
    """

    key: ClassVar[str]
    has_prior: ClassVar[bool] = True
    learned_prior: ClassVar[bool] = False
    conditional: ClassVar[bool] = False
    default_beta: ClassVar[float | None] = None
    beta_term: ClassVar[str] = KL
    options: ClassVar[tuple[Option, ...]] = ()
    linear_theory: ClassVar[LinearTheory | None] = None
    minimises_elbo: ClassVar[bool] = False

    beta = 1.0

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in ("linear_theory", "minimises_elbo"):
            if name not in vars(cls):
                setattr(cls, name, vars(Autoencoder)[name])
        # By its module, because classes of two modules may have one name; this package's own are known by its name.
        # Files from before have the package alone, which finds a class as long as one module has its name.
        package = cls.__module__.partition(".")[0]
        keras.saving.register_keras_serializable(package if package == "vae_tf" else cls.__module__)(cls)
        name = f"{package}>{cls.__name__}"
        modules = MODULES.setdefault(name, set())
        modules.add(cls.__module__)
        keras.saving.get_custom_objects()[name] = cls
        if len(modules) > 1:
            del keras.saving.get_custom_objects()[name]

    @staticmethod
    def list_heads(latents: int) -> tuple[int, ...]:
        """Return the sizes of the encoder's heads: mean, log-variance."""
        return latents, latents

    @classmethod
    def make_arguments(cls, setting: Setting) -> dict[str, Any]:
        """Return what __init__ takes besides encoder, decoder, likelihood and beta; by default, the own options."""
        return dict(setting.options)

    @classmethod
    def check_configuration(cls, config: Configuration, examples: int) -> None:
        """Raise InputError for a configuration that does not suit this model; `examples` is the training set's size."""

    @classmethod
    def count_scratch(cls, batch_size: int, latents: int) -> int:
        """Return how many numbers the objective computes for a batch, beside the outputs of the networks' layers."""
        return 8 * batch_size * latents

    @classmethod
    def count_further_weights(cls, latents: int, options: Mapping[str, Any]) -> dict[str, int]:
        """Return how many weights there are beside those of the networks, by the option that decides their number."""
        return {}

    @classmethod
    def weigh_kl(cls, beta: float | None) -> float | None:
        """Return the weight of the KL that decides which latents collapse, for a beta (or None); None if not known."""
        if cls.linear_theory is None:
            return None
        if cls.linear_theory.kl_weight is not None:
            return cls.linear_theory.kl_weight
        beta = cls.default_beta if beta is None else beta
        return 1.0 if beta is None else beta

    @classmethod
    def weighs_kl_by_beta(cls) -> bool:
        """Return whether the model takes a beta, and beta weighs the KL."""
        return cls.default_beta is not None and cls.beta_term == KL

    @classmethod
    def warms_up(cls) -> bool:
        """Return whether the objective depends on --beta_warmup_steps."""
        return cls.default_beta is not None

    @classmethod
    def suggest_weaker_kl(cls, beta: float) -> str:
        """Return what flags would weigh the KL less than this beta does, in words."""
        return f"a --beta below {beta:g}" if cls.weighs_kl_by_beta() else "--model=beta_vae with a --beta below 1"

    @classmethod
    def name_kind(cls) -> str:
        """Return the name of this kind of model: that of `models.register`, or the class's own if it is not there."""
        return vars(cls).get("key", cls.__name__)

    @classmethod
    def list_remarks(cls, card: dict[str, Any]) -> list[str]:
        """Return sentences about such a model for the table of scores; `card` is that of its export."""
        if not card["u_size"]:
            return []
        held_out = bool(card.get("u")) and str(card.get("recipe", {}).get("split")).startswith("hold_out")
        return ["The codes are means of q(z|x, u): this encoder sees u, so scores against factors that u holds are no "
                "test of discovery.",
                *["Examples were held out by factors, of which u is made: training has not seen such u."] * held_out]

    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood) -> None:
        check_networks(type(self), encoder, decoder, likelihood)
        super().__init__(autocast=False)     # each network has a precision of its own, whatever Keras' policy is
        self.encoder = encoder
        self.decoder = decoder
        self.likelihood_layer = likelihood
        self.latents = decoder.input_shape[-1]
        self.u_size = encoder.input_shape[1][-1] if isinstance(encoder.input_shape, list) else 0
        self.built = True

    def encode(self, x: Tensor, u: Tensor = None, training: bool = False) -> list[Tensor]:
        """Return the encoder's heads for x, float in [0, 1], [B, ...].

        Raises:
            InputError: x holds whole numbers, or the model sees u and there is none.
        """
        inputs = [x, self.require_u(u)] if self.u_size else [x]
        x, *_ = inputs = [each if keras.backend.is_keras_tensor(each) else tf.convert_to_tensor(each)
                          for each in inputs]
        dtype = tf.as_dtype(x.dtype)
        if not dtype.is_floating:
            raise InputError(f"x: expected images of floats in [0, 1], or vectors of floats; got {dtype.name}; "
                             "models.scale_to_unit_range makes such images of uint8; cast other numbers to float32")
        return keras.tree.flatten(splitting.apply(self.encoder, inputs, training))

    def require_u(self, u: Tensor) -> Tensor:
        """Return u; raise InputError if there is none."""
        if u is None:
            raise InputError(f"u: {type(self).__name__} sees u; expected floats [B, {self.u_size}]; got none")
        return u

    def posterior(self, x: Tensor, u: Tensor = None, training: bool = False) -> Distribution:
        """Return q(z|x): batch shape [B], event shape [d]."""
        raise NotImplementedError(f"{type(self).__name__} defines no posterior")

    def prior(self, u: Tensor = None) -> Distribution | None:
        """Return p(z) or p(z|u), event shape [d]; None if the model has none."""
        raise NotImplementedError(f"{type(self).__name__} defines no prior")

    def likelihood(self, z: Tensor, training: bool = False) -> Distribution:
        """Return p(x|z) for z [B, d]; its mean is the decoded image."""
        return self.likelihood_layer.make_distribution(splitting.apply(self.decoder, [z], training))

    @property
    def penalty(self) -> penalties.Penalty | None:
        """The penalty on the decoder's Jacobian; None for none."""
        return vars(self).get("_penalty")

    @arguments.check_arguments
    def penalise_jacobian(self, kind: Any = "orthogonality", weight: arguments.Weight = 1.0,
                          examples: arguments.Size = 16) -> None:
        """Add a penalty on the decoder's Jacobian to what training minimises, in place of an earlier one.

        Args:
            kind: one of penalties.PENALTIES, or a function from J [B, n, d] to a number for each example, [B].
            weight: what the mean of the penalty is multiplied with; 0 takes the penalty away.
            examples: the number of examples of a batch at which the penalty is computed, all if there are fewer.

        Raises:
            InputError: there is no such penalty, this decoder has too many latents for it, or too little precision.
        """
        penalties.check_kind(kind)
        coarse = {layer.compute_dtype for layer in self.decoder.layers} & {"bfloat16", "float16"}
        if kind == "hessian" and coarse:
            raise InputError(f"jacobian_penalty: hessian is a second difference, which {coarse.pop()} rounds away; "
                             "expected a float32 decoder, or another penalty")
        entries = math.prod(self.decoder.outputs[0].shape[1:])
        if kind == "orthogonality" and self.latents > entries:
            raise InputError(f"jacobian_penalty: orthogonality expects at most as many latents as an example has "
                             f"entries, {entries}; got {self.latents}")
        # Set past Keras, which would take the tuple for a part of the model.
        self.__dict__["_penalty"] = penalties.Penalty(kind, float(weight), examples) if weight else None
        self._renew_steps()

    def compute_terms(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                      training: bool = False) -> dict[str, Tensor]:
        """Return the terms of `objective`, whose arguments these are; with a penalty, `loss` includes it.

        The penalty is a term of its own, too: `jacobian_penalty`, the mean over the examples at which it is computed.
        So is `regularization`, if there is any: the regularizers of weights and of activities, and what layers add by
        `add_loss`, as Keras scales them. A network that the objective calls more than once counts with its last call.

        Raises:
            InputError: the objective returns no terms [B]; or several devices share a batch, and layers regularize
                activities or normalise by the statistics of each device's share.
        """
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            check_statistics(self)
        self._clear_losses()        # of an earlier call, which may belong to another graph
        terms = check_terms(self.objective(x, u, noise=noise, beta=beta, training=training), x)
        if losses := self.losses:
            of_weights = sum(variable.regularizer is not None for variable in self.trainable_variables)
            if len(losses) > of_weights and tf.distribute.get_strategy().num_replicas_in_sync > 1:
                raise InputError("strategy: expected one device, because layers of this model have an "
                                 "activity_regularizer or call add_loss; got several, whose losses Keras mixes up")
            value = tf.add_n([tf.reduce_sum(tf.cast(loss, terms["loss"].dtype)) for loss in losses])
            value *= tf.ones_like(terms["loss"])
            terms = {**terms, "loss": terms["loss"] + value, "regularization": value}
        if self.penalty is None:
            return terms
        value = self._average_penalty(self.penalty, x, u, noise) * tf.ones_like(terms["loss"])
        return {**terms, "loss": terms["loss"] + self.penalty.weight * value, "jacobian_penalty": value}

    def _average_penalty(self, penalty: penalties.Penalty, x: Tensor, u: Tensor, noise: Tensor) -> Tensor:
        """Return a number whose mean over all devices is the mean of the penalty over the batch's first examples."""
        kind, _, examples = penalty
        noise = noise[:examples, :self.latents]
        posterior = self.posterior(x[:examples], None if u is None else u[:examples])
        z = distributions.reparameterise(posterior, noise) if self.has_prior else posterior.mean()
        values = penalties.compute_penalty(kind, self.likelihood, z, noise)
        device, count = devices.locate_device()
        size = tf.shape(x)[0]
        of_first = device * size + tf.range(tf.shape(values)[0]) < examples
        return count * tf.reduce_sum(tf.where(of_first, values, 0.0)) / tf.cast(
            tf.minimum(examples, count * size), values.dtype)

    def call(self, x: Tensor, u: Tensor = None, training: bool = False) -> Tensor:
        """Return the mean image decoded from the posterior mean of x, uint8 or float; x may be [x, u]."""
        if isinstance(x, tuple | list):
            x, *given = x
            u = given[0] if given else u
        return self.likelihood(self.posterior(scale_to_unit_range(x), u, training).mean(), training).mean()

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of __init__ as `save` writes them; the model keeps each as an attribute of its name.

        Raises:
            InputError: the model has no attribute of an argument's name, or its __init__ takes no networks by name.
        """
        config = {}
        if not {"encoder", "decoder", "likelihood"} <= {*(names := self._list_arguments())}:
            raise InputError(f"model: expected the __init__ of {type(self).__name__} to take encoder, decoder and "
                             f"likelihood by name, or **kwargs, so that it can be saved; got one that takes "
                             f"{', '.join(names) or 'nothing by name'}")
        for name in names:
            attribute = "likelihood_layer" if name == "likelihood" else name
            if not hasattr(self, attribute):
                raise InputError(f"{name}: expected a {type(self).__name__} to keep this argument of __init__ as an "
                                 "attribute of its name, so that it can be saved; got none")
            value = getattr(self, attribute)
            number = isinstance(value, tf.Variable) and not value.shape.rank
            config[name] = float(value) if number else keras.saving.serialize_keras_object(value)
        if "beta" in vars(self):        # of a model without such an argument, whose beta was set
            config["beta"] = float(self.beta)
        if self.penalty:
            config["penalty"] = keras.saving.serialize_keras_object(self.penalty._asdict())
        return {**config, "origin": self.describe_origin()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> "Autoencoder":
        """Return the model of a configuration that `get_config` gave, with freshly initialised weights."""
        model = cls(**{name: keras.saving.deserialize_keras_object(config[name], custom_objects)
                       for name in cls._list_arguments() if name in config})
        if "beta" in config:
            model.beta = config["beta"]
        model.note_origin(**keras.saving.deserialize_keras_object(config.get("origin", {})))
        if "penalty" in config:
            model.penalise_jacobian(**keras.saving.deserialize_keras_object(config["penalty"], custom_objects))
        return model
