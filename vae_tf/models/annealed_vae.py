"""The annealed VAE, whose KL is held at a capacity that grows."""

from vae_tf import arguments, distributions, objectives
from vae_tf.models.registry import register
from vae_tf.models.vae import VAE
from vae_tf.options import Option
from vae_tf.typing import Network, Tensor


@register("annealed_vae")
class AnnealedVAE(VAE):
    """objective = reconstruction + gamma |KL - C(t)|, where C(t) grows linearly from 0 to C (Burgess 2018, eq. 8).

    C(t) is C times the warm-up of beta: it grows over --beta_warmup_steps, and is C from the start without a warm-up.
    The KL is the mean over the batch, as in disentanglement_lib.

    Args:
        encoder, decoder, likelihood: the same as in VAE.
        capacity: C, in nats.
        capacity_weight: gamma.
    """

    options = (Option("capacity", 25.0, "KL, in nats, at which the objective holds the posterior. It grows from 0 over "
                      "--beta_warmup_steps.", kind=float, low=0.0),
               Option("capacity_weight", 1000.0, "Weight of the distance between the KL and the capacity.", kind=float,
                      low=0.0))

    @classmethod
    def warms_up(cls) -> bool:
        """Return True: the capacity grows as a beta would."""
        return True

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 capacity: arguments.Weight = 25.0, capacity_weight: arguments.Weight = 1000.0) -> None:
        super().__init__(encoder, decoder, likelihood)
        self.capacity = capacity
        self.capacity_weight = capacity_weight

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """Return the terms of reconstruction + gamma |KL - C(t)|; beta is the share of C that C(t) has reached."""
        terms = super().objective(x, u, noise=noise, beta=0.0, training=training)
        reached = self.capacity * (1.0 if beta is None else beta)
        mean_kl = objectives.mean_over_batch(terms["kl"])
        return {**terms, "loss": terms["reconstruction"] + self.capacity_weight * abs(mean_kl - reached)}
