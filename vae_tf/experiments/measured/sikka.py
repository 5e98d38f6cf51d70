"""Sikka, Zhong, Yin, Pehlevan 2019: the beta-VAE that can be solved, over beta."""

from typing import Any

import numpy as np

from vae_tf import theory
from vae_tf.experiments.measured import curve, number
from vae_tf.typing import Floats

MIXING = (1 + np.eye(128, 2)) / 2
BETAS = 10.0 ** (np.arange(-20, 41) / 20)       # 0.1 to 100; 1 is one of them, exactly
SLOPE_STEP = 1e-5                               # of log beta, for the numerical slope


def figure1(A: Floats = MIXING, betas: Floats = BETAS) -> dict[str, Any]:
    """Solve the linear beta-VAE for each beta, and return everything that Figure 1 shows, in nats per example.

    The paper solves (23) numerically and prints no numbers; `theory.linear_beta_vae` has its solution in closed form.
    The TIE depends on the order and the signs of the latents, which the optimum leaves open: the figure's is taken
    after the best signed permutation.

    Args:
        A: the mixing matrix [n, k]; sources and noise have unit variance.
        betas: the values of beta to solve for, in rising order; one of them is 1.
    """
    C, k = A @ A.T + np.eye(len(A)), A.shape[1]
    optima = [theory.linear_beta_vae(C, k, beta) for beta in betas]
    y = _curves(A, C, betas, optima)
    critical = theory.critical_betas(C, k)
    numbers = {
        "best_elbo_beta": betas[np.argmax(y["elbo"])],
        "best_likelihood_beta": betas[np.argmax(y["log_likelihood"])],
        "least_tie_beta": betas[np.argmin(y["tie"])],
        "least_tie": min(y["tie"]),
        "tie_at_beta_1": y["tie"][list(betas).index(1)],
        "tie_at_ends": min(y["tie"][0], y["tie"][-1]),
        "least_fixed_decoder_mie_beta": betas[np.argmin(y["mie_fixed_decoder"])],
        "largest_rise_of_reconstruction": np.diff(y["reconstruction"]).max(),
        "largest_rise_of_kl": np.diff(y["kl"]).max(),
        "slope_error": max(abs(_slope(C, k, beta) + o.kl)
                           for beta, o in list(zip(betas, optima, strict=True))[::10]),
        **{f"critical_beta_{j + 1}": beta for j, beta in enumerate(critical)},
    }
    return {**{name: number(value) for name, value in numbers.items()},
            **{name: curve(betas, values) for name, values in y.items()}}


def _curves(A: Floats, C: Floats, betas: Floats, optima: list[theory.LinearOptimum]) -> dict[str, list[float]]:
    """Terms of the objective and inference errors at each optimum, and with a decoder that stays at A (IV.A)."""
    truth = theory.linear_posterior(A)
    fixed = [theory.linear_encoder(A, beta) for beta in betas]      # only the encoder is trained
    return {
        "elbo": [o.elbo for o in optima],
        "log_likelihood": [theory.linear_log_likelihood(C, o.decoder) for o in optima],
        "mie": [o.mie for o in optima],
        "tie": [theory.linear_inference_error(C, o.encoder, o.variances, truth, matched=True) for o in optima],
        "tie_unmatched": [theory.linear_inference_error(C, o.encoder, o.variances, truth) for o in optima],
        "reconstruction": [-o.reconstruction for o in optima],
        "kl": [o.kl for o in optima],
        "mie_fixed_decoder": [theory.linear_inference_error(C, W, v, truth) for W, v in fixed],
    }


def _slope(C: Floats, k: int, beta: float) -> float:
    """d L*(beta) / d beta by a central difference, L* = -(reconstruction + beta KL) (Proposition 1: it is -KL)."""
    low, high = beta * (1 - SLOPE_STEP), beta * (1 + SLOPE_STEP)
    ends = [(o := theory.linear_beta_vae(C, k, end)).reconstruction + end * o.kl for end in (low, high)]
    return (ends[0] - ends[1]) / (high - low)
