"""The first numbers of an evaluation, which are there long before all scores."""

import warnings
from collections.abc import Sequence

from vae_tf import evaluation, metrics, verdicts
from vae_tf.errors import InputError


def describe_first_look(codes: evaluation.Codes, names: Sequence[str]) -> str:
    """Say in a line how many latents carry information, and the MIG if it is asked for.

    Args:
        codes: the Codes to look at.
        names: the names of the metrics that are asked for.
    """
    verdict = evaluation.judge(codes)
    said = [] if verdict is None else [verdicts.describe(verdict)]
    if "mig" in names and codes.factors is not None and verdict is not None and verdict.state == "alive":
        try:
            with warnings.catch_warnings(action="ignore"):      # the score itself will warn
                score = metrics.METRICS["mig"].measure(codes.make_context()).score
            said.append(f"MIG {score:.2f}.")
        except InputError:      # the score itself will say why there is none
            pass
    return " ".join([*said, f"All other scores follow; these are of {len(codes.mean):,} examples."]) if said else ""
