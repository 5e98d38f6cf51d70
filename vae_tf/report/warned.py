"""What a reader should keep in mind while reading a model's scores."""

from typing import Any

import numpy as np

from vae_tf.activity import INFORMATIVE_KL, ROUNDING
from vae_tf.errors import make_printable
from vae_tf.report.facts import Facts

FEW = 5_000             # examples below which chance levels and intervals are wide
STEADY = 0.1            # standard deviation of a log variance over x, below which the variance counts as the same
UNBALANCED = 3.0        # times as often as the rarest value of a factor, from which the most frequent one is remarked


def list_warnings(facts: Facts, card: dict[str, Any] | None = None, part: str = "") -> list[str]:
    """List what limits the scores, such as dead latents, few examples, unbalanced factors, or no held-out part."""
    scored, found = facts.scored, []
    if scored.verdict is not None and scored.verdict.state != "alive":
        found.append(f"The model is {scored.verdict.state}: most scores below have no meaning.")
    passive = [f"z{j}" for j, kind in enumerate(facts.kinds) if kind == "passive"]
    if passive:
        without = scored.verdict is None or scored.verdict.kl is None       # codes alone, or an autoencoder
        what = (f"vary over x by no more than {ROUNDING**0.5:g} of their size" if without else
                "are passive, their posterior is the prior")
        found.append(f"{len(passive)} of {len(facts.kinds)} latents {what}: "
                     f"{', '.join(passive[:12])}{', ...' if len(passive) > 12 else ''}.")
    found += _find_constant(facts)
    if len(scored.posterior.mean) < FEW:        # metrics that learn take more codes, which help no other metric
        found.append(f"The scores are of {len(scored.posterior.mean):,} examples; 10,000 are usual. With fewer, mutual "
                     "information is overestimated and intervals are wide.")
    found += _find_unbalanced(facts)
    if "training could see" in part:
        found.append("Training could see the examples that are scored: these data have no held-out part.")
    if card is not None:
        from vae_tf import models  # imports TensorFlow, which scoring codes does not need

        found += models.find_declared(card).list_remarks(card)
    return found


def _find_constant(facts: Facts) -> list[str]:
    """Say which latents have a KL although their posterior is nearly the same at all examples, as after few steps.

    Gaussian codes of variance v around a posterior of variance s^2 carry 1/2 log(1 + v / s^2) nats, about v / (2 s^2).
    """
    codes, verdict = facts.scored.posterior, facts.scored.verdict
    if codes.stddev is None or verdict is None or verdict.kl is None or len(codes.mean) < 2:
        return []
    squared = np.square(codes.stddev)
    says = codes.mean.var(0) / (2 * squared.mean(0))
    same = (says < INFORMATIVE_KL) & (np.log(squared).std(0) < STEADY)
    constant = [f"z{j}" for j in np.flatnonzero(verdict.informative & same)]
    return [f"{', '.join(constant)}: the KL says nothing of x here, because the posterior is nearly the same at all "
            "examples that were scored, and is not the prior. More training may change that."] if constant else []


def _find_unbalanced(facts: Facts) -> list[str]:
    """Say which discrete factors have values much more frequent than others."""
    codes = facts.scored.posterior
    if codes.factors is None or facts.scored.factors is None:
        return []
    found = []
    for name, column, kind in zip(facts.scored.factors, np.asarray(codes.factors).T,
                                  codes.kinds or ("",) * len(facts.scored.factors), strict=True):
        counts = np.unique(column[~np.isnan(column)], return_counts=True)[1]
        if kind == "continuous" or len(counts) < 2:
            continue
        noise = 3 * np.sqrt(counts.max() + UNBALANCED**2 * counts.min())        # of counts, three standard errors
        if counts.max() > UNBALANCED * counts.min() + noise:
            found.append(f"The factor {make_printable(name)} is unbalanced: its most frequent value comes "
                         f"{counts.max() / counts.min():.1f} times as often as its rarest.")
    return found
