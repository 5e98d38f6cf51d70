"""Compare trained models: recipes are groups, seeds are repetitions, and dead models are left out.

"Does A have more orthogonal decoder columns than B?" is a question about recipes, so its answer needs several seeds of
each: the spread over x within one model says nothing about the next seed.
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from vae_tf import activity, checks, evaluation, metrics, verdicts
from vae_tf.data.spreading import draw_to_score
from vae_tf.errors import InputError, make_printable
from vae_tf.metrics import orthogonality

VERDICT_EXAMPLES = 1_000        # least number of examples that tells which latents carry information
LEVEL = 0.05                    # a p-value below this is an answer
RESAMPLES = 9_999               # number of permutations that a test draws if there are too many to try all

# The entries that recipes of earlier versions lack, so that nobody can tell whether such a model differs there.
LATER = ("parameters", "init_from_weights")

FINGERPRINT = "data_fingerprint"        # the entry of recipes that tells data of one name apart

# Distances from orthogonality, 0 if the columns are orthogonal; the last is relative to the other models.
MEASURES = (*orthogonality.DISTANCES, metrics.od_score.__name__)


class Measured(NamedTuple):
    """A model's distances from orthogonality by name, of MEASURES; empty if left_out says why they mean nothing."""

    verdict: verdicts.Verdict
    active: int
    scores: dict
    left_out: str | None = None


def leave_out_unsaid(recipes: Mapping[str, dict]) -> dict[str, dict]:
    """Return recipes without the entries of LATER that would tell old cards from new ones alone.

    Recipes are compared that are equal apart from LATER and the seed. An entry is left out of all of them if some lack
    it and the others agree on its value. If the others do not agree, nobody knows of which the old ones are, and the
    entry stays.
    """
    common = {name: json.dumps({key: value for key, value in recipe.items() if key not in (*LATER, "seed")},
                               sort_keys=True) for name, recipe in recipes.items()}
    found: dict[tuple[str, str], set[Any]] = {}
    for name, recipe in recipes.items():
        for key in LATER:
            found.setdefault((common[name], key), set()).add(recipe.get(key))
    lacking = {place for place, values in found.items() if None in values and len(values) == 2}
    return {name: {key: value for key, value in recipe.items() if (common[name], key) not in lacking}
            for name, recipe in recipes.items()}


def group_by_recipe(recipes: Mapping[str, dict]) -> dict[str, dict[str, Any]]:
    """Group models by recipe: {label: {model's name: seed}}, where recipes is {name: recipe of its card}.

    A label is the kind of model and whatever else differs between the groups.
    """
    keys = {name: json.dumps({key: value for key, value in recipe.items() if key != "seed"}, sort_keys=True)
            for name, recipe in recipes.items()}
    distinct = [json.loads(key) for key in dict.fromkeys(keys.values())]
    names = list(dict.fromkeys(name for recipe in distinct for name in recipe))
    differ = [name for name in names if name != "model" and len({json.dumps(r.get(name)) for r in distinct}) > 1]
    if len({(r.get("dataset"), r.get(FINGERPRINT)) for r in distinct}) == len({r.get("dataset") for r in distinct}):
        differ = [name for name in differ if name != FINGERPRINT]      # the name of the data says as much
    labels = {json.dumps(recipe, sort_keys=True): " ".join(
        [recipe["model"], *(f"{name}={str(recipe[name])[:8] if name == FINGERPRINT else recipe[name]}"
                            for name in differ if recipe.get(name) is not None)])
        for recipe in distinct}
    groups: dict[str, dict] = {}
    for name, key in keys.items():
        groups.setdefault(labels[key], {})[name] = recipes[name].get("seed")
    return groups


def is_whole(recipe: Mapping[str, Any]) -> bool:
    """Return whether a recipe says all of how its model was trained; that of `model.export` lacks the optimizer."""
    return {"optimizer", "seed"} <= recipe.keys()


def find_copies(recipes: Mapping[str, dict], weights: Mapping[str, str]) -> dict[str, str]:
    """Return {model's name: the name of the first model that it is a copy of, its own if it is none}.

    A copy has the weights of another model, or its recipe and seed where the recipe is whole.

    Args:
        recipes: {name: recipe of the model's card}.
        weights: {name: checksum of the model's weights}, where it is known.
    """
    first: dict[str, str] = {}
    found = {}
    for name, recipe in recipes.items():
        keys = ([weights[name]] if name in weights else []) + [json.dumps(recipe, sort_keys=True)] * is_whole(recipe)
        found[name] = next((first[key] for key in keys if key in first), name)
        first = {**dict.fromkeys(keys, found[name]), **first}
    return found


