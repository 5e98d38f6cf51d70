"""What is usual: the numbers that Rolinek, Zietlow and Martius (2018) print in Table 2, to hold a model against."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Usual(NamedTuple):
    """A printed mean and spread over restarts, and of which models on which data."""

    mean: float
    spread: float
    words: str


# {dataset: number of latents}, and {(dataset, model): (disentanglement score, DtO)}, each with its spread.
LATENTS = {"dsprites": 5, "synthetic_linear": 2, "synthetic_nonlinear": 2, "mnist": 6, "fashion_mnist": 6}
PRINTED: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("dsprites", "beta_vae"): {"disentanglement_score": (0.33, 0.15), "dto": (0.76, 0.08)},
    ("dsprites", "vae"): {"disentanglement_score": (0.21, 0.10), "dto": (1.08, 0.15)},
    ("dsprites", "ae"): {"disentanglement_score": (0.09, 0.04), "dto": (1.62, 0.03)},
    ("dsprites", "full_covariance_vae"): {"disentanglement_score": (0.12, 0.06), "dto": (1.73, 0.14)},
    ("synthetic_linear", "beta_vae"): {"disentanglement_score": (0.99, 0.01), "dto": (0.00, 0.00)},
    ("synthetic_linear", "ae"): {"disentanglement_score": (0.71, 0.19), "dto": (0.33, 0.18)},
    ("synthetic_linear", "full_covariance_vae"): {"disentanglement_score": (0.71, 0.31), "dto": (0.34, 0.35)},
    ("synthetic_nonlinear", "beta_vae"): {"disentanglement_score": (0.73, 0.16), "dto": (0.18, 0.02)},
    ("synthetic_nonlinear", "ae"): {"disentanglement_score": (0.59, 0.30), "dto": (0.54, 0.13)},
    ("synthetic_nonlinear", "full_covariance_vae"): {"disentanglement_score": (0.42, 0.24), "dto": (0.55, 0.02)},
    ("mnist", "vae"): {"dto": (1.59, 0.08)},
    ("mnist", "ae"): {"dto": (1.83, 0.05)},
    ("mnist", "full_covariance_vae"): {"dto": (1.93, 0.08)},
    ("fashion_mnist", "vae"): {"dto": (1.36, 0.05)},
    ("fashion_mnist", "ae"): {"dto": (1.87, 0.03)},
    ("fashion_mnist", "full_covariance_vae"): {"dto": (2.02, 0.08)},
}


def find_usual(card: Mapping[str, Any], metric: str) -> Usual | None:
    """Return what is usual for a model with this card by a metric; None where the table has no number for it.

    DtO depends on the number of latents, so only models with as many latents as the paper's have a usual DtO.
    """
    dataset, model = card["data"]["name"], card["model"]
    found = PRINTED.get((dataset, model), {}).get(metric)
    if found is None or (metric == "dto" and card["latents"] != LATENTS[dataset]):
        return None
    return Usual(*found, f"Rolinek et al. (2018, Table 2) print {found[0]:.2f} ± {found[1]:.2f} for {model} on "
                         f"{dataset}")


def compare_with_usual(score: float, usual: Usual | None) -> str:
    """Say in a sentence how a score stands to what is usual; a score within two spreads counts as usual."""
    if usual is None:
        return "No number is known here that would be usual for this model on these data."
    reach = 2 * max(usual.spread, 0.01)
    place = "usual" if abs(score - usual.mean) <= reach else "higher than usual" if score > usual.mean else (
        "lower than usual")
    return f"That is {place}: {usual.words}."
