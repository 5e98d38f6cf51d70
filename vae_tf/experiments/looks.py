"""Points and histograms that a figure shows of one trained model, and that no metric of evaluate.py holds.

Each function in LOOKS takes an exported model and its data, and returns an entry of the `metrics` of a result. The
entry has parts {label: {"x": [...], "y": [...]}}, which figures draw.
"""

import math
from typing import Any

import numpy as np

from vae_tf.data.spreading import draw_to_score
from vae_tf.errors import InputError
from vae_tf.typing import Floats

BINS = 40
EXAMPLES = 10_000       # of histograms (bonheme's Figures 1 to 4)
SHOWN = 2               # of how many points in the plane one is kept


def show_reconstructions(model: Any, dataset: Any) -> dict[str, Any]:
    """Return points in the plane, and what the model decodes from their posterior means (allen's Figure 2).

    The score is the mean squared distance of a point from its reconstruction. `spread` is the variance of the
    reconstructions as a share of the variance of the data.

    Raises:
        InputError: the data are not points in the plane.
    """
    if dataset.shape != (2,):
        raise InputError(f"reconstructions: expected points in the plane; {dataset.name} has examples {dataset.shape}")
    indices = np.arange(len(dataset))
    x = dataset.images_at(indices)
    made = model.reconstruct(x, u=model.u_at(dataset, indices))["mean"]
    parts = {label: {axis: [round(float(value), 3) for value in points[::SHOWN, i]] for i, axis in enumerate("xy")}
             for label, points in (("data", x), ("reconstruction", made))}
    return {"score": float(((x - made) ** 2).sum(1).mean()), "spread": float(made.var(0).sum() / x.var(0).sum()),
            "points": parts}


def show_histograms(model: Any, dataset: Any, seed: int = 0) -> dict[str, Any]:
    """Return histograms of a model's clearest active and clearest passive latent (bonheme's Figures 1 to 4).

    Raises:
        InputError: the model has no diagonal posterior.
    """
    indices = draw_to_score(len(dataset), EXAMPLES, seed)
    encoded = [model.encode(dataset.images_at(i), u=model.u_at(dataset, i))
               for i in np.array_split(indices, math.ceil(len(indices) / 500))]
    codes = {name: np.concatenate([part[name] for part in encoded]) for name in encoded[0]}
    if "stddev" not in codes:
        raise InputError("histograms: expected a diagonal posterior; this model has none")
    mean = codes["mean"]
    return show_latents(mean, codes["stddev"], codes.get("prior_mean", np.zeros_like(mean)),
                        codes.get("prior_stddev", np.ones_like(mean)), seed)


def show_latents(mean: Floats, stddev: Floats, prior_mean: Floats, prior_stddev: Floats,
                 seed: int = 0) -> dict[str, Any]:
    """Return histograms of the latents with most KL, "active", and with least, "passive".

    Each has a histogram of the posterior mean; of the variances of posterior and prior; and of samples of posterior and
    prior, beside the posterior mean. The score is the number of latents that carry information.

    Args:
        mean, stddev: means and standard deviations of the posterior, [N, d].
        prior_mean, prior_stddev: means and standard deviations of the prior, [N, d].
        seed: seed of the samples.
    """
    from vae_tf import activity
    from vae_tf.metrics import polarised

    kl = activity.kl_per_latent(mean, stddev, prior_mean, prior_stddev).mean(0)
    z, drawn = polarised.draw_samples(mean, stddev, prior_mean, prior_stddev, seed=seed)
    entry: dict[str, Any] = {"score": float(activity.is_informative(kl).sum())}
    for name, j in (("active", kl.argmax()), ("passive", kl.argmin())):
        samples = {"posterior": z[:, j], "prior": drawn[:, j], "posterior mean": mean[:, j]}
        entry[name] = {"latent": int(j), "mean": _bin({"posterior mean": mean[:, j]}),
                       "variance": _bin({"posterior": stddev[:, j] ** 2, "prior": prior_stddev[:, j] ** 2}),
                       "samples": _bin(samples)}
    return entry


def _bin(columns: dict[str, Floats]) -> dict[str, dict[str, list[float]]]:
    """Return {label: {"x": edges, "y": counts}} of columns over the same bins, with counts relative to the highest."""
    low, high = np.quantile(np.concatenate(list(columns.values())), (0.001, 0.999))
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    counts = {label: np.histogram(values, edges)[0] for label, values in columns.items()}
    x = [float(f"{edge:.4g}") for edge in edges]
    return {label: {"x": x, "y": [round(float(count / max(int(of.max()), 1)), 4) for count in of]}
            for label, of in counts.items()}


LOOKS = {"reconstructions": show_reconstructions, "histograms": show_histograms}