def measure(models: Mapping[str, Any], dataset: Any, *, examples: int = 200, seed: int = 0, fitted: bool = False,
            progress: Callable[[int, int], None] | None = None) -> dict[str, Measured]:
    """Measure how far the decoder columns of several export.Exported are from orthogonal, around the same examples.

    Args:
        models: {name: model}, all of data like the dataset's.
        dataset: the data whose examples are drawn, without replacement.
        examples: largest number of examples.
        seed: seed of the choice of examples and of the posterior noise.
        fitted: OD-scores of fitted local decoders, as the paper has it (slow), rather than of Jacobians.
        progress: called with (done, total) now and then.

    Returns:
        {name: Measured}. The OD-scores are relative to the farthest of these models (bhowal Table 6).

    Raises:
        InputError: data that a model cannot take, or local decoders of an autoencoder.
    """
    checks.check_whole("examples", examples, 1)
    checks.check_whole("seed", seed, 0)
    indices = draw_to_score(len(dataset), max(examples, VERDICT_EXAMPLES), seed)
    found: dict[str, Measured] = {}
    grams = {}
    for done, (name, model) in enumerate(models.items(), 1):
        evaluation.check_dataset(model, dataset)
        try:
            posterior = model.encode(dataset.images_at(indices), u=model.u_at(dataset, indices))
            verdict, active = judge(posterior)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        if fitted and not {"stddev", "scale_tril"} & {*posterior}:
            raise InputError(f"export: {name} is an autoencoder, which has no posterior to fit local decoders to; "
                             "compare Jacobians instead")
        found[name] = Measured(verdict, int(active.sum()), {}, _say_left_out(verdict, active))
        if found[name].left_out is None:
            around = metrics.Context(posterior["mean"][:examples], decoder=model.decoder, seed=seed,
                                     stddevs=None if verdict.kl is None else _take_width(posterior)[:examples])
            gram = around.value("gram")
            if np.count_nonzero(active & (np.diagonal(gram, axis1=1, axis2=2).mean(0) > 0)) >= 2:
                found[name].scores.update({distance: of(gram, active)
                                           for distance, of in orthogonality.DISTANCES.items()})
                grams[name] = around.value("local_decoders").gram if fitted else gram
            else:
                found[name] = found[name]._replace(left_out="The decoder moves x along fewer than two of its active "
                                                            "latents, or its Jacobian is not finite: there are no two "
                                                            "columns to compare.")
        if progress:
            progress(done, len(models))
    for name, result in (metrics.od_score(grams) if grams else {}).items():
        found[name].scores[result.name] = result.score
    return found


def _take_width(posterior: dict[str, np.ndarray]) -> np.ndarray:
    """Return standard deviations [N, d] or Cholesky factors [N, d, d] of what a model's `encode` returns."""
    return posterior["stddev"] if "stddev" in posterior else posterior["scale_tril"]


def judge(posterior: dict[str, np.ndarray]) -> tuple[verdicts.Verdict, np.ndarray]:
    """Return the Verdict on a model, and which of its latents are active, bool [d], of what its `encode` returns.

    The active latents are those that `activity.is_narrow` calls active; of an autoencoder, those that are informative.
    """
    if not {"stddev", "scale_tril"} & {*posterior}:
        verdict = verdicts.judge(posterior["mean"])
        return verdict, verdict.informative
    width = _take_width(posterior)
    marginal = width if width.ndim == 2 else np.linalg.norm(width, axis=-1)
    verdict = verdicts.judge(posterior["mean"], marginal, posterior.get("prior_mean"), posterior.get("prior_stddev"),
                             activity.find_dependence(width) if width.ndim == 3 else None)
    return verdict, activity.is_narrow(width, posterior.get("prior_stddev", 1.0))


def _say_left_out(verdict: verdicts.Verdict, active: np.ndarray) -> str | None:
    if verdict.state != "alive":
        return verdicts.describe(verdict)
    if active.sum() < 2:
        if verdict.kl is None:
            verb = "varies" if active.sum() == 1 else "vary"
            return f"{active.sum()} of {len(active)} latents {verb} over x: there are no two columns to compare."
        rule = activity.RULES["is_narrow"].condition
        return (f"{active.sum()} of {len(active)} latents {'has' if active.sum() == 1 else 'have'} a posterior "
                f"narrower than the prior ({rule}): there are no two columns to compare.")
    return None


