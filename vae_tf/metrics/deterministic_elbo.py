"""Compare the ELBO expanded to second order around the posterior mean with the ELBO by Monte Carlo."""


import numpy as np

from vae_tf import theory, threads
from vae_tf.metrics.context import Context
from vae_tf.metrics.expansion import Expansion, posterior_covariance
from vae_tf.metrics.registry import ANY_MODEL, register
from vae_tf.metrics.result import Result, estimate_error

DRAWS = 32              # number of draws of z per example, for the Monte Carlo ELBO


@register(needs=("expansion", "context"), no_meaning_for=ANY_MODEL,
          meaning="the ELBO expanded to second order, less the Monte Carlo ELBO, in nats")
def deterministic_elbo_gap(expansion: Expansion, context: Context) -> Result:
    """Deterministic ELBO less the Monte Carlo ELBO, nats per example, at beta = 1 (allen (5), A.4).

    The score is 0 for a linear decoder with Gaussian noise.

    Args:
        expansion: the model around the posterior means.
        context: the model, its data and the examples.

    Returns:
        Result; parts: deterministic, monte_carlo, hessian (the gap with the exact Hessian instead of Gauss-Newton's),
        per_example [N], standard_error of the gap.

    Raises:
        InputError: the posterior has no width.
    """
    at, covariance = expansion, posterior_covariance(expansion)
    at_mean = theory.log_likelihood(at.x, at.output, at.noise_variance)
    expanded, exact = (theory.deterministic_elbo(at_mean, H, at.mean, covariance, 1.0, at.prior_mean,
                                                 at.prior_variance) for H in (at.gauss_newton, at.hessian))
    x, u = context.dataset.images_at(context.indices), context.model.u_at(context.dataset, context.indices)
    sampled = np.zeros(len(at.x))
    for terms in threads.map_in_pairs(
            lambda draw: context.model.objective(x, seed=context.seed * 1_000 + draw, u=u), range(DRAWS)):
        sampled -= (terms["reconstruction"].astype(np.float64) + terms["kl"]) / DRAWS
    gap = expanded - sampled
    return Result("deterministic_elbo_gap", float(gap.mean()),
                  {"deterministic": expanded.mean(), "monte_carlo": sampled.mean(), "hessian": (exact - sampled).mean(),
                   "per_example": gap, "standard_error": estimate_error(gap)},
                  f"nats: the ELBO expanded to second order, {expanded.mean():.2f}, less that of {DRAWS} draws of z, "
                  f"{sampled.mean():.2f}; {(exact - sampled).mean():.3g} with the decoder's own curvature")
