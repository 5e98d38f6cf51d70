"""The autoencoder: no prior, no KL."""


from vae_tf import distributions, objectives
from vae_tf.models.autoencoder import Autoencoder
from vae_tf.models.registry import register
from vae_tf.typing import Distribution, Tensor


@register("ae")
class AE(Autoencoder):
    """q(z|x) is a point, there is no prior, objective = reconstruction."""

    has_prior = False
    beta = 0.0

    @staticmethod
    def list_heads(latents: int) -> tuple[int, ...]:
        """Return the size of the encoder's only head: z."""
        return (latents,)

    def posterior(self, x: Tensor, u: Tensor = None, training: bool = False) -> Distribution:
        """Return the distribution with all its mass at the encoder's output."""
        return distributions.point(*self.encode(x, u, training))

    def prior(self, u: Tensor = None) -> None:
        """Return None, because there is no prior."""
        return None     # explicit, because TensorFlow cannot trace a function whose body is a docstring alone

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor = None, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return `loss` and `reconstruction`, which are equal, [B], in nats; noise and beta have no effect."""
        z = self.posterior(x, u, training).mean()
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        return {"loss": reconstruction, "reconstruction": reconstruction}
