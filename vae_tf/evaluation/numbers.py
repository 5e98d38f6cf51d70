"""Write the scores of an Evaluation as JSON."""

import importlib.metadata
import json
import math
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from vae_tf import verdicts

if TYPE_CHECKING:
    from vae_tf.evaluation.scoring import Evaluation

PACKAGES = ("vae_tf", "numpy", "scipy", "scikit-learn", "joblib")


def as_json(evaluation: "Evaluation", **about: Any) -> str:
    """Write an Evaluation as the text of metrics.json: the verdict, and each score with how it was measured.

    A score that means nothing for this model is kept, with the reason as `no_meaning`.

    Args:
        evaluation: what was measured.
        about: further entries, by name.
    """
    verdict = evaluation.verdict
    return json.dumps(_make_plain({
        **about, "examples": len(evaluation.codes), "latents": evaluation.latents, "factors": evaluation.factors,
        "versions": {"python": platform.python_version(), **{name: importlib.metadata.version(name)
                                                             for name in PACKAGES}},
        "verdict": None if verdict is None else {
            "state": verdict.state, "words": verdicts.describe(verdict), "informative": verdict.informative,
            "kl": verdict.kl},
        "metrics": {name: _make_entry(evaluation, name) for name in evaluation.results},
        "polarised_regime": {name: {"score": result.score, **result.parts}
                             for name, result in evaluation.polarised.items()},
        "skipped": {**evaluation.skipped, **evaluation.absent},
    }), indent=2)


def _make_entry(evaluation: "Evaluation", name: str) -> dict[str, Any]:
    """Return a score with its chance level, interval and parts, and how it was measured."""
    extras: dict[str, dict] = {"chance_level": evaluation.chance_level, "interval": evaluation.interval,
                               "measured": evaluation.measured}
    why = evaluation.explain_no_meaning(name)
    return {"score": evaluation.results[name].score, **{key: of[name] for key, of in extras.items() if name in of},
            **({"no_meaning": why} if why else {}), **evaluation.results[name].parts}


def _make_plain(value: Any) -> Any:
    """Return arrays and NumPy's numbers as lists and Python's numbers; those that are not finite as None."""
    if isinstance(value, dict):
        return {key: _make_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _make_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_make_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
