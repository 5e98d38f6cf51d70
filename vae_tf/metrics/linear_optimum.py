"""Measure how far a linear network is above the least objective of all linear networks, and find the cause."""

from typing import Any

import numpy as np

from vae_tf import activity, arguments, theory
from vae_tf.errors import InputError
from vae_tf.metrics.context import Context
from vae_tf.metrics.expansion import Expansion, covariance_of, encode, take_linear_decoder
from vae_tf.metrics.registry import ANY_MODEL, register
from vae_tf.metrics.result import Result

AT_OPTIMUM = 0.01       # a linear network whose score is below this, in nats over beta, is said to be at the optimum
EXAMPLES = 50_000       # largest number of examples from whose covariance the linear optimum is computed
TURNED = 5              # the turn of a network at the optimum is mentioned from this number of degrees on


@register(name="linear_optimum", needs=("expansion", "context"), no_meaning_for=ANY_MODEL, active="is_informative",
          meaning="objective of a linear network above the least of any, in nats over beta")
def linear_optimum_of_model(expansion: Expansion, context: Context) -> Result:
    """`linear_optimum` of a model with a linear network, over all examples of its dataset (50,000 at most).

    Raises:
        InputError: the network is not linear, or the optimum of the model is not known in closed form.
    """
    from vae_tf import models  # imports TensorFlow, which scoring codes does not need
    from vae_tf.data.spreading import draw_to_score

    (F, noise_variance), card = take_linear_decoder(expansion, context), context.model.card
    known = models.find_declared(card).linear_theory
    if known is None or known.optimum is None:
        raise InputError(f"the optimum of a linear {card['model']} is not known in closed form")
    rows = draw_to_score(len(context.dataset), EXAMPLES, context.seed)
    x, posterior = encode(context.model, context.dataset, rows)
    bias = context.model.decode(np.zeros((1, F.shape[1])))["mean"].reshape(-1).astype(np.float64)
    return linear_optimum(x, F, bias, posterior["mean"], np.asarray(covariance_of(posterior)), beta=card["beta"],
                          noise_variance=noise_variance, full=known.optimum == "full",
                          learned=card["likelihood"] == "gaussian_learned")


@arguments.check
def linear_optimum(x: np.ndarray, decoder: np.ndarray, bias: np.ndarray, mean: np.ndarray, covariance: np.ndarray, *,
                   beta: float, noise_variance: float, full: bool = False, learned: bool = False) -> Result:
    """The objective of a linear network above the least that any can reach, over beta (theory.linear_beta_vae).

    The excess is divided by beta, because the quotient is in nats of a VAE with likelihood variance beta s^2, whatever
    beta is (allen Theorem 3). The measured objective is not sampled, because the expansion of the ELBO is exact for
    linear decoders. The score is the sum of three parts, each 0 or more: decoder, how much less likely the data are
    with its directions and lengths; turn, what a diagonal posterior loses because columns are not orthogonal; encoder,
    what the encoder and the biases lose for this decoder.

    Args:
        x: data [N, n].
        decoder, bias: D [n, k] and b [n]; the decoder's mean is D z + b.
        mean, covariance: mean and covariance of q(z|x), [N, k] and [N, k, k].
        beta, noise_variance: beta and noise variance of the model.
        full: whether the posterior has a full covariance; the least objective is the same, and a turn costs nothing.
        learned: whether the noise variance was learned; another noise variance may then have a lower least objective.

    Returns:
        Result; further parts: angle, of the turn in degrees; excess, not over beta; multiplicity [k], how many
        eigenvalues equal that of each latent of the optimum; objective, reconstruction, kl, active, each [2], measured
        and predicted. For a learned noise variance noise_variance [2], the model's and the
        best, and best_noise_excess, what the score is against the least at the best one.

    Raises:
        InputError: more latents than data dimensions.
    """
    C, d = np.cov(x.T, bias=True).reshape(x.shape[1], -1), decoder.shape[1]
    o = theory.linear_beta_vae(C, d, beta, noise_variance)
    reconstruction = -np.mean(theory.log_likelihood(x, mean @ decoder.T + bias, noise_variance)
                              - np.einsum("ij,bji->b", decoder.T @ decoder, covariance) / (2 * noise_variance))
    kl = theory.gaussian_kl(mean, covariance, 0.0, np.eye(d)).mean()
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    active = activity.is_informative(((mean**2 + variance - np.log(variance) - 1) / 2).mean(0)).sum()
    terms = {"objective": np.array([reconstruction + beta * kl, o.reconstruction + beta * o.kl]),
             "reconstruction": np.array([reconstruction, o.reconstruction]), "kl": np.array([kl, o.kl]),
             "active": np.array([active, o.active.sum()])}
    excess = float(terms["objective"][0] - terms["objective"][1])
    parts: dict[str, Any] = {**terms, "excess": excess, "multiplicity": o.multiplicity,
             **_split(C, decoder, o, beta, noise_variance, excess / beta, full)}
    if learned:
        parts |= _compare_with_best_noise(C, d, beta, noise_variance, parts["objective"][0])
    compared = ", ".join(f"{name} {measured:.5g} ({predicted:.5g})" for name, (measured, predicted) in terms.items())
    shared = np.count_nonzero(o.active & (o.multiplicity > 1))
    free = (f"; {shared} latents of the optimum have eigenvalues that occur more than once, and may be rotated"
            if shared else "")
    return Result("linear_optimum", excess / beta, parts,
                  f"nats over beta above the least objective of any linear network with noise variance "
                  f"{noise_variance:.4g}; {_describe_place(parts, excess / beta)}"
                  f"{_describe_learned_noise(parts) if learned else ''}"
                  f"{free}; measured (predicted): {compared}; active: {activity.RULES['is_informative'].condition} "
                  f"(predicted: {activity.RULES['LinearOptimum.active'].condition})")


