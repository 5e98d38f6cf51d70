"""The options of an evaluation."""

import dataclasses
from collections.abc import Sequence

from vae_tf import activity, arguments, checks, metrics
from vae_tf.errors import InputError
from vae_tf.evaluation.codes import LATENTS


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of an evaluation.

    names: names of metrics.METRICS; those that lack what they need are skipped. None takes all metrics of codes,
        factors and the posterior but those that take minutes.
    examples: the largest number of examples that a metric is estimated from. Half as many again are drawn for metrics
        that learn from some and are tested on others, and for those that need a sampler.
    around: the largest number of examples around which metrics of the decoder and comparisons with theory examine a
        model.
    seed: the seed for splits, draws and noise.
    jobs: the number of processes.
    quick: take fewer resamples, and no interval for metrics that take seconds or minutes.
    latents: "all", or "active" to leave out passive ones first (activity.classify): their means are noise that
        should not reach a downstream task (bonheme 3). Active and mixed ones stay.
    factors: names of the factors that every metric is to look at, in that order; None for all.
    samples_per_value: samples of z for each value of a factor, for metrics that take them; None for 10,000 in all.
    passive_kl: nats, below which a latent is passive at an example.
    """

    names: Sequence[str] | None = None
    examples: int = 10_000
    around: int = 200
    seed: int = 0
    jobs: int = 1
    quick: bool = False
    latents: str = "all"
    factors: Sequence[str] | None = None
    samples_per_value: int | None = None
    passive_kl: float = activity.PASSIVE_KL

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", metrics.list_default_names() if self.names is None else
                           tuple(map(metrics.find_name, self.names)))
        metrics.check_names(self.names)     # type: ignore[arg-type]
        for name, low, high in (("examples", 1, checks.LARGEST_INTEGER), ("around", 1, checks.LARGEST_INTEGER),
                                ("seed", 0, arguments.LARGEST_SEED), ("jobs", 1, checks.LARGEST_INTEGER)):
            checks.check_whole(name, getattr(self, name), low, high)
        if self.samples_per_value is not None:
            checks.check_whole("samples_per_value", self.samples_per_value, 1, checks.LARGEST_INTEGER)
        if not isinstance(self.quick, bool):
            raise InputError(f"quick: expected True or False; got {checks.describe(self.quick)}")
        if self.factors is not None and not (isinstance(self.factors, list | tuple)
                                             and all(isinstance(name, str) for name in self.factors)):
            raise InputError(f"factors: expected a list of names; got {checks.describe(self.factors)}")
        checks.check_choice("latents", self.latents, LATENTS)
        checks.check_number("passive_kl", self.passive_kl, low=0)

    def list_metrics_of_codes(self) -> list[str]:
        """Return the names of the metrics that look at codes, factors and the posterior."""
        return [name for name in self.names or () if metrics.METRICS[name].group == "metrics"]

    def list_metrics_of_model(self) -> list[str]:
        """Return the names of the metrics that look at a decoder or at the whole model."""
        return [name for name in self.names or () if metrics.METRICS[name].group != "metrics"]
