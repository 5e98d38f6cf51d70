"""Codes scored: those of an exported model, computed once, or anybody's; then every metric asked for.

Each metric comes with a noise floor and an interval. The noise floor is the same metric on codes that have
nothing to do with the factors: the same codes, in shuffled order. The interval is a bootstrap of half-samples, see
`interval`.
"""

import importlib.metadata
import json
import math
import platform
import time
import warnings
from typing import NamedTuple

import joblib
import numpy as np
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from vae_tf import checks, metrics, verdicts, workers
from vae_tf import kinds as factor_kinds
from vae_tf.data import npz
from vae_tf.errors import InputError

BATCH = 500
RESAMPLES, SLOW_RESAMPLES = 20, 5
FEWEST_FOR_INTERVAL = 40        # rows: a half of fewer is too small to split once more


class Codes(NamedTuple):
    """What there is to score of N examples.

    mean: [N, d], of q(z|x), or any code.
    factors: [N, K], or None.
    kinds: of the factors, K names, see `vae_tf.kinds.decided`; None to decide by their values.
    stddev: [N, d], or None.
    prior_mean, prior_stddev: [N, d] of the iVAE's p(z|u), or None.
    independent: whether latents are independent in q(z|x); not so with a full covariance.
    factor_names: K names; None for v1, v2, ...
    """

    mean: np.ndarray
    factors: np.ndarray | None = None
    kinds: tuple[str, ...] | None = None
    stddev: np.ndarray | None = None
    prior_mean: np.ndarray | None = None
    prior_stddev: np.ndarray | None = None
    independent: bool = True
    factor_names: tuple[str, ...] | None = None

    def distributions(self):
        """mean, stddev, prior mean and prior stddev; p(z) = N(0, I) where there is no other."""
        prior = (0.0, 1.0) if self.prior_mean is None else (self.prior_mean, self.prior_stddev)
        return self.mean, self.stddev, *prior


LATENTS = ("all", "active")
PER_LATENT = ("mean", "stddev", "prior_mean", "prior_stddev")
PER_EXAMPLE = (*PER_LATENT, "factors")


class Evaluation(NamedTuple):
    """Codes and factors of some examples, and what the metrics make of them.

    results are Result by name, the ELBO's terms first; noise_floor holds the scores of shuffled codes, interval
    (low, high); measured how it was done: examples, resamples, seconds, seed; skipped says why a metric was left out.
    polarised are the results of metrics.polarised_regime, absent why some of them are not there, posterior the Codes
    they are of; latents are the indices of those that the other metrics looked at. verdict says how many latents carry
    information, None if the posterior is not finite. factors are the names of those that the codes were scored against,
    None where there are none.
    """

    codes: np.ndarray
    indices: np.ndarray
    results: dict
    noise_floor: dict
    interval: dict
    measured: dict
    skipped: dict
    polarised: dict
    absent: dict
    posterior: Codes
    latents: np.ndarray
    verdict: verdicts.Verdict | None
    factors: tuple[str, ...] | None

    def why_no_meaning(self, name):
        """Why a score means nothing for this model, or None."""
        return verdicts.why_no_meaning(self.verdict, name)


def evaluate(model, dataset, names=metrics.DEFAULT, *, examples=10_000, seed=0, jobs=1, quick=False, latents="all",
             factors=None, samples_per_value=None, passive_kl=metrics.PASSIVE_KL, progress=None):
    """Score an export.Exported on a data.Dataset.

    Args:
        model: the exported model.
        dataset: whose examples are drawn, without replacement.
        names, examples, seed, jobs, quick, latents, factors, samples_per_value, passive_kl, progress: see `score`;
            half as many examples again are drawn for metrics that learn, to be tested on.

    Raises:
        InputError: unknown metric or factor, or data of another shape than the model's.
    """
    check(model, dataset, names)
    _check_asked(names, examples, seed, jobs, latents, passive_kl)
    check_factors(factors, dataset.factor_names)
    indices = np.random.default_rng(seed).permutation(len(dataset))[:drawn(names, examples)]
    encoded, terms = [], []
    for batch, i in enumerate(np.array_split(indices, math.ceil(len(indices) / BATCH))):
        x, u = dataset.images_at(i), model.u_at(dataset, i)
        encoded.append(model.encode(x, u=u))
        terms.append(model.objective(x, seed=seed * 1_000 + batch, u=u))
    posterior = {key: np.concatenate([part[key] for part in encoded]) for key in encoded[0]}
    full = posterior.pop("scale_tril", None)
    if full is not None:
        posterior["stddev"] = np.linalg.norm(full, axis=-1)        # of each latent alone
    codes = Codes(**posterior, factors=dataset.factors_at(indices) if dataset.factors else None,
                  kinds=tuple(factor.kind for factor in dataset.factors) or None,
                  independent=full is None, factor_names=dataset.factor_names)
    scored = score(codes, names, examples=examples, seed=seed, jobs=jobs, quick=quick, latents=latents,
                   factors=factors, samples_per_value=samples_per_value, passive_kl=passive_kl, progress=progress)
    bound = metrics.elbo_terms({name: np.concatenate([t[name] for t in terms]) for name in terms[0]})
    measured = {name: {"examples": len(indices), "seed": seed} for name in bound}
    history = {name: metrics.Result(**of) for name, of in model.card.get("history", {}).items()}
    return scored._replace(indices=indices, results={**bound, **scored.results},
                           measured={**measured, **scored.measured}, polarised={**history, **scored.polarised})


