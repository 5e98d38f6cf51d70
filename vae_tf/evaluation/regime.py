"""Find which latents of Codes are active, mixed and passive, and how many carry information."""

import numpy as np

from vae_tf import activity, metrics, verdicts
from vae_tf.errors import InputError
from vae_tf.evaluation.codes import Codes


def measure_regime(codes: Codes, passive_kl: float = activity.PASSIVE_KL, seed: int = 0,
                   ) -> tuple[dict[str, metrics.Result], dict[str, str]]:
    """Measure the polarised regime of Codes, or say why there is none; p(z) = N(0, I) unless they hold a prior."""
    if codes.stddev is None:
        return {}, {"polarised_regime": "there is no posterior, only codes"}
    try:
        return metrics.polarised_regime(*codes.get_distributions(), passive_kl=passive_kl, seed=seed)
    except InputError as error:
        return {}, {"polarised_regime": str(error)}


def find_not_passive(codes: Codes, passive_kl: float = activity.PASSIVE_KL) -> np.ndarray:
    """Find the indices of the latents of Codes that are active or mixed, not passive (activity.classify).

    Raises:
        InputError: there are none, or no posterior to tell by.
    """
    if codes.stddev is None:
        raise InputError("latents: expected all, or codes with the stddev that tells which are active; got active, "
                         "and no stddev")
    kept = np.flatnonzero(activity.classify(*codes.get_distributions(), passive_kl=passive_kl) != "passive")
    if not len(kept):
        raise InputError("latents: expected all; got active, but every latent is passive")
    return kept


def judge(codes: Codes) -> verdicts.Verdict | None:
    """Judge Codes; None for a posterior that is not finite, which `measure_regime` says."""
    try:
        return verdicts.judge(codes.mean, codes.stddev, codes.prior_mean, codes.prior_stddev, codes.dependence)
    except InputError:
        return None
