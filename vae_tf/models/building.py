"""Build a model by name, with freshly initialised networks."""

import concurrent.futures
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from vae_tf import arguments, checks, devices, distributions, memory, networks
from vae_tf.errors import InputError
from vae_tf.models.autoencoder import Autoencoder
from vae_tf.models.declarations import Setting
from vae_tf.models.registry import find, list_models_with_beta, list_options

# Sizes of data, heads and u that add up to more are counted before anything is allocated, which takes as long again.
LARGE = 100_000


@arguments.check_arguments
def build(name: str, shape: Sequence[arguments.Size], *, network: str, latents: arguments.Size,
          likelihood: str = "bernoulli", likelihood_variance: float = 0.5, beta: arguments.Weight | None = None,
          u_size: arguments.FromZero = 0, examples: arguments.Size | None = None,
          seed: arguments.SeedOfWeights = 0, dtype: str = "float32", **options: Any) -> Autoencoder:
    """Return a model by name, with freshly initialised networks.

    Args:
        name: a key of MODELS.
        shape: the shape of one example, (H, W, C) or (n,).
        network: a key of networks.NETWORKS.
        latents: d, the number of latents.
        likelihood, likelihood_variance: see distributions.Likelihood.
        beta: None for the model's own default.
        u_size: |u|, for conditional models.
        examples: the size of the training set, which some models need, such as the beta-TCVAE.
        seed: the seed for the initial weights.
        dtype: "float32", "mixed_bfloat16" or "mixed_float16".
        options: values of the model's own options, by name (`Autoencoder.options`). Options of other models are checked
            and ignored.

    Raises:
        InputError: an argument that this model, network or data cannot take.
    """
    devices.check_precision(dtype)
    kind = find(name)
    shape = checks.check_shape("shape", shape)
    own = _choose_own_options(kind, options)
    if beta is not None and kind.default_beta is None:
        raise InputError(f"beta: {name} has none; got {beta}; "
                         f"models with beta: {', '.join(list_models_with_beta())}")
    if kind.conditional and not u_size:
        raise InputError(f"model: {name} needs data with u or factors; got data with neither; "
                         "choose another model, or give the data a u")
    u_of_encoder = u_size if kind.conditional else 0
    if math.prod(shape) + sum(kind.list_heads(latents)) + u_size > LARGE:
        weights, *_ = count_numbers(network, shape, latents, kind, u_size)
        memory.check_fits("latents" if latents > math.prod(shape) else "shape", 4 * weights, "the model",
                          "ask for fewer latents, for smaller examples or for another network")
    for option, weights in kind.count_further_weights(latents, own).items():
        memory.check_fits(option, 4 * weights, "the model", "ask for less")
    pair = networks.build(network, shape, latents, kind.list_heads(latents), u_of_encoder, seed, dtype)
    further = kind.make_arguments(Setting(latents, u_size, examples, seed, own))
    weight = {} if kind.default_beta is None else {"beta": kind.default_beta if beta is None else beta}
    given = (*pair, distributions.Likelihood(likelihood, likelihood_variance))
    _check_takes(kind, given, {**weight, **further})
    make: Any = kind        # each kind has further arguments of its own
    model = make(*given, **weight, **further)
    _check_attributes(model)
    model.note_origin(network=network)
    return model


def count_numbers(network: str, shape: Sequence[int], latents: int, kind: type[Autoencoder], u_size: int
                  ) -> tuple[int, int, int]:
    """Count a model's numbers without allocating any.

    Returns the numbers of its networks' weights, of all layers' outputs for an example, and of the largest output.
    The arguments are those of `build`, and `kind` is the class of the model.
    """
    def count() -> tuple[int, int, int]:
        with keras.StatelessScope(initialize_variables=False):      # shapes alone: no variable gets a value
            pair = networks.build(network, shape, latents, kind.list_heads(latents), u_size if kind.conditional else 0)
        outputs = [math.prod(tensor.shape[1:]) for each in pair for layer in each.layers
                   for tensor in keras.tree.flatten(layer.output)]
        return (sum(math.prod(variable.shape) for each in pair for variable in each.variables),
                sum(outputs), max(outputs))

    # Keras' names and its list of variables without values are each thread's own.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(count).result()


def _choose_own_options(kind: type[Autoencoder], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each of a model's own options, given or by default; all that are given are checked."""
    known, checked = list_options(), {}
    for name, value in options.items():
        if name not in known:
            raise InputError(f"{name}: expected an option of a model, {', '.join(known)}; got {value!r}")
        checked[name] = known[name].check(value)
    return {option.name: checked.get(option.name, option.default) for option in kind.options}


def _check_takes(kind: type[Autoencoder], given: Sequence[Any], further: Mapping[str, Any]) -> None:
    """Raise InputError unless the __init__ of a model takes these arguments."""
    try:
        inspect.signature(kind.__init__).bind(None, *given, **further)
    except TypeError as error:
        raise InputError(f"model: expected the __init__ of {kind.__name__} to take "
                         f"{', '.join(('encoder', 'decoder', 'likelihood', *further))}; got one that does not: {error}"
                         ) from None


def _check_attributes(model: Autoencoder) -> None:
    """Raise InputError unless a model has the value of each of its options as an attribute, as replicas need."""
    for option in model.options:
        if not hasattr(model, option.name):
            raise InputError(f"model: expected {type(model).__name__} to keep the value of its option as an attribute "
                             f"of the name {option.name}; got none")