def drawn(names, examples):
    """How many examples the metrics need: half as many again for those that are tested on what they did not see."""
    more = any(name in metrics.HELD_OUT or name in metrics.INTERVENTIONAL for name in names)
    return math.ceil(1.5 * examples) if more else examples


def codes_from_npz(path, examples, seed=0):
    """Codes from an .npz file.

    It holds `codes` [N, d], and optional `factors` [N, K], `factor_names` [K], `factor_kinds` [K] and `stddev` [N, d].
    `factor_kinds` are names from vae_tf.kinds.KINDS; without them the values of a factor decide. Of more than 1.5
    `examples` rows, that many are drawn at random.

    Raises:
        InputError: naming the array, what was expected and what came.
    """
    found = npz.read("codes", path)
    if "codes" not in found:
        raise InputError(f"codes: {path}: expected an array `codes` [N, d], and `factors` [N, K] to score them "
                         f"against; got {', '.join(found) or 'no arrays'}")
    mean, factors = metrics.checked(found["codes"], found.get("factors"))
    rows = np.random.default_rng(seed).permutation(len(mean))[:math.ceil(1.5 * examples)]
    stddev = found.get("stddev")
    if stddev is not None and stddev.shape != mean.shape:
        raise InputError(f"codes: {path}: expected stddev of shape {mean.shape}, as codes; got {stddev.shape}")
    names = found.get("factor_names")
    if names is not None and (factors is None or names.shape != factors.shape[1:]):
        raise InputError(f"codes: {path}: expected factor_names to have an entry per factor; got {names.shape}")
    kinds = None if factors is None else factor_kinds.decided(factors, found.get("factor_kinds"))
    return _rows(Codes(mean, factors, kinds, stddev,
                       factor_names=None if names is None else tuple(str(name) for name in names)), rows)


def score(codes, names=metrics.DEFAULT, *, examples=10_000, seed=0, jobs=1, quick=False, latents="all",
          factors=None, samples_per_value=None, passive_kl=metrics.PASSIVE_KL, progress=None):
    """Score Codes: every metric with its noise floor and interval, in parallel.

    Args:
        codes: Codes.
        names: of metrics.ALL; those that lack what they need are skipped.
        examples: how many a metric estimates from, at most; those that learn from some and are tested on others, and
            those that intervene, get all.
        seed: of splits, draws and noise.
        jobs: processes.
        quick: fewer resamples, and no interval for metrics.SLOW.
        latents: "all", or "active" to leave out passive ones first (metrics.classify): their means are noise that
            should not reach a downstream task (bonheme 3). Active and mixed ones stay.
        factors: names of the factors that every metric is to look at, in that order; None for all.
        samples_per_value: of z, for metrics.PER_VALUE; None for 10,000 samples in all.
        passive_kl: nats, below which a latent is passive at an example.
        progress: called with (done, total) after each piece of work.

    Returns:
        Evaluation.

    Raises:
        InputError: unknown metric or factor, or no active latents to be found.
    """
    _check_asked(names, examples, seed, jobs, latents, passive_kl)
    _check_codes(codes)
    if codes.factors is not None:       # once, so that a part of the rows cannot decide otherwise than the whole
        codes = codes._replace(kinds=factor_kinds.decided(np.asarray(codes.factors), codes.kinds))
    codes = with_factors(codes, factors)
    mean, posterior = codes.mean, _rows(codes, slice(examples))
    polarised, absent = regime(posterior, passive_kl, seed)
    kept = np.arange(codes.mean.shape[1])
    if latents == "active":
        kept = not_passive(posterior, passive_kl)
        codes = codes._replace(**{field: getattr(codes, field)[:, kept] for field in PER_LATENT
                                  if getattr(codes, field) is not None})
    skipped = {name: why for name in names if (why := _lacking(name, codes))}
    work = [(name, draw) for name in names if name not in skipped for draw in _draws(name, codes, quick)]
    work.sort(key=lambda task: (task[0] not in metrics.HEAVY, task[0] not in metrics.SLOW))     # the long ones first
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", initializer=workers.prepare)
    outcomes = {}
    for done, (name, draw, *outcome) in enumerate(parallel(
            joblib.delayed(_measured)(name, draw, codes, examples, seed, samples_per_value) for name, draw in work), 1):
        outcomes[name, draw] = outcome
        if progress:
            progress(done, len(work))
    results, floor, intervals, measured = {}, {}, {}, {}
    for name in (name for name in names if name not in skipped):
        result, warned, seconds, rows = outcomes[name, "score"]
        if isinstance(result, InputError):      # such as a single factor value: say so, and score the rest
            skipped[name] = str(result)
            continue
        for message in warned:
            warnings.warn(message, stacklevel=2)
        results[name], scores = result, {draw: outcomes[name, draw][0] for draw in _draws(name, codes, quick)}
        halves = [half.score for draw, half in scores.items()
                  if isinstance(draw, int) and not isinstance(half, InputError)]
        if "shuffled" in scores and not isinstance(scores["shuffled"], InputError):
            floor[name] = scores["shuffled"].score
        if len(halves) > 1 and np.isfinite([result.score, *halves]).all():
            intervals[name] = interval(result.score, halves)
        measured[name] = {"examples": rows, "resamples": len(halves), "seed": seed, "seconds": round(seconds, 3)}
    return Evaluation(mean, np.arange(len(mean)), results, floor, intervals, measured, skipped,
                      polarised, absent, posterior, kept, _judged(posterior), _names_of_factors(codes))


