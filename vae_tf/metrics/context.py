"""The Context holds everything that a metric may look at, and what is computed from it, for every kind of metric.

A metric names its needs, and gets their values as its arguments. A value that takes long to compute, such as the
Gram matrices of a decoder's Jacobian, is computed once for all metrics of a `Context`. TensorFlow is
imported only when a metric asks for a value that needs it, because scoring codes does not.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vae_tf import activity, arguments
from vae_tf.errors import InputError
from vae_tf.metrics.samplers import make_sampler


@dataclasses.dataclass
class Context:
    """Everything that is known of N examples. All fields but the codes may be absent.

    codes: the means of q(z|x), or any code, [N, d].
    factors: the factors of the examples, [N, K]; NaN for a value that is missing.
    kinds: the kinds of the factors, K names, see `vae_tf.kinds.decide`; None decides by their values.
    stddevs: standard deviations of q(z|x) [N, d], or Cholesky factors of its covariance [N, d, d].
    independent: False where stddevs [N, d] are those of a full covariance, whose latents depend on each other.
    prior_means, prior_stddevs: means and standard deviations of the iVAE's p(z|u), [N, d]; None for p(z) = N(0, I).
    decoder: the decoder, a function of z as `vae_tf.jacobians` describes it.
    x: the data as the decoder makes them, [N, ...].
    model: an `export.Exported`; dataset: a `data.Dataset` of the model's shape; indices [N] of the examples in it.
    seed: the seed for splits, draws and noise.
    samples_per_value: samples of z for each value of a factor; None leaves the number to the metric.
    score_alone: the score is wanted without its parts, as for chance levels and intervals.
    factor_names: what messages call the factors, K names; None for their numbers, from 0.

    Raises:
        InputError: NumPy takes a field with a row for each example for no array, or some of its values are masked.
    """

    codes: np.ndarray
    factors: np.ndarray | None = None
    kinds: tuple[str, ...] | None = None
    stddevs: np.ndarray | None = None
    independent: bool = True
    prior_means: np.ndarray | None = None
    prior_stddevs: np.ndarray | None = None
    decoder: Callable | None = None
    x: np.ndarray | None = None
    model: Any = None
    dataset: Any = None
    indices: np.ndarray | None = None
    seed: int = 0
    samples_per_value: int | None = None
    score_alone: bool = False
    factor_names: tuple[str, ...] | None = None
    report: Callable[[int], None] = dataclasses.field(default=lambda done: None, repr=False)
    computed: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Take what has a row for each example as an array, whichever kind of table it came in."""
        for name in PER_EXAMPLE:
            if (value := getattr(self, name)) is not None:
                setattr(self, name, arguments.to_array(name, value))

    @classmethod
    def from_model(cls, model: Any, dataset: Any, indices: np.ndarray, seed: int = 0) -> "Context":
        """Return the Context of an `export.Exported` around the posterior means of examples of a `data.Dataset`."""
        x, u = dataset.images_at(indices), model.u_at(dataset, indices)
        posterior = model.encode(x, u=u)
        return cls(posterior["mean"], stddevs=posterior.get("stddev", posterior.get("scale_tril")),
                   prior_means=posterior.get("prior_mean"), prior_stddevs=posterior.get("prior_stddev"),
                   decoder=model.decoder, x=x / np.float32(255) if dataset.is_image else x,
                   model=model, dataset=dataset, indices=np.asarray(indices), seed=seed)

    def take(self, rows: np.ndarray, factors: list[int] | None = None) -> "Context":
        """Return the Context of some examples alone, by index, and of some factors; None for all."""
        taken = {name: array[rows] for name in PER_EXAMPLE if (array := getattr(self, name)) is not None}
        if factors is not None:
            taken["factors"] = taken["factors"][:, factors]
            for name in ("kinds", "factor_names"):
                of = getattr(self, name)
                taken[name] = None if of is None else tuple(of[k] for k in factors)
        return dataclasses.replace(self, **taken, computed={})

    def explain_lack(self, names: Iterable[str]) -> str | None:
        """Return why one of these needs cannot be met, or None. The first reason counts, in the order of NEEDS."""
        wanted = {part for name in names for part in (*NEEDS[name].after, name)}
        reasons = (NEEDS[name].lacking(self) for name in NEEDS if name in wanted)
        return next((reason for reason in reasons if reason), None)

    def value(self, name: str) -> Any:
        """Return the value of a need, computed when it is first asked for.

        Raises:
            InputError: it cannot be computed.
        """
        if name not in self.computed:
            try:
                self.computed[name] = NEEDS[name].value(self)
            except InputError as error:
                self.computed[name] = error
                self.report(0)
        value = self.computed[name]
        if isinstance(value, InputError):
            raise InputError(str(value))
        return value

    def options(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the known values of the OPTIONS with these names, as keyword arguments."""
        return {name: value for name in OPTIONS if name in names and (value := getattr(self, name)) is not None}


# Fields of a Context that have a row for each example.
PER_EXAMPLE = ("codes", "factors", "stddevs", "prior_means", "prior_stddevs", "x", "indices")

# Keyword arguments of a metric's function that are filled in where its signature has them.
OPTIONS = ("kinds", "prior_means", "prior_stddevs", "samples_per_value", "score_alone", "seed")


class Need(NamedTuple):
    """A value that a metric looks at.

    group: the flag of evaluate.py whose metrics need it.
    what: the value in words, with its shape.
    value: the function that computes the value.
    lacking: the function that says why the value cannot be computed, or returns None.
    after: other needs that have to be met first.
    is_long: whether the value is computed example by example, which takes long enough to show progress.
    """

    group: str
    what: str
    value: Callable[[Context], Any]
    lacking: Callable[[Context], str | None] = lambda context: None
    after: tuple[str, ...] = ()
    is_long: bool = False


# Below, `Any` is a Context that meets all needs listed in `after`, so that no attribute used is None.


def _compute_marginal_stddevs(context: Any) -> np.ndarray:
    stddevs = np.asarray(context.stddevs)
    return np.linalg.norm(stddevs, axis=-1) if stddevs.ndim == 3 else stddevs


def _take_full_covariance(context: Any) -> str | None:
    independent = context.independent and np.ndim(context.stddevs) != 3
    return None if independent else "q(z|x) has a full covariance"


def _make_sampler(context: Any) -> Any:
    return make_sampler(context.codes, context.factors, kinds=context.kinds)


def _compute_gram(context: Any) -> np.ndarray:
    from vae_tf.metrics import derivatives

    traced = None if context.model is None else context.model.jacobian_function
    return derivatives.compute_grams(context.decoder, context.codes, lambda done, _: context.report(done), traced)


def _find_narrow(context: Any) -> np.ndarray:
    return activity.is_narrow(context.stddevs, 1.0 if context.prior_stddevs is None else context.prior_stddevs)


def _fit_local_decoders(context: Any) -> Any:
    from vae_tf.metrics import local_decoder

    return local_decoder.fit_local_decoders(context.decoder, context.codes, context.stddevs, seed=context.seed,
                                            progress=lambda done, _: context.report(done))


def _expand(context: Any) -> Any:
    from vae_tf.metrics import expansion

    return expansion.expand(context, lambda done, _: context.report(done))


def _find_missing(attribute: str, why: str) -> Callable[[Context], str | None]:
    return lambda context: why if getattr(context, attribute) is None else None


# The order of this list is the order in which missing needs are reported.
NEEDS: dict[str, Need] = {
    "codes": Need("metrics", "codes [N, d]", lambda context: context.codes),
    "factors": Need("metrics", "factors [N, K]", lambda context: context.factors,
                    _find_missing("factors", "there are no factors")),
    "sampler": Need("metrics", "a `Sampler`, which holds one factor fixed", _make_sampler, after=("factors",)),
    "stddevs": Need("metrics", "standard deviations of q(z|x) [N, d]", _compute_marginal_stddevs,
                    _find_missing("stddevs", "there is no posterior, only codes")),
    "independent_stddevs": Need("metrics", "standard deviations of a diagonal q(z|x) [N, d]", _compute_marginal_stddevs,
                                _take_full_covariance, after=("stddevs",)),
    "decoder": Need("geometry", "the decoder", lambda context: context.decoder,
                    _find_missing("decoder", "there is no decoder, only codes")),
    "gram": Need("geometry", "J^T J [N, d, d] of the decoder's Jacobian J", _compute_gram, after=("decoder",),
                 is_long=True),
    "widths": Need("geometry", "standard deviations [N, d] or Cholesky factors [N, d, d] of q(z|x)",
                   lambda context: context.stddevs, _find_missing("stddevs", "an autoencoder's posterior has no width"),
                   after=("decoder",)),
    "narrow": Need("geometry", "which latents `activity.is_narrow` calls active [d]", _find_narrow, after=("widths",)),
    "x": Need("geometry", "the data x", lambda context: context.x, _find_missing("x", "needs the data x")),
    "local_decoders": Need("geometry", "`LocalDecoders`, fitted around each mean", _fit_local_decoders,
                           after=("decoder", "widths"), is_long=True),
    "expansion": Need("theory", "an `Expansion` of log p(x|z) at the posterior means", _expand,
                      _find_missing("model", "there is no model, only codes"), is_long=True),
    "hessian": Need("theory", "Hessian of log p(x|z) by z [N, d, d]",
                    lambda context: context.value("expansion").hessian, after=("expansion",)),
    "context": Need("theory", "the model, its data and the examples", lambda context: context, after=("expansion",)),
}