def _split(C: np.ndarray, decoder: np.ndarray, optimum: theory.LinearOptimum, beta: float, noise_variance: float,
           score: float, full: bool) -> dict[str, float]:
    """Split the score into what the decoder, its turn and the encoder cause; with the angle of the turn."""
    noise = beta * noise_variance
    less_likely = (theory.linear_log_likelihood(C, optimum.decoder, noise)
                   - theory.linear_log_likelihood(C, decoder, noise))
    turn = 0.0 if full else float(theory.diagonal_cost(np.eye(decoder.shape[1]) + decoder.T @ decoder / noise))
    return {"decoder": less_likely, "turn": turn, "encoder": score - less_likely - turn,
            "angle": theory.turn_angle(C, decoder, beta, noise_variance)}


def _compare_with_best_noise(C: np.ndarray, latents: int, beta: float, noise_variance: float, objective: float) -> dict:
    """Return the parts for a learned noise variance; none if the objective has no minimum over noise variances."""
    try:
        best = theory.linear_noise_variance(C, latents, beta)
    except InputError:
        return {}
    least = theory.linear_beta_vae(C, latents, beta, best)
    return {"noise_variance": np.array([noise_variance, best]),
            "best_noise_excess": float(objective - least.reconstruction - beta * least.kl) / beta}


def _describe_learned_noise(parts: dict) -> str:
    if "noise_variance" not in parts:
        return ("; the noise variance was learned, and the objective has no least: it falls without bound as that goes "
                "to 0")
    return (f"; the noise variance was learned: {parts['best_noise_excess']:.3g} above the least with any, which is at "
            f"{parts['noise_variance'][1]:.4g}")


def _describe_place(parts: dict, score: float) -> str:
    """Say whether a linear network is at the optimum and, if not, what keeps it away."""
    turned = f"latents turned by up to {parts['angle']:.0f} degrees"
    if score < AT_OPTIMUM:
        return f"at the optimum but for {score:.2g}" + (f", its {turned}" if parts["angle"] > TURNED else "")
    why = {"decoder": "directions and lengths of the decoder's columns", "encoder": "the encoder and the biases",
           "turn": f"{turned}, for which a diagonal posterior pays"}
    shares = sorted(why, key=lambda name: -parts[name])
    return "not at the optimum: " + ", ".join(f"{parts[name]:.3g} by {why[name]}" for name in shares
                                              if parts[name] >= AT_OPTIMUM / 3)