def _judged(codes):
    try:
        return verdicts.judge(codes.mean, codes.stddev, codes.prior_mean, codes.prior_stddev)
    except InputError:          # a posterior that is not finite, which `regime` says
        return None


def with_factors(codes, names):
    """Codes with the factors of these names alone, in this order; None keeps all.

    Raises:
        InputError: see `check_factors`.
    """
    if names is None:
        return codes
    known = _names_of_factors(codes) or ()
    check_factors(names, known)
    columns = [known.index(name) for name in names]
    return codes._replace(factors=codes.factors[:, columns], factor_names=tuple(names),
                          kinds=None if codes.kinds is None else tuple(codes.kinds[k] for k in columns))


def _names_of_factors(codes):
    if codes.factors is None:
        return None
    return codes.factor_names or tuple(f"v{k + 1}" for k in range(codes.factors.shape[1]))


def _check_asked(names, examples, seed, jobs, latents, passive_kl):
    """Raise InputError for arguments of `score` that are none."""
    check_names(names)
    checks.whole("examples", examples, 1)
    checks.whole("seed", seed, 0)
    checks.whole("jobs", jobs, 1)
    checks.choice("latents", latents, LATENTS)
    checks.number("passive_kl", passive_kl, low=0)


def _check_codes(codes):
    """Raise InputError for Codes whose arrays do not go together."""
    for name in ("stddev", "prior_mean", "prior_stddev"):
        array = getattr(codes, name)
        if array is not None and np.shape(array) != np.shape(codes.mean):
            raise InputError(f"{name}: expected the shape of the codes, {np.shape(codes.mean)}; got {np.shape(array)}")
        if name != "prior_mean" and array is not None and not np.all(np.asarray(array) >= 0):
            raise InputError(f"{name}: expected numbers from 0 on; got {np.min(array)}")
    if (codes.prior_mean is None) != (codes.prior_stddev is None):
        raise InputError("prior_mean: expected prior_mean and prior_stddev together, or neither; got one")


def regime(codes, passive_kl=metrics.PASSIVE_KL, seed=0):
    """metrics.polarised_regime of Codes, p(z) = N(0, I) unless they hold a prior, or why there is none."""
    if codes.stddev is None:
        return {}, {"polarised_regime": "there is no posterior, only codes"}
    try:
        return metrics.polarised_regime(*codes.distributions(), passive_kl=passive_kl, seed=seed)
    except InputError as error:
        return {}, {"polarised_regime": str(error)}