def report(groups: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> list[str]:
    """Say what a comparison found: models left out first, a line per recipe, then an answer per pair of recipes.

    Args:
        groups: what `group_by_recipe` returns.
        measured: what `measure` returns.
    """
    kept, _ = _sort_out(groups, measured)
    lines = [f"  left out: {line}" for line in list_left_out(groups, measured)]
    width = max(len(label) for label in groups)
    lines.append(f"  {'recipe':<{width}}  {'models':<9}{'latents':<9}"
                 + "".join(f"{name:<19}" for name in MEASURES).rstrip())
    for label, models in kept.items():
        active = [model.active for model in models.values()]
        latents = "-" if not active else f"{min(active)}-{max(active)}" if min(active) < max(active) else f"{active[0]}"
        cells = [describe_mean_and_spread([model.scores[name] for model in models.values()]) for name in MEASURES]
        used = f"{len(models)} of {len(groups[label])}"
        lines.append(f"  {label:<{width}}  {used:<9}{latents:<9}"
                     + "".join(f"{cell:<19}" for cell in cells).rstrip())
    lines.append("  mean ± standard deviation over models; 0: the columns are orthogonal. `latents`: how many have "
                 f"{activity.RULES['is_narrow'].condition}.")
    lines += [f"  {sentence}" for sentence in list_answers(groups, measured)]
    return [make_printable(line) for line in lines]


def list_answers(groups: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> list[str]:
    """Return what `answer` says of each pair of groups; see `report` for the arguments."""
    kept, _ = _sort_out(groups, measured)
    tested = math.comb(sum(bool(models) for models in kept.values()), 2)
    return [answer(one, kept[one], other, kept[other], tested) for one, other in itertools.combinations(kept, 2)]


def list_left_out(groups: dict[str, dict[str, Any]], measured: dict[str, Measured]) -> list[str]:
    """Return a line for each reason to leave models out of the answers; see `report` for the arguments."""
    return [f"{', '.join(names)}: {why}" for why, names in _sort_out(groups, measured)[1].items()]


def _sort_out(groups: dict[str, dict[str, Any]], measured: dict[str, Measured],
              ) -> tuple[dict[str, dict[str, Measured]], dict[str, list[str]]]:
    """Return the models that are compared, {label: {name: Measured}}, and those that are not, {reason: names}."""
    kept: dict[str, dict[str, Measured]] = {label: {} for label in groups}
    left_out: dict[str, list[str]] = {}
    for label, seeds in groups.items():
        first: dict[Any, str] = {}
        for name, seed in seeds.items():
            if seed is not None and seed in first:
                why_copy = f"the recipe and seed of {first[seed]}, or its weights, so no repetition."
                left_out.setdefault(why_copy, []).append(name)
                continue
            first[seed] = name
            why = measured[name].left_out
            if why is not None:
                left_out.setdefault(why, []).append(name)
            else:
                kept[label][name] = measured[name]
    return kept, left_out


def describe_mean_and_spread(values: Sequence[float] | np.ndarray) -> str:
    """Write the mean of some values and, of several, their standard deviation; "-" where there are none."""
    values = np.array(values)
    if not len(values):
        return "-"
    spread = f" ± {_shorten(values.std(ddof=1))}" if len(values) > 1 and np.isfinite(values).all() else ""
    return f"{_shorten(values.mean())}{spread}"


def _shorten(value: float) -> str:
    return f"{value:.3g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.1e}"


def answer(one: str, models: dict[str, Measured], other: str, others: dict[str, Measured], pairs: int = 1) -> str:
    """Say in a sentence whether the columns of one recipe are more orthogonal than those of another.

    The difference of means over seeds is held against the ways to deal the models out to the two recipes: all of them,
    or RESAMPLES where there are more. This permutation test asks nothing of the distribution, and with few seeds says
    that they are too few. Its p is multiplied by the number of pairs that are compared (Bonferroni). DtO grows with the
    number of columns, so where that differs the mean |cosine| between active columns is compared instead.

    Args:
        one, other: labels of the recipes.
        models, others: {name: Measured} of each, without those that are left out.
        pairs: how many pairs of recipes are tested.
    """
    a, b = len(models), len(others)
    question = f"Are the columns of {one} more orthogonal than those of {other}, or less?"
    for label, count in ((one, a), (other, b)):
        if not count:
            return f"{question} It cannot be told: no model of {label} has columns that mean anything."
    counts = {model.active for model in (*models.values(), *others.values())}
    name, why = ((orthogonality.OF_EQUAL_NUMBERS, "") if len(counts) == 1 else
                 (orthogonality.OF_ANY_NUMBERS, ", as DtO grows with the number of active latents, which differs"))
    values = [np.array([model.scores[name] for model in of.values()]) for of in (models, others)]
    compared = (f"{one} {describe_mean_and_spread(values[0])} against {other} {describe_mean_and_spread(values[1])} by "
                f"{name}{why}")
    least = min(1.0, pairs * 2 / math.comb(a + b, a))
    if least > LEVEL:
        return (f"{question} It cannot be told from {a} and {b} models ({compared}): even if no two values overlapped, "
                f"a permutation test could not get below p = {least:.2g}. Train more seeds, with --replicas.")
    p = min(1.0, pairs * scipy.stats.permutation_test(
        values, lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True,
        n_resamples=max(RESAMPLES, 100 * pairs),        # so that p times the pairs can be small, too
        rng=np.random.default_rng(0)).pvalue)
    times = f" (times {pairs} pairs)" if pairs > 1 else ""
    tested = f"permutation test over {a} and {b} models, p = {p:.2g}{times}"
    if p > LEVEL:
        return f"{question} It cannot be told: {compared} ({tested})."
    more = one if values[0].mean() < values[1].mean() else other
    return f"{question} {more} has the more orthogonal columns: {compared} ({tested})."
