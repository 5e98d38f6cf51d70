"""The variational autoencoder, its beta, and its control with a full covariance."""



from vae_tf import arguments, distributions, objectives
from vae_tf.models.autoencoder import Autoencoder
from vae_tf.models.declarations import LinearTheory
from vae_tf.models.registry import register
from vae_tf.typing import Distribution, Network, Tensor


@register("vae")
class VAE(Autoencoder):
    """q(z|x) = N(mu, diag s^2), p(z) = N(0, I), beta = 1 (Kingma, Welling 2014; rolinek (1)-(4))."""

    linear_theory = LinearTheory(optimum="diagonal")
    minimises_elbo = True

    def posterior(self, x: Tensor, u: Tensor = None, training: bool = False) -> Distribution:
        """Return q(z|x), diagonal."""
        return distributions.diagonal_normal(*self.encode(x, u, training))

    def prior(self, u: Tensor = None) -> Distribution:
        """Return p(z) = N(0, I), batch shape []."""
        return distributions.standard_normal(self.latents)

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return the terms of reconstruction + beta KL(q(z|x) || p(z))."""
        return self.compute_elbo_terms(self.posterior(x, u, training), x, u, noise, beta, training)

    def compute_elbo_terms(self, posterior: Distribution, x: Tensor, u: Tensor, noise: Tensor, beta: Tensor,
                           training: bool) -> dict[str, Tensor]:
        """Return the terms for a posterior of x; the arguments are those of `objective`."""
        z = distributions.reparameterise(posterior, noise)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl(posterior, self.prior(u))
        beta = self.beta if beta is None else beta
        return {"loss": reconstruction + beta * kl, "reconstruction": reconstruction, "kl": kl}


@register("beta_vae")
class BetaVAE(VAE):
    """objective = reconstruction + beta KL (Higgins 2017; rolinek 2.1; sikka (1))."""

    default_beta = 4.0
    linear_theory = LinearTheory(optimum="diagonal")
    minimises_elbo = True

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 beta: arguments.Weight | None = None) -> None:
        super().__init__(encoder, decoder, likelihood)
        self.beta = self.default_beta if beta is None else beta


@register("full_covariance_vae")
class FullCovarianceVAE(BetaVAE):
    """q(z|x) = N(mu, L L^T): rolinek's control, whose objective is rotationally symmetric (rolinek 8.3)."""

    linear_theory = LinearTheory(optimum="full")
    minimises_elbo = True

    @classmethod
    def count_scratch(cls, batch_size: int, latents: int) -> int:
        """Return how many numbers the objective computes: some matrices L for each example."""
        return 4 * batch_size * latents * (latents + 2)

    @staticmethod
    def list_heads(latents: int) -> tuple[int, ...]:
        """Return the sizes of the encoder's heads: mean, entries of L."""
        return latents, latents * (latents + 1) // 2

    def posterior(self, x: Tensor, u: Tensor = None, training: bool = False) -> Distribution:
        """Return q(z|x) with the covariance L L^T."""
        return distributions.full_normal(*self.encode(x, u, training))