def not_passive(codes, passive_kl=metrics.PASSIVE_KL):
    """Indices of the latents of Codes that are active or mixed, not passive (metrics.classify).

    Raises:
        InputError: there are none, or no posterior to tell by.
    """
    if codes.stddev is None:
        raise InputError("latents: expected all, or a posterior to tell active ones by; got active, and codes alone")
    kept = np.flatnonzero(metrics.classify(*codes.distributions(), passive_kl=passive_kl) != "passive")
    if not len(kept):
        raise InputError("latents: expected all; got active, and no latent is: every posterior is the prior")
    return kept


def interval(score, halves, level=0.95):
    """A bootstrap interval from scores of half-samples: score -+ t sd(halves), Student's t of their number less one.

    A half-sample is half of the rows, drawn without replacement. Given the data, the variance of a mean over m of N
    rows is (1/m - 1/N) times that of one row: at m = N/2 exactly 1/N, so half-samples spread as the score at N does
    (Efron's delete-half jackknife; Politis, Romano 1994). Rows drawn with replacement would not do here:
    copies of one row in the training and the test part let a metric cheat, and histograms take repeated rows for
    information. The spread counts, not the place: a half-sample's bias is that of N/2.

    The interval is of what the metric gives on average for N rows, its bias at N included, and not of its limit for
    ever more rows. Where the bias exceeds the spread, as that of mutual_information does by far, it never covers the
    limit.
    """
    reach = student.ppf((1 + level) / 2, len(halves) - 1) * np.std(halves, ddof=1)
    return score - reach, score + reach


def _draws(name, codes, quick):
    """What is measured for a metric: its score, that of shuffled codes, and those of half-samples 0, 1, ..."""
    usual, slow = (SLOW_RESAMPLES, 0) if quick else (RESAMPLES, SLOW_RESAMPLES)
    resamples = slow if name in metrics.SLOW else usual
    return ["score", *(["shuffled"] if name not in metrics.UNSUPERVISED else []),
            *(range(resamples) if len(codes.mean) >= FEWEST_FOR_INTERVAL and name not in metrics.EXTREMES else [])]


