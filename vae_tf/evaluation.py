"""An exported model scored: its codes computed once, then every metric asked for."""

import importlib.metadata
import json
import math
import warnings
from typing import NamedTuple

import numpy as np

from vae_tf import metrics
from vae_tf.errors import InputError

BATCH = 500


class Evaluation(NamedTuple):
    """Codes and factors of some examples, and what the metrics make of them.

    results are Result by name, the ELBO's terms first; noise_floor holds the scores of shuffled codes;
    skipped says why a metric was left out.
    """

    codes: np.ndarray
    indices: np.ndarray
    results: dict
    noise_floor: dict
    skipped: dict


def evaluate(model, dataset, names=tuple(metrics.METRICS), *, examples=10_000, seed=0):
    """Score an export.Exported on a data.Dataset.

    Args:
        model: the exported model.
        dataset: whose examples are drawn, without replacement.
        names: of METRICS; those that need factors are skipped when the dataset has none.
        examples: how many, at most.
        seed: of the choice of examples and of the noise.

    Raises:
        InputError: unknown metric, or data of another shape than the model's.
    """
    check(model, dataset, names)
    indices = np.random.default_rng(seed).permutation(len(dataset))[:examples]
    means, terms = [], []
    for batch, i in enumerate(np.array_split(indices, math.ceil(len(indices) / BATCH))):
        x, u = dataset.images_at(i), dataset.u_at(i) if model.card["u_size"] else None
        means.append(model.encode(x, u=u)["mean"])
        terms.append(model.objective(x, seed=seed * 1_000 + batch, u=u))
    codes = np.concatenate(means)
    results = metrics.elbo_terms({name: np.concatenate([t[name] for t in terms]) for name in terms[0]})
    factors = dataset.factors_at(indices) if dataset.factors else None
    noise_floor, skipped = {}, {}
    for name in names:
        metric = metrics.METRICS[name]
        if factors is None and name not in metrics.UNSUPERVISED:
            skipped[name] = f"{dataset.name} has no factors"
            continue
        try:
            results[name] = metric(codes, factors)
        except InputError as error:      # such as a single factor value: say so, and score the rest
            skipped[name] = str(error)
            continue
        if name not in metrics.UNSUPERVISED:
            with warnings.catch_warnings(action="ignore"):     # the metric itself has warned already
                noise_floor[name] = metrics.noise_floor(metric, codes, factors, seed)
    return Evaluation(codes, indices, results, noise_floor, skipped)


def check(model, dataset, names):
    """Raise InputError for metrics that do not exist, or data that the model cannot take."""
    for name in names:
        if name not in metrics.METRICS:
            raise InputError(f"metrics: expected names of {', '.join(metrics.METRICS)}; got {name!r}")
    shape, u_size = tuple(model.card["data"]["shape"]), model.card["u_size"]
    if dataset.shape != shape or u_size not in (0, dataset.u_size):
        raise InputError(f"dataset: the model takes examples of shape {shape}"
                         + (f" and u of size {u_size}" if u_size else "")
                         + f"; got {dataset.name} with shape {dataset.shape} and u of size {dataset.u_size}")


def as_json(evaluation, **about):
    """metrics.json: each score with its parts and noise floor, and what it was measured on and with."""
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, np.ndarray | list | tuple):
            return [plain(item) for item in value] if np.ndim(value) else plain(np.asarray(value).item())
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else None
        return value.item() if isinstance(value, np.generic) else value

    return json.dumps(plain({
        **about, "examples": len(evaluation.codes),
        "versions": {name: importlib.metadata.version(name) for name in ("vae_tf", "numpy", "scipy", "scikit-learn")},
        "metrics": {name: {"score": result.score, **({"noise_floor": evaluation.noise_floor[name]}
                                                     if name in evaluation.noise_floor else {}), **result.parts}
                    for name, result in evaluation.results.items()},
        "skipped": evaluation.skipped,
    }), indent=2)


def with_geometry(evaluation, model, dataset, names, *, examples=200, seed=0, progress=None):
    """An Evaluation with metrics of the decoder's geometry added, around its first examples.

    Args:
        evaluation: of the same model and dataset.
        names: of metrics.GEOMETRY.
        examples: how many, at most.
        seed: of the posterior noise.
        progress: called with (done, total) now and then.

    Raises:
        InputError: unknown metric.
    """
    if not names:
        return evaluation
    indices = evaluation.indices[:examples]
    x, u = dataset.images_at(indices), dataset.u_at(indices) if model.card["u_size"] else None
    posterior = model.encode(x, u=u)
    data = x / np.float32(255) if dataset.is_image else x
    results, skipped = metrics.geometry.measure(
        model.decoder, posterior["mean"], posterior.get("stddev", posterior.get("scale_tril")), data, names,
        seed=seed, progress=progress)
    return evaluation._replace(results={**evaluation.results, **results}, skipped={**evaluation.skipped, **skipped})
