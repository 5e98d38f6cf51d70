"""Compute every metric with its chance level and interval, for Codes (in parallel) and for exported models."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from vae_tf import activity, checks, metrics, verdicts, workers
from vae_tf import kinds as factor_kinds
from vae_tf.errors import InputError
from vae_tf.evaluation.codes import LATENTS, Codes, check_codes, check_factors, select_factors
from vae_tf.evaluation.intervals import Draw, estimate_interval, list_draws
from vae_tf.evaluation.regime import find_not_passive, judge, measure_regime
from vae_tf.evaluation.sizes import check_memory

BATCH = 500

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of an evaluation.

    names: names of metrics.METRICS; those that lack what they need are skipped. None takes all metrics of codes,
        factors and the posterior but those that take minutes.
    examples: the largest number of examples that a metric is estimated from. Half as many again are drawn for metrics
        that learn from some and are tested on others, and for those that intervene.
    around: the largest number of examples around which metrics of the decoder and comparisons with theory examine a
        model.
    seed: the seed for splits, draws and noise.
    jobs: the number of processes.
    quick: take fewer resamples, and no interval for metrics that take seconds.
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
        object.__setattr__(self, "names", metrics.list_default_names() if self.names is None else tuple(self.names))
        metrics.check_names(self.names)     # type: ignore[arg-type]
        checks.check_whole("examples", self.examples, 1)
        checks.check_whole("around", self.around, 1)
        checks.check_whole("seed", self.seed, 0)
        checks.check_whole("jobs", self.jobs, 1)
        checks.check_choice("latents", self.latents, LATENTS)
        checks.check_number("passive_kl", self.passive_kl, low=0)

    def list_metrics_of_codes(self) -> list[str]:
        """Return the names of the metrics that look at codes, factors and the posterior."""
        return [name for name in self.names or () if metrics.METRICS[name].group == "metrics"]

    def list_metrics_of_model(self) -> list[str]:
        """Return the names of the metrics that look at a decoder or at the whole model."""
        return [name for name in self.names or () if metrics.METRICS[name].group != "metrics"]


class Evaluation(NamedTuple):
    """The scores of the codes and factors of some examples.

    results: {name: Result}, the ELBO's terms first.
    chance_level: the scores of shuffled codes, by name.
    interval: (low, high) by name.
    measured: how each score was computed: examples, resamples, seconds, seed.
    skipped: why a metric was left out, by name.
    polarised: the results of metrics.polarised_regime; absent: why some of them are missing; posterior: their Codes.
    latents: the indices of the latents that the other metrics looked at.
    verdict: how many latents carry information; None if the posterior is not finite.
    factors: the names of the factors that the codes were scored against; None if there are none.
    """

    codes: np.ndarray
    indices: np.ndarray
    results: dict[str, metrics.Result]
    chance_level: dict[str, float]
    interval: dict[str, tuple[float, float]]
    measured: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    polarised: dict[str, metrics.Result]
    absent: dict[str, str]
    posterior: Codes
    latents: np.ndarray
    verdict: verdicts.Verdict | None
    factors: tuple[str, ...] | None

    def explain_no_meaning(self, name: str) -> str | None:
        """Return why a score means nothing for this model, or None."""
        return verdicts.explain_no_meaning(self.verdict, name)


def evaluate(model: Any, dataset: Any, names: Sequence[str] | None = None, *, progress: Progress | None = None,
             **options: Any) -> Evaluation:
    """Score an export.Exported on a data.Dataset.

    Args:
        model: the exported model.
        dataset: the data whose examples are drawn, without replacement.
        names: names of metrics.METRICS, see `Options`.
        progress: called with (done, total) after each piece of work.
        options: further fields of `Options`.

    Raises:
        InputError: unknown metric or factor, or data of another shape than the model's.
    """
    asked = Options(names, **options)
    check_dataset(model, dataset)
    check_factors(asked.factors, dataset.factor_names)
    if asked.list_metrics_of_model():
        check_memory(dataset, model.card.get("latents", 0), asked.around)
    wanted = count_examples(asked.list_metrics_of_codes(), asked.examples)
    indices = np.random.default_rng(asked.seed).permutation(len(dataset))[:wanted]
    codes, terms = _encode(model, dataset, indices, asked.seed)
    scored = score(codes, asked.list_metrics_of_codes(), progress=progress,
                   **{name: getattr(asked, name) for name in options if name != "around"})
    bound = metrics.elbo_terms(terms)
    measured = {name: {"examples": len(indices), "seed": asked.seed} for name in bound}
    history = {name: metrics.Result(**of) for name, of in model.card.get("history", {}).items()}
    scored = scored._replace(indices=indices, results={**bound, **scored.results},
                             measured={**measured, **scored.measured}, polarised={**history, **scored.polarised})
    return measure_around(scored, model, dataset, asked.list_metrics_of_model(), examples=asked.around, seed=asked.seed,
                          progress=progress)


def measure_around(evaluation: Evaluation, model: Any, dataset: Any, names: Sequence[str], *, examples: int = 200,
                   seed: int = 0, progress: Progress | None = None) -> Evaluation:
    """Add metrics of the decoder, and comparisons of the model with theory, around the first examples.

    Args:
        evaluation: an Evaluation of the same model and dataset.
        names: names of metrics.METRICS.
        examples: largest number of examples.
        seed: seed of the posterior noise.
        progress: called with (done, total) now and then.

    Raises:
        InputError: unknown metric.
    """
    checks.check_whole("examples", examples, 1)
    if not names:
        return evaluation
    context = metrics.Context.from_model(model, dataset, evaluation.indices[:examples], seed)
    results, skipped = metrics.measure(names, context, progress)
    return evaluation._replace(results={**evaluation.results, **results}, skipped={**evaluation.skipped, **skipped})


def count_examples(names: Sequence[str], examples: int) -> int:
    """Count the examples that the metrics need: half as many again if one is tested on what it did not see."""
    more = any(metrics.METRICS[name].takes_all_rows for name in names)
    return math.ceil(1.5 * examples) if more else examples


def _encode(model: Any, dataset: Any, indices: np.ndarray, seed: int) -> tuple[Codes, dict[str, np.ndarray]]:
    """Return the Codes of some examples, and the terms of their objective [N] by name."""
    encoded, terms = [], []
    for batch, i in enumerate(np.array_split(indices, math.ceil(len(indices) / BATCH))):
        x, u = dataset.images_at(i), model.u_at(dataset, i)
        encoded.append(model.encode(x, u=u))
        terms.append(model.objective(x, seed=seed * 1_000 + batch, u=u))
    posterior = {key: np.concatenate([part[key] for part in encoded]) for key in encoded[0]}
    full = posterior.pop("scale_tril", None)
    if full is not None:
        posterior["stddev"] = np.linalg.norm(full, axis=-1)        # marginal standard deviations of the latents
    codes = Codes(**posterior, factors=dataset.factors_at(indices) if dataset.factors else None,
                  kinds=tuple(factor.kind for factor in dataset.factors) or None,
                  independent=full is None, factor_names=dataset.factor_names)
    return codes, {name: np.concatenate([t[name] for t in terms]) for name in terms[0]}


def score(codes: Codes, names: Sequence[str] | None = None, *, progress: Progress | None = None,
          **options: Any) -> Evaluation:
    """Score Codes: every metric with its chance level and interval, in parallel.

    Args:
        codes: Codes.
        names: names of metrics.METRICS, see `Options`.
        progress: called with (done, total) after each piece of work.
        options: further fields of `Options`.

    Raises:
        InputError: unknown metric or factor, or no active latents to be found.
    """
    asked = Options(names, **options)
    check_codes(codes)
    if codes.factors is not None:       # decided for all rows, because a part of the rows might look like another kind
        codes = codes._replace(kinds=factor_kinds.decide(np.asarray(codes.factors), codes.kinds))
    codes = select_factors(codes, asked.factors)
    mean, posterior, kept = codes.mean, codes.take_rows(slice(asked.examples)), np.arange(codes.mean.shape[1])
    polarised, absent = measure_regime(posterior, asked.passive_kl, asked.seed)
    if asked.latents == "active":
        kept = find_not_passive(posterior, asked.passive_kl)
        codes = codes.take_latents(kept)
    lacking = {name: metrics.METRICS[name].explain_lack(codes.make_context()) for name in asked.names or ()}
    skipped = {name: why for name, why in lacking.items() if why}
    outcomes = _compute([name for name in lacking if name not in skipped], codes, asked, progress)
    evaluation = Evaluation(mean, np.arange(len(mean)), {}, {}, {}, {}, skipped, polarised, absent, posterior, kept,
                            judge(posterior), codes.name_factors())
    for name, draws in outcomes.items():
        _add(evaluation, name, draws, asked.seed)
    return evaluation


class _Outcome(NamedTuple):
    """A metric on one draw of the codes: its Result or why there is none, warnings, seconds and number of rows."""

    result: metrics.Result | InputError
    warned: list[str]
    seconds: float
    rows: int


def _compute(names: Sequence[str], codes: Codes, asked: Options, progress: Progress | None,
             ) -> dict[str, dict[Draw, _Outcome]]:
    """Compute each metric on each of its draws, in parallel, the slow ones first."""
    declared = [metrics.METRICS[name] for name in names]
    work = [(metric, draw) for metric in declared for draw in list_draws(metric, len(codes.mean), asked.quick)]
    work.sort(key=lambda task: -metrics.COSTS.index(task[0].cost))
    parallel = joblib.Parallel(n_jobs=asked.jobs, return_as="generator_unordered", initializer=workers.prepare)
    outcomes: dict[str, dict[Draw, _Outcome]] = {name: {} for name in names}
    computed = parallel(joblib.delayed(_measure)(metric, draw, codes, asked) for metric, draw in work)
    for done, (name, draw, outcome) in enumerate(computed, 1):
        outcomes[name][draw] = outcome
        if progress:
            progress(done, len(work))
    return outcomes


def _measure(metric: metrics.Metric, draw: Draw, codes: Codes, asked: Options) -> tuple[str, Draw, _Outcome]:
    """Compute one metric on one draw; return its name and the draw, too, because results come in any order."""
    started = time.perf_counter()
    if not metric.takes_all_rows:
        codes = codes.take_rows(slice(asked.examples))
    n = len(codes.mean)
    rng = np.random.default_rng([asked.seed, 0 if isinstance(draw, str) else 1 + draw])
    if draw == "shuffled":
        codes = codes.take_rows(rng.permutation(n))._replace(factors=codes.factors)
    elif draw != "score":
        codes = codes.take_rows(np.sort(rng.permutation(n)[:n // 2]))
    result: metrics.Result | InputError
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with threadpool_limits(1):      # the worker processes use all processors; more threads would only wait
                result = metric.measure(codes.make_context(asked.seed, asked.samples_per_value))
        except InputError as error:
            result = error
    return metric.name, draw, _Outcome(result, [str(w.message) for w in caught], time.perf_counter() - started, n)


def _add(evaluation: Evaluation, name: str, outcomes: dict[Draw, _Outcome], seed: int) -> None:
    """Put a metric's score, its chance level and its interval into an Evaluation, or why it has none."""
    result, warned, seconds, rows = outcomes["score"]
    if isinstance(result, InputError):      # for example, factors that do not vary; the other metrics are still scored
        evaluation.skipped[name] = str(result)
        return
    for message in warned:
        warnings.warn(message, stacklevel=3)
    evaluation.results[name] = result
    found = {draw: outcome.result.score for draw, outcome in outcomes.items()
             if isinstance(outcome.result, metrics.Result)}
    halves = [found[draw] for draw in sorted(draw for draw in found if isinstance(draw, int))]
    if "shuffled" in found:
        evaluation.chance_level[name] = found["shuffled"]
    if len(halves) > 1 and np.isfinite([result.score, *halves]).all():
        evaluation.interval[name] = estimate_interval(result.score, halves)
    evaluation.measured[name] = {"examples": rows, "resamples": len(halves), "seed": seed,
                                 "seconds": round(seconds, 3)}


def check_dataset(model: Any, dataset: Any) -> None:
    """Raise InputError for data that a model cannot take, or a prior without scores; warn of u unlike training's."""
    from vae_tf import export  # imports TensorFlow, which scoring codes does not need

    card = export.read_card(model.path, ("data.shape",))
    export.check_prior(card)
    shape, u_size = tuple(card["data"]["shape"]), card["u_size"]
    if dataset.shape != shape or u_size not in (0, dataset.u_size):
        raise InputError(f"dataset: the model takes examples of shape {shape}"
                         + (f" and u of size {u_size}" if u_size else "")
                         + f"; got {dataset.name} with shape {dataset.shape} and u of size {dataset.u_size}")
    export.scale_as_trained(dataset, card)
    if outside := export.describe_outside(dataset, card):
        warnings.warn(outside, stacklevel=3)