def _measured(name, draw, codes, examples, seed, samples_per_value):
    """(name, draw, Result or InputError, warnings, seconds, rows) of one metric on one draw of the codes."""
    started = time.perf_counter()
    if name not in metrics.HELD_OUT and name not in metrics.INTERVENTIONAL:
        codes = _rows(codes, slice(examples))
    n = len(codes.mean)
    rng = np.random.default_rng([seed, 0 if isinstance(draw, str) else 1 + draw])
    if draw == "shuffled":
        codes = _rows(codes, rng.permutation(n))._replace(factors=codes.factors)
    elif draw != "score":
        codes = _rows(codes, np.sort(rng.permutation(n)[:n // 2]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with threadpool_limits(1):      # processes share the processors already; more threads only wait
                result = _apply(name, codes, seed, samples_per_value)
        except InputError as error:
            result = error
    return name, draw, result, [str(w.message) for w in caught], time.perf_counter() - started, n


def _rows(codes, rows):
    return codes._replace(**{field: array[rows] for field in PER_EXAMPLE
                             if (array := getattr(codes, field)) is not None})


def _apply(name, codes, seed, samples_per_value):
    """One metric on Codes."""
    metric = metrics.ALL[name]
    if name in metrics.INTERVENTIONAL:
        return metric(metrics.sampler(codes.mean, codes.factors, kinds=codes.kinds), seed=seed)
    prior = ({"prior_means": codes.prior_mean, "prior_stddevs": codes.prior_stddev}
             if codes.prior_mean is not None and name in metrics.IN_UNITS_OF_THE_PRIOR else {})
    kinds = {"kinds": codes.kinds} if name in metrics.BY_KIND else {}
    if name in metrics.POSTERIOR:
        samples = {"samples_per_value": samples_per_value} if name in metrics.PER_VALUE else {}
        return metric(codes.mean, codes.stddev, codes.factors, **prior, **kinds, **samples, seed=seed)
    return metric(codes.mean, codes.factors, **prior, **kinds, **({"seed": seed} if name in metrics.HELD_OUT else {}))


def _lacking(name, codes):
    """Why a metric cannot be computed, or None."""
    if codes.factors is None and name not in metrics.UNSUPERVISED:
        return "there are no factors"
    if codes.stddev is None and name in metrics.POSTERIOR:
        return "there is no posterior, only codes"
    if not codes.independent and name == "elbo_decomposition":
        return "q(z|x) has a full covariance"
    return None


def check_names(names):
    """Raise InputError for metrics that do not exist."""
    for name in names:
        if name not in metrics.ALL:
            raise InputError(f"metrics: expected names of {', '.join(metrics.ALL)}; got {name!r}")


def check_factors(names, known):
    """Raise InputError for names of factors that are not among those known, or come twice; None asks for all."""
    if names is None:
        return
    choices = f"names of {', '.join(known)}" if known else "none, because there are no factors"
    if not names:
        raise InputError(f"factors: expected {choices}; got none")
    for name in names:
        if name not in known:
            raise InputError(f"factors: expected {choices}; got {name!r}")
    if len(set(names)) < len(names):
        raise InputError(f"factors: expected each name once; got {', '.join(names)}")


def check(model, dataset, names):
    """Raise InputError for metrics that do not exist, or data that the model cannot take."""
    from vae_tf import export  # TensorFlow: scoring codes does without

    check_names(names)
    card = export.read_card(model.path, ("data.shape",))
    shape, u_size = tuple(card["data"]["shape"]), card["u_size"]
    if dataset.shape != shape or u_size not in (0, dataset.u_size):
        raise InputError(f"dataset: the model takes examples of shape {shape}"
                         + (f" and u of size {u_size}" if u_size else "")
                         + f"; got {dataset.name} with shape {dataset.shape} and u of size {dataset.u_size}")
    export.scaled_as_trained(dataset, card)
    if outside := export.outside_of_training(dataset, card):
        warnings.warn(outside, stacklevel=3)


def as_json(evaluation, **about):
    """metrics.json: the verdict, and each score with noise floor, interval, parts and how it was measured.

    A score that means nothing for this model stays, beside the reason as `no_meaning`.
    """
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, np.ndarray | list | tuple):
            return [plain(item) for item in value] if np.ndim(value) else plain(np.asarray(value).item())
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else None
        return value.item() if isinstance(value, np.generic) else value

    packages = ("vae_tf", "numpy", "scipy", "scikit-learn", "joblib")
    extras = {"noise_floor": evaluation.noise_floor, "interval": evaluation.interval, "measured": evaluation.measured}
    return json.dumps(plain({
        **about, "examples": len(evaluation.codes), "latents": evaluation.latents, "factors": evaluation.factors,
        "versions": {"python": platform.python_version(), **{name: importlib.metadata.version(name)
                                                             for name in packages}},
        "verdict": None if evaluation.verdict is None else {
            "state": evaluation.verdict.state, "words": verdicts.words(evaluation.verdict),
            "informative": evaluation.verdict.informative, "kl": evaluation.verdict.kl},
        "metrics": {name: {"score": result.score, **{key: of[name] for key, of in extras.items() if name in of},
                           **({"no_meaning": why} if (why := evaluation.why_no_meaning(name)) else {}), **result.parts}
                    for name, result in evaluation.results.items()},
        "polarised_regime": {name: {"score": result.score, **result.parts}
                             for name, result in evaluation.polarised.items()},
        "skipped": {**evaluation.skipped, **evaluation.absent},
    }), indent=2)


def with_geometry(evaluation, model, dataset, names, *, examples=200, seed=0, progress=None):
    """An Evaluation with metrics of the decoder's geometry added, around its first examples.

    Args:
        evaluation: of the same model and dataset.
        names: of metrics.geometry.GEOMETRY.
        examples: how many, at most.
        seed: of the posterior noise.
        progress: called with (done, total) now and then.

    Raises:
        InputError: unknown metric.
    """
    from vae_tf.metrics import geometry  # TensorFlow: scoring codes does without

    checks.whole("examples", examples, 1)
    if not names:
        return evaluation
    indices = evaluation.indices[:examples]
    x, u = dataset.images_at(indices), model.u_at(dataset, indices)
    posterior = model.encode(x, u=u)
    data = x / np.float32(255) if dataset.is_image else x
    results, skipped = geometry.measure(
        model.decoder, posterior["mean"], posterior.get("stddev", posterior.get("scale_tril")), data, names,
        prior_stddevs=posterior.get("prior_stddev", 1.0), seed=seed, progress=progress)
    return evaluation._replace(results={**evaluation.results, **results}, skipped={**evaluation.skipped, **skipped})


def with_theory(evaluation, model, dataset, names, *, examples=200, seed=0, progress=None):
    """An Evaluation with the model held against closed forms, around its first examples.

    Args, raises: as `with_geometry`; names of metrics.closed_forms.THEORY.
    """
    from vae_tf.metrics import closed_forms  # TensorFlow: scoring codes does without

    checks.whole("examples", examples, 1)
    if not names:
        return evaluation
    results, skipped = closed_forms.measure(model, dataset, evaluation.indices[:examples], names, seed=seed,
                                            progress=progress)
    return evaluation._replace(results={**evaluation.results, **results}, skipped={**evaluation.skipped, **skipped})
