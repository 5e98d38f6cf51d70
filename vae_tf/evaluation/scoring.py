"""Compute every metric with its chance level and interval, for Codes (in parallel) and for exported models."""

import contextlib
import dataclasses
import hashlib
import math
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf import arguments, checks, export, metrics, verdicts
from vae_tf import kinds as factor_kinds
from vae_tf.data import Dataset
from vae_tf.data.spreading import draw_to_score
from vae_tf.errors import InputError
from vae_tf.evaluation.codes import Codes, check_codes, check_factors, select_factors
from vae_tf.evaluation.computing import Progress, compute
from vae_tf.evaluation.encoding import encode
from vae_tf.evaluation.intervals import Draw, estimate_interval
from vae_tf.evaluation.kept import AROUND, BOUNDED, Kept, Outcome, make_key
from vae_tf.evaluation.options import Options
from vae_tf.evaluation.regime import find_not_passive, judge, measure_regime
from vae_tf.evaluation.sizes import check_memory


class Evaluation(NamedTuple):
    """The scores of the codes and factors of some examples.

    results: {name: Result}, the ELBO's terms first.
    chance_level: the scores of shuffled codes, by name.
    interval: (low, high) by name.
    measured: how the scores of codes were computed, by name: examples, resamples, seed and seconds. The terms of the
        ELBO have examples and seed alone; metrics of the decoder and comparisons with theory have no entry.
    skipped: why a metric was left out, by name.
    polarised: the results of metrics.polarised_regime; absent: why some of them are missing; posterior: their Codes.
    latents: the indices of the latents that the other metrics looked at.
    verdict: how many latents carry information; None if the posterior is not finite.
    factors: the names of the factors that the codes were scored against; None if there are none.
    gram: J^T J [M, d, d] of the decoder's Jacobian J around the first M examples; None if no metric needed it.
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
    gram: np.ndarray | None = None

    def explain_no_meaning(self, name: str) -> str | None:
        """Return why a score means nothing for this model, or None."""
        return verdicts.explain_no_meaning(self.verdict, name)


@arguments.check_arguments
def evaluate(model: Any, dataset: Dataset, names: Sequence[str] | None = None, *, progress: Progress | None = None,
             keep: pathlib.Path | None = None, look: Callable[[Codes], None] | None = None,
             meanwhile: Callable[[Evaluation], None] | None = None, **options: Any) -> Evaluation:
    """Score an export.Exported on a data.Dataset.

    Args:
        model: the exported model.
        dataset: the data whose examples are drawn, without replacement.
        names: names of metrics.METRICS, see `Options`.
        progress: called with (done, total) as pieces of work are done.
        keep: a file that keeps what was computed, so that the same call goes on where an earlier one stopped; `forget`
            deletes it.
        look: called with the Codes of the first examples, 500 at most, as soon as these are encoded.
        meanwhile: called with the Evaluation that does not have the scores of codes yet, while worker processes
            compute them, or before, if `jobs` is 1.
        options: further fields of `Options`.

    Raises:
        InputError: unknown metric or factor, or data of another shape than the model's.
    """
    asked = Options(names, **options)
    if not hasattr(model, "card"):
        raise InputError(f"model: expected an export.Exported; got {checks.describe(model)}")
    check_dataset(model, dataset)
    check_factors(asked.factors, dataset.factor_names)
    if asked.list_metrics_of_model():
        check_memory(dataset, model.card.get("latents", 0), asked.around)
    wanted = count_examples(asked.list_metrics_of_codes(), asked.examples)
    indices = draw_to_score(len(dataset), wanted, asked.seed)
    codes, terms = encode(model, dataset, indices, asked.seed,
                          lambda first: look(select_factors(first, asked.factors)) if look else None)
    bound = metrics.elbo_terms(terms)
    measured = {name: {"examples": len(indices), "seed": asked.seed} for name in bound}
    history = {name: metrics.Result(**of) for name, of in model.card.get("history", {}).items()}

    def examine(begun: Evaluation, kept: Kept) -> Evaluation:
        begun = begun._replace(indices=indices, results=bound, measured=measured,
                               polarised={**history, **begun.polarised})
        names = asked.list_metrics_of_model()
        begun = _measure_around(begun, model, dataset, names, asked.around, asked.seed, progress, kept)
        if meanwhile is not None:
            meanwhile(begun)
        return begun

    asked_of_codes = dataclasses.replace(asked, names=asked.list_metrics_of_codes())
    scored = _score(_prepare(codes), asked_of_codes, progress, keep, examine)
    return scored._replace(results={**bound, **scored.results}, measured={**measured, **scored.measured})


def measure_around(evaluation: Evaluation, model: Any, dataset: Any, names: Sequence[str], *, examples: int = 200,
                   seed: int = 0, progress: Progress | None = None, keep: pathlib.Path | None = None) -> Evaluation:
    """Add metrics of the decoder, and comparisons of the model with theory, around the first examples.

    Args:
        evaluation: an Evaluation of the same model and dataset.
        names: names of metrics.METRICS.
        examples: largest number of examples.
        seed: seed of the posterior noise.
        progress: called with (done, total) now and then.
        keep: a file that keeps what was computed, see `evaluate`.

    Raises:
        InputError: unknown metric.
    """
    checks.check_whole("examples", examples, 1)
    with contextlib.closing(Kept(keep, "")) as kept:
        return _measure_around(evaluation, model, dataset, names, examples, seed, progress, kept)


def _measure_around(evaluation: Evaluation, model: Any, dataset: Any, names: Sequence[str], examples: int, seed: int,
                    progress: Progress | None, kept: Kept) -> Evaluation:
    if not names:
        return evaluation
    context = metrics.Context.from_model(model, dataset, evaluation.indices[:examples], seed)
    if kept.path:
        kept = kept.share(make_key(_identify(model), dataset.fingerprint, model.card, context.x, context.codes, seed))
    found = {name: outcome.result for name in names if (outcome := kept.find(name, AROUND))
             if isinstance(outcome.result, metrics.Result)}
    results, skipped = metrics.measure(
        [name for name in names if name not in found], context, progress,
        finished=lambda name, result: kept.add(name, AROUND, Outcome(result, [], 0.0, len(context.codes))))
    results = {name: {**found, **results}[name] for name in names if name not in skipped}
    gram = context.computed.get("gram")
    return evaluation._replace(results={**evaluation.results, **results}, skipped={**evaluation.skipped, **skipped},
                               gram=gram if isinstance(gram, np.ndarray) else evaluation.gram)


def _identify(model: Any) -> list[str]:
    """Return a checksum of every file that determines what a SavedModel computes."""
    return [hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (model.path / "saved_model.pb", *sorted((model.path / "variables").glob("*")))]


def count_examples(names: Sequence[str], examples: int) -> int:
    """Count the examples that the metrics need: half as many again if one is tested on what it did not see."""
    more = any(metrics.METRICS[name].takes_all_rows for name in names)
    return math.ceil(1.5 * examples) if more else examples


@arguments.check_arguments
def score(codes: Codes, names: Sequence[str] | None = None, *, progress: Progress | None = None,
          keep: pathlib.Path | None = None, **options: Any) -> Evaluation:
    """Score Codes: every metric with its chance level and interval, in parallel.

    Where there are more rows than `examples`, rows are drawn at random, as `Options` says.

    Args:
        codes: Codes, in any order.
        names: names of metrics.METRICS, see `Options`.
        progress: called with (done, total) as pieces of work are done.
        keep: a file that keeps what was computed, so that the same call goes on where an earlier one stopped; `forget`
            deletes it.
        options: further fields of `Options`.

    Raises:
        InputError: unknown metric or factor, or no active latents to be found.
    """
    asked = Options(names, **options)
    codes = _prepare(codes)
    rows = np.arange(len(codes.mean))
    if len(rows) > asked.examples:
        rows = np.random.default_rng(asked.seed).permutation(rows)[:count_examples(asked.names or (), asked.examples)]
        codes = codes.take_rows(rows)
    return _score(codes, asked, progress, keep)._replace(indices=rows)


def _prepare(codes: Codes) -> Codes:
    """Return Codes of arrays that were checked, and whose factors have kinds."""
    codes = codes.as_arrays()
    check_codes(codes)
    if codes.factors is None:
        return codes
    # The kinds are decided for all rows, because a part of the rows might look like another kind.
    with factor_kinds.name_factors(codes.name_factors()):
        return codes._replace(kinds=factor_kinds.decide(codes.factors, codes.kinds))


def _score(codes: Codes, asked: Options, progress: Progress | None, keep: pathlib.Path | None,
           add: Callable[[Evaluation, Kept], Evaluation] = lambda begun, kept: begun) -> Evaluation:
    """Score Codes that are prepared, whose rows are in random order and as many as the metrics need.

    While worker processes compute the scores, this process measures the regime, and `add` adds to the Evaluation.
    """
    codes = select_factors(codes, asked.factors)
    mean, posterior, latents = codes.mean, codes.take_rows(slice(asked.examples)), np.arange(codes.mean.shape[1])
    if asked.latents == "active":
        latents = find_not_passive(posterior, asked.passive_kl)
        codes = codes.take_latents(latents)
    lacking = {name: metrics.METRICS[name].explain_lack(codes.make_context()) for name in asked.names or ()}
    skipped = {name: why for name, why in lacking.items() if why}
    begun = Evaluation(mean, np.arange(len(mean)), {}, {}, {}, {}, skipped, {}, {}, posterior, latents,
                       judge(posterior), codes.name_factors())
    added: list[Evaluation] = []

    def go_on() -> None:
        polarised, absent = measure_regime(posterior, asked.passive_kl, asked.seed)
        added.append(add(begun._replace(polarised=polarised, absent=absent), kept))

    key = make_key(*codes, asked.examples, asked.seed, asked.samples_per_value) if keep else ""
    with contextlib.closing(Kept(keep, key)) as kept:
        outcomes = compute([name for name in lacking if name not in skipped], codes, asked, kept, progress,
                           go_on)
    for name, draws in outcomes.items():
        _add(begun, name, draws, asked.seed)
    _warn({name: draws["score"].warned for name, draws in outcomes.items() if name in begun.results})
    more, = added
    return more._replace(results={**begun.results, **more.results}, measured={**begun.measured, **more.measured},
                         skipped={**begun.skipped, **more.skipped})


def _warn(warned: dict[str, list[str]]) -> None:
    """Warn of what metrics warned of, {name: messages}; where several leave out the same, one message names them."""
    left_out: dict[str, list[str]] = {}
    for name, messages in warned.items():
        for message in messages:
            _, is_of_that_kind, what = message.partition(f"{name} leaves out ")
            if is_of_that_kind:
                left_out.setdefault(what, []).append(name)
            else:
                warnings.warn(message, stacklevel=3)
    for what, names in left_out.items():
        warnings.warn(f"{names[0]} leaves out {what}" if len(names) == 1 else
                      f"{len(names)} metrics leave out {what} ({', '.join(names)})", stacklevel=3)


def _add(evaluation: Evaluation, name: str, outcomes: dict[Draw, Outcome], seed: int) -> None:
    """Put a metric's score, its chance level and its interval into an Evaluation, or why it has none."""
    result, _, seconds, rows = outcomes["score"]
    if isinstance(result, InputError):      # for example, factors that do not vary; the other metrics are still scored
        evaluation.skipped[name] = str(result)
        return
    drawn = {draw: outcome.result for draw, outcome in outcomes.items() if isinstance(outcome.result, metrics.Result)}
    chance, interval = _summarise({draw: each.score for draw, each in drawn.items()})
    if chance is not None:
        evaluation.chance_level[name] = chance
    if interval is not None:
        evaluation.interval[name] = interval
    elif why := next((str(each.result) for draw, each in outcomes.items()
                      if isinstance(draw, int) and isinstance(each.result, InputError)), None):
        warnings.warn(f"{name} has no interval, because halves of the rows have no score: {why}", stacklevel=3)
    if _has_bounded(result):
        bounded = _summarise({draw: float(each.parts[BOUNDED]) for draw, each in drawn.items() if _has_bounded(each)})
        more = {f"{BOUNDED}_{of}": np.array(found)
                for of, found in zip(("chance_level", "interval"), bounded, strict=True) if found is not None}
        result = dataclasses.replace(result, parts={**result.parts, **more})
    evaluation.results[name] = result
    evaluation.measured[name] = {"examples": rows, "resamples": sum(isinstance(draw, int) for draw in drawn),
                                 "seed": seed, "seconds": round(seconds, 3)}


def _has_bounded(result: metrics.Result) -> bool:
    """Return whether a part of the score is a number within 0 and 1."""
    part = np.asarray(result.parts.get(BOUNDED, ()))
    return part.ndim == 0 and part.dtype.kind in "biuf"


def _summarise(found: dict[Draw, float]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the chance level and the interval of a score by draw; None for one that was not drawn."""
    halves = [found[draw] for draw in sorted(draw for draw in found if isinstance(draw, int))]
    finite = len(halves) > 1 and np.isfinite([found["score"], *halves]).all()
    return found.get("shuffled"), estimate_interval(found["score"], halves) if finite else None


def check_dataset(model: Any, dataset: Any) -> None:
    """Raise InputError for data that a model cannot take, or a prior without scores; warn of u unlike training's."""
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
