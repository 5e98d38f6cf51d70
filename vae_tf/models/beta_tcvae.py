"""The beta-TCVAE, which weighs the total correlation of the latents."""

from typing import Annotated, Any

from vae_tf import arguments, checks, distributions, objectives
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError
from vae_tf.models.declarations import TOTAL_CORRELATION, LinearTheory, Setting
from vae_tf.models.registry import register
from vae_tf.models.vae import BetaVAE
from vae_tf.options import Option
from vae_tf.typing import Network, Tensor

Estimator = Annotated[str, arguments.Choice(tuple(objectives.TC_ESTIMATORS))]


@register("beta_tcvae")
class BetaTCVAE(BetaVAE):
    """objective = reconstruction + alpha MI + beta TC + gamma dimension-wise KL, alpha = gamma = 1 (Chen 2018; bhowal).

    Args:
        encoder, decoder, likelihood, beta: the same as in BetaVAE.
        examples: N, the size of the training set.
        tc_estimator: a key of objectives.TC_ESTIMATORS.
    """

    default_beta = 6.0
    beta_term = TOTAL_CORRELATION
    # The KL of independent latents has weight 1. The optimum itself is not known in closed form.
    linear_theory = LinearTheory(kl_weight=1.0)
    options = (Option("tc_estimator", "weighted", "Estimator of the aggregate posterior q(z) from a batch.",
                      choices=tuple(objectives.TC_ESTIMATORS), in_every_configuration=True),)

    @classmethod
    def make_arguments(cls, setting: Setting) -> dict[str, Any]:
        """Return the estimator and the number of training examples."""
        return {**setting.options, "examples": checks.check_whole("examples", setting.examples, 1)}

    @classmethod
    def check_configuration(cls, config: Configuration, examples: int) -> None:
        """Raise InputError if the stratified estimator gets batches of one example, or of more than `examples`."""
        if config.options["tc_estimator"] == "stratified" and not 2 <= config.batch_size <= examples:
            raise InputError(f"--batch_size: the stratified estimator needs 2 to {examples} (the training set); "
                             f"got {config.batch_size}")

    @classmethod
    def count_scratch(cls, batch_size: int, latents: int) -> int:
        """Return how many numbers the objective computes: some for each pair of examples and each latent."""
        return 6 * batch_size ** 2 * (latents + 1)

    @arguments.check_arguments
    def __init__(self, encoder: Network, decoder: Network, likelihood: distributions.Likelihood,
                 examples: arguments.Size, beta: arguments.Weight | None = None,
                 tc_estimator: Estimator = "weighted") -> None:
        super().__init__(encoder, decoder, likelihood, beta)
        self.examples = examples
        self.tc_estimator = tc_estimator

    def objective(self, x: Tensor, u: Tensor = None, *, noise: Tensor, beta: Tensor = None,
                  training: bool = False) -> dict[str, Tensor]:
        """reconstruction + mutual_information + beta total_correlation + dimension_wise_kl; their sum without beta is
        the KL of one sample."""
        posterior, prior = self.posterior(x, u, training), self.prior(u)
        z = distributions.reparameterise(posterior, noise)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl_decomposition(posterior, prior, z, self.examples, self.tc_estimator)
        beta = self.beta if beta is None else beta
        loss = (reconstruction + kl["mutual_information"] + beta * kl["total_correlation"]
                + kl["dimension_wise_kl"])
        return {"loss": loss, "reconstruction": reconstruction, "kl": sum(kl.values()), **kl}
