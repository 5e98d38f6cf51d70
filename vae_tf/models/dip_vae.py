"""The DIP-VAE, which moves the covariance of the latents over the data towards the identity."""

from typing import ClassVar

import tensorflow as tf

from vae_tf import arguments, distributions, objectives
from vae_tf.models.registry import register
from vae_tf.models.vae import VAE
from vae_tf.options import Option
from vae_tf.typing import Distribution, Network, Tensor


@register("dip_vae_i")
class DIPVAEI(VAE):
    """objective = reconstruction + KL + l_od sum_{i != j} C_ij^2 + l_d sum_i (C_ii - 1)^2, C = Cov(mu) (Kumar 2018).

    C is the covariance of the posterior means over the batch, its mean taken over B.

    Args:
        encoder, decoder, likelihood: the same as in VAE.
        lambda_od: l_od.
        lambda_d: l_d; None stands for 10 l_od in DIP-VAE-I and for l_od in DIP-VAE-II, as in Kumar 2018.
    """

    options = (Option("lambda_od", 10.0, "Weight of the squared covariances of different latents.", kind=float,
                      low=0.0),
               Option("lambda_d", None, "Weight of the squared differences of the latents' variances from 1. By "
                      "default it is 10 lambda_od in dip_vae_i, and lambda_od in dip_vae_ii.", kind=float, low=0.0))
    minimises_elbo = True               # for given means, on which alone the penalty depends
    ratio: ClassVar[float] = 10.0       # l_d over l_od

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 lambda_od: arguments.Weight = 10.0, lambda_d: arguments.Weight | None = None) -> None:
        super().__init__(encoder, decoder, likelihood)
        self.lambda_od = lambda_od
        self.lambda_d = lambda_d

    def covariance(self, posterior: Distribution) -> Tensor:
        """Return C [d, d] of a batch of posteriors."""
        return objectives.covariance(posterior.mean())

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return the terms of the VAE, and `off_diagonal` and `diagonal`, which are equal for all examples."""
        posterior = self.posterior(x, u, training)
        terms = self.compute_elbo_terms(posterior, x, u, noise, beta, training)
        off_diagonal, diagonal = objectives.distance_to_identity(self.covariance(posterior))
        lambda_d = self.ratio * self.lambda_od if self.lambda_d is None else self.lambda_d
        examples = tf.shape(terms["kl"])
        return {**terms, "loss": terms["loss"] + self.lambda_od * off_diagonal + lambda_d * diagonal,
                "off_diagonal": tf.fill(examples, off_diagonal), "diagonal": tf.fill(examples, diagonal)}


@register("dip_vae_ii")
class DIPVAEII(DIPVAEI):
    """DIP-VAE-II: the objective of DIP-VAE-I with C = Cov(mu) + E[Sigma], the covariance of z (Kumar 2018)."""

    ratio = 1.0

    def covariance(self, posterior: Distribution) -> Tensor:
        """Return C [d, d] of a batch of posteriors."""
        return objectives.covariance(posterior.mean(), posterior.variance())
